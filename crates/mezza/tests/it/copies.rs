//! One home twice: a copy of it runs beside the original, on another machine as far as anybody can
//! tell, while a contact writes and answers.
//!
//! ```text
//! Ann's node  --+
//!               +--> relay <--> Ben's node        both read Ann's mailbox, both write under her numbers
//! its copy    --+
//! ```
//!
//! Held all the time: what any of the three shows as delivered is on the other device. A run writes for
//! a minute unless `MEZZA_TEST_TWINS_S=n` says otherwise.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mezza::testing::api::json::Health;
use nix::sys::signal::Signal;

use crate::program::{Program, json, mezza, ok, until};
use crate::two_homes::World;

/// How long all of them write in a run that does not say otherwise.
const SECONDS: u64 = 60;
/// How long the pair may take to heal.
const HEALING: Duration = Duration::from_secs(11 * 60);
/// Between two rounds of notes.
const PAUSE: Duration = Duration::from_secs(2);

/// The texts of a thread that came in, or that went out and have a receipt.
fn texts(home: &Path, name: &str, incoming: bool) -> BTreeSet<String> {
    let notes = json(home, &["log", name, "-n", "500"]);
    let proven = |state: &str| matches!(state, "delivered" | "read");
    let chosen = notes.iter().filter(|note| {
        note["incoming"] == incoming && (incoming || proven(note["state"].as_str().unwrap()))
    });
    chosen.map(|note| note["text"].as_str().unwrap().to_owned()).collect()
}

/// The text of the mailbox's light where it is out.
fn mailbox_trouble(node: &Program) -> Option<String> {
    let health: Health = node.client()?.get("/v1/health").ok()?;
    health.lines.into_iter().find(|line| line.name == "mailbox" && !line.ok).map(|line| line.text)
}

fn trouble(home: &Path, name: &str) -> Option<String> {
    json(home, &["contacts", name])[0]["trouble"].as_str().map(str::to_owned)
}

/// Ann, her copy, and Ben.
struct Twins {
    ann: PathBuf,
    copy: PathBuf,
    ben: PathBuf,
}

impl Twins {
    /// Asks the receivers after the writers, so that a note may arrive in between, but not be lost.
    fn assert_nothing_false(&self) {
        let claimed = [&self.ann, &self.copy].map(|home| texts(home, "Ben", false));
        let ben = texts(&self.ben, "Ann", true);
        for (claimed, who) in claimed.iter().zip(["the original", "the copy"]) {
            let false_ones: Vec<_> = claimed.difference(&ben).collect();
            assert!(false_ones.is_empty(), "{who} shows what Ben lacks: {false_ones:?}");
        }
        let claimed = texts(&self.ben, "Ann", false);
        let [one, other] = [&self.ann, &self.copy].map(|home| texts(home, "Ben", true));
        let lacking = claimed.iter().filter(|text| !one.contains(*text) && !other.contains(*text));
        let lacking: Vec<_> = lacking.collect();
        assert!(lacking.is_empty(), "Ben shows what neither has: {lacking:?}");
    }

    /// Everybody writes for a while; which of the original, the copy and Ben were told.
    fn write(&self, nodes: [&Program; 2], time: Duration) -> [BTreeSet<String>; 3] {
        let began = Instant::now();
        let mut told = <[BTreeSet<String>; 3]>::default();
        for n in 0.. {
            if began.elapsed() > time {
                break;
            }
            let both = [(&self.ann, "Ben", "original"), (&self.copy, "Ben", "copy")];
            // Now and then the same words, which are two notes all the same.
            let same =
                |who: &str| if n % 5 == 4 { format!("ok {n}") } else { format!("{who} {n}") };
            for (home, to, who) in both.into_iter().chain([(&self.ben, "Ann", "ben")]) {
                mezza(home, &["send", to, &same(who)]);
            }
            std::thread::sleep(PAUSE);
            self.assert_nothing_false();
            for (told, node) in told.iter_mut().zip(nodes) {
                told.extend(mailbox_trouble(node));
            }
            told[2].extend(trouble(&self.ben, "Ann"));
        }
        told
    }
}

#[test]
fn msg_95_slow_two_copies_of_a_home_show_nothing_false() {
    let world = World::start();
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let mut original = world.node(&ann);
    let _ben_node = world.node(&ben);
    ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
    ok(&ben, &["add", ok(&ann, &["card"]).trim()]);
    ok(&ann, &["send", "Ben", "hello", "--wait", "delivered"]);
    ok(&ben, &["send", "Ann", "hello Ann", "--wait", "delivered"]);
    original.stop(Signal::SIGTERM);
    let copy = world.folder().join("copy");
    assert!(Command::new("cp").arg("-a").args([&ann, &copy]).status().unwrap().success());
    let twins = Twins { ann, copy, ben };

    let original = world.node(&twins.ann);
    let second = world.node(&twins.copy);
    let time = std::env::var("MEZZA_TEST_TWINS_S").map_or(SECONDS, |s| s.parse().unwrap());
    let [one, other, ben_was_told] = twins.write([&original, &second], Duration::from_secs(time));
    println!("the original was told {one:?}, the copy {other:?}, Ben {ben_was_told:?}");
    let said = "another device reads";
    assert!(one.iter().chain(&other).any(|text| text.contains(said)), "Ann was not told");
    assert!(!ben_was_told.is_empty(), "Ben was not told");

    // Once the copy is gone, what is written arrives.
    drop(second);
    ok(&twins.ann, &["send", "Ben", "alone again"]);
    ok(&twins.ben, &["send", "Ann", "good"]);
    // Sessions begin anew once in ten minutes at most, and the last one may have begun just now.
    let end = Instant::now() + HEALING;
    let arrived = || {
        let here = texts(&twins.ann, "Ben", true).contains("good");
        here && texts(&twins.ben, "Ann", true).contains("alone again")
    };
    while !arrived() {
        assert!(Instant::now() < end, "not healed within {HEALING:?}");
        std::thread::sleep(PAUSE);
    }
    until("a good light", || mailbox_trouble(&original).is_none());
    let claimed = texts(&twins.ann, "Ben", false);
    assert!(claimed.is_subset(&texts(&twins.ben, "Ann", true)), "{claimed:?}");
}
