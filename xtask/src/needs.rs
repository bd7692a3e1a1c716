//! Tools that tests use. As root they are installed with apt; otherwise the step that needs one is
//! skipped and names the command that installs it.

use crate::run::{Logs, find_program, first_line, run_logged};
use crate::{interop, machine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools that were found.
pub struct TestTools {
    /// The path of a Chromium.
    pub chromium: Option<PathBuf>,
    /// A Python that can import `cryptography` and `py_ecc`, and Bumble if installed.
    pub python: Option<PathBuf>,
    /// True if the standard library for wasm32-unknown-unknown is installed.
    pub wasm: bool,
    /// True if tools may be installed.
    pub may_install: bool,
}

/// The version whose rules `deny.toml` is written for.
const CARGO_DENY: &str = "0.19.5";

/// A Debian package, and the check that it is present.
pub struct Package {
    pub name: &'static str,
    pub present: fn() -> bool,
    /// The part of the tests that needs the package.
    pub purpose: &'static str,
}

/// The packages, without those of the interop peers.
pub const PACKAGES: [Package; 13] = [
    Package { name: "chromium", present: || find_chromium().is_some(), purpose: "browser test" },
    Package {
        name: "clang",
        present: || has_program("clang"),
        purpose: "floors 0-2 for wasm: blst is C",
    },
    Package { name: "postgresql", present: has_postgres, purpose: "the relay's second store" },
    Package {
        name: "zbar-tools",
        present: || has_program("zbarimg"),
        purpose: "QR codes read by others",
    },
    Package {
        name: "gnutls-bin",
        present: || has_program("gnutls-cli"),
        purpose: "TLS by another library",
    },
    Package {
        name: "iproute2",
        present: || has_program("ip"),
        purpose: "links and meshes in namespaces",
    },
    Package {
        name: "iputils-ping",
        present: || has_program("ping"),
        purpose: "the guide to links",
    },
    Package {
        name: "systemd",
        present: || has_program("systemd-analyze"),
        purpose: "ratings of the units",
    },
    Package {
        name: "debootstrap",
        present: || has_program("debootstrap"),
        purpose: "the package in a fresh Debian",
    },
    Package {
        name: "age",
        present: || has_program("age"),
        purpose: "backups that another program opens",
    },
    Package {
        name: "bsdutils",
        present: || has_program("script"),
        purpose: "questions on a terminal",
    },
    Package { name: "binutils", present: || has_program("objdump"), purpose: "code of the lanes" },
    Package { name: "libfaketime", present: has_faketime, purpose: "a clock that jumps" },
];

fn has_faketime() -> bool {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.into_iter().any(|folder| folder.path().join("faketime/libfaketimeMT.so.1").is_file())
}

/// Finds the tools. With `install`, and as root, missing ones are installed first, with a message.
pub fn find_tools(
    root: &Path,
    target: &Path,
    logs: &Logs,
    install: bool,
) -> Result<TestTools, String> {
    if install {
        install_missing(&PACKAGES.iter().chain(&interop::PACKAGES).collect::<Vec<_>>(), logs)?;
    }
    if install && find_python(target, &[IMPORTS, CONTROLLERS]).is_none() {
        python_packages(root, target, logs)?;
    }
    if install && has_program("rustup") && !has_wasm() {
        let args = ["target", "add", "wasm32-unknown-unknown"];
        install_quietly("rustup", &args, logs)?;
    }
    let python =
        find_python(target, &[IMPORTS, CONTROLLERS]).or_else(|| find_python(target, &[IMPORTS]));
    let may_install = install && machine::is_root();
    Ok(TestTools { chromium: find_chromium(), python, wasm: has_wasm(), may_install })
}

/// Returns the path of cargo-deny. Compiling it takes minutes, so the step that needs it installs
/// it in parallel to other steps.
pub fn cargo_deny(logs: &Logs, may_install: bool) -> Result<Option<PathBuf>, String> {
    if may_install && !has_program("cargo-deny") {
        // Its release profile optimizes at link time, which takes longer than all checks; without
        // optimizations a check takes 6 s.
        let args = ["install", "--locked", "--debug", "cargo-deny", "--version", CARGO_DENY];
        install_quietly("cargo", &args, logs)?;
    }
    Ok(find_program(&["cargo-deny"]))
}

/// Returns the oldest compiler that `Cargo.toml` names, if rustup has it or may fetch it.
pub fn oldest_compiler(
    root: &Path,
    logs: &Logs,
    may_install: bool,
) -> Result<Option<String>, String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|error| format!("Cargo.toml: {error}"))?;
    let named = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = named.ok_or("Cargo.toml names no rust-version")?.trim_matches('"');
    if !has_program("rustup") {
        return Ok(None);
    }
    let is_there = || {
        let args = ["run", version, "cargo", "--version"];
        let asked = Command::new("rustup").args(args).output();
        asked.is_ok_and(|output| output.status.success())
    };
    if may_install && !is_there() {
        let args = ["toolchain", "install", version, "--profile", "minimal"];
        install_quietly("rustup", &args, logs)?;
    }
    Ok(is_there().then(|| version.to_owned()))
}

/// Runs a program that installs something, and prints its command. A failure is no error here: the
/// step that lacks the tool reports itself as skipped.
fn install_quietly(program: &str, args: &[&str], logs: &Logs) -> Result<(), String> {
    println!("install  {program} {}", args.join(" "));
    let _ = run_logged(Command::new(program).args(args), &mut logs.open("install tools")?);
    Ok(())
}

/// Installs the missing packages, as root on a system with apt.
pub fn install_missing(packages: &[&Package], logs: &Logs) -> Result<(), String> {
    let missing = packages.iter().filter(|package| !(package.present)());
    let missing = missing.copied().collect::<Vec<_>>();
    if missing.is_empty() || !machine::is_root() || !has_program("apt-get") {
        return Ok(());
    }
    install_packages(&missing, logs)
}

fn install_packages(missing: &[&Package], logs: &Logs) -> Result<(), String> {
    let names = missing.iter().map(|package| package.name).collect::<Vec<_>>();
    println!(
        "install  apt-get install {}   (`--no-install` leaves the machine alone)",
        names.join(" ")
    );
    let mut log = logs.open("install apt")?;
    let mut apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]).args(args);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        run_logged(&mut command, &mut log).is_ok_and(|ended| ended.ok)
    };
    apt(&["update", "--quiet"]);
    for package in missing {
        if !apt(&["install", "--yes", "--quiet", "--no-install-recommends", package.name]) {
            let log = logs.path("install apt");
            let name = package.name;
            let purpose = package.purpose;
            println!("install  {name} (for {purpose}) did not install; see {}", log.display());
        }
    }
    Ok(())
}

/// Installs the imports of references and Bluetooth tests into a virtual environment, without
/// system packages. Pip accepts only files whose hashes are in the repository.
fn python_packages(root: &Path, target: &Path, logs: &Logs) -> Result<(), String> {
    let Some(python) = find_program(&["python3"]) else { return Ok(()) };
    let folder = target.join("python");
    println!("install  pip install cryptography py_ecc bumble   (into {})", folder.display());
    let mut log = logs.open("install python")?;
    let mut references = pip_install(&folder);
    references.args(["--require-hashes", "-r"]).arg(root.join("vectors/requirements.txt"));
    let mut controllers = pip_install(&folder);
    controllers.args(["--no-deps", "--require-hashes", "-r"]);
    controllers.arg(root.join("crates/mezza/tests/it/mesh/bumble.txt"));
    for mut command in [make_venv(&python, &folder), references, controllers] {
        if !run_logged(&mut command, &mut log).is_ok_and(|ended| ended.ok) {
            println!("install  failed; see {}", logs.path("install python").display());
            break;
        }
    }
    Ok(())
}

/// Returns the command that makes a fresh Python environment.
pub fn make_venv(python: &Path, folder: &Path) -> Command {
    let mut venv = Command::new(python);
    venv.args(["-m", "venv", "--clear"]).arg(folder);
    venv
}

/// Returns the command that installs packages into an environment; the caller adds their names as
/// arguments.
pub fn pip_install(folder: &Path) -> Command {
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet"]);
    pip
}

fn has_program(program: &str) -> bool {
    find_program(&[program]).is_some()
}

fn find_chromium() -> Option<PathBuf> {
    let named = std::env::var_os("MEZZA_CHROMIUM").map(PathBuf::from).filter(|file| file.is_file());
    named.or_else(|| find_program(&["chromium", "chromium-browser", "google-chrome"]))
}

/// Debian installs the server outside of the search path.
fn has_postgres() -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    has_program("postgres") || versions.into_iter().any(|v| v.path().join("bin/postgres").is_file())
}

/// Returns true if Python can make a virtual environment.
pub fn has_venv() -> bool {
    first_line(Command::new("python3").args(["-c", "import ensurepip; print(1)"])).is_some()
}

/// Returns the system's Python if it can run all of `scripts`, else that of the virtual
/// environment.
fn find_python(target: &Path, scripts: &[&str]) -> Option<PathBuf> {
    let named = std::env::var_os("MEZZA_TEST_PYTHON").map(PathBuf::from);
    let all = [named, find_program(&["python3"]), Some(target.join("python/bin/python"))];
    let runs =
        |python: &PathBuf, script| first_line(Command::new(python).args(["-c", script])).is_some();
    let works = |python: &PathBuf| scripts.iter().all(|script| runs(python, *script));
    all.into_iter().flatten().find(works)
}

/// The imports of the references, and of the Bluetooth test controllers.
const IMPORTS: &str = "import cryptography, py_ecc; print(1)";
const CONTROLLERS: &str = "import bumble.controller; print(1)";

fn has_wasm() -> bool {
    let root = first_line(Command::new("rustc").args(["--print", "sysroot"]));
    root.is_some_and(|root| {
        Path::new(&root).join("lib/rustlib/wasm32-unknown-unknown/lib").is_dir()
    })
}
