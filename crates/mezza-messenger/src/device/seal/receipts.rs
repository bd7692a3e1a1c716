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
    /// added, cut to [`RECEIPTS_MAX`].
    fn add_if_fits(&mut self, receipts: Vec<Receipt>) -> bool {
        // The first group may exceed the room, or an answer of 17 receipts would wait for ever.
        let fit = self.0.is_empty() || self.0.len() + receipts.len() <= RECEIPTS_MAX;
        if fit {
            self.0.extend(receipts.into_iter().take(RECEIPTS_MAX));
        }
        fit
    }
}

/// Returns the owed receipts that fit into a note to a contact, with the digests of the notes that
/// they confirm.
pub(super) fn collect_receipts(
    threads: &Threads,
    id: ContactId,
    owed: &Owed,
) -> (Vec<Item>, Spoken) {
    let mut room = Room::default();
    // Answers to voids come first: they stop the floor of the writer (5.4).
    let answers = owed.answers.iter().take_while(|answer| {
        room.add_if_fits(threads.answer_void(id, answer.0, answer.1, answer.2))
    });
    let answers = answers.count();
    let all_answers = answers == owed.answers.len();
    let kept = |delivered: bool, read: bool| {
        let kept = if delivered { owed.kept.as_slice() } else { &[] };
        threads.collect_digests(
            id,
            &Owing { delivered, read, answers: &owed.answers[..answers], kept },
        )
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
    (items, Spoken { answers, delivered, read })
}
