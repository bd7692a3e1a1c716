//! Receipts, and the digests that accompany them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Owing, Threads};
use crate::io::{ContactId, NoteId};
use crate::note::{Era, Kept, NoteDigest};
use crate::receipt::Receipt;

/// Maximum number of newly arrived notes whose digests are sent with one receipt; the others are
/// sent with the next receipt.
const KEPT_SAID_MAX: usize = 32;
/// Maximum number of stored notes in the range of a void whose digests are sent with the answer to
/// the void.
const KEPT_ASKED_MAX: usize = 16;
/// Maximum number of digests in one note, so that the note still fits the seven cells of a message
/// in the mixnet.
const KEPT_TOTAL_MAX: usize = 48;
/// With every receipt, digests of up to this many of the newest notes are sent, searched for among
/// the last [`NEWEST_OF`] notes of the thread.
const NEWEST: usize = 8;
const NEWEST_OF: usize = 32;
/// Maximum number of items with digests in one note.
const KEPT_ITEMS_MAX: usize = 8;

impl Threads {
    /// Returns receipts of one kind for all notes that have arrived, or that were read. The eras in
    /// `first` come first. Other eras precede a restore of the contact's vault, and their receipts
    /// may find no room.
    pub fn list_receipts(
        &self,
        contact: ContactId,
        what: u8,
        first: &BTreeSet<Era>,
    ) -> Vec<Receipt> {
        let Some(thread) = self.all.get(&contact) else { return Vec::new() };
        let of = |is_first: bool| {
            let windows = thread.windows.iter();
            windows.filter(move |(era, _)| first.contains(era) == is_first)
        };
        let all = of(true).chain(of(false)).map(|(_, (arrived, read))| {
            // Eras for which digests are sent come first: without its digest a receipt proves
            // nothing to the writer (5.4).
            if what == Receipt::READ { read } else { arrived }.list_receipts(what)
        });
        all.flatten().collect()
    }

    /// Returns the digests that accompany receipts: of notes since the last receipt, of notes for
    /// which the contact asked, and of the newest notes, since a receipt may be lost.
    pub fn collect_digests(&self, contact: ContactId, owing: &Owing<'_>) -> Vec<Kept> {
        let mut all: Vec<_> = owing.kept.iter().copied().take(KEPT_SAID_MAX).collect();
        for (era, from, to) in owing.answers {
            let asked = self.by_number.range((contact, *era, *from)..=(contact, *era, *to));
            all.extend(asked.take(KEPT_ASKED_MAX).filter_map(|(_, id)| self.kept_as(*id)));
        }
        if owing.delivered || owing.read {
            let newest = self.thread_notes(contact).rev().take(NEWEST_OF);
            all.extend(newest.filter_map(|id| self.kept_as(id)).take(NEWEST));
        }
        let mut eras: BTreeMap<Era, BTreeMap<u32, NoteDigest>> = BTreeMap::new();
        // 48 digests at most, so that the note still fits seven cells (MSG-95).
        for (era, seq, digest) in all.into_iter().take(KEPT_TOTAL_MAX) {
            eras.entry(era).or_default().insert(seq, digest);
        }
        let chunks = eras.into_iter().flat_map(|(era, notes)| {
            let notes: Vec<_> = notes.into_iter().collect();
            let notes = notes.chunks(Kept::NOTES_MAX).map(<[_]>::to_vec).collect::<Vec<_>>();
            notes.into_iter().map(move |notes| Kept { era, notes })
        });
        chunks.take(KEPT_ITEMS_MAX).collect()
    }

    /// Returns era, number and digest of an incoming note, or `None` if it has no number.
    fn kept_as(&self, id: NoteId) -> Option<(Era, u32, NoteDigest)> {
        let note = self.notes.get(&id).filter(|note| note.incoming && note.seq > 0)?;
        Some((note.era, note.seq, note.digest()))
    }
}
