//! The stream of `run leak`, and its way through a node to the page.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{lab, values};

/// The lines of one experiment: its beginning, its readings and its result.
fn check_stream(lines: &[Value], firewall: &str) -> (Vec<u64>, u64, Value) {
    let begin = &lines[0];
    assert_eq!(begin["kind"], "begin", "{begin}");
    for (name, value) in
        [("variant", "dh"), ("group", "ristretto255"), ("element", "A"), ("firewall", firewall)]
    {
        assert_eq!(begin[name], value, "{begin}");
    }
    assert_eq!(begin["is_open"], firewall == "none", "{begin}");
    let numbers = ["secret_bits", "block_bits", "handshakes", "seed"].map(|name| &begin[name]);
    assert_eq!(numbers, [128, 8, 200, 7].map(Value::from).each_ref());
    let readings = &lines[1..=200];
    for (number, line) in readings.iter().enumerate() {
        assert_eq!((&line["kind"], &line["handshake"]), (&"reading".into(), &(number + 1).into()));
    }
    let bits = readings.iter().map(|line| line["recovered_bits"].as_u64().unwrap());
    let contradictions = readings[199]["contradictions"].as_u64().unwrap();
    let result = lines[201].clone();
    assert_eq!((&result["kind"], &result["agreed"]), (&"result".into(), &true.into()), "{result}");
    (bits.collect(), contradictions, result)
}

fn check_open(lines: &[Value]) {
    let (bits, contradictions, result) = check_stream(lines, "none");
    assert!(bits.is_sorted() && bits[0] == 8 && contradictions == 0, "{bits:?}");
    let complete = bits.iter().position(|bits| *bits == 128).unwrap() + 1;
    assert_eq!(result["complete"], complete, "the same seed, the same experiment");
    assert_eq!(complete, 59);
}

fn check_closed(lines: &[Value]) {
    let (bits, contradictions, _) = check_stream(lines, "fw");
    // Each of 16 blocks is right once in 256: five right ones at a time are no chance.
    assert!(bits.iter().all(|bits| *bits < 40), "{bits:?}");
    assert!(contradictions > 150, "{contradictions}");
}

#[test]
fn guard_59_each_reading_is_a_line_and_the_report_is_the_last_one() {
    for firewall in ["none", "fw"] {
        let folder = tempfile::tempdir().unwrap();
        let output = lab(&["run", "leak", "--firewall", firewall, "--stream"], folder.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let lines = values(&output);
        if firewall == "none" {
            check_open(&lines);
        } else {
            check_closed(&lines);
        }
        assert_eq!((lines.len(), &lines[202]["exp"]), (203, &"leak".into()));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!errors.contains("[#") && !errors.contains("handshake "), "no bar: {errors}");
    }
    let folder = tempfile::tempdir().unwrap();
    for what in [&["wire"][..], &["leak", "wire"]] {
        let output = lab(&[&["run"], what, &["--stream"]].concat(), folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("give it to leak alone"), "{said}");
    }
}

/// A million handshakes take hours: what is read of them was printed while they ran. Without a reader
/// the experiment ends.
#[test]
fn guard_59_readings_are_printed_while_the_experiment_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezza-lab"));
    command.args(["run", "leak", "--stream", "--messages", "1000000", "--profile", "smoke"]);
    command.arg("--out").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["handshakes"], 1_000_000);
    assert_eq!((next()["handshake"].as_u64(), next()["handshake"].as_u64()), (Some(1), Some(2)));
    assert!(child.0.try_wait().unwrap().is_none(), "it runs");
    drop(lines);
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "like `head`");
}

#[test]
fn guard_60_the_bar_of_a_firewall_shows_wrong_blocks() {
    for (firewall, has, has_not) in [
        ("none", ["# read as it is", "[################]  128 of 128 bits recovered"], "x]"),
        ("fw", ["x read wrong", "contradictions so far: "], "handshakes to go"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = lab(&["run", "leak", "--firewall", firewall], folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(has.iter().all(|has| said.contains(has)) && !said.contains(has_not), "{said}");
        let before = said.split("handshake ").next().unwrap();
        assert!(before.contains("one cell for each block of 8 bits"), "{said}");
    }
}

/// A child process, killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program under the name of the messenger, which finds the lab beside itself.
fn mezza(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezza-lab"));
    command.arg0("mezza").env_clear().arg("--home").arg(home).args(args).stdin(Stdio::null());
    command
}

#[test]
fn web_28_a_node_streams_the_experiment_of_the_real_lab() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let pass = folder.path().join("pass");
    write_private(&pass, "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let made = mezza(&home, &[&["init", "--name", "Ann"], &pass[..]].concat()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut node = mezza(&home, &[&["node", "run", "--port", "0", "--json"], &pass[..]].concat());
    let mut node = Killed(node.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    // Its first line is the address of the page, by when it answers.
    let mut said = BufReader::new(node.0.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    for (guarded, check) in [(false, check_open as fn(&[Value])), (true, check_closed)] {
        let order = format!(r#"{{"variant":"dh","guarded":{guarded},"seed":7}}"#);
        let length = order.len();
        let mut socket = UnixStream::connect(home.join("run/api.sock")).unwrap();
        let kind = "Content-Type: application/json";
        write!(
            socket,
            "POST /v1/guard/leak HTTP/1.0\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{order}"
        )
        .unwrap();
        let answer: Vec<String> = BufReader::new(socket).lines().map(Result::unwrap).collect();
        let head = answer.iter().position(String::is_empty).unwrap();
        assert!(answer[0].contains(" 200 "), "{answer:?}");
        assert!(answer.iter().any(|line| line.contains("application/x-ndjson")), "{answer:?}");
        let lines = answer[head + 1..].iter().map(|line| serde_json::from_str(line).unwrap());
        let lines = lines.collect::<Vec<Value>>();
        assert_eq!(lines.len(), 202, "{:?}", lines.last());
        check(&lines);
    }
    assert!(!home.join("run/lab").exists());
}

/// Writes a file that its owner alone can read.
fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
