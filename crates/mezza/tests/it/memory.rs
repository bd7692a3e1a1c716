//! The memory of a process is for nobody else: asked of the system, and of running programs.

use std::env;
use std::fs;
use std::process::Command;

use mezza::testing::process::memory;
use nix::sys::prctl::get_dumpable;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::program::{Program, free_port, until};

/// The value behind `name` in `/proc/PID/FILE`.
fn of_process(pid: u32, file: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// No core file; and no swap, or a line in the log that says so. A machine without any needs none.
fn is_kept(program: &Program) {
    assert_eq!(of_process(program.id(), "limits", "Max core file size"), "0 0 bytes");
    let has_swap = fs::read_to_string("/proc/swaps").unwrap().lines().count() > 1;
    until("locked pages, or a word about them", || {
        let locked = of_process(program.id(), "status", "VmLck:") != "0 kB";
        let said = program.log().contains("keys may reach the swap");
        said == (has_swap && !locked)
    });
}

#[test]
fn msg_62_no_process_gives_its_memory_away() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    let relay = folder.path().join("relay");
    is_kept(&Program::node(&node, &[], &[]));
    is_kept(&Program::relay(&relay, free_port(), &[]));
    // A command that waits for a passphrase: of a pipe that nobody writes to.
    let pipe = folder.path().join("passphrase");
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let file = pipe.to_str().unwrap();
    let init = Program::start(&relay, &["init", "--name", "Ann", "--passphrase-file", file], &[]);
    until("the command", || of_process(init.id(), "limits", "Max core file size") == "0 0 bytes");
    let child = ["--exact", "memory::child_that_keeps_its_memory", "--ignored", "--nocapture"];
    let run = Command::new(env::current_exe().unwrap()).args(child).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("child is done"), "{said}");
}

#[test]
#[ignore = "the process of msg_62"]
fn child_that_keeps_its_memory() {
    assert!(get_dumpable().unwrap());
    memory::protect_memory();
    assert!(!get_dumpable().unwrap());
    assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
    memory::require_closed().unwrap();
    println!("child is done");
}
