//! The effects of one input as a value: rows, events, deadlines. Each component that handles the
//! input adds its own, and the device commits them at the end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Time, Timers, Wiping, snapshot};

use super::{CarrierId, ContactId, Event, NoteId, ParcelId, RecordKind, Retention};

/// Time, effects and random source of one input. Components and carriers get no more than this.
pub struct Ctx<'a> {
    /// Time of the input.
    pub now: Time,
    /// Effects of the input.
    pub effects: &'a mut Effects,
    /// The random source.
    pub rng: &'a mut dyn CryptoRng,
}

impl Ctx<'_> {
    /// Returns the same context for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Ctx<'_> {
        Ctx { now: self.now, effects: &mut *self.effects, rng: &mut *self.rng }
    }

    /// Draws an ephemeral key pair. Only this method of the device creates ephemeral keys.
    pub fn draw_ephemeral<B: Backend>(&mut self) -> EphemeralKey {
        EphemeralKey::random::<B>(self.rng)
    }
}

/// The subject of a deadline. Its owner is called at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Checking our prekeys.
    Prekeys,
    /// Work on the sessions of a contact.
    Session(ContactId),
    /// The end of a note, or of the attempts to send it over its carrier.
    Note(NoteId),
    /// Dropping an undecrypted message.
    Undecrypted(u64),
    /// Sending a parcel, or dropping it at its end.
    Parcel(ParcelId),
    /// Replacing the session of a contact: a message did not open when the last replacement was too
    /// recent.
    Reset(ContactId),
    /// Sending notes again to a contact that asked for them.
    Again(ContactId),
    /// Trying to send to a contact for whom items wait.
    Look(ContactId),
    /// A timer of a carrier, with the carrier's own number.
    Carrier(CarrierId, u64),
}

snapshot!(enum Due [
    Prekeys, Session(a), Note(a), Undecrypted(a), Parcel(a), Reset(a), Again(a), Look(a), Carrier(a, b),
]);

/// The change of one row by an input.
pub(crate) enum RowFate {
    Put(Retention, Wiping<Vec<u8>>),
    Drop,
}

/// The effects of one input.
#[derive(Default)]
pub struct Effects {
    pub(crate) early: Vec<Event>,
    pub(crate) rows: BTreeMap<(RecordKind, Vec<u8>), RowFate>,
    pub(crate) late: Vec<Event>,
    pub(crate) timers: Vec<(Due, Option<Time>)>,
    pub(crate) touched: BTreeSet<ContactId>,
    pub(crate) touches_all: bool,
}

impl Effects {
    /// Writes a row and replaces an older one.
    pub fn put(&mut self, kind: RecordKind, key: Vec<u8>, row: Wiping<Vec<u8>>) {
        self.put_until(kind, key, kind.retention().unwrap_or(Retention::Permanent), row);
    }

    /// Writes a row of a kind whose vault key is chosen per row.
    pub fn put_until(
        &mut self,
        kind: RecordKind,
        key: Vec<u8>,
        keep: Retention,
        row: Wiping<Vec<u8>>,
    ) {
        // If a row is written twice for one input, the last value counts.
        self.rows.insert((kind, key), RowFate::Put(keep, row));
    }

    /// Deletes a row.
    pub fn drop_row(&mut self, kind: RecordKind, key: Vec<u8>) {
        self.rows.insert((kind, key), RowFate::Drop);
    }

    /// Adds an event that is shown once all rows are durable.
    pub fn show(&mut self, event: Event) {
        self.late.push(event);
    }

    /// Adds an event that is shown at once, because it does not depend on stored rows.
    pub fn show_early(&mut self, event: Event) {
        self.early.push(event);
    }

    /// Sets a deadline; `None` clears it.
    pub fn set_timer(&mut self, due: Due, at: Option<Time>) {
        self.timers.push((due, at));
    }

    /// Moves the deadlines that were set into `timers`.
    pub(crate) fn apply_timers(&mut self, timers: &mut Timers<Due>) {
        self.timers.drain(..).for_each(|(due, at)| timers.set_deadline(due, at));
    }

    /// Marks a contact whose outgoing queue is flushed before the effects are committed.
    pub fn touch(&mut self, id: ContactId) {
        self.touched.insert(id);
    }

    /// Marks every contact as touched.
    pub fn touch_all(&mut self) {
        self.touches_all = true;
    }

    /// Returns true if there are no events and no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.rows.is_empty() && self.late.is_empty()
    }
}

/// Returns the key of a row that belongs to a contact or a mailbox.
pub fn key32(id: u32) -> Vec<u8> {
    id.to_be_bytes().into()
}

/// Returns the key of a row with an 8-byte number.
pub fn key64(id: u64) -> Vec<u8> {
    id.to_be_bytes().into()
}
