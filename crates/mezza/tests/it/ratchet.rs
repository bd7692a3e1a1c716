//! `mezza ratchet peer`: two devices that speak by lines, each a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::program::command;

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(home: &Path, suite: &str) -> Self {
        Self::with(home, suite, &[])
    }

    fn with(home: &Path, suite: &str, more: &[&str]) -> Self {
        let args = [&["ratchet", "peer", "--suite", suite], more].concat();
        let mut command = command(home, &args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        Self { child, input, output: BufReader::new(output) }
    }

    /// The answer to a line.
    fn say(&mut self, line: &[u8]) -> String {
        self.input.write_all(&[line, b"\n"].concat()).unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end_matches('\n').into()
    }

    /// The fields behind `ok`.
    fn ask(&mut self, line: &str) -> String {
        let answer = self.say(line.as_bytes());
        answer.strip_prefix("ok").unwrap_or_else(|| panic!("{line}: {answer}")).trim_start().into()
    }

    /// The word behind `err`; what was refused leaves the state as it was.
    fn refuses(&mut self, line: &[u8]) -> String {
        let before = self.ask("hash");
        let answer = self.say(line);
        let mut words = answer.split(' ');
        assert_eq!(words.next(), Some("err"), "{answer}");
        let code = words.next().unwrap().to_owned();
        assert!(words.next().is_some(), "a text for people: {answer}");
        assert_eq!(self.ask("hash"), before, "{code} changed the state");
        code
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
        let mut one = Peer::start(home.path(), suite);
        let mut two = Peer::start(home.path(), suite);
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

/// A bundle whose one-time key is left out.
fn without_one_time(bundle: &str, suite: &str) -> String {
    let at = if suite.starts_with("signal") { 2 } else { 1 };
    let fields = bundle.split(' ').enumerate();
    fields.map(|(i, field)| if i == at { "-" } else { field }).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_refused_message_is_named_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    for suite in ["b2c20", "b2c20-pq", "signal-v3", "signal-v4"] {
        let mut one = Peer::start(home.path(), suite);
        let mut two = Peer::start(home.path(), suite);
        let bundle = two.ask("bundle");
        assert_eq!(one.refuses(b"enc 00"), "no-session");
        assert_eq!(one.refuses(b"dec 2 33"), "no-session");
        one.ask(&format!("process {bundle}"));
        let first = one.ask("enc 00");
        // The last byte is under the tag, or a tag itself.
        let forged = format!("{}{}", &first[..first.len() - 1], other(&first[first.len() - 1..]));
        let forged = two.refuses(format!("dec {forged}").as_bytes());
        assert!(["forged", "unknown-prekey"].contains(&forged.as_str()), "{suite}: {forged}");
        let before = two.ask("hash");
        two.ask(&format!("dec {first}"));
        assert_ne!(two.ask("hash"), before, "what opened is remembered");
        assert_eq!(two.refuses(format!("dec {first}").as_bytes()), "duplicate");
        assert_eq!(two.refuses(b"dec 2 ff00"), "malformed");
        // The one-time key is used up: the same bundle begins a session that nobody accepts.
        let mut three = Peer::start(home.path(), suite);
        three.ask(&format!("process {bundle}"));
        let late = three.ask("enc 01");
        let refused = two.refuses(format!("dec {late}").as_bytes());
        assert_eq!(refused, "forged", "a peer has one contact");
        assert_eq!(
            three.refuses(format!("process {}", one.ask("bundle")).as_bytes()),
            "other-contact"
        );
    }
}

fn other(digit: &str) -> &str {
    if digit == "0" { "1" } else { "0" }
}

#[test]
fn what_is_wrong_with_a_bundle_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut one = Peer::start(home.path(), "signal-v4");
    let mut two = Peer::start(home.path(), "signal-v4");
    let bundle = two.ask("bundle");
    let fields: Vec<&str> = bundle.split(' ').collect();
    let with = |at: usize, field: &str| {
        let mut changed = fields.clone();
        changed[at] = field;
        format!("process {}", changed.join(" "))
    };
    let cases = [
        (format!("process {}", fields[..7].join(" ")), "no-kem"),
        (with(1, "0"), "bad-id"),
        (with(1, "4294967296"), "field"),
        (with(1, "-1"), "field"),
        (with(2, &format!("05{}", "00".repeat(32))), "bad-key"),
        (with(5, &"00".repeat(64)), "bad-signature"),
        (with(9, &"00".repeat(64)), "bad-signature"),
        (with(8, &format!("07{}", &fields[8][2..])), "field"),
        (format!("process {}", fields[..6].join(" ")), "line"),
    ];
    for (line, code) in cases {
        assert_eq!(one.refuses(line.as_bytes()), code, "{}", &line[..60]);
    }
    one.ask(&with(1, "4294967295"));
    let message = one.ask("enc 00");
    assert_eq!(two.refuses(format!("dec {message}").as_bytes()), "unknown-prekey");
    let mut three = Peer::start(home.path(), "signal-v3");
    assert_eq!(three.refuses(format!("dec {message}").as_bytes()), "suite-unsupported");
}

#[test]
fn a_device_offers_one_key_after_the_other_and_rotates_when_it_is_told() {
    let home = tempfile::tempdir().unwrap();
    for (suite, one_time, identity) in [("b2c20", 1, 2), ("signal-v3", 2, 6)] {
        let mut peer = Peer::with(home.path(), suite, &["--one-time", "3"]);
        let field = |offer: &str, at: usize| offer.split(' ').nth(at).unwrap().to_owned();
        let first = peer.ask("bundle");
        let offers = [first.clone(), peer.ask("offer"), peer.ask("offer"), peer.ask("offer")];
        let keys = offers.clone().map(|offer| field(&offer, one_time));
        assert_eq!((keys[3].as_str(), keys[..3].contains(&keys[3])), ("-", false));
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        assert!(offers.iter().all(|offer| field(offer, 0) == field(&first, 0)));
        let rotated = peer.ask("rotate");
        assert_eq!(field(&rotated, identity), field(&first, identity), "the same device");
        assert_ne!(without_one_time(&rotated, suite), without_one_time(&offers[3], suite));
        // Sessions of three bundles of one device, and one without a one-time key.
        for offer in [&first, &offers[1], &offers[3], &rotated] {
            let mut other = Peer::start(home.path(), suite);
            other.ask(&format!("process {offer}"));
            let message = other.ask("enc 0a");
            let mut copy = Peer::start(home.path(), suite);
            assert_eq!(copy.refuses(format!("dec {message}").as_bytes()), "unknown-prekey");
        }
        assert_ne!(field(&peer.ask("bundle"), identity), field(&first, identity), "a new device");
    }
}

#[test]
fn a_seed_and_a_clock_make_a_run_that_repeats() {
    let home = tempfile::tempdir().unwrap();
    let seed = "07".repeat(32);
    let other = "08".repeat(32);
    let now = 1_800_000_000_000_u64;
    let clock = now.to_string();
    let run = |seed: &str| {
        let given = ["--seed", seed, "--now", &clock];
        let mut one = Peer::with(home.path(), "b2c20-pq", &given);
        let mut two = Peer::with(home.path(), "b2c20-pq", &["--seed", &other, "--now", &clock]);
        let bundle = two.ask("bundle");
        one.ask(&format!("process {bundle}"));
        let first = one.ask("enc 00");
        two.ask(&format!("dec {first}"));
        let reply = two.ask("enc 01");
        one.ask(&format!("dec {reply}"));
        [bundle, first, reply, one.ask("hash"), two.ask("hash"), one.ask("sign 00")]
    };
    assert_eq!(run(&seed), run(&seed));
    assert_ne!(run(&seed), run(&other));

    // The clock moves when it is told to: a bundle expires, prekeys are rotated and wiped.
    let mut two = Peer::with(home.path(), "b2c20", &["--now", &clock]);
    let mut one = Peer::with(home.path(), "b2c20", &["--now", &clock]);
    let bundle = two.ask("bundle");
    let day = 86_400_000;
    one.ask(&format!("now {}", now + 16 * day));
    assert_eq!(one.refuses(format!("process {bundle}").as_bytes()), "expired");
    one.ask(&format!("now {now}"));
    one.ask(&format!("process {bundle}"));
    let first = one.ask("enc 00");
    two.ask(&format!("now {}", now + 31 * day));
    assert_ne!(two.ask("offer").split(' ').next(), bundle.split(' ').next(), "rotated");
    assert_eq!(two.refuses(format!("dec {first}").as_bytes()), "unknown-prekey");
    assert_eq!(Peer::start(home.path(), "b2c20").refuses(b"now 5"), "no-clock");
}

/// Whatever a line is, it is answered, and the next one is served.
#[test]
fn a_bad_line_is_answered_and_is_not_the_end() {
    let home = tempfile::tempdir().unwrap();
    let mut peer = Peer::start(home.path(), "b2c20");
    let long = vec![b'0'; (8 << 20) + 9];
    let lines: [(&[u8], &str); 9] = [
        (b"", "line"),
        (b"hello", "line"),
        (b"enc", "line"),
        (b"enc 0", "field"),
        (b"enc \xff\xfe", "not-utf8"),
        (b"dec 4 00", "line"),
        (b"process 00 - 05", "field"),
        (b"now x", "field"),
        (&long, "long-line"),
    ];
    for (line, code) in lines {
        assert_eq!(peer.refuses(line), code, "{:?}", &line[..line.len().min(20)]);
    }
    peer.ask("bundle");
    assert_eq!(peer.end(), Some(0));
}

#[test]
fn a_line_without_end_ends_with_the_input() {
    let home = tempfile::tempdir().unwrap();
    let mut peer = Peer::start(home.path(), "b2c20");
    peer.input.write_all(&vec![b'0'; (8 << 20) + 2]).unwrap();
    assert_eq!(peer.end(), Some(0));
}
