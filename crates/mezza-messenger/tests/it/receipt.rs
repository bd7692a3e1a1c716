//! Receipts: the files, rule MSG-14, a naive twin, any bytes.

use std::collections::BTreeSet;

use mezza_core::{Reader, Writer};
use mezza_messenger::note::{Era, Receipt};
use mezza_messenger::receipt::{REACH, SeqStatus, Window};
use proptest::prelude::*;

use mezza_testing::Case;

use crate::case::{reason, walk};

const ERA: Era = Era([0xe0, 0xe1, 0xe2, 0xe3]);

fn receipt(text: &str) -> Receipt {
    let fields: Vec<_> = text.split('/').collect();
    Receipt {
        what: Receipt::DELIVERED,
        era: ERA,
        floor: fields[0].parse().unwrap(),
        base: fields[1].parse().unwrap(),
        bits: u64::from_str_radix(fields[2], 16).unwrap(),
    }
}

fn tell(window: &mut Window, story: &Case) {
    for (verb, told) in story.lines() {
        let mut words = told.split_whitespace();
        let mut number = || words.next().unwrap().parse::<u32>().unwrap();
        let about = format!("{} {verb} {told}", story.name());
        match verb {
            "expect" => {}
            "insert" => {
                let seq = number();
                assert_eq!(reason(window.check_seq(seq)), reason(window.clone().insert(seq)));
                assert_eq!(reason(window.insert(seq)), words.next().unwrap(), "{about}");
            }
            "insert_all" => {
                for seq in number()..=number() {
                    assert_eq!(window.insert(seq), SeqStatus::Fresh, "{about} {seq}");
                }
            }
            "void" => {
                let recorded = window.void_range(number(), number());
                assert_eq!(recorded.to_string(), words.next().unwrap(), "{about}");
            }
            "answer" => {
                let answer = window.answer_void(Receipt::DELIVERED, number(), number());
                assert_eq!(answer, words.map(receipt).collect::<Vec<_>>(), "{about}");
            }
            "receipts" => {
                let receipts = window.list_receipts(Receipt::DELIVERED);
                assert_eq!(receipts, words.map(receipt).collect::<Vec<_>>(), "{about}");
            }
            "now" => {
                let expected = (number(), number() as usize);
                assert_eq!((window.floor(), window.count_missing()), expected, "{about}");
                assert_eq!(&stored(window), window, "{about}");
            }
            _ => panic!("{about}"),
        }
    }
}

/// The window, written and read again.
fn stored(window: &Window) -> Window {
    let mut w = Writer::new();
    window.write(&mut w);
    assert!(w.len() <= 395);
    Reader::decode_exact(w.as_slice(), Window::read).unwrap()
}

#[test]
fn stories_of_the_files() {
    let cases = walk("receipts", 15);
    for case in cases.iter().filter(|case| !case.has_key("receipt")) {
        tell(&mut Window::new(ERA), case);
    }
}

#[test]
fn msg_14_for_a_voided_note_a_bit_alone_is_evidence() {
    let cases = walk("receipts", 15);
    let cases: Vec<_> = cases.iter().filter(|case| case.has_key("receipt")).collect();
    assert!(cases.len() >= 5);
    for case in cases {
        let receipt = receipt(case.text("receipt"));
        let proved = |voided| {
            let asked = case.text("asked").split(' ').map(|seq| seq.parse::<u32>().unwrap());
            let yes =
                asked.filter(|seq| receipt.proves_seq(*seq, voided)).map(|seq| seq.to_string());
            yes.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(proved(false), case.text("kept"), "{}", case.name());
        assert_eq!(proved(true), case.text("voided"), "{}", case.name());
    }
}

/// A note that its writer gave up is never shown as delivered unless it lies on the reader's disk,
/// in whatever order note, void and receipts come.
#[test]
fn msg_14_a_void_that_overtakes_its_note_proves_nothing() {
    let mut window = Window::new(ERA);
    window.insert(1);
    assert!(window.void_range(2, 3));
    assert_eq!(window.insert(2), SeqStatus::Voided);
    window.insert(4);
    let mut receipts = window.list_receipts(Receipt::DELIVERED);
    receipts.extend(window.answer_void(Receipt::DELIVERED, 2, 3));
    assert_eq!(window.floor(), 4);
    for seq in [2, 3] {
        assert!(!receipts.iter().any(|receipt| receipt.proves_seq(seq, true)));
    }
    for seq in [1, 4] {
        assert!(receipts.iter().any(|receipt| receipt.proves_seq(seq, false)));
    }
}

#[test]
fn the_end_of_all_seqs_is_no_edge() {
    let mut window = Window::new(ERA);
    assert!(window.void_range(1, u32::MAX - 3));
    assert_eq!(window.insert(u32::MAX), SeqStatus::Fresh);
    assert_eq!((window.floor(), window.count_missing()), (u32::MAX - 3, 2));
    let [receipt] = window.list_receipts(Receipt::READ)[..] else { panic!("one receipt") };
    assert_eq!((receipt.base, receipt.bits, receipt.what), (u32::MAX, 1, 2));
    assert!(window.void_range(u32::MAX - 2, u32::MAX));
    assert_eq!((window.floor(), window.count_missing()), (u32::MAX, 0));
    assert_eq!(window.answer_void(1, 1, u32::MAX).len(), 1, "the one that arrived");
    assert!(window.void_range(1, u32::MAX));
    assert_eq!(window.insert(u32::MAX), SeqStatus::Known);
    assert_eq!(window.insert(u32::MAX - 1), SeqStatus::Voided);
    assert_eq!(stored(&window), window);
}

#[test]
fn seq_0_leaves_no_trace() {
    let mut window = Window::new(ERA);
    assert_eq!(window.insert(0), SeqStatus::Fresh);
    assert_eq!(window, Window::new(ERA));
    assert!(window.list_receipts(Receipt::DELIVERED).is_empty());
}

#[test]
fn what_lies_deep_is_known_and_has_no_bit() {
    let mut window = Window::new(ERA);
    window.insert(1);
    window.void_range(2, 2);
    for seq in 3..=REACH + 2 {
        assert_eq!(window.insert(seq), SeqStatus::Fresh);
    }
    assert_eq!(window.insert(2), SeqStatus::Known, "forgotten that it was voided");
    assert_eq!(window.answer_void(Receipt::DELIVERED, 1, 2), []);
    assert_eq!(window.answer_void(Receipt::DELIVERED, 3, 3).len(), 1);
}

#[test]
fn a_window_that_cannot_be_is_refused() {
    // era, floor, then arrived, voided, passed: number of words, words.
    let read = |rows: &[&[u8]], floor: u32| {
        let bytes = [&ERA.0, floor.to_be_bytes().as_slice(), &rows.concat()].concat();
        Reader::decode_exact(&bytes, Window::read).is_ok()
    };
    let word = |bits: u64| [&[1], bits.to_be_bytes().as_slice()].concat();
    assert!(read(&[&word(2), &word(4), &word(1)], 9));
    assert!(!read(&[&word(1), &[0], &[0]], 9), "the floor would have moved");
    assert!(!read(&[&[0], &word(1), &[0]], 9), "the floor would have moved");
    assert!(!read(&[&word(2), &word(2), &[0]], 9), "arrived and voided");
    assert!(!read(&[&word(0), &[0], &[0]], 9), "not the shortest form");
    assert!(!read(&[&[0], &[0], &word(1 << 9)], 9), "seq 0 was voided");
    assert!(!read(&[&word(2), &[0], &[0]], u32::MAX - 1), "above the last seq");
    assert!(!read(&[&[17], &[0], &[0]], 9), "1,088 bits");
}

/// The window as it is meant: two sets, no limit below the floor.
#[derive(Default)]
struct Twin {
    arrived: BTreeSet<u32>,
    voided: BTreeSet<u32>,
    floor: u32,
}

impl Twin {
    fn settle(&mut self) {
        while self.arrived.contains(&(self.floor + 1)) || self.voided.contains(&(self.floor + 1)) {
            self.floor += 1;
        }
    }

    fn insert(&mut self, seq: u32) -> SeqStatus {
        if seq > self.floor + REACH {
            return SeqStatus::TooFar;
        }
        if self.voided.contains(&seq) {
            return SeqStatus::Voided;
        }
        let fresh = self.arrived.insert(seq);
        self.settle();
        if fresh { SeqStatus::Fresh } else { SeqStatus::Known }
    }

    fn void(&mut self, from: u32, to: u32) -> bool {
        let end = self.floor + REACH;
        let last = if from <= self.floor + 1 { to } else { to.min(end) };
        for seq in (from..=last).filter(|seq| !self.arrived.contains(seq)) {
            self.voided.insert(seq);
        }
        self.settle();
        to <= end || to <= self.floor
    }

    fn missing(&self) -> usize {
        let last = self.arrived.iter().chain(&self.voided).copied().max().unwrap_or(0);
        let settled = |seq: &u32| self.arrived.contains(seq) || self.voided.contains(seq);
        (self.floor + 1..=last).filter(|seq| !settled(seq)).count()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Void(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..40u32).prop_map(Step::Insert),
        2 => (1..900u32).prop_map(Step::Insert),
        2 => (1..60u32, 0..5u32).prop_map(|(from, more)| Step::Void(from, from + more)),
        1 => (1..60u32, 0..400u32).prop_map(|(from, more)| Step::Void(from, from + more)),
    ]
}

proptest! {
    #[test]
    fn the_window_does_as_its_twin(steps in proptest::collection::vec(step(), 0..60)) {
        let mut window = Window::new(ERA);
        let mut twin = Twin::default();
        for step in steps {
            match step {
                Step::Insert(seq) => prop_assert_eq!(window.insert(seq), twin.insert(seq)),
                Step::Void(from, to) => prop_assert_eq!(window.void_range(from, to), twin.void(from, to)),
            }
            prop_assert_eq!(window.floor(), twin.floor);
            prop_assert_eq!(window.count_missing(), twin.missing());
            prop_assert_eq!(&stored(&window), &window);
        }
        let receipts = window.list_receipts(Receipt::DELIVERED);
        let answers = window.answer_void(Receipt::DELIVERED, 1, u32::MAX);
        prop_assert!(receipts.len() <= 16 && answers.len() <= 32);
        for seq in 0..1_000 {
            let settled = twin.arrived.contains(&seq) || (seq > 0 && seq <= twin.floor);
            prop_assert_eq!(receipts.iter().any(|r| r.covers_seq(seq)), settled);
            let has_bit = answers.iter().any(|r| r.proves_seq(seq, true));
            prop_assert_eq!(has_bit, twin.arrived.contains(&seq));
        }
    }

    #[test]
    fn any_bytes_are_no_harm(bytes in proptest::collection::vec(0..18u8, 0..400)) {
        if let Ok(window) = Reader::decode_exact(&bytes, Window::read) {
            prop_assert_eq!(stored(&window), window);
        }
    }
}
