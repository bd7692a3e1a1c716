//! `mezza ratchet peer`: two devices that speak by lines, each a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::program::command;

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(home: &std::path::Path, suite: &str) -> Self {
        let mut command = command(home, &["ratchet", "peer", "--suite", suite]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// What stands behind `ok`.
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let answer = answer.trim_end_matches('\n');
        answer.strip_prefix("ok").unwrap_or_else(|| panic!("{line}: {answer}")).trim_start().into()
    }

    fn end(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn two_peers_talk_in_every_suite() {
    let home = tempfile::tempdir().unwrap();
    for suite in ["b2c20", "b2c20-pq", "signal-v3", "signal-v4"] {
        let (mut one, mut two) = (Peer::start(home.path(), suite), Peer::start(home.path(), suite));
        let bundle = two.ask("bundle");
        assert_eq!(one.ask(&format!("process {bundle}")), "");
        for (body, kind) in [("", "3"), ("00ff", "2"), ("01", "2")] {
            let message = one.ask(&format!("enc {body}"));
            assert!(message.starts_with(kind), "{suite} {message}");
            assert_eq!(two.ask(&format!("dec {message}")), body);
            let message = two.ask(&format!("enc {body}"));
            assert!(message.starts_with('2'));
            assert_eq!(one.ask(&format!("dec {message}")), body);
        }
        let key = bundle.split(' ').rfind(|field| field.len() == 66).unwrap();
        let sig = two.ask("sign 0102");
        assert_eq!(one.ask(&format!("verify {key} 0102 {sig}")), "1");
        assert_eq!(one.ask(&format!("verify {key} 0103 {sig}")), "0");
        assert_eq!(one.ask(&format!("number   {key}")).split(' ').next().unwrap().len(), 60);
        assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
    }
}

#[test]
fn a_line_without_end_ends_it() {
    let home = tempfile::tempdir().unwrap();
    let mut peer = Peer::start(home.path(), "b2c20");
    let long = vec![b'0'; (8 << 20) + 2];
    // It may stop reading before all is written.
    let _ = peer.input.write_all(&long);
    assert_eq!(peer.end(), Some(65));
}
