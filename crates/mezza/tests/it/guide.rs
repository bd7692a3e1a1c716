//! The commands of README and guides, run as they stand on an empty home (CLI-9). What a reader fills in is
//! filled in here: addresses and ports. A passphrase is read from a file where a person types it.

mod first_hour;
mod keeping;
mod machines;
mod operator;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::program::{Program, free_port, json, mezza, ok, passphrase, until};

/// Commands that ask for a passphrase. All others get none, as from a person who was not asked.
const ASK: [&str; 5] = [" init --name", " unlock", "mezza hibe ", "mezza restore", "mezza move "];
/// Commands of other programs, which their own tests run.
const OF_OTHERS: [&str; 4] = ["cargo ", "alias ", "age ", "mezza-lab "];

/// A file of the repository.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// A command, and the lines that the text shows below it.
type Shown = (String, Vec<String>);

/// The commands in the blocks of code below a heading, up to the next heading.
fn commands(text: &str, heading: &str) -> Vec<Shown> {
    let below = text.split(&format!("{heading}\n")).nth(1).unwrap_or_else(|| panic!("{heading}"));
    let below = below.split("\n## ").next().unwrap();
    let lines = below.split("```").skip(1).step_by(2).flat_map(|block| block.trim().lines());
    let prompted = below.contains("\n$ ");
    let mut shown: Vec<Shown> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("$ ") {
            Some(command) => shown.push((command.to_owned(), Vec::new())),
            None if prompted => shown.last_mut().unwrap().1.push(line.to_owned()),
            None => shown.push((line.to_owned(), Vec::new())),
        }
    }
    shown.retain(|(command, _)| !OF_OTHERS.iter().any(|other| command.starts_with(other)));
    assert!(!shown.is_empty(), "{heading}");
    shown
}

/// A reader at a shell, with a folder of their own.
struct Reader {
    folder: tempfile::TempDir,
    passphrase: PathBuf,
    started: Vec<Child>,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let passphrase = passphrase(folder.path(), "six words that nobody would guess");
        Self { folder, passphrase, started: Vec::new() }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join(".local/share/mezza")
    }

    fn shell(&self, line: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_mezza")).parent().unwrap();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().env("HOME", self.folder.path()).env("PATH", path);
        shell.current_dir(self.folder.path()).stdin(Stdio::null());
        if ASK.iter().any(|ask| line.contains(ask)) {
            shell.env("MEZZA_PASSPHRASE_FILE", &self.passphrase);
        }
        shell
    }

    /// Types a line: one that ends with `&` is waited for until it has said something.
    fn types(&mut self, line: &str) -> Output {
        let words = line.split(" #").next().unwrap().trim_end();
        let Some(words) = words.strip_suffix('&') else {
            return self.shell(line).args(["-c", line]).output().unwrap();
        };
        let mut shell = self.shell(line);
        shell.args(["-c", &format!("exec {words}")]).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut first = String::new();
        let mut says = BufReader::new(child.stdout.take().unwrap());
        says.read_line(&mut first).unwrap();
        // A terminal goes on to read: a closed pipe would end a program that says more.
        std::thread::spawn(move || std::io::copy(&mut says, &mut std::io::sink()));
        self.started.push(child);
        assert!(!first.is_empty(), "{line} says nothing");
        mezza(&self.home(), &["config", "check"])
    }

    /// Types a line that has to succeed; what it prints.
    fn succeeds(&mut self, line: &str) -> String {
        let output = self.types(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A relay, and somebody at it who is written to.
struct Bob {
    _relay: Program,
    node: Program,
    relay_uri: String,
}

impl Bob {
    fn new(folder: &Path) -> Self {
        let relay_home = folder.join("relay");
        let home = folder.join("bob");
        let port = free_port();
        ok(&relay_home, &["relay", "init", "--listen", &format!("127.0.0.1:{port}")]);
        let relay = Program::relay(&relay_home, port, &[]);
        let relay_uri = ok(&relay_home, &["relay", "uri"]).trim().to_owned();
        let pass = passphrase(folder, "long enough for all");
        let pass = ["--passphrase-file", pass.to_str().unwrap()];
        let init = ["init", "--name", "bob", "--relay", &relay_uri];
        ok(&home, &[&init[..], &pass[..]].concat());
        let node = Program::node(&home, &pass, &[]);
        until("bob", || node.is_reachable());
        Self { _relay: relay, node, relay_uri }
    }

    fn card(&self) -> String {
        ok(&self.node.home, &["card"]).trim().to_owned()
    }
}

#[test]
fn cli_9_slow_the_readmes_first_conversation_is_one() {
    let others = tempfile::tempdir().unwrap();
    let bob = Bob::new(others.path());
    let mut alice = Reader::new();
    let shown = commands(&file("README.md"), "## A first conversation");
    let mut said = String::new();
    for (line, _) in shown.iter().filter(|(line, _)| !line.starts_with("mezza relay")) {
        let line = line.replace("mezzavoce:r1/...", &bob.relay_uri);
        let line = line.replace("mezzavoce:c1/...", &bob.card());
        // The page's port is for somebody who runs nothing else.
        let line = line.replace("mezza node run", "mezza node run --listen 127.0.0.1:0");
        said += &alice.succeeds(&line);
        if line.starts_with("mezza card") {
            ok(&bob.node.home, &["add", ok(&alice.home(), &["card"]).trim()]);
        }
    }
    for expected in ["lives in", "unlocked", "added bob as #1", "on their device", "you: hello"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(json(&bob.node.home, &["log", "alice"])[0]["text"], "hello");
}

#[test]
fn cli_9_the_readmes_relay_is_one() {
    let mut owner = Reader::new();
    let place = format!("127.0.0.1:{}", free_port());
    let shown = commands(&file("README.md"), "## A first conversation");
    let mut said = String::new();
    for (line, _) in shown.iter().filter(|(line, _)| line.starts_with("mezza relay")) {
        let line = line.replace("0.0.0.0:7101", &place).replace("relay.example:7101", &place);
        said = owner.succeeds(&line);
    }
    let relay = mezza::testing::api::uri::relay_of(said.trim()).unwrap();
    assert_eq!(format!("{}:{}", relay.host, relay.port), place);
}

#[test]
fn cli_9_slow_the_guide_to_keys_that_forget_works() {
    let mut reader = Reader::new();
    let mut opened = 0;
    for (line, below) in commands(&file("docs/guide/hibe.md"), "## Four commands") {
        let output = reader.types(&line);
        let refusal = below.first().filter(|below| below.starts_with("mezza: "));
        assert_eq!(output.status.success(), refusal.is_none(), "{line}: {output:?}");
        if let Some(refusal) = refusal {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let begins = refusal.split(':').take(3).collect::<Vec<_>>().join(":");
            assert!(said.lines().any(|line| line.starts_with(&begins)), "{said}");
        } else if line.starts_with("mezza hibe open") {
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), below[0]);
            opened += 1;
        }
    }
    assert_eq!(opened, 1);
}
