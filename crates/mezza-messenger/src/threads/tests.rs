//! Digests beside the receipts of a thread.

use alloc::vec::Vec;

use super::*;
use crate::io::CarrierId;
use crate::receipt::Kept;

const WRITER: ContactId = ContactId(7);
const ERA: Era = Era([3; 4]);

/// Returns a thread with this number of notes of one writer, and what is owed for all of them.
fn thread(notes: u32) -> (Threads, Vec<(Era, u32, NoteDigest)>) {
    let mut threads = Threads::default();
    let mut owed = Vec::new();
    let mut effects = Effects::default();
    threads.open_thread(WRITER);
    for seq in 1..=notes {
        let note = Received {
            contact: WRITER,
            era: ERA,
            seq,
            sent: Time::from_ms(seq.into()),
            timer_s: 0,
            pin: 1,
            body: NoteContent::Text("a note".into()),
            by: By { carrier: CarrierId::ALL[0], level: 1 },
            at: Time::from_ms(seq.into()),
        };
        owed.push((ERA, seq, note.digest()));
        threads.store_received(NoteId(seq.into()), note, &mut effects);
    }
    (threads, owed)
}

/// Returns the numbers whose digests are sent with a receipt if a void also covers `from` to `to`.
fn named(notes: u32, from: u32, to: u32) -> Vec<u32> {
    let (threads, owed) = thread(notes);
    let answers = [(ERA, from, to)];
    let owing = Owing { delivered: true, read: false, answers: &answers, kept: &owed };
    let items = threads.collect_digests(WRITER, &owing);
    assert!(items.iter().all(|item| item.era == ERA && item.notes.len() <= Kept::NOTES_MAX));
    items.iter().flat_map(|item| &item.notes).map(|(seq, _)| *seq).collect()
}

#[test]
fn msg_95_a_note_has_48_digests_at_most() {
    // 32 notes that arrived and 16 in the range of the void leave no room for the newest ones.
    assert_eq!(named(100, 41, 100), (1..=32).chain(41..=56).collect::<Vec<_>>());
    // The void covers fewer stored notes, so there is room for the newest ones.
    assert_eq!(named(100, 41, 48), (1..=32).chain(41..=48).chain(93..=100).collect::<Vec<_>>());
    assert_eq!(named(20, 1, 20), (1..=20).collect::<Vec<_>>());
}
