//! Which receipts one note says. What has no room goes with the next one.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::io::ContactId;
use crate::note::{Era, Item};
use crate::outbox::{Owed, Spoken};
use crate::receipt::{Kept, Receipt};
use crate::threads::{Owing, Threads};

/// Receipt items in one note.
const RECEIPTS_MAX: usize = 16;

/// Receipts for a note, as long as there is room. What is owed goes as a whole, or waits.
#[derive(Default)]
struct Room(Vec<Receipt>);

impl Room {
    /// Returns true if these fit. The first ones go whatever they are, as far as they can.
    fn add_if_fits(&mut self, receipts: Vec<Receipt>) -> bool {
        // The first group may exceed the room, or an answer of 17 receipts would wait for ever.
        let fit = self.0.is_empty() || self.0.len() + receipts.len() <= RECEIPTS_MAX;
        if fit {
            self.0.extend(receipts.into_iter().take(RECEIPTS_MAX));
        }
        fit
    }
}

/// The receipts that a note to a contact says of what is owed, with the digests of what they prove.
pub(super) fn collect_receipts(
    threads: &Threads,
    id: ContactId,
    owed: &Owed,
) -> (Vec<Item>, Spoken) {
    let mut room = Room::default();
    // Answers to voids come first: they stop the floor of the writer (5.4).
    let answers =
        owed.answers.iter().take_while(|answer| room.add_if_fits(threads.answer_void(id, answer)));
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
        // Groups are sent whole, so that the writer never mistakes a part for all.
        is_owed && all_answers && room.add_if_fits(threads.list_receipts(id, what, &eras))
    };
    let delivered = says(owed.receipt, Receipt::DELIVERED);
    let read = says(owed.read, Receipt::READ);
    let kept: Vec<Kept> = kept(delivered, read);
    let receipts = room.0.into_iter().map(Item::Receipt);
    let items = receipts.chain(kept.into_iter().map(Item::Kept)).collect();
    (items, Spoken { answers, delivered, read })
}
