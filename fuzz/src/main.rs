//! The targets on the stable compiler: `cargo run -p mezza-fuzz -- TARGET SECONDS`.
//!
//! The runs are not guided by coverage: they are a smoke test, and replay a finding (`-- TARGET
//! FILE`).

use mezza_fuzz::{Mutator, TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

const USAGE: &str = "usage: mezza-fuzz all|TARGET [SECONDS | FILE]   (MEZZA_SEED=n: other inputs)";

/// Seconds of a target that is not in [`SECONDS`]: a new one, or one that drives a whole machine.
const SECONDS_DEFAULT: f64 = 20.0;

/// Seconds of targets without findings in many runs, as `cargo xtask test` runs them.
const SECONDS: [(&str, f64); 28] = [
    ("card", 2.0),
    ("uri", 2.0),
    ("note", 2.0),
    ("envelope", 2.0),
    ("window", 2.0),
    ("list", 2.0),
    ("frames", 2.0),
    ("link_frames", 2.0),
    ("link_offload", 2.0),
    ("link_pairing", 2.0),
    ("link_peers", 2.0),
    ("link_record", 2.0),
    ("link_stream", 2.0),
    ("mix_frames", 2.0),
    ("mix_config", 2.0),
    ("mix_objects", 2.0),
    ("bundle", 2.0),
    ("message", 2.0),
    ("stored", 2.0),
    ("conversation", 2.0),
    ("device", 2.0),
    ("records", 2.0),
    ("mixnet_client", 2.0),
    ("mixnet_record", 2.0),
    ("mixnet_rows", 2.0),
    ("vault_head", 2.0),
    ("vault_ring", 2.0),
    ("vault_body", 2.0),
];

fn main() -> ExitCode {
    let args = env::args().skip(1).collect::<Vec<_>>();
    let (Some(name), what) = (args.first(), args.get(1)) else {
        let names = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>();
        eprintln!("{USAGE}\ntargets: {}", names.join(" "));
        return ExitCode::from(2);
    };
    let chosen = TARGETS.iter().filter(|target| name == "all" || name == target.name);
    let chosen = chosen.collect::<Vec<_>>();
    if chosen.is_empty() {
        eprintln!("no target `{name}`\n{USAGE}");
        return ExitCode::from(2);
    }
    let seconds = match what.map(|what| what.parse::<f64>().map_err(|_| what)) {
        Some(Err(file)) => return replay_file(&chosen, file),
        Some(Ok(seconds)) => Some(seconds),
        None => None,
    };
    let seed = env::var("MEZZA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let time = |target: &Target| seconds.unwrap_or_else(|| seconds_of(target.name));
    let found = chosen.iter().filter(|target| !smoke_target(target, time(target), seed)).count();
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns how long a target runs by default, s.
fn seconds_of(name: &str) -> f64 {
    let listed = SECONDS.iter().find(|(listed, _)| *listed == name);
    listed.map_or(SECONDS_DEFAULT, |(_, seconds)| *seconds)
}

/// Runs one target for a while. Returns false after a finding.
fn smoke_target(target: &Target, seconds: f64, seed: u64) -> bool {
    let mut mutator = Mutator::new(seed, (target.seeds)());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut inputs = 0_u64;
    while Instant::now() < end {
        let input = mutator.next_input();
        inputs += 1;
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            let file = format!("finding-{}-{seed}-{inputs}", target.name);
            let kept = match fs::write(&file, &input) {
                Ok(()) => format!("kept as {file}; replay: mezza-fuzz {} {file}", target.name),
                Err(e) => format!("{file}: {e}"),
            };
            eprintln!("{}: found after {inputs} inputs; {kept}", target.name);
            return false;
        }
    }
    eprintln!("{:<14} {inputs:>9} inputs, nothing found", target.name);
    true
}

fn replay_file(chosen: &[&Target], file: &str) -> ExitCode {
    match fs::read(file) {
        Ok(input) => {
            for target in chosen {
                (target.run)(&input);
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{file}: {e}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_target_runs_longer_than_the_old_ones() {
        assert!((seconds_of("card") - 2.0).abs() < f64::EPSILON);
        assert!((seconds_of("a new one") - SECONDS_DEFAULT).abs() < f64::EPSILON);
        let known = |name: &str| TARGETS.iter().any(|target| target.name == name);
        assert!(SECONDS.iter().all(|(name, _)| known(name)), "a target was renamed");
    }
}
