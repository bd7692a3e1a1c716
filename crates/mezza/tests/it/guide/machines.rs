//! The guides to links and to the mesh, typed at two machines on one cable: each is a network namespace
//! with system folders and a home of its own, and a shell that stays.
//!
//! ```text
//! machine 0, eth0 -------- veth -------- eth0, machine 1
//! ```
//!
//! Commands that cannot run here: `--ble` needs a radio (`mesh::ble` has two processes on virtual controllers), and
//! the commands of the guide to the guard are the lab's, whose own tests run them.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};

use super::{commands, file};
use crate::program::{passphrase, until};

static COUNT: AtomicU32 = AtomicU32::new(0);

fn ip(args: &str) -> bool {
    let run = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// A machine, and the reader at its shell.
struct Machine {
    space: String,
    home: PathBuf,
    shell: Child,
    types: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Machine {
    fn new(space: String, folder: &Path) -> Self {
        let home = folder.join(&space);
        std::fs::create_dir(&home).unwrap();
        let pass = passphrase(folder, "six words that nobody would guess");
        let programs = Path::new(env!("CARGO_BIN_EXE_mezza")).parent().unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display());
        let mut shell = Command::new("ip");
        shell.args(["netns", "exec", &space, "unshare", "--mount", "/bin/sh", "-s"]);
        shell.env_clear().env("HOME", &home).env("PATH", path).env("MEZZA_PASSPHRASE_FILE", pass);
        shell.current_dir(&home).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let types = shell.stdin.take().unwrap();
        let says = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut machine = Self { space, home, shell, types, says };
        // State and sockets of daemons, which nobody else on this machine is to see.
        machine.succeeds("mount -t tmpfs none /run && mount -t tmpfs none /var/lib");
        machine
    }

    /// Types a line and does not wait for its end. One with `&` says what it says into a file.
    fn begins(&mut self, line: &str) {
        let words = line.split(" #").next().unwrap().trim_end();
        let line = match words.strip_suffix('&') {
            Some(words) => format!("{words} >>said 2>&1 </dev/null &"),
            None => format!("{{ {words}\n}} 2>&1 </dev/null"),
        };
        writeln!(self.types, "{line}\nprintf '\\n@%s\\n' $?").unwrap();
    }

    /// The end of the line that was typed last: its exit code, and what it printed.
    fn ends(&mut self) -> (i32, String) {
        let mut text = String::new();
        for line in &mut self.says {
            let line = line.unwrap();
            if let Some(code) = line.strip_prefix('@') {
                return (code.parse().unwrap(), text);
            }
            text += &line;
            text.push('\n');
        }
        panic!("the shell is gone: {text}");
    }

    fn types(&mut self, line: &str) -> (i32, String) {
        self.begins(line);
        self.ends()
    }

    fn succeeds(&mut self, line: &str) -> String {
        let (code, text) = self.types(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }

    /// Returns the output of its daemons.
    fn said(&self) -> String {
        std::fs::read_to_string(self.home.join("said")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.shell.id()).unwrap());
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.shell.wait();
        ip(&format!("netns del {}", self.space));
    }
}

/// Two machines on one cable; none, with the reason, where namespaces cannot be made.
fn two(guide: &str, folder: &Path) -> Option<[Machine; 2]> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let spaces = ["a", "b"].map(|side| format!("mg{}{number}{side}", std::process::id()));
    if !geteuid().is_root() || !spaces.iter().all(|space| ip(&format!("netns add {space}"))) {
        println!(
            "SKIPPED the guide to {guide}: no right to make namespaces; run as root with iproute2"
        );
        return None;
    }
    let [a, b] = &spaces;
    assert!(ip(&format!("link add eth0 netns {a} type veth peer name eth0 netns {b}")));
    for space in &spaces {
        assert!(ip(&format!("-n {space} link set lo up")));
        assert!(ip(&format!("-n {space} link set eth0 up")));
    }
    Some(spaces.map(|space| Machine::new(space, folder)))
}

/// The commands below a heading; what a program prints stands in blocks of its own.
fn typed(guide: &str, heading: &str) -> Vec<String> {
    let shown = commands(&file(guide), heading).into_iter().map(|(line, _)| line);
    shown
        .filter(|line| ["mezza ", "ip ", "ping ", "echo "].iter().any(|own| line.starts_with(own)))
        .collect()
}

#[test]
fn cli_9_the_guide_to_links_works() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut machines) = two("links", folder.path()) else { return };
    let mut pinged = false;
    for line in typed("docs/guide/link.md", "## Five commands") {
        let lines = [line.clone(), line.replace("10.7.0.1/24", "10.7.0.2/24")];
        if line.starts_with("mezza link pair") {
            machines.iter_mut().zip(&lines).for_each(|(machine, line)| machine.begins(line));
            for machine in &mut machines {
                let (code, text) = machine.ends();
                assert!(code == 0 && text.contains("paired \"cam1\", unverified"), "{text}");
                assert!(text.contains("next: `mezza link up cam1`"), "{text}");
            }
        } else if line.starts_with("ping") {
            // A person ends it.
            machines[0].succeeds(&line.replace("ping", "ping -c 1 -w 60"));
            pinged = true;
        } else {
            for (machine, line) in machines.iter_mut().zip(&lines) {
                let mut text = String::new();
                until("the tunnel", || {
                    let (code, said) = machine.types(line);
                    text = said;
                    code == 0
                });
                assert!(!line.contains("link show") || text.contains("trouble  none"), "{text}");
            }
        }
    }
    assert!(pinged);
}

#[test]
fn cli_9_slow_the_guide_to_the_mesh_works() {
    const GUIDE: &str = "docs/guide/mesh.md";
    let folder = tempfile::tempdir().unwrap();
    let Some([mut receiver, mut sender]) = two("the mesh", folder.path()) else { return };
    for line in typed(GUIDE, "## The receiver makes a key and shows it") {
        receiver.succeeds(&line);
    }
    for line in typed(GUIDE, "## Both run a node, the receiver listens") {
        let line = if line.contains("listen") { line.replace(" #", " & #") } else { line };
        receiver.succeeds(&line);
    }
    std::fs::create_dir(sender.home.join("friend")).unwrap();
    std::fs::copy(receiver.home.join("keys/card"), sender.home.join("friend/card")).unwrap();
    for line in typed(GUIDE, "## The sender writes") {
        if line.starts_with("echo") {
            until("a neighbour", || {
                sender.types("mezza mesh status --json").1.contains("\"name\"")
            });
        }
        let text = sender.succeeds(&line);
        assert!(!line.starts_with("echo") || text.contains("announced by 1 neighbour"), "{text}");
    }
    until("the message", || {
        let said = receiver.said();
        said.contains("somebody who holds your card wrote:") && said.contains("meet at the well")
    });
    // By hand: what the sender has, to somebody who hears neither.
    let Some([mut third, _other]) = two("the mesh", folder.path()) else { return };
    third.succeeds("mezza mesh run &");
    until("the third", || third.types("mezza mesh status").0 == 0);
    for line in typed(GUIDE, "## A third that carries") {
        if line.contains("export") {
            sender.succeeds(&line);
            std::fs::copy(sender.home.join("stick.mzb"), third.home.join("stick.mzb")).unwrap();
        } else if line.starts_with("echo") {
            sender.succeeds(&line);
        } else {
            third.succeeds(&line);
        }
    }
    let mut invitation = String::new();
    for line in typed(GUIDE, "## A network of your own") {
        if line.contains("create") {
            let text = sender.succeeds(&line);
            let word = text.split_whitespace().find(|word| word.starts_with("mezzavoce:n1/"));
            word.expect("an invitation").clone_into(&mut invitation);
        } else {
            third.succeeds(&line.replace("mezzavoce:n1/...", &invitation));
        }
    }
    for line in typed(GUIDE, "## A crowd on one machine") {
        // Two minutes of a village instead of half an hour of a festival.
        third.succeeds(&line.replace("600", "40").replace("--minutes 30", "--minutes 2"));
    }
}
