//! `mezza cpu` and `--kernel`, on whatever CPU this is.

use serde_json::Value;

use crate::program::{json, mezza};

/// The one value that `mezza .. --json` prints.
fn told(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut values = json(folder.path(), args);
    assert_eq!(values.len(), 1, "{values:?}");
    values.remove(0)
}

#[test]
fn every_kernel_here_passes_and_the_fastest_is_used() {
    let told = told(&["cpu"]);
    let kernels = told["kernels"].as_array().unwrap();
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel["name"].as_str().unwrap()).collect();
    let has_ifma = told["ifma_lacks"].as_array().unwrap().is_empty();
    let all: &[&str] =
        if has_ifma { &["ifma", "aws-lc", "portable"] } else { &["aws-lc", "portable"] };
    assert_eq!(names, all);
    assert!(kernels.iter().all(|kernel| kernel["selftest"] == true), "{told}");
    assert!(kernels.iter().all(|kernel| kernel["rates"].is_null()), "{told}");
    assert_eq!(told["kernel"], all[0]);
    assert!(!told["cpu"].as_str().unwrap().is_empty());
}

#[test]
fn a_kernel_can_be_forced_if_the_cpu_can_run_it() {
    for name in ["aws-lc", "portable"] {
        assert_eq!(told(&["cpu", "--kernel", name])["kernel"], name);
    }
    if mezza_lanes::ifma().is_some() {
        assert_eq!(told(&["cpu", "--kernel", "ifma"])["kernel"], "ifma");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = mezza(folder.path(), &["cpu", "--kernel", "ifma"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.starts_with("mezza: --kernel ifma is not possible here without avx512"), "{text}");
    assert!(text.ends_with("; leave the option out\n"), "{text}");
}

#[test]
fn rates_are_measured_for_every_kernel() {
    let told = told(&["cpu", "--bench", "--seconds", "1"]);
    for kernel in told["kernels"].as_array().unwrap() {
        for rate in ["x25519_per_s", "x25519_fixed_per_s", "seal_368_per_s"] {
            assert!(kernel["rates"][rate].as_f64().unwrap() > 100.0, "{kernel}");
        }
    }
}
