//! The outbox: items owed to contacts and not confirmed, and parcels that wait for a carrier.

mod aftermath;
mod burden;
mod dates;
mod former;
mod lane;
mod missing;
mod owed;
mod parcel;
mod parcels;
mod rows;
mod timer;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use crate::io::{
    CarrierId, ContactId, Dropped, Due, Effects, NoteId, ParcelId, RecordKind, ResetCause, Route,
    key32, key64,
};
use crate::note::{Era, Note, NoteDigest};
use crate::receipt::{REACH, Receipt};

pub(crate) use aftermath::{Aftermath, FormerEra};
pub(crate) use burden::Burden;
pub(crate) use former::FormerNote;
pub(crate) use lane::{AgainWish, Lane};
pub(crate) use missing::RepeatTime;
use missing::Repeats;
pub(crate) use owed::{Owed, Spoken};
pub(crate) use parcel::Parcel;
pub(crate) use timer::TimerState;

/// Most notes that wait for one contact (MSG-35).
pub(crate) const OUTBOX_MAX: usize = 1_000;
/// Most notes handed over before the first answer of a contact.
pub(crate) const UNANSWERED_MAX: usize = 8;

/// An item that is owed to a contact.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owe {
    /// Our mailbox and card.
    Hello,
    /// Receipts for notes that have arrived.
    Receipt,
    /// The list of notes of each era that are stored here.
    Inventory,
    /// Receipts for notes that were read.
    Read,
    /// A new timer.
    Timer,
    /// A newer card.
    Card,
    /// A new session, for this reason.
    Reset(ResetCause),
    /// The answer to a range that the contact gave up: the numbers that have arrived here.
    Answer(Era, u32, u32),
}

/// The content of a sealed parcel.
pub(crate) struct Sealed<'a> {
    pub contact: ContactId,
    pub note: Option<NoteId>,
    pub wire: &'a Note,
    /// True if the number of the note is of an era before a restore.
    pub is_former: bool,
    /// The owed items in the parcel; `None` if none fitted.
    pub spoken: Option<Spoken>,
    pub route: Route,
    pub pin: u8,
    pub level: u8,
    pub bytes: Vec<u8>,
}

/// The result of checking a note against the reader's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The note may be sealed.
    Yes,
    /// This older note without a receipt must be sealed again first.
    After(NoteId),
    /// An older note waits for its receipt.
    No,
    /// The older note may be sealed again at this time.
    Later(Time),
}

/// The result of queueing notes again after parcels were dropped.
pub(crate) struct Requeued {
    pub notes: Vec<NoteId>,
    pub dropped: Vec<Dropped>,
    /// True if one of the dropped parcels was an invitation.
    pub invitation: bool,
}

/// An own note that was sealed and has no delivery receipt, or no read receipt.
#[derive(Clone, Copy)]
pub(crate) struct UnreceiptedNote {
    pub contact: ContactId,
    pub note: NoteId,
    pub seq: u32,
    /// True if the note was given up.
    pub is_voided: bool,
    pub is_delivered: bool,
}

/// Everything that is on its way out.
#[derive(Default)]
pub(crate) struct Outbox {
    lanes: BTreeMap<ContactId, Lane>,
    /// Contacts with owed items.
    owing: BTreeSet<ContactId>,
    /// Notes of ours that must be sealed.
    waiting: BTreeSet<(ContactId, NoteId)>,
    /// Our notes without a delivery receipt, and those without a read receipt, by number; the flag
    /// is true if the note was given up.
    unreceipted: [BTreeMap<(ContactId, u32), (NoteId, bool)>; 2],
    /// Own notes without the fact `delivered`, by era and number, of eras before a restore.
    former: BTreeMap<(ContactId, Era, u32), NoteId>,
    aftermaths: BTreeMap<ContactId, Aftermath>,
    parcels: BTreeMap<ParcelId, Parcel>,
    /// The parcels by contact.
    by_contact: BTreeSet<(ContactId, ParcelId)>,
    /// The parcels that are invitations, by contact.
    invitations: BTreeSet<(ContactId, ParcelId)>,
    last_parcel: u64,
    /// The highest number of ours that a receipt of the contact covered. Not stored: a start takes it
    /// from the notes that have a receipt.
    covered: BTreeMap<ContactId, u32>,
    /// Missing notes that were sealed again.
    repeats: Repeats,
    /// Carriers over which a note was sent without success. Not stored: a restart begins with none.
    tried: BTreeSet<(NoteId, CarrierId)>,
}

snapshot!(struct Outbox {
    lanes, owing, waiting, unreceipted, former, aftermaths, parcels, by_contact, invitations, last_parcel, covered, repeats, tried,
});

impl Outbox {
    /// Creates the empty queue of a contact.
    pub fn open_lane(&mut self, contact: ContactId, effects: &mut Effects) {
        self.lanes.insert(contact, Lane::default());
        self.store_lane(contact, effects);
    }

    /// Returns the items that are owed to a contact, or `None` if the contact is unknown.
    pub fn owed(&self, contact: ContactId) -> Option<&Owed> {
        self.lanes.get(&contact).map(|lane| &lane.owed)
    }

    /// Returns the era of our notes to a contact, or `None` if the contact uses the era of the
    /// profile.
    pub fn era(&self, contact: ContactId) -> Option<Era> {
        self.lanes.get(&contact)?.era
    }

    /// Starts a new era for a contact. Parcels of the earlier era are dropped, and its receipts no
    /// longer count. Returns its notes without a receipt, and the dropped parcels.
    pub fn begin_era(
        &mut self,
        contact: ContactId,
        era: Era,
        effects: &mut Effects,
    ) -> (Vec<NoteId>, Vec<Dropped>) {
        // Parcels of the old era are dropped first, because their numbers belong to other notes now
        // (MSG-91).
        let Requeued { notes, dropped, .. } = self.requeue_notes(contact, |_| false, effects);
        for list in &mut self.unreceipted {
            list.retain(|(of, _), _| *of != contact);
        }
        self.covered.remove(&contact);
        if let Some(lane) = self.lanes.get_mut(&contact) {
            (lane.next_seq, lane.era) = (1, Some(era));
            lane.era_waits = false;
            lane.owed.voids.clear();
            (lane.owed.hello, lane.owed.void) = (true, false);
            lane.owed.owe_reset(ResetCause::Restored);
        }
        self.store_lane(contact, effects);
        (notes, dropped)
    }

    /// Sets the era of a contact before any number of it was used.
    pub fn draw_era(&mut self, contact: ContactId, era: Era, effects: &mut Effects) {
        if let Some(lane) = self.lanes.get_mut(&contact) {
            lane.era = Some(era);
        }
        self.store_lane(contact, effects);
    }

    /// Returns the number of the next note to a contact.
    pub fn next_seq(&self, contact: ContactId) -> u32 {
        self.lanes.get(&contact).map_or(1, |lane| lane.next_seq)
    }

    /// Returns true if an invitation to this contact is on its way.
    pub fn has_invitation_to(&self, contact: ContactId) -> bool {
        self.invitations_to(contact).next().is_some()
    }

    /// Returns the parcels of invitations to a contact.
    pub fn invitations_to(&self, contact: ContactId) -> impl Iterator<Item = ParcelId> {
        let range = (contact, ParcelId(0))..=(contact, ParcelId(u64::MAX));
        self.invitations.range(range).map(|(_, parcel)| *parcel)
    }

    /// Returns the contacts for whom notes or items wait.
    pub fn agenda(&self) -> BTreeSet<ContactId> {
        self.waiting.iter().map(|(contact, _)| *contact).chain(self.owing.iter().copied()).collect()
    }

    /// Returns our notes that must be sealed, oldest first.
    pub fn waiting_notes(&self, contact: ContactId) -> Vec<NoteId> {
        let range = (contact, NoteId(0))..=(contact, NoteId(u64::MAX));
        self.waiting.range(range).map(|(_, note)| *note).collect()
    }

    /// Returns our notes that were sealed and have no receipt.
    pub fn unanswered_notes(&self, contact: ContactId) -> impl Iterator<Item = NoteId> {
        let range = (contact, 0)..=(contact, u32::MAX);
        self.unreceipted[0].range(range).map(|(_, (note, _))| *note)
    }

    /// Queues a note for sealing.
    pub fn queue_note(&mut self, contact: ContactId, note: NoteId) {
        self.waiting.insert((contact, note));
    }

    /// Records that a note left over a carrier without success, and queues it for another carrier.
    pub fn mark_tried(&mut self, contact: ContactId, note: NoteId, carrier: CarrierId) {
        self.tried.insert((note, carrier));
        self.queue_note(contact, note);
    }

    /// Returns the carriers over which a note has not left without success. Returns all carriers if
    /// it was tried over each.
    pub fn untried_carriers(&self, note: Option<NoteId>, all: &[CarrierId]) -> Vec<CarrierId> {
        let tried = |by: &CarrierId| note.is_some_and(|note| self.tried.contains(&(note, *by)));
        // If all carriers were tried, all of them are tried again (MSG-101).
        let left: Vec<CarrierId> = all.iter().copied().filter(|by| !tried(by)).collect();
        if left.is_empty() { all.to_vec() } else { left }
    }

    /// Forgets the attempts of a note that has arrived or was deleted.
    fn forget_attempts(&mut self, note: NoteId) {
        self.repeats.forget_note(note);
        self.tried.retain(|(of, _)| *of != note);
    }

    /// Checks that a note is within the reader's window, which holds 1,024 numbers above the first
    /// missing one. If the oldest missing note is that far back, it is sent again before any new
    /// one, and then once an hour.
    pub fn check_reach(&mut self, contact: ContactId, note: NoteId, now: Time) -> Reached {
        let range = (contact, 0)..=(contact, u32::MAX);
        let oldest = self.unreceipted[0].range(range).next();
        let Some((&(_, seq), &(oldest, _))) = oldest else { return Reached::Yes };
        // The reader's window reaches 1,024 seqs: a later note would be dropped (5.4).
        if self.next_seq(contact) - seq < REACH || oldest == note {
            return Reached::Yes;
        }
        let out = self.parcels_of(contact).any(|(_, parcel)| parcel.note == Some(oldest));
        let Some(lane) = self.lanes.get_mut(&contact) else { return Reached::No };
        // The oldest note is already on its way, so nothing more can be done now.
        if out || self.waiting.contains(&(contact, oldest)) {
            return Reached::No;
        }
        match lane.oldest.take_turn(now) {
            Ok(()) => {
                self.waiting.insert((contact, oldest));
                Reached::After(oldest)
            }
            Err(later) => Reached::Later(later),
        }
    }

    /// Checks that a note may be sealed a second time now. The rate limit prevents a contact from
    /// causing all unconfirmed notes to be sent at once (MSG-53).
    pub fn may_repeat(&mut self, contact: ContactId, now: Time) -> Result<(), Time> {
        self.lanes.get_mut(&contact).map_or(Ok(()), |lane| lane.repeats.take_turn(now))
    }

    /// Checks that receipts may be sent alone now (MSG-27).
    pub fn may_receipt(&mut self, contact: ContactId, now: Time) -> Result<(), Time> {
        self.lanes.get_mut(&contact).map_or(Ok(()), |lane| lane.receipts.take_turn(now))
    }

    /// Stores the parcel of a sealed message, and removes the items in it from the owed ones.
    pub fn record_sealed(
        &mut self,
        sealed: Sealed<'_>,
        now: Time,
        effects: &mut Effects,
    ) -> ParcelId {
        let Sealed { contact, note, wire, is_former, spoken, route, pin, level, bytes } = sealed;
        if let Some(note) = note {
            self.waiting.remove(&(contact, note));
            if is_former {
                let former = FormerNote { era: wire.era, seq: wire.seq, note };
                self.expect_former(contact, former);
            } else {
                self.unreceipted[0].insert((contact, wire.seq), (note, false));
            }
        }
        if let Some(lane) = self.lanes.get_mut(&contact) {
            if !is_former {
                lane.next_seq = lane.next_seq.max(wire.seq.saturating_add(1));
            }
            // Items whose level is above that of this route stay owed, even if the note has left
            // (MSG-20).
            if lane.owed.level <= pin {
                lane.owed.clear_sent(wire, spoken);
            }
            lane.timer.record_sent(wire);
        }
        self.store_lane(contact, effects);
        let says = Burden::from_note(wire, spoken);
        self.add_parcel(
            Parcel { level, says, ..Parcel::new(contact, note, route, bytes) },
            now,
            effects,
        )
    }

    /// Returns our note with this number while a receipt for it is awaited.
    pub fn find_by_seq(&self, contact: ContactId, seq: u32) -> Option<NoteId> {
        let of = |list: &BTreeMap<_, (NoteId, bool)>| list.get(&(contact, seq)).map(|(id, _)| *id);
        self.unreceipted.iter().find_map(of)
    }

    /// Returns our notes that a receipt confirms. A note without an earlier receipt also needs an
    /// equal digest, and `kept` contains the numbers of those (MSG-95).
    pub fn proven_notes(
        &mut self,
        contact: ContactId,
        receipt: &Receipt,
        kept: &BTreeSet<u32>,
        effects: &mut Effects,
    ) -> Vec<(u32, NoteId)> {
        let lists = if receipt.what == Receipt::READ { 2 } else { 1 };
        if let Some(lane) = self.lanes.get_mut(&contact) {
            let before = lane.owed.voids.len();
            // Numbers below the floor of the reader's window need no void any more (5.4).
            lane.owed.voids.retain(|(_, to)| *to > receipt.floor);
            if lane.owed.voids.len() != before {
                self.store_lane(contact, effects);
            }
        }
        let range = (contact, 0)..=(contact, u32::MAX);
        // A note that was read has arrived, so a read receipt also counts as a delivery receipt.
        let all = self.unreceipted[..lists].iter().flat_map(|list| list.range(range.clone()));
        let arrived = |seq: &u32| self.unreceipted[1].contains_key(&(contact, *seq));
        let proven = all.filter(|((_, seq), (_, voided))| {
            // A digest or an earlier receipt must show that the reader stored the bytes (MSG-95).
            receipt.proves_seq(*seq, *voided) && (kept.contains(seq) || arrived(seq))
        });
        proven.map(|((_, seq), (note, _))| (*seq, *note)).collect()
    }

    /// Handles a receipt for a note: its waiting parcels are dropped. A parcel that a carrier holds
    /// stays until the carrier's answer, which is a separate fact.
    pub fn confirm_note(
        &mut self,
        contact: ContactId,
        seq: u32,
        note: NoteId,
        read: bool,
        effects: &mut Effects,
    ) -> Vec<Dropped> {
        let voided = self.unreceipted[0].remove(&(contact, seq)).is_some_and(|(_, voided)| voided);
        if read {
            self.unreceipted[1].remove(&(contact, seq));
        } else {
            self.unreceipted[1].insert((contact, seq), (note, voided));
        }
        if let Some(lane) = self.lanes.get_mut(&contact)
            && lane.timer.is_proven_by(seq)
        {
            lane.timer.close();
            self.store_lane(contact, effects);
        }
        self.end_parcels(contact, note, effects)
    }

    /// Ends the sending of a note: it does not wait any more, and its parcels that no carrier has are
    /// dropped.
    fn end_parcels(
        &mut self,
        contact: ContactId,
        note: NoteId,
        effects: &mut Effects,
    ) -> Vec<Dropped> {
        self.waiting.remove(&(contact, note));
        self.forget_attempts(note);
        let out = |parcel: &Parcel| parcel.note == Some(note) && parcel.out && !parcel.confirmed;
        let own = self.parcels_of(contact).filter(|(_, parcel)| out(parcel)).map(|(id, _)| id);
        for id in own.collect::<Vec<_>>() {
            // The carrier's answer is still a fact for this note, so the parcel stays in memory.
            if let Some(parcel) = self.parcels.get_mut(&id) {
                parcel.confirmed = true;
                effects.drop_row(RecordKind::Parcel, key64(id.0));
            }
        }
        self.drop_where(contact, |parcel| parcel.note == Some(note) && !parcel.out, effects)
    }

    /// Queues all our notes without a receipt for sealing again, with the same era and number
    /// (messenger 5.3). Parcels are dropped, except those for which `stays` is true. Notes that
    /// were given up are not sent again.
    pub fn requeue_notes(
        &mut self,
        contact: ContactId,
        stays: impl Fn(&Parcel) -> bool,
        effects: &mut Effects,
    ) -> Requeued {
        let invitation = self.has_invitation_to(contact);
        let dropped = self.drop_where(contact, |parcel| !stays(parcel), effects);
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|lane| lane.timer.is_open()) {
            // The timer is owed again: the parcel that contained it may be lost with the others.
            lane.owed.timer = true;
            self.store_lane(contact, effects);
        }
        let range = (contact, 0)..=(contact, u32::MAX);
        // A note that was given up must not leave again (MSG-89).
        let notes = self.unreceipted[0].range(range).filter(|(_, (_, voided))| !voided);
        let mut notes: Vec<NoteId> = notes.map(|(_, (note, _))| *note).collect();
        notes.extend(self.former_notes(contact));
        self.waiting.extend(notes.iter().map(|note| (contact, *note)));
        Requeued { notes, dropped, invitation }
    }

    /// Owes an item to a contact.
    pub fn owe(&mut self, contact: ContactId, what: Owe, effects: &mut Effects) {
        let Some(lane) = self.lanes.get_mut(&contact) else { return };
        let owed = &mut lane.owed;
        match what {
            Owe::Hello => owed.hello = true,
            Owe::Receipt => owed.receipt = true,
            Owe::Inventory => owed.inventory = true,
            Owe::Read => owed.read = true,
            Owe::Timer => {
                owed.timer = true;
                lane.timer.open();
            }
            Owe::Card => owed.card = true,
            Owe::Reset(cause) => owed.owe_reset(cause),
            Owe::Answer(era, from, to) => owed.add_answer(era, from, to),
        }
        self.store_lane(contact, effects);
    }

    /// Keeps the digest of a stored note for the next receipt.
    pub fn keep_digest(
        &mut self,
        contact: ContactId,
        era: Era,
        seq: u32,
        digest: NoteDigest,
        effects: &mut Effects,
    ) {
        let Some(lane) = self.lanes.get_mut(&contact) else { return };
        lane.owed.keep_digest(era, seq, digest);
        lane.owed.receipt = true;
        self.store_lane(contact, effects);
    }

    /// Raises the level of owed items to the level of the message that caused them (MSG-20).
    pub fn raise_cause_level(&mut self, contact: ContactId, level: u8, effects: &mut Effects) {
        let Some(lane) = self.lanes.get_mut(&contact) else { return };
        // Without owed items the level is 0, so that it does not apply to later items.
        let caused = if lane.owed.has_any() { lane.owed.level.max(level) } else { 0 };
        if lane.owed.level != caused {
            lane.owed.level = caused;
            self.store_lane(contact, effects);
        }
    }

    /// Withdraws a note. If it has a number, the number is declared void. Returns the dropped
    /// parcels.
    pub fn void_note(
        &mut self,
        contact: ContactId,
        note: NoteId,
        seq: u32,
        effects: &mut Effects,
    ) -> Vec<Dropped> {
        self.waiting.remove(&(contact, note));
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|_| seq > 0) {
            lane.owed.give_up(seq);
            self.store_lane(contact, effects);
            // Void numbers count as passed for the reader's floor, so from now on only a bit of a
            // receipt confirms the note (MSG-14).
            for list in &mut self.unreceipted {
                list.entry((contact, seq)).and_modify(|(_, voided)| *voided = true);
            }
        }
        self.drop_where(contact, |parcel| parcel.note == Some(note), effects)
    }

    /// Forgets a note that was deleted from this device.
    pub fn forget_note(
        &mut self,
        contact: ContactId,
        note: NoteId,
        seq: u32,
        effects: &mut Effects,
    ) {
        self.waiting.remove(&(contact, note));
        self.forget_attempts(note);
        for list in &mut self.unreceipted {
            // A note of an era before a restore may have the same number as another note.
            if list.get(&(contact, seq)).is_some_and(|(id, _)| *id == note) {
                list.remove(&(contact, seq));
            }
        }
        self.former.retain(|(of, _, _), id| (*of, *id) != (contact, note));
        if self.aftermaths.contains_key(&contact) {
            self.change_aftermath(contact, effects, |left| left.settle(note));
        }
    }

    /// Handles a contact's request for all notes without a receipt. Returns true if they are sent
    /// now. Within ten minutes after the last time they wait until this time is over.
    pub fn wants_again(&mut self, contact: ContactId, now: Time, effects: &mut Effects) -> bool {
        let Some(lane) = self.lanes.get_mut(&contact) else { return false };
        let gets = lane.again.request_turn(now);
        // The timer is set even if no request waits, so that no old timer remains.
        effects.set_timer(Due::Again(contact), lane.again.due());
        self.store_lane(contact, effects);
        gets
    }

    /// Requests a new era, because another copy of this vault wrote to a contact. Returns true if
    /// the era begins now; otherwise it begins later, at the rate limit of
    /// [`wants_again`](Self::wants_again).
    pub fn wants_era(&mut self, contact: ContactId, now: Time, effects: &mut Effects) -> bool {
        let begins = self.wants_again(contact, now, effects);
        if let Some(lane) = self.lanes.get_mut(&contact) {
            lane.era_waits = !begins;
        }
        begins
    }

    /// Returns true if a new era waits for the rate limit.
    pub fn era_waits(&self, contact: ContactId) -> bool {
        self.lanes.get(&contact).is_some_and(|lane| lane.era_waits)
    }

    /// Forgets a deleted contact. Returns its dropped parcels.
    pub fn forget_contact(&mut self, contact: ContactId, effects: &mut Effects) -> Vec<Dropped> {
        self.lanes.remove(&contact);
        self.owing.remove(&contact);
        self.waiting.retain(|(other, _)| *other != contact);
        for list in &mut self.unreceipted {
            let gone = list.iter().filter(|((other, _), _)| *other == contact);
            gone.for_each(|(_, (note, _))| {
                self.repeats.forget_note(*note);
                self.tried.retain(|(of, _)| of != note);
            });
            list.retain(|(other, _), _| *other != contact);
        }
        self.covered.remove(&contact);
        self.former.retain(|(other, _, _), _| *other != contact);
        if self.aftermaths.remove(&contact).is_some() {
            effects.drop_row(RecordKind::Aftermath, key32(contact.0));
        }
        effects.set_timer(Due::Again(contact), None);
        effects.set_timer(Due::Look(contact), None);
        effects.drop_row(RecordKind::Owed, key32(contact.0));
        self.drop_where(contact, |_| true, effects)
    }
}
