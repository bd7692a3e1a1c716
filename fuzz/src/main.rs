//! The targets on the stable compiler: `cargo run --manifest-path fuzz/Cargo.toml -- TARGET SECONDS`.
//!
//! No coverage guides it; it is a smoke test, and a way to replay a finding (`-- TARGET FILE`).

use mezza_fuzz::{Mutator, TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

const USAGE: &str = "usage: mezza-fuzz all|TARGET [SECONDS | FILE]   (MEZZA_SEED=n: other inputs)";

fn main() -> ExitCode {
    let args = env::args().skip(1).collect::<Vec<_>>();
    let (Some(name), what) = (args.first(), args.get(1).map_or("10", String::as_str)) else {
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
    let Ok(seconds) = what.parse::<f64>() else {
        return replay(&chosen, what);
    };
    let seed = env::var("MEZZA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let found = chosen.iter().filter(|target| !smoke(target, seconds, seed)).count();
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one target for a while; false if it found something.
fn smoke(target: &Target, seconds: f64, seed: u64) -> bool {
    let mut mutator = Mutator::new(seed, (target.seeds)());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut inputs = 0_u64;
    while Instant::now() < end {
        let input = mutator.input();
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

fn replay(chosen: &[&Target], file: &str) -> ExitCode {
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
