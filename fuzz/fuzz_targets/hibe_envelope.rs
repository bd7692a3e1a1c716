//! The target `hibe_envelope` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run("hibe_envelope", data));
