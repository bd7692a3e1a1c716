//! The peer programs of the lab, which are separate workspaces. No other step compiles them, so
//! that faults would be found only when a figure is needed.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine;
use crate::run::run_logged;

/// Bytes of a text, or bits of a number, for each operation.
const SIZE: u32 = 256;
/// A peer that needs OpenSSL cannot be built without this file.
const OPENSSL: &str = "/usr/include/openssl/evp.h";

/// Builds each peer program and runs each of its operations once. Returns why some were skipped.
pub fn check_peers(root: &Path, target: &Path, log: &mut File) -> Result<Vec<String>, String> {
    let has_openssl = Path::new(OPENSSL).is_file();
    let mut skipped = Vec::new();
    for folder in peer_folders(root)? {
        let manifest = folder.join("Cargo.toml");
        let text =
            fs::read_to_string(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
        let needs_openssl = text.contains("\nopenssl = \"");
        if needs_openssl && !has_openssl {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            skipped.push(format!("peer {name}: no headers of OpenSSL; apt install libssl-dev"));
            continue;
        }
        let target = target.join("peers/check");
        let mut build = machine::cargo_command(root);
        build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(&manifest);
        if text.contains("[\"dep:openssl\"]") && has_openssl {
            build.args(["--features", "openssl"]);
        }
        if !run_logged(build.env("CARGO_TARGET_DIR", &target), log)?.ok {
            return Err(format!("{} does not build", manifest.display()));
        }
        each_once(&target.join("debug").join(package_name(&text)?), log)?;
    }
    Ok(skipped)
}

fn peer_folders(root: &Path) -> Result<Vec<PathBuf>, String> {
    let peers = root.join("lab/peers");
    let entries = fs::read_dir(&peers).map_err(|e| format!("{}: {e}", peers.display()))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    folders.sort();
    if folders.is_empty() { Err(format!("no peer in {}", peers.display())) } else { Ok(folders) }
}

fn package_name(manifest: &str) -> Result<&str, String> {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.ok_or_else(|| "a manifest without a name".to_owned())
}

/// Requests the list of operations from a peer, and one call of each.
fn each_once(program: &Path, log: &mut File) -> Result<(), String> {
    let answers = ask_program(program, &["ops".to_owned()], log)?;
    let ops = answers.first().and_then(|answer| answer.strip_prefix("ok ")).unwrap_or_default();
    let asked: Vec<String> = ops.split_whitespace().map(|op| format!("once {op} {SIZE}")).collect();
    if asked.is_empty() {
        return Err(format!("{} does not say what it measures", program.display()));
    }
    let answers = ask_program(program, &asked, log)?;
    let failed = asked
        .iter()
        .enumerate()
        .find(|(n, _)| answers.get(*n).is_none_or(|answer| !answer.starts_with("ok")));
    failed.map_or(Ok(()), |(n, line)| {
        let answer = answers.get(n).map_or("nothing", String::as_str);
        Err(format!("{}: `{line}` was answered by: {answer}", program.display()))
    })
}

/// Returns a program's responses to these lines.
fn ask_program(program: &Path, lines: &[String], log: &mut File) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all((lines.join("\n") + "\n").as_bytes()).map_err(wrong)?;
    }
    let output = child.wait_with_output().map_err(wrong)?;
    let _ = log.write_all(&output.stdout).and_then(|()| log.write_all(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
