//! Attacks of a partner who holds the session keys, and the client's own bad luck.

use mezza_mixnet::RoundId;
use mezza_mixnet::Service;
use mezza_mixnet::client::Input;
use mezza_mixnet::client::record::RoundRecord;
use mezza_mixnet::wire::cell::{PIECE_BYTES, Piece};
use mezza_mixnet::wire::{Cell, Frame, FrameBody, MissedReason};

use crate::alone::Alone;

/// A piece of a stream of messages that are as long as messages can be: every piece is full.
fn piece(seq: u32) -> Piece {
    let mut bytes = [seq as u8; PIECE_BYTES];
    if seq.is_multiple_of(40) {
        bytes[..2].copy_from_slice(&8_998_u16.to_be_bytes());
    }
    Piece::new(&bytes).expect("a full piece")
}

/// Returns a cell of the partner: mostly one that brings the stream forward, else any.
fn anything(alone: &mut Alone) -> Cell {
    let (ack, sent) = alone.heard.as_ref().map_or((0, 0), |cell| (cell.ack, cell.seq));
    let seq = match alone.below(8) {
        0 => ack + 31 + alone.below(4),
        1 => ack + alone.below(36),
        2 => ack.saturating_sub(alone.below(40)),
        _ => ack + alone.below(3),
    };
    let given = match alone.below(40) {
        0 => Piece::new(&vec![1; alone.below(226) as usize]),
        1..4 => None,
        _ => Some(piece(seq)),
    };
    let ack = match alone.below(8) {
        0 => sent + alone.below(40),
        1 => alone.below(4),
        _ => sent.saturating_sub(alone.below(3)),
    };
    let sack = if alone.below(4) == 0 { alone.below(u32::MAX) } else { 0 };
    Cell { leaving: alone.below(40) == 0, seq, ack, sack, piece: given }
}

#[test]
fn mix_41_slow_whatever_partner_entry_and_clock_do_the_rows_are_read_and_go_on() {
    mezza_sim::for_each_seed(100, |seed| {
        let mut alone = Alone::new(seed, 1 + (seed % 3) as u8);
        for step in 0..160 {
            let cell = anything(&mut alone);
            match alone.below(24) {
                0 => {
                    alone.give(Input::Down);
                    let end = alone.now.plus_ms(3_000);
                    alone.until(end);
                    alone.join();
                }
                1 => {
                    alone.restart();
                    let end = alone.now.plus_ms(3_000);
                    alone.until(end);
                    alone.join();
                }
                2 | 3 => {
                    alone.slow = !alone.slow;
                    alone.say();
                }
                4 | 5 => {
                    let length = 1 + alone.below(900) as usize;
                    alone.write(step, vec![step as u8; length]);
                }
                6 => {
                    let back = u64::from(alone.below(1_500));
                    let now = alone.now.minus_ms(back);
                    alone.sleep(now);
                }
                7 => {
                    let end = alone.now.plus_ms(u64::from(alone.below(9_000)));
                    alone.sleep(end);
                }
                8 | 9 => {
                    // The later one of two rounds closes first, by the word of the entry.
                    let (round, open) = alone.next_round();
                    alone.until(open.minus_ms(200));
                    let (later, _) = alone.next_round();
                    alone.announce(round, 1_500);
                    alone.announce(later, -1_500);
                    alone.until(open.plus_ms(3_000));
                    alone.end_round(&cell);
                }
                10 => {
                    let (round, open) = alone.next_round();
                    alone.until(open.minus_ms(200));
                    alone.announce(round, 0);
                    let into_it = alone.below(1_000).into();
                    alone.until(open.plus_ms(into_it));
                    let id = RoundId { service: Service::Conversation, round };
                    alone.frame(Frame::Round(id, FrameBody::Missed(MissedReason::Late)));
                    alone.announce(round, 300);
                }
                11 => alone.give(Input::Activate(0)),
                _ => alone.run_round(&cell),
            }
            alone.look();
        }
    });
}

#[test]
fn mix_41_a_piece_that_came_at_the_end_of_the_window_is_read_again() {
    let mut alone = Alone::new(1, 1);
    let cell = |seq: u32| Cell { leaving: false, seq, ack: 0, sack: 0, piece: Some(piece(seq)) };
    // What is recorded was inside a window that the record before does not tell.
    alone.run_round(&cell(0));
    alone.run_round(&cell(33));
    for seq in 1..39 {
        alone.run_round(&cell(seq));
        alone.look();
    }
    assert_eq!(alone.heard.as_ref().map(|cell| cell.ack), Some(37));
}

#[test]
fn rows_whose_rounds_descend_as_versions_before_wrote_them_are_read() {
    let mut alone = Alone::new(2, 1);
    alone.write(1, vec![7; 600]);
    for _ in 0..4 {
        let ack = alone.heard.as_ref().map_or(0, |cell| cell.seq);
        let seq = 0;
        alone.run_round(&Cell { leaving: false, seq, ack, sack: 0, piece: None });
    }
    // The rounds of two records change places, as if the later one had been sealed first.
    let records: Vec<(u64, RoundRecord)> = alone
        .rows
        .iter()
        .filter_map(|(seq, row)| Some((*seq, RoundRecord::decode(row).ok()?)))
        .collect();
    let [.., (a, first), (b, second)] = &records[..] else { panic!("two records") };
    let changed = |record: &RoundRecord, of: &RoundRecord| {
        RoundRecord { id: of.id, ..record.clone() }.encode().to_vec()
    };
    alone.rows.insert(*a, changed(first, second));
    alone.rows.insert(*b, changed(second, first));
    alone.look();
}

#[test]
fn mix_22_what_is_durable_after_its_time_does_not_leave() {
    for late in [false, true] {
        let mut alone = Alone::new(3, 1);
        let (round, open) = alone.next_round();
        alone.until(open.minus_ms(200));
        alone.slow = true;
        alone.announce(round, 0);
        while alone.client.last_sealed(Service::Conversation) != Some(round) {
            alone.next();
        }
        assert!(alone.submits.is_empty(), "it is sealed and wrapped, and not durable");
        if late {
            alone.sleep(open.plus_ms(1_000));
        }
        alone.slow = false;
        alone.say();
        assert_eq!(alone.submits.is_empty(), late);
    }
}

#[test]
fn a_cell_that_acknowledges_what_was_never_sent_is_ignored_with_its_data() {
    let short = |text: &[u8]| Piece::new(&[&(text.len() as u16).to_be_bytes()[..], text].concat());
    let mut alone = Alone::new(4, 1);
    let cell = |ack| Cell { leaving: false, seq: 0, ack, sack: 0, piece: short(b"hello") };
    alone.run_round(&cell(1));
    alone.run_round(&cell(1));
    assert!(alone.received.is_empty());
    alone.run_round(&cell(0));
    assert_eq!(alone.received, [b"hello".to_vec()]);
}

#[test]
fn mix_51_settings_and_no_clock_tell_which_rounds_a_row_that_is_not_read_can_be_of() {
    const HOUR_MS: u64 = 3_600_000;
    for (ahead_ms, back_ms) in [(0, 0), (HOUR_MS, 0), (0, HOUR_MS)] {
        let mut alone = Alone::new(7, 1);
        alone.run_round(&Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None });
        let next = alone.rows.keys().next_back().expect("a record") + 1;
        alone.rows.insert(next, vec![9; 2_048]);
        let ahead = alone.now.plus_ms(120_000);
        let behind = alone.now;
        alone.now = behind.plus_ms(ahead_ms).minus_ms(back_ms);
        alone.restart();
        // The next snapshot has no room for the row.
        alone.until(alone.now.plus_ms(61_000));
        assert!(!alone.rows.contains_key(&next));
        alone.now = ahead;
        alone.restart();
        alone.until(ahead.plus_ms(2_000));
        alone.join();
        let mut told = Vec::new();
        let mut sealed = Vec::new();
        for _ in 0..40 {
            let (round, open) = alone.next_round();
            alone.until(open.minus_ms(200));
            alone.announce(round, 0);
            alone.until(open.plus_ms(1_000));
            told.push(round);
            sealed.extend(alone.submits.pop().map(|(id, _)| id.round));
        }
        // From a request for keys to the opening it is 1 s, clocks differ by 60 s, a round takes 2 s.
        assert_eq!(sealed.first(), Some(&(told[0] + 31)), "{ahead_ms} ahead, {back_ms} behind");
    }
}
