//! The mixnet's client: its stored rows, and two clients with one mix driven by a list of
//! operations.

mod pair;

use crate::operations::Operations;
use mezza_core::{Machine, PortableBackend};
use mezza_mixnet::client::record::{RECORD_BYTES, RoundRecord};
use mezza_mixnet::client::{Client, Input, Output};
use mezza_mixnet::contact::Intent;
use mezza_mixnet::wire::Frame;
use pair::{OPEN, Pair, Person, SNAPSHOT_BYTES, make_setup};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// Drives two clients: rounds that succeed, fail or come in another order, messages, cuts,
/// restarts, slow disks, damaged frames, clocks that are set back. After each step the rows of both
/// are loaded.
pub fn run_client(data: &[u8]) {
    let mut ops = Operations::new(data);
    let mut pair = Pair::new();
    while let Some(kind) = ops.next_kind(14) {
        let who = ops.draw_below(2);
        match kind {
            0..=2 => {
                pair.run_round();
                pair.end_round(ops.next_byte());
            }
            3 | 4 => {
                let person = &mut pair.people[who];
                let length = 1 + ops.draw_below(256) * 3;
                if person.sent.len() < 30 {
                    let number = person.sent.len() as u8 + 1;
                    person.sent.push((vec![number; length], Some(0)));
                    let at = person.sent.len() - 1;
                    pair.send_message(who, at);
                }
            }
            5 => {
                pair.give_input(who, Input::Down);
                let soon = pair.now.plus_ms(u64::from(ops.next_byte()) * 20);
                pair.run_until(soon);
                pair.join_entry(who);
            }
            6 => pair.restart_client(who),
            7 => {
                pair.people[who].slow = ops.draw_below(2) == 0;
                pair.report_stored(who);
            }
            8 => pair.people[who].lose_jobs = ops.draw_below(4) == 0,
            9 => {
                let length = ops.draw_below(256);
                if let Ok(frame) = Frame::decode(&ops.next_bytes(length)) {
                    pair.give_input(who, Input::Frame { frame, age_ms: 0 });
                }
            }
            10 => {
                let inputs = [
                    Input::Activate(0),
                    Input::Leave(0),
                    Input::Call(0, Intent::Talk),
                    Input::Stored(u64::from(ops.next_byte())),
                    Input::AllowMore(ops.draw_below(2) == 0),
                    Input::Remove(1),
                ];
                if let Some(input) = inputs.into_iter().nth(ops.draw_below(6)) {
                    pair.give_input(who, input);
                }
            }
            11 => {
                pair.run_rounds_crosswise();
                pair.end_round(ops.next_byte());
            }
            12 => pair.put_back(u64::from(ops.next_byte()) * 40),
            _ => {
                let later = pair.now.plus_ms(u64::from(ops.next_byte()) * 30_000);
                pair.run_until(later);
            }
        }
        pair.check_messages();
    }
}

/// Checks that a decoded record encodes to the same bytes.
pub fn check_record(data: &[u8]) {
    let mut row = data.to_vec();
    row.resize(RECORD_BYTES, 0);
    if let Ok(record) = RoundRecord::decode(&row) {
        assert_eq!(record.encode().as_slice(), row);
    }
}

fn make_talked() -> Pair {
    let mut pair = Pair::new();
    for (who, length) in [(0, 700), (1, 20), (0, 300)] {
        pair.people[who].sent.push((vec![who as u8 + 1; length], Some(0)));
        let at = pair.people[who].sent.len() - 1;
        pair.send_message(who, at);
    }
    for fate in [0xff, 0x03, 0x0c, 0xff] {
        pair.run_round();
        pair.end_round(fate);
    }
    pair
}

/// Returns the records of two users who exchanged messages, without their zeros.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let rows = make_talked().people.map(|person| person.rows).into_iter().flatten();
    rows.map(|(_, row)| row).filter(|row| row.len() == RECORD_BYTES).map(trim_row).collect()
}

fn trim_row(mut row: Vec<u8>) -> Vec<u8> {
    let zeros = row.iter().rev().take_while(|byte| **byte == 0).count();
    row.truncate(row.len() - zeros);
    row
}

/// Loads rows, `length u16 | row` each, padded as by a client. Loaded rows must be stored
/// unchanged.
pub fn check_rows(data: &[u8]) {
    let mut rest = data;
    let mut rows = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk() {
        let (row, tail) = tail.split_at(usize::from(u16::from_be_bytes(*length)).min(tail.len()));
        let size = if row.first() == Some(&1) { RECORD_BYTES } else { SNAPSHOT_BYTES };
        let mut row = row.to_vec();
        row.resize(size.max(row.len()), 0);
        rows.push((rows.len() as u64 + 1, row));
        rest = tail;
    }
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let mut stored = |rows: &[(u64, Vec<u8>)]| {
        let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let mut client = Client::<PortableBackend>::restore(make_setup(8), rows, OPEN, rng).ok()?;
        client.handle(Input::AllowMore(false), OPEN, rng).expect("it stores that");
        let mut rows = Vec::new();
        while let Some(output) = client.poll() {
            if let Output::Store { seq, record, .. } = output {
                rows.push((seq, record.to_vec()));
            }
        }
        Some(rows)
    };
    if let Some(once) = stored(&rows) {
        let twice = stored(&once).expect("what a client wrote");
        assert!(once[0].1 == twice[0].1, "a start changed what is stored");
    }
}

/// Returns all rows of two users who exchanged messages.
pub fn row_seeds() -> Vec<Vec<u8>> {
    let of = |person: Person| {
        let rows = person.rows.into_values().map(trim_row);
        rows.flat_map(|row| [&(row.len() as u16).to_be_bytes()[..], &row].concat()).collect()
    };
    make_talked().people.map(of).to_vec()
}
