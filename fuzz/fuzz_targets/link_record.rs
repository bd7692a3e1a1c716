//! The target `link_record` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("link_record", data));
