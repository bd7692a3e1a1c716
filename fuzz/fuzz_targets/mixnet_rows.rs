//! The target `mixnet_rows` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("mixnet_rows", data));
