//! Effects of one input, as a value: rows, events, deadlines. Every component that handles the
//! input adds to it, and the device carries it out at the end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Time, Wiping, snapshot};

use super::{CarrierId, ContactId, Event, NoteId, ParcelId, RecordKind, Retention};

/// The moment of an input, with what it brings about.
pub struct At<'a> {
    /// Now.
    pub now: Time,
    /// Its effects.
    pub step: &'a mut Step,
    /// Where chance comes from.
    pub rng: &'a mut dyn CryptoRng,
}

impl At<'_> {
    /// Draws a pair: the one place where this device makes an ephemeral key.
    pub fn draw_ephemeral<B: Backend>(&mut self) -> EphemeralKey {
        EphemeralKey::random::<B>(self.rng)
    }
}

/// The subject of a deadline: its owner is called once the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The own prekeys.
    Prekeys,
    /// A session of a contact.
    Session(ContactId),
    /// The end of a note, or of what the carrier can still do.
    Note(NoteId),
    /// A parcel that nothing opens.
    Undecrypted(u64),
    /// A parcel that may leave, or may not any more.
    Parcel(ParcelId),
    /// A contact whose messages no session opens, for which a new session came too early.
    Reset(ContactId),
    /// A contact that asked for everything again.
    Again(ContactId),
    /// A contact for whom something waits.
    Look(ContactId),
    /// Something of a carrier, by its own number.
    Carrier(CarrierId, u64),
}

snapshot!(enum Due [
    Prekeys, Session(a), Note(a), Undecrypted(a), Parcel(a), Reset(a), Again(a), Look(a), Carrier(a, b),
]);

/// The change of one row.
pub(crate) enum RowFate {
    Put(Retention, Wiping<Vec<u8>>),
    Drop,
}

/// The effects of one input.
#[derive(Default)]
pub struct Step {
    pub(crate) early: Vec<Event>,
    pub(crate) rows: BTreeMap<(RecordKind, Vec<u8>), RowFate>,
    pub(crate) late: Vec<Event>,
    pub(crate) timers: Vec<(Due, Option<Time>)>,
    pub(crate) touched: BTreeSet<ContactId>,
    pub(crate) touches_all: bool,
}

impl Step {
    /// Writes a row, over what is there.
    pub fn put(&mut self, kind: RecordKind, key: Vec<u8>, row: Wiping<Vec<u8>>) {
        self.put_until(kind, key, kind.retention().unwrap_or(Retention::Permanent), row);
    }

    /// The same, for a kind each of whose rows says how long it is kept.
    pub fn put_until(
        &mut self,
        kind: RecordKind,
        key: Vec<u8>,
        keep: Retention,
        row: Wiping<Vec<u8>>,
    ) {
        // A row that is written twice in one step has its last value.
        self.rows.insert((kind, key), RowFate::Put(keep, row));
    }

    /// Deletes a row.
    pub fn drop_row(&mut self, kind: RecordKind, key: Vec<u8>) {
        self.rows.insert((kind, key), RowFate::Drop);
    }

    /// Tells the person, once everything is durable.
    pub fn show(&mut self, event: Event) {
        self.late.push(event);
    }

    /// Tells the person at once: a fact, which needs no row to be true.
    pub fn show_early(&mut self, event: Event) {
        self.early.push(event);
    }

    /// When something is due; `None`: it waits for nothing any more.
    pub fn set_timer(&mut self, due: Due, at: Option<Time>) {
        self.timers.push((due, at));
    }

    /// Marks a contact whose queue is checked before the step ends.
    pub fn touch(&mut self, id: ContactId) {
        self.touched.insert(id);
    }

    /// The same for every contact.
    pub fn touch_all(&mut self) {
        self.touches_all = true;
    }

    /// Returns true if nothing was added yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.rows.is_empty() && self.late.is_empty()
    }
}

/// The key of a row that belongs to a contact, or to a mailbox.
pub fn key32(id: u32) -> Vec<u8> {
    id.to_be_bytes().into()
}

/// The key of a row with a number of its own.
pub fn key64(id: u64) -> Vec<u8> {
    id.to_be_bytes().into()
}
