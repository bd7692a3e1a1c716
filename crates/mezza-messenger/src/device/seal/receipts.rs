//! Selects the receipts of one note. Receipts that do not fit go with the next note.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::io::ContactId;
use crate::note::{Era, Item};
use crate::outbox::{Owed, Spoken};
use crate::receipt::{Kept, Receipt};
use crate::threads::{Owing, Threads};

/// Most receipt items in one note.
const RECEIPTS_MAX: usize = 16;

/// Receipts of a note, up to [`RECEIPTS_MAX`]. Each group is added as a whole, or waits.
#[derive(Default)]
struct Room(Vec<Receipt>);

impl Room {
    /// Adds a group of receipts if it fits, and returns true if so. The first group is always
    /// added, cut to [`RECEIPTS_MAX`]: without a cut, a longer group would wait for ever.
    fn add_if_fits(&mut self, receipts: Vec<Receipt>) -> bool {
        let fits = self.0.is_empty() || self.0.len() + receipts.len() <= RECEIPTS_MAX;
        if fits {
            self.0.extend(receipts.into_iter().take(RECEIPTS_MAX));
        }
        fits
    }

    /// Adds the first answers to voids that fit. Returns their number, and the ranges that they
    /// answer.
    fn add_answers(&mut self, threads: &Threads, id: ContactId, owed: &Owed) -> Answered {
        let mut answered = Answered::default();
        for &(era, from, to) in &owed.answers {
            let receipts = threads.answer_void(id, era, from, to);
            // The receipts of an answer are independent of each other, so the rest of a long answer
            // is sent with the next note (MSG-139).
            let rest = receipts.get(RECEIPTS_MAX).map(|receipt| receipt.base);
            if !self.add_if_fits(receipts) {
                break;
            }
            answered.ranges.push((era, from, rest.map_or(to, |rest| rest - 1)));
            if rest.is_some() {
                answered.rest = rest;
                break;
            }
            answered.whole += 1;
        }
        answered
    }
}

/// The answers to voids in one note.
#[derive(Default)]
struct Answered {
    /// The number of answers that are complete.
    whole: usize,
    /// The first number without an answer, if the note contains only a part of the last answer.
    rest: Option<u32>,
    /// The ranges that are answered.
    ranges: Vec<(Era, u32, u32)>,
}

/// Returns the owed receipts that fit into a note to a contact, with the digests of the notes that
/// they confirm.
pub(super) fn collect_receipts(
    threads: &Threads,
    id: ContactId,
    owed: &Owed,
) -> (Vec<Item>, Spoken) {
    let mut room = Room::default();
    // Answers to voids come first, because the writer repeats its voids until they are answered
    // (5.4).
    let answered = room.add_answers(threads, id, owed);
    let all_answers = answered.whole == owed.answers.len();
    let kept = |delivered: bool, read: bool| {
        let kept = if delivered { owed.kept.as_slice() } else { &[] };
        let owing = Owing { delivered, read, answers: &answered.ranges, kept };
        threads.collect_digests(id, &owing)
    };
    let eras: BTreeSet<Era> = kept(owed.receipt, owed.read).iter().map(|kept| kept.era).collect();
    let mut says = |is_owed: bool, what| {
        // Groups are sent as a whole, so that the writer never takes a part for the whole.
        is_owed && all_answers && room.add_if_fits(threads.list_receipts(id, what, &eras))
    };
    let delivered = says(owed.receipt, Receipt::DELIVERED);
    let read = says(owed.read, Receipt::READ);
    let kept: Vec<Kept> = kept(delivered, read);
    let receipts = room.0.into_iter().map(Item::Receipt);
    let items = receipts.chain(kept.into_iter().map(Item::Kept)).collect();
    let Answered { whole: answers, rest, .. } = answered;
    (items, Spoken { answers, rest, delivered, read })
}

#[cfg(test)]
mod tests {
    use mezza_core::Time;

    use super::*;
    use crate::io::{By, CarrierId, Effects, NoteId};
    use crate::note::Note;
    use crate::threads::Received;
    use crate::view::NoteContent;

    const WRITER: ContactId = ContactId(7);
    const ERA: Era = Era([3; 4]);

    fn store_note(threads: &mut Threads, seq: u32) {
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
        threads.store_received(NoteId(seq.into()), note, &mut Effects::default());
    }

    /// Seals all owed answers. Returns the numbers that the receipts of each note prove.
    fn seal_answers(threads: &Threads, owed: &mut Owed, numbers: &[u32]) -> Vec<Vec<u32>> {
        let mut notes = Vec::new();
        while !owed.answers.is_empty() {
            let (items, spoken) = collect_receipts(threads, WRITER, owed);
            let receipts = items.iter().filter_map(|item| match item {
                Item::Receipt(receipt) => Some(*receipt),
                _ => None,
            });
            let receipts: Vec<Receipt> = receipts.collect();
            assert!((1..=RECEIPTS_MAX).contains(&receipts.len()));
            let is_proven = |seq: &u32| receipts.iter().any(|one| one.proves_seq(*seq, true));
            notes.push(numbers.iter().copied().filter(is_proven).collect());
            let wire = Note { era: ERA, seq: 0, sent: Time::default(), timer_s: 0, items };
            owed.clear_sent(&wire, Some(spoken));
        }
        notes
    }

    #[test]
    fn msg_139_an_answer_longer_than_a_note_is_continued_in_the_next_one() {
        let mut threads = Threads::default();
        threads.open_thread(WRITER);
        // One number of each 64 arrives, so that each needs a receipt of its own.
        let low = (0..16).map(|n| 3 + 64 * n);
        [1].into_iter().chain(low.clone()).for_each(|seq| store_note(&mut threads, seq));
        threads.void_range(WRITER, ERA, 3, 5_000, &mut Effects::default());
        // The gap below the void closes, and notes above the recorded part of the void arrive.
        let high = [1_027, 1_091, 1_155];
        [2].into_iter().chain(high).for_each(|seq| store_note(&mut threads, seq));
        let numbers: Vec<u32> = low.chain(high).collect();
        let mut owed = Owed::default();
        owed.add_answer(ERA, 3, 5_000);
        owed.add_answer(ERA, 3, 3);
        let notes = seal_answers(&threads, &mut owed, &numbers);
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0], numbers[..RECEIPTS_MAX]);
        // The second answer waited for the rest of the first one.
        assert_eq!(notes[1], [&numbers[..1], &numbers[RECEIPTS_MAX..]].concat());
    }
}
