//! The steps, in the order they run.

use super::binaries::{self, TestBinary};
use super::schedule::{Lane, Step};
use super::{Context, Tier, Verdict, peers, seconds};
use crate::run::{Ended, find, run, run_tests};
use crate::{interop, machine, needs, page, tidy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// All steps. The page is built before the test programs, so that the program is compiled once and
/// contains it. Of two steps that could start, the first one does: long ones stand before short ones.
pub const STEPS: [Step; 20] = [
    Step { name: "tidy", needs: &[], lane: Lane::Light, work: tidy },
    Step { name: "fmt", needs: &[], lane: Lane::Light, work: fmt },
    Step { name: "web", needs: &[], lane: Lane::Light, work: web },
    Step { name: "build", needs: &["web"], lane: Lane::Cargo, work: build },
    Step { name: "processes", needs: &["build"], lane: Lane::Processes, work: processes },
    Step { name: "browser", needs: &["build"], lane: Lane::Processes, work: browser },
    Step { name: "test", needs: &["build"], lane: Lane::Compute, work: test },
    Step { name: "clippy", needs: &["build"], lane: Lane::Cargo, work: clippy },
    Step { name: "page", needs: &["build"], lane: Lane::Compute, work: page },
    Step { name: "interop", needs: &["build"], lane: Lane::Compute, work: interop },
    Step { name: "vectors", needs: &[], lane: Lane::Compute, work: vectors },
    Step { name: "doctest", needs: &["build"], lane: Lane::Cargo, work: doctest },
    Step { name: "peers", needs: &["build"], lane: Lane::Cargo, work: build_peers },
    Step { name: "doc", needs: &["build"], lane: Lane::Cargo, work: doc },
    Step { name: "wasm", needs: &["build"], lane: Lane::Cargo, work: wasm },
    Step { name: "publish", needs: &["build"], lane: Lane::Cargo, work: publish },
    // Compiles nothing: it follows the compilations, so that a core has work while long tests end.
    Step { name: "fuzz", needs: &["build"], lane: Lane::Cargo, work: fuzz },
    Step { name: "deny", needs: &[], lane: Lane::Light, work: deny },
    Step { name: "lab", needs: &["build"], lane: Lane::Alone, work: lab },
    Step { name: "msrv", needs: &[], lane: Lane::Cargo, work: msrv },
];

/// Steps that run where they are named alone: they want a second toolchain and compile everything again.
pub const NAMED_STEPS: [&str; 1] = ["msrv"];

/// The step before a commit.
pub const QUICK_STEPS: [&str; 6] = ["tidy", "fmt", "clippy", "test", "processes", "doctest"];

/// Tests with this in their names are left to the full run.
const SLOW: &str = "slow_";
/// Tests of real programs that run at once, for each core.
const PROCESS_TESTS_PER_CORE: usize = 3;
/// Programs of tests that run at once.
const PROGRAMS_AT_ONCE: usize = 2;
/// A program of tests that takes as long as this has a line of its own in the table.
const LONG: Duration = Duration::from_secs(60);

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
    quietly(context, "fmt", &mut [cargo(context, &["fmt", "--all", "--check"])])
}

fn clippy(context: &Context) -> Result<Verdict, String> {
    let args = ["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"];
    quietly(context, "clippy", &mut [cargo(context, &args)])
}

/// Everything compiles with the oldest compiler that `Cargo.toml` names (`rust-version`).
fn msrv(context: &Context) -> Result<Verdict, String> {
    let Some(version) =
        needs::oldest_compiler(context.root, &context.logs, context.tools.may_install)?
    else {
        let text = "msrv: no toolchain of that version; rustup toolchain install 1.94";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut command = machine::calling_cargo(Path::new("cargo"));
    command.current_dir(context.root).arg(format!("+{version}")).args(["check", "--workspace"]);
    command.arg("--locked").env("CARGO_TARGET_DIR", context.target.join("msrv"));
    quietly(context, "msrv", &mut [command])
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

/// The page, from locked packages. A program without it can be built, too.
fn web(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("web: {reason}")));
    }
    page::build(context.root, &context.logs)?;
    Ok(Verdict::Passed(Vec::new()))
}

/// The page's types and unit tests.
fn page(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("page: {reason}")));
    }
    let scripts: [&[&str]; 2] = [&["run", "check"], &["test"]];
    quietly(context, "page", &mut scripts.map(|args| page::npm(context.root, args)))
}

/// Every program of tests, and the programs that the tests start.
fn build(context: &Context) -> Result<Verdict, String> {
    let (ended, built) = binaries::build(context)?;
    let _ = context.binaries.set(built);
    Ok(verdict(ended))
}

/// Tests that start real programs, which mostly wait: more of them run at once than there are cores.
fn processes(context: &Context) -> Result<Verdict, String> {
    let threads = format!("--test-threads={}", PROCESS_TESTS_PER_CORE * machine::cores());
    run_binaries(context, is_processes, &[threads])
}

/// All other tests.
fn test(context: &Context) -> Result<Verdict, String> {
    run_binaries(context, |binary| !is_processes(binary), &[])
}

fn is_processes(binary: &TestBinary) -> bool {
    binary.package == "mezza" && binary.target == "it"
}

/// Runs the chosen programs of tests, without the tests of the step `interop`. Two run at once: where
/// one has only a long test left, the other keeps the second core at work.
fn run_binaries(
    context: &Context,
    is_chosen: impl Fn(&TestBinary) -> bool,
    args: &[String],
) -> Result<Verdict, String> {
    let mut args = args.to_vec();
    args.extend(interop::skip_args());
    if context.tier == Tier::Quick {
        args.extend(["--skip".to_owned(), SLOW.to_owned()]);
    }
    let built = context.binaries.get().ok_or("the step `build` did not run")?;
    let chosen = built.iter().filter(|binary| is_chosen(binary)).collect::<Vec<_>>();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(&TestBinary, Ended)>, String> {
        let mut all = Vec::new();
        while let Some(binary) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let ended = binary.run(context, &args)?;
            if begun.elapsed() >= LONG {
                println!("    {:<36} {:>8}", binary.log_name(), seconds(begun.elapsed()));
            }
            all.push((*binary, ended));
        }
        Ok(all)
    };
    let workers = thread::scope(|scope| {
        let workers = [(); PROGRAMS_AT_ONCE].map(|()| scope.spawn(work));
        workers.map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
    });
    let mut skipped = Vec::new();
    let mut failures = Vec::new();
    for worker in workers {
        for (binary, ended) in worker? {
            skipped.extend(ended.skipped);
            if !ended.ok {
                failures.push(format!("{}:", binary.log_name()));
                failures.extend(ended.tail);
            }
        }
    }
    Ok(if failures.is_empty() { Verdict::Passed(skipped) } else { Verdict::Failed(failures) })
}

/// The examples in the documentation.
fn doctest(context: &Context) -> Result<Verdict, String> {
    let mut log = context.logs.open("test-doc")?;
    run_tests(&mut cargo(context, &["test", "--workspace", "--doc"]), &mut log).map(verdict)
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
    let built = context.binaries.get().ok_or("the step `build` did not run")?;
    interop::step(context.root, &context.logs, |filters, peers| {
        let mut all = Ended { ok: true, skipped: Vec::new(), tail: Vec::new() };
        for binary in built.iter().filter(|binary| binary.target == "it") {
            let log = format!("{}-interop", binary.log_name());
            let ended = binary.run_into(context, &log, filters, |command| {
                command.env("MEZZA_TEST_PEERS", peers);
            })?;
            all.ok &= ended.ok;
            all.skipped.extend(ended.skipped);
            all.tail.extend(ended.tail);
        }
        Ok(all)
    })
    .map(verdict)
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
    quietly(context, "browser", &mut [npm])
}

/// The lab's quick experiments: every row is measured, and the rows that must hold do.
fn lab(context: &Context) -> Result<Verdict, String> {
    let smoke = |words: &&[&str]| {
        let mut command = machine::calling_cargo(&context.target.join("debug/mezza-lab"));
        command.current_dir(context.root).args(*words).args(["--profile", "smoke"]);
        command
    };
    quietly(context, "lab", &mut LAB_SMOKE.iter().map(smoke).collect::<Vec<_>>())
}

/// The lab's peer programs build, and do each of their operations.
fn build_peers(context: &Context) -> Result<Verdict, String> {
    let mut log = context.logs.open("peers")?;
    peers::check(context.root, &context.target, &mut log).map(Verdict::Passed)
}

/// Every fuzz target for a moment, on the stable compiler: they run and find nothing. Each runs for as
/// long as the table in `fuzz/src/main.rs` says.
fn fuzz(context: &Context) -> Result<Verdict, String> {
    let mut targets = machine::calling_cargo(&context.target.join("debug/mezza-fuzz"));
    targets.current_dir(context.root).arg("all");
    quietly(context, "fuzz", &mut [targets])
}

fn doc(context: &Context) -> Result<Verdict, String> {
    let mut command = cargo(context, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    quietly(context, "doc", &mut [command])
}

/// The crates that are meant for the registry can be packaged as they are.
fn publish(context: &Context) -> Result<Verdict, String> {
    let args = ["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--locked"];
    quietly(context, "publish", &mut [cargo(context, &args)])
}

/// Licences, banned crates and sources of the dependencies (`deny.toml`).
fn deny(context: &Context) -> Result<Verdict, String> {
    let found = needs::cargo_deny(&context.logs, context.tools.may_install)?;
    let Some(program) = found else {
        let text = "deny: no cargo-deny; cargo install --locked cargo-deny";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut command = machine::calling_cargo(&program);
    // The list of advisories is fetched from a server that a closed network does not reach.
    command.current_dir(context.root).args(["check", "bans", "licenses", "sources"]);
    quietly(context, "deny", &mut [command])
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
