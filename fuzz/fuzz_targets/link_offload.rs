//! The target `link_offload` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("link_offload", data));
