//! The leak experiment over the interface, with a program in place of the lab.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::program::{Program, json, ok, passphrase, program_path, until};

const BEGIN: &str = r#"{"kind":"begin","variant":"dh","group":"ristretto255","element":"A","firewall":"none","is_open":true,"secret_bits":128,"block_bits":8,"handshakes":200,"expected":54.0,"seed":7}"#;
const READING: &str = r#"{"kind":"reading","handshake":1,"recovered_bits":8,"read_bits":8,"hits":1,"contradictions":0}"#;
const RESULT: &str = r#"{"kind":"result","agreed":true,"complete":59}"#;
const ORDER: &str = r#"{"variant":"dh","guarded":false,"seed":7}"#;
/// A lab that prints the beginning and does not end, with a process of its own.
const ENDLESS: &str = "/bin/sleep 600 & echo $! $$ > \"$0.pids\"; wait";

/// A node whose program has a folder of its own, in which a lab may lie.
struct Bench {
    folder: tempfile::TempDir,
    node: Program,
}

impl Bench {
    fn new() -> Self {
        let program = program_path();
        // In the same file system, so that a second name of the program is enough.
        let beside = program.parent().unwrap();
        let folder = tempfile::Builder::new().prefix("with-lab-").tempdir_in(beside).unwrap();
        let own = folder.path().join("mezza");
        fs::hard_link(&program, &own).unwrap();
        let home = folder.path().join("home");
        let pass = passphrase(folder.path(), "long enough for all");
        let pass = ["--passphrase-file", pass.to_str().unwrap()];
        ok(&home, &[&["init", "--name", "Ann"], &pass[..]].concat());
        let mut command = Command::new(own);
        command.env_clear().env("HOME", folder.path()).env("MEZZA_TEST_MARK", "of the node");
        command.arg("--home").arg(&home).args(["node", "run", "--port", "0"]).args(pass);
        let node = Program::spawn(&home, command, &[]);
        until("the node", || node.client().is_some());
        Self { folder, node }
    }

    fn lab(&self) -> PathBuf {
        self.folder.path().join("mezza-lab")
    }

    /// The folder in which the lab runs.
    fn files(&self) -> PathBuf {
        self.node.home.join("run/lab")
    }

    /// Writes a lab that prints these lines and goes on with these commands.
    fn write_lab(&self, lines: &[&str], then: &str) {
        let mut script = "#!/bin/sh\n".to_owned();
        script.extend(lines.iter().map(|line| format!("echo '{line}'\n")));
        script += then;
        let new = self.folder.path().join("new");
        fs::write(&new, script + "\n").unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(new, self.lab()).unwrap();
    }

    /// Asks for an experiment over the owner's socket: the status, and the body as it comes.
    fn ask(&self, order: &str) -> (u16, BufReader<UnixStream>) {
        let mut socket = UnixStream::connect(self.node.home.join("run/api.sock")).unwrap();
        socket.write_all(request(order, "").as_bytes()).unwrap();
        let mut answer = BufReader::new(socket);
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        while line != "\r\n" {
            line.clear();
            answer.read_line(&mut line).unwrap();
        }
        (status, answer)
    }

    /// All lines of an experiment.
    fn run(&self) -> Vec<Value> {
        let (status, answer) = self.ask(ORDER);
        assert_eq!(status, 200);
        answer.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }

    fn refusal(&self, order: &str) -> (u16, Value) {
        let (status, mut answer) = self.ask(order);
        let mut body = String::new();
        answer.read_to_string(&mut body).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Starts an experiment without end: its answer, and the numbers of its processes.
    fn begin_endless(&self) -> (BufReader<UnixStream>, Vec<u32>) {
        let pids = self.folder.path().join("mezza-lab.pids");
        let _ = fs::remove_file(&pids);
        self.write_lab(&[BEGIN], ENDLESS);
        let (status, mut answer) = self.ask(ORDER);
        assert_eq!(status, 200);
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        assert_eq!(kind(&serde_json::from_str(&line).unwrap()), "begin");
        let read = || fs::read_to_string(&pids).ok().filter(|text| text.ends_with('\n'));
        until("the processes of the lab", || read().is_some());
        let numbers = read().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
        (answer, numbers)
    }

    /// Waits until nothing of an experiment is left.
    fn until_ended(&self, pids: &[u32]) {
        until("the end of the lab's processes", || pids.iter().all(|pid| has_ended(*pid)));
        until("the end of its files", || !self.files().exists());
    }
}

fn request(order: &str, headers: &str) -> String {
    let length = order.len();
    let kind = "Content-Type: application/json\r\n";
    format!(
        "POST /v1/guard/leak HTTP/1.0\r\n{headers}{kind}Content-Length: {length}\r\n\r\n{order}"
    )
}

/// A process whose new parent has not taken its end yet has ended, too.
fn has_ended(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

fn kind(line: &Value) -> &str {
    line["kind"].as_str().unwrap()
}

#[test]
fn web_28_the_lab_gets_constant_words_and_nothing_of_the_node() {
    let bench = Bench::new();
    let seen = bench.folder.path().join("mezza-lab.seen");
    let then = format!("echo \"$*\" > \"$0.seen\"; /usr/bin/env >> \"$0.seen\"; echo '{RESULT}'");
    bench.write_lab(&[BEGIN, READING], &then);
    let lines = bench.run();
    assert_eq!(lines.iter().map(kind).collect::<Vec<_>>(), ["begin", "reading", "result"]);
    assert_eq!((&lines[0]["expected"], &lines[1]["recovered_bits"]), (&54.0.into(), &8.into()));
    let text = fs::read_to_string(&seen).unwrap();
    let (words, environment) = text.split_once('\n').unwrap();
    let how = "--seed 7 --profile smoke --stream --out .";
    assert_eq!(words, format!("run leak --variant dh --firewall none {how}"));
    // A shell sets these by itself.
    let own = ["PWD", "OLDPWD", "SHLVL", "_"];
    let mut names = environment.lines().map(|line| line.split('=').next().unwrap());
    assert!(names.all(|name| own.contains(&name)), "{environment}");
    for (variant, firewall) in [("dh", "fw"), ("dh-comm", "full"), ("eg", "remaul")] {
        let order = format!(r#"{{"variant":"{variant}","guarded":true,"seed":4294967295}}"#);
        let (status, answer) = bench.ask(&order);
        assert_eq!((status, answer.lines().count()), (200, 3));
        let words = fs::read_to_string(&seen).unwrap();
        let wanted =
            format!("run leak --variant {variant} --firewall {firewall} --seed 4294967295 ");
        assert!(words.starts_with(&wanted), "{words}");
    }
}

#[test]
fn web_28_what_is_not_a_choice_is_refused_and_so_is_a_stranger() {
    let bench = Bench::new();
    bench.write_lab(&[BEGIN, RESULT], "");
    for order in [
        r#"{"variant":"dh; id","guarded":false,"seed":7}"#,
        r#"{"variant":"--help","guarded":false,"seed":7}"#,
        r#"{"variant":"dh","guarded":"fw","seed":7}"#,
        r#"{"variant":"dh","guarded":false,"seed":"7 --out /"}"#,
        r#"{"variant":"dh","guarded":false,"seed":-1}"#,
        r#"{"variant":"dh","guarded":false,"seed":4294967296}"#,
        r#"{"variant":"dh","guarded":false,"seed":7,"out":"/"}"#,
        "{}",
    ] {
        let (status, problem) = bench.refusal(order);
        assert_eq!((status, &problem["code"]), (422, &"malformed".into()), "{order}");
    }
    // Over the port, as any program of this machine.
    let page = json(&bench.node.home, &["url"])[0]["url"].as_str().unwrap().to_owned();
    let host = page.split('/').nth(2).unwrap();
    for (headers, status) in [
        (format!("Host: {host}\r\n"), "401"),
        (format!("Host: {host}\r\nOrigin: http://evil.example\r\n"), "403"),
        ("Host: evil.example\r\n".to_owned(), "421"),
    ] {
        let mut socket = TcpStream::connect(host).unwrap();
        socket.write_all(request(ORDER, &headers).as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
    assert!(!bench.files().exists(), "the lab has never run");
}

#[test]
fn web_28_there_is_one_experiment_at_a_time_and_none_while_locked() {
    let bench = Bench::new();
    let client = bench.node.client().unwrap();
    let missing = || client.get::<Value>("/v1/guard").unwrap()["lab_missing"].clone();
    let words = missing();
    assert!(words.as_str().unwrap().contains("cargo build --release -p mezza-lab"), "{words}");
    let (status, problem) = bench.refusal(ORDER);
    assert_eq!((status, &problem["code"]), (503, &"no_lab".into()), "{problem}");
    let (answer, pids) = bench.begin_endless();
    assert_eq!(missing(), Value::Null);
    let (status, problem) = bench.refusal(ORDER);
    assert_eq!((status, &problem["code"]), (429, &"busy".into()), "{problem}");
    client.act("POST", "/v1/lock").unwrap();
    // The stream ends without a result, and with it everything that belongs to it.
    assert_eq!(answer.lines().count(), 0);
    bench.until_ended(&pids);
    let (status, problem) = bench.refusal(ORDER);
    assert_eq!((status, &problem["code"]), (423, &"locked".into()), "{problem}");
}

#[test]
fn web_29_the_experiment_ends_with_its_reader() {
    let bench = Bench::new();
    let (answer, pids) = bench.begin_endless();
    assert!(!pids.iter().any(|pid| has_ended(*pid)));
    drop(answer);
    bench.until_ended(&pids);
    // The next one may run as soon as the last one has ended.
    bench.write_lab(&[BEGIN, READING, RESULT], ENDLESS);
    until("the turn", || bench.ask(ORDER).0 == 200);
}

#[test]
fn web_29_the_experiment_ends_with_its_node() {
    let mut bench = Bench::new();
    let (_answer, pids) = bench.begin_endless();
    assert_eq!(bench.node.stop(Signal::SIGTERM).0, Some(0), "{}", bench.node.log());
    bench.until_ended(&pids);
}

#[test]
fn web_29_after_its_result_nothing_is_read_and_nothing_goes_on() {
    let bench = Bench::new();
    bench.write_lab(&[BEGIN, READING, RESULT, "later"], ENDLESS);
    let lines = bench.run();
    assert_eq!(lines.iter().map(kind).collect::<Vec<_>>(), ["begin", "reading", "result"]);
    until("the end of its files", || !bench.files().exists());
}

#[test]
fn web_29_a_lab_that_is_none_ends_with_a_fault() {
    let bench = Bench::new();
    let flood = format!("while :; do echo '{READING}'; done");
    let lines_max = 2_000;
    for (then, says, lines) in [
        ("echo hello; exec /bin/sleep 600", "does not know", 3),
        ("echo '{\"kind\":\"reading\"}'; exec /bin/sleep 600", "does not know", 3),
        ("while :; do printf 0123456789abcdef; done", "does not know", 3),
        (&*flood, "does not know", lines_max + 1),
        ("echo 'first' >&2; echo 'the disk is full' >&2; exit 73", "the disk is full", 3),
        ("kill -9 $$", "ended without a result", 3),
    ] {
        bench.write_lab(&[BEGIN, READING], then);
        let found = bench.run();
        assert_eq!(found.len(), lines, "{then}");
        let last = found.last().unwrap();
        assert_eq!(kind(last), "fault", "{then}");
        assert!(last["text"].as_str().unwrap().contains(says), "{then}: {last}");
        assert!(!last["next"].as_str().unwrap().is_empty());
        until("the turn", || !bench.files().exists());
    }
    // A file that is no program.
    fs::write(bench.lab(), "nothing").unwrap();
    fs::set_permissions(bench.lab(), fs::Permissions::from_mode(0o600)).unwrap();
    let (status, problem) = bench.refusal(ORDER);
    assert_eq!(status, 503, "{problem}");
    assert!(problem["next"].as_str().unwrap().contains("-p mezza-lab"), "{problem}");
}
