//! All targets for libFuzzer: `MEZZA_FUZZ_TARGET` names the target that this process runs.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<String> = LazyLock::new(|| {
    std::env::var("MEZZA_FUZZ_TARGET").expect("MEZZA_FUZZ_TARGET names a target, such as `card`")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| mezza_fuzz::run_target(&TARGET, data));
