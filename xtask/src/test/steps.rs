//! The steps, in the order they run.

use super::{Context, Verdict, peers};
use crate::run::{Ended, find, run, run_tests};
use crate::{interop, machine, page, tidy};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// One step; an `Err` is a failure like any other.
pub type Step = fn(&Context) -> Result<Verdict, String>;

/// The page is built before `cargo test`, so that the program is compiled once and contains it.
pub const STEPS: [(&str, Step); 12] = [
    ("tidy", tidy),
    ("fmt", fmt),
    ("clippy", clippy),
    ("wasm", wasm),
    ("web", web),
    ("test", test),
    ("vectors", vectors),
    ("interop", interop),
    ("browser", browser),
    ("lab", lab),
    ("fuzz", fuzz),
    ("doc", doc),
];

/// The lab's experiments that are quick enough to run each time.
const LAB_SMOKE: [&[&str]; 4] =
    [&["goals", "node"], &["goals", "ratchet"], &["goals", "lanes"], &["run", "signal"]];

fn tidy(context: &Context) -> Result<Verdict, String> {
    let refused = tidy::refusals(context.root)?;
    let lines = refused.iter().map(ToString::to_string).collect::<Vec<_>>();
    let _ = fs::write(context.logs.path("tidy"), lines.join("\n"));
    Ok(if lines.is_empty() { Verdict::Passed(Vec::new()) } else { Verdict::Failed(lines) })
}

fn fmt(context: &Context) -> Result<Verdict, String> {
    // The fuzz targets are a workspace of their own.
    let fuzz = cargo(context, &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]);
    quietly(context, "fmt", &mut [cargo(context, &["fmt", "--all", "--check"]), fuzz])
}

fn clippy(context: &Context) -> Result<Verdict, String> {
    let args = ["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"];
    quietly(context, "clippy", &mut [cargo(context, &args)])
}

/// Floors 0-2 know no operating system: they compile for a target that has none.
fn wasm(context: &Context) -> Result<Verdict, String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if !context.tools.wasm {
        let text = format!("wasm: no standard library for {TARGET}; rustup target add {TARGET}");
        return Ok(Verdict::Skipped(text));
    }
    if find(&["clang"]).is_none() {
        return Ok(Verdict::Skipped("wasm: no clang for blst; apt install clang".to_owned()));
    }
    let mut args = vec!["check", "--target", TARGET];
    let pure = tidy::pure_crates(context.root)?;
    args.extend(pure.iter().flat_map(|name| ["-p", name]));
    quietly(context, "wasm", &mut [cargo(context, &args)])
}

/// The page: locked packages, types, unit tests, build.
fn web(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("web: {reason}")));
    }
    let scripts: [&[&str]; 4] = [&["ci"], &["run", "check"], &["test"], &["run", "build"]];
    let mut commands = scripts.map(|args| page::npm(context.root, args));
    quietly(context, "web", &mut commands)
}

/// All tests of the workspace and of this tool, but those of the step `interop`.
fn test(context: &Context) -> Result<Verdict, String> {
    // The output of tests that passed is shown, because a skipped test says so there.
    let args = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    let mut command = cargo(context, &args);
    command.args(interop::skip_args());
    if let Some(python) = &context.tools.python {
        command.env("MEZZA_TEST_PYTHON", python);
    }
    Ok(verdict(run_tests(&mut command, &mut context.logs.open("test")?)?))
}

/// The second implementation of every vector, in Python.
fn vectors(context: &Context) -> Result<Verdict, String> {
    let mut references = Vec::new();
    let folders = fs::read_dir(context.root.join("vectors"));
    for folder in folders.into_iter().flatten().flatten() {
        references.push(folder.path().join("reference.py"));
    }
    references.retain(|file| file.is_file());
    references.sort();
    if references.is_empty() {
        return Err("no vectors/*/reference.py in this tree; take a full checkout".to_owned());
    }
    let Some(python) = &context.tools.python else {
        let text = "vectors: no python3 with its packages; pip install -r vectors/requirements.txt";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let check = |file: PathBuf| {
        let mut command = Command::new(python);
        command.current_dir(context.root).arg(file).arg("--check");
        command
    };
    quietly(context, "vectors", &mut references.into_iter().map(check).collect::<Vec<_>>())
}

/// The ratchet against implementations of other people.
fn interop(context: &Context) -> Result<Verdict, String> {
    interop::step(context.root, &context.logs).map(verdict)
}

/// Two real nodes and a real browser.
fn browser(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("browser: {reason}")));
    }
    let Some(chromium) = &context.tools.chromium else {
        let text = "browser: no chromium; apt install chromium";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut npm = page::npm(context.root, &["run", "browser"]);
    npm.env("MEZZA_CHROMIUM", chromium).env("MEZZA_BIN", context.target.join("debug/mezza"));
    quietly(context, "browser", &mut [programs(context), npm])
}

/// Builds the programs the way the tests have them built, so that nothing is compiled a second time: cargo
/// gives the dependencies of a single package other features than those of the workspace.
fn programs(context: &Context) -> Command {
    cargo(context, &["test", "--workspace", "--test", "it", "--no-run"])
}

/// The lab's quick experiments: every row is measured, and the rows that must hold do. Its peer programs
/// build, and do each of their operations.
fn lab(context: &Context) -> Result<Verdict, String> {
    let smoke = |words: &&[&str]| {
        let mut command = machine::calling_cargo(&context.target.join("debug/mezza-lab"));
        command.current_dir(context.root).args(*words).args(["--profile", "smoke"]);
        command
    };
    let mut commands = vec![programs(context)];
    commands.extend(LAB_SMOKE.iter().map(smoke));
    let ended = quietly(context, "lab", &mut commands)?;
    let Verdict::Passed(mut skipped) = ended else { return Ok(ended) };
    skipped.extend(peers::check(context.root, &context.target, &mut context.logs.open("peers")?)?);
    Ok(Verdict::Passed(skipped))
}

/// Every fuzz target for a moment, on the stable compiler: they build, run and find nothing.
fn fuzz(context: &Context) -> Result<Verdict, String> {
    let within = |args: &[&str]| {
        let mut command = cargo(context, &args[..1]);
        command.args(["--manifest-path", "fuzz/Cargo.toml"]).args(&args[1..]);
        // The same dependencies with the same settings: most of them are built already.
        command.env("CARGO_TARGET_DIR", &context.target);
        command
    };
    // Each for as long as the table in `fuzz/src/main.rs` says; a lock file that is stale is an error.
    let smoke = within(&["run", "--quiet", "--locked", "--", "all"]);
    // The targets of the program are only checked, because building it takes too long.
    let program = within(&["check", "--locked", "--features", "program"]);
    let unit = within(&["test", "--lib", "--bin", "mezza-fuzz", "--locked"]);
    quietly(context, "fuzz", &mut [unit, smoke, program])
}

fn doc(context: &Context) -> Result<Verdict, String> {
    let mut command = cargo(context, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    quietly(context, "doc", &mut [command])
}

fn verdict(ended: Ended) -> Verdict {
    if ended.ok { Verdict::Passed(ended.skipped) } else { Verdict::Failed(ended.tail) }
}

fn cargo(context: &Context, args: &[&str]) -> Command {
    let mut command = machine::cargo(context.root);
    command.args(args);
    command
}

/// Runs the commands of one step one after the other into its log; the first that fails ends it.
fn quietly(context: &Context, step: &str, commands: &mut [Command]) -> Result<Verdict, String> {
    let mut log = context.logs.open(step)?;
    let mut skipped = Vec::new();
    for command in commands {
        let ended = run(command, &mut log)?;
        if !ended.ok {
            return Ok(Verdict::Failed(ended.tail));
        }
        skipped.extend(ended.skipped);
    }
    Ok(Verdict::Passed(skipped))
}
