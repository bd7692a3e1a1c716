//! The target `link_pairing` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("link_pairing", data));
