//! The steps, in order of execution.

use super::binaries::{self, TestBinary};
use super::schedule::{Lane, Step};
use super::{Context, Tier, Verdict, book, format_time, peers};
use crate::run::{Ended, find_program, run_logged, run_tests};
use crate::{dist, interop, machine, needs, page, tidy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// All steps. The page is built before the test programs, so that the program is compiled once and
/// contains it. Of two steps that could start, the first one is chosen, so long ones precede short
/// ones.
pub const STEPS: [Step; 21] = [
    Step { name: "tidy", needs: &[], lane: Lane::Light, work: run_tidy },
    Step { name: "fmt", needs: &[], lane: Lane::Light, work: fmt },
    Step { name: "web", needs: &[], lane: Lane::Light, work: build_web },
    Step { name: "build", needs: &["web"], lane: Lane::Cargo, work: build_tests },
    Step { name: "processes", needs: &["build"], lane: Lane::Processes, work: test_processes },
    Step { name: "package", needs: &["build"], lane: Lane::Processes, work: check_package },
    Step { name: "browser", needs: &["build"], lane: Lane::Processes, work: test_browser },
    Step { name: "test", needs: &["build"], lane: Lane::Compute, work: test_others },
    Step { name: "clippy", needs: &["build"], lane: Lane::Cargo, work: run_clippy },
    Step { name: "page", needs: &["build"], lane: Lane::Compute, work: check_page },
    Step { name: "interop", needs: &["build"], lane: Lane::Compute, work: test_interop },
    Step { name: "vectors", needs: &[], lane: Lane::Compute, work: check_vectors },
    Step { name: "doctest", needs: &["build"], lane: Lane::Cargo, work: test_docs },
    Step { name: "peers", needs: &["build"], lane: Lane::Cargo, work: build_peers },
    Step { name: "doc", needs: &["build"], lane: Lane::Cargo, work: check_docs },
    Step { name: "wasm", needs: &["build"], lane: Lane::Cargo, work: check_wasm },
    Step { name: "publish", needs: &["build"], lane: Lane::Cargo, work: check_packages },
    // Compiles nothing: it follows the compilations, so that a core has work while long tests end.
    Step { name: "fuzz", needs: &["build"], lane: Lane::Cargo, work: smoke_fuzz },
    Step { name: "deny", needs: &[], lane: Lane::Light, work: check_licences },
    Step { name: "lab", needs: &["build"], lane: Lane::Alone, work: smoke_lab },
    Step { name: "msrv", needs: &[], lane: Lane::Cargo, work: check_msrv },
];

/// Steps that run only if named: they need a second toolchain and compile everything again.
pub const NAMED_STEPS: [&str; 1] = ["msrv"];

/// The steps before a commit.
pub const QUICK_STEPS: [&str; 6] = ["tidy", "fmt", "clippy", "test", "processes", "doctest"];

/// Tests with this in their names run only in the full tier.
const SLOW: &str = "slow_";
/// Simultaneous tests of real programs, per core.
const PROCESS_TESTS_PER_CORE: usize = 3;
/// Simultaneous test programs.
const PROGRAMS_AT_ONCE: usize = 2;
/// A test program that takes this long gets its own line in the table.
const LONG: Duration = Duration::from_secs(60);

/// The lab's experiments that are quick enough for each run.
const LAB_SMOKE: [&[&str]; 4] =
    [&["goals", "node"], &["goals", "ratchet"], &["goals", "lanes"], &["run", "signal"]];

fn run_tidy(context: &Context) -> Result<Verdict, String> {
    let refused = tidy::collect_refusals(context.root)?;
    let lines = refused.iter().map(ToString::to_string).collect::<Vec<_>>();
    let _ = fs::write(context.logs.path("tidy"), lines.join("\n"));
    Ok(if lines.is_empty() { Verdict::Passed(Vec::new()) } else { Verdict::Failed(lines) })
}

fn fmt(context: &Context) -> Result<Verdict, String> {
    run_quietly(context, "fmt", &mut [cargo_command(context, &["fmt", "--all", "--check"])])
}

fn run_clippy(context: &Context) -> Result<Verdict, String> {
    let args = ["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"];
    run_quietly(context, "clippy", &mut [cargo_command(context, &args)])
}

/// Checks that everything compiles with the oldest compiler that `Cargo.toml` names
/// (`rust-version`).
fn check_msrv(context: &Context) -> Result<Verdict, String> {
    let Some(version) =
        needs::oldest_compiler(context.root, &context.logs, context.tools.may_install)?
    else {
        let text = "msrv: no toolchain of that version; rustup toolchain install 1.94";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut command = machine::calling_cargo(Path::new("cargo"));
    command.current_dir(context.root).arg(format!("+{version}")).args(["check", "--workspace"]);
    command.arg("--locked").env("CARGO_TARGET_DIR", context.target.join("msrv"));
    run_quietly(context, "msrv", &mut [command])
}

/// Checks that floors 0-2 need no operating system: they compile for a target that has none.
fn check_wasm(context: &Context) -> Result<Verdict, String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if !context.tools.wasm {
        let text = format!("wasm: no standard library for {TARGET}; rustup target add {TARGET}");
        return Ok(Verdict::Skipped(text));
    }
    if find_program(&["clang"]).is_none() {
        return Ok(Verdict::Skipped("wasm: no clang for blst; apt install clang".to_owned()));
    }
    let mut args = vec!["check", "--target", TARGET];
    let pure = tidy::pure_crates(context.root)?;
    args.extend(pure.iter().flat_map(|name| ["-p", name]));
    run_quietly(context, "wasm", &mut [cargo_command(context, &args)])
}

/// Builds the page from locked packages. A program without the page can be built too.
fn build_web(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("web: {reason}")));
    }
    page::build_page(context.root, &context.logs)?;
    Ok(Verdict::Passed(Vec::new()))
}

/// Checks the page's types and runs its unit tests.
fn check_page(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("page: {reason}")));
    }
    let scripts: [&[&str]; 2] = [&["run", "check"], &["test"]];
    run_quietly(context, "page", &mut scripts.map(|args| page::npm_command(context.root, args)))
}

/// Builds every test program, and the programs that tests start.
fn build_tests(context: &Context) -> Result<Verdict, String> {
    let (ended, built) = binaries::build_binaries(context)?;
    let _ = context.binaries.set(built);
    Ok(to_verdict(ended))
}

/// Runs the tests that start real programs, which mostly wait: more of them run at once than there
/// are cores.
fn test_processes(context: &Context) -> Result<Verdict, String> {
    let threads = format!("--test-threads={}", PROCESS_TESTS_PER_CORE * machine::count_cores());
    run_binaries(context, is_processes, &[threads])
}

/// Runs all other tests.
fn test_others(context: &Context) -> Result<Verdict, String> {
    run_binaries(context, |binary| !is_processes(binary), &[])
}

fn is_processes(binary: &TestBinary) -> bool {
    binary.package == "mezza" && binary.target == "it"
}

/// Runs the chosen test programs, without the tests of the step `interop`. Two run at once: while
/// one has only a long test left, the other uses the second core.
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
                println!("    {:<36} {:>8}", binary.log_name(), format_time(begun.elapsed()));
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

/// Runs the examples in the documentation.
fn test_docs(context: &Context) -> Result<Verdict, String> {
    let mut log = context.logs.open("test-doc")?;
    run_tests(&mut cargo_command(context, &["test", "--workspace", "--doc"]), &mut log)
        .map(to_verdict)
}

/// Runs the second implementation of every vector, in Python.
fn check_vectors(context: &Context) -> Result<Verdict, String> {
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
    run_quietly(context, "vectors", &mut references.into_iter().map(check).collect::<Vec<_>>())
}

/// Tests the ratchet against other implementations.
fn test_interop(context: &Context) -> Result<Verdict, String> {
    let built = context.binaries.get().ok_or("the step `build` did not run")?;
    interop::run_step(context.root, &context.logs, |filters, peers| {
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
    .map(to_verdict)
}

/// Builds the Debian package of the tested program twice, installs it, and runs what it installs.
fn check_package(context: &Context) -> Result<Verdict, String> {
    let binary = context.target.join("debug/mezza");
    let mut log = context.logs.open("package")?;
    dist::check_package(context.root, &binary, &context.target.join("package-check"), &mut log)
        .map(Verdict::Passed)
        .or_else(|text| Ok(Verdict::Failed(text.lines().map(str::to_owned).collect())))
}

/// Tests two real nodes with a real browser.
fn test_browser(context: &Context) -> Result<Verdict, String> {
    if let Some(reason) = page::missing_requirement(context.root) {
        return Ok(Verdict::Skipped(format!("browser: {reason}")));
    }
    let Some(chromium) = &context.tools.chromium else {
        let text = "browser: no chromium; apt install chromium";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut npm = page::npm_command(context.root, &["run", "browser"]);
    npm.env("MEZZA_CHROMIUM", chromium).env("MEZZA_BIN", context.target.join("debug/mezza"));
    run_quietly(context, "browser", &mut [npm])
}

/// Runs the lab's quick experiments: every row is measured, and the rows with a requirement meet
/// it.
fn smoke_lab(context: &Context) -> Result<Verdict, String> {
    let smoke = |words: &&[&str]| {
        let mut command = machine::calling_cargo(&context.target.join("debug/mezza-lab"));
        command.current_dir(context.root).args(*words).args(["--profile", "smoke"]);
        command
    };
    run_quietly(context, "lab", &mut LAB_SMOKE.iter().map(smoke).collect::<Vec<_>>())
}

/// Checks that the lab's peer programs build and run each of their operations.
fn build_peers(context: &Context) -> Result<Verdict, String> {
    let mut log = context.logs.open("peers")?;
    peers::check_peers(context.root, &context.target, &mut log).map(Verdict::Passed)
}

/// Runs every fuzz target briefly, on the stable compiler. The table in `fuzz/src/main.rs` has the
/// time of each.
fn smoke_fuzz(context: &Context) -> Result<Verdict, String> {
    let mut targets = machine::calling_cargo(&context.target.join("debug/mezza-fuzz"));
    targets.current_dir(context.root).arg("all");
    run_quietly(context, "fuzz", &mut [targets])
}

/// Builds the documentation of the crates, and checks the book over `docs/`. The book itself is built where
/// mdBook is installed.
fn check_docs(context: &Context) -> Result<Verdict, String> {
    let faults = book::find_faults(&context.root.join("docs"))?;
    if !faults.is_empty() {
        return Ok(Verdict::Failed(faults));
    }
    let mut commands = Vec::new();
    if let Some(mdbook) = find_program(&["mdbook"]) {
        let mut build = Command::new(mdbook);
        build.arg("build").arg(context.root.join("docs"));
        build.arg("--dest-dir").arg(context.target.join("book"));
        commands.push(build);
    }
    let mut command = cargo_command(context, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    commands.push(command);
    run_quietly(context, "doc", &mut commands)
}

/// Checks that the crates for the registry can be packaged.
fn check_packages(context: &Context) -> Result<Verdict, String> {
    let args = ["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--locked"];
    run_quietly(context, "publish", &mut [cargo_command(context, &args)])
}

/// Checks licences, banned crates and sources of the dependencies (`deny.toml`).
fn check_licences(context: &Context) -> Result<Verdict, String> {
    let found = needs::cargo_deny(&context.logs, context.tools.may_install)?;
    let Some(program) = found else {
        let text = "deny: no cargo-deny; cargo install --locked cargo-deny";
        return Ok(Verdict::Skipped(text.to_owned()));
    };
    let mut command = machine::calling_cargo(&program);
    // The list of advisories is fetched from a server that a closed network cannot reach.
    command.current_dir(context.root).args(["check", "bans", "licenses", "sources"]);
    run_quietly(context, "deny", &mut [command])
}

fn to_verdict(ended: Ended) -> Verdict {
    if ended.ok { Verdict::Passed(ended.skipped) } else { Verdict::Failed(ended.tail) }
}

fn cargo_command(context: &Context, args: &[&str]) -> Command {
    let mut command = machine::cargo_command(context.root);
    command.args(args);
    command
}

/// Runs the commands of one step in sequence with one log; the first failure ends the step.
fn run_quietly(context: &Context, step: &str, commands: &mut [Command]) -> Result<Verdict, String> {
    let mut log = context.logs.open(step)?;
    let mut skipped = Vec::new();
    for command in commands {
        let ended = run_logged(command, &mut log)?;
        if !ended.ok {
            return Ok(Verdict::Failed(ended.tail));
        }
        skipped.extend(ended.skipped);
    }
    Ok(Verdict::Passed(skipped))
}
