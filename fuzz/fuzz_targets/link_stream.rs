//! The target `link_stream` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("link_stream", data));
