//! The target `keyed_peer` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("keyed_peer", data));
