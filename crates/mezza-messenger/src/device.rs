//! One person's device as one machine.
//!
//! ```text
//! Command, Arrived, Up, Down, Handed, Refused, Bundle, Stock
//!        |
//!     Device: contacts, threads, outbox, mailboxes, prekeys
//!        |
//! facts first:  Notify.. | Store | Acknowledge, Open, Watch, Publish, Fetch, Put.. | Notify..
//! ```
//!
//! Every input makes at most one [`Output::Store`]; what stands before it may be shown before it
//! is durable (a fact), what stands behind it may not leave or be shown before.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{
    Backend, CryptoRng, EphemeralKey, Machine, PortableBackend, Time, Wiping, labelled_hash,
};
use mezza_lanes::{Kernel, portable};
use mezza_ratchet::{Changes, Conversation, IdentityKeyPair, Prekeys, Table};

use crate::card::{CardError, RelayEntry};
use crate::carriers::mixnet::JoinedNetwork;
use crate::carriers::mixnet::MixnetOutput;
use crate::carriers::relay::RelayInput;
use crate::carriers::relay::{Mailbox, PendingRequest, PrekeyUpload, RelayState};
use crate::carriers::{CarrierCaps, CarrierId};
use crate::carriers::{CarrierInput, CarrierOutput};
use crate::contact::Contact;
use crate::envelope::SenderContext;
use crate::error::DeviceError;
use crate::guest::IncomingInvitation;
use crate::identity::{OwnIdentity, RELAYS_MAX};
use crate::io::{
    ContactId, Event, Input, LineId, MailboxId, NoteId, Output, RecordChange, RecordKind,
    RequestId, Retention, WriteBatch,
};
use crate::note::{Era, MixnetStart};
use crate::outbox::Parcel;
use crate::thread::StoredNote;
use aside::Aside;
use invite::HeldBundle;

mod answer;
mod arrive;
mod aside;
mod command;
mod guest;
mod invite;
mod items;
mod lines;
mod load;
mod mailbox;
mod mixnet;
mod pump;
mod records;
mod talk;
mod timers;
mod view;
mod way;

/// A parcel that could not be opened yet; kept for a day.
struct UndecryptedParcel {
    contact: ContactId,
    at: Time,
    bytes: Vec<u8>,
}

/// What one input brings about, before it is put in order.
#[derive(Default)]
struct Step {
    facts: Vec<Event>,
    changes: Vec<RecordChange>,
    acts: Vec<CarrierOutput>,
    shows: Vec<Event>,
    /// Roots that came and are not with the client yet: of each contact the last one.
    meets: BTreeMap<ContactId, MixnetStart>,
}

/// Counts of what came in and was of no use; nothing in them names anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectCounts {
    /// Envelopes that no key opened.
    pub envelopes: u64,
    /// Ratchet messages that no session opened.
    pub messages: u64,
    /// Notes inside good messages that were not notes.
    pub notes: u64,
}

/// One person's device: identity, contacts, conversations, outbox.
pub struct Device<B: Backend = PortableBackend> {
    profile: OwnIdentity,
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    contacts: BTreeMap<ContactId, Contact<B>>,
    notes: BTreeMap<NoteId, StoredNote>,
    parcels: BTreeMap<u64, Parcel>,
    slots: BTreeMap<MailboxId, Mailbox>,
    held: BTreeMap<u64, UndecryptedParcel>,
    guests: BTreeMap<ContactId, IncomingInvitation<B>>,
    bundles: BTreeMap<ContactId, HeldBundle>,
    announcement: Option<PrekeyUpload>,
    net: Option<JoinedNetwork<B>>,
    aside: Aside,
    // What follows is derived from the records above, or holds until the next restart only.
    threads: BTreeMap<ContactId, BTreeSet<NoteId>>,
    clients: BTreeMap<[u8; 16], NoteId>,
    /// Own notes to be sealed.
    waiting: BTreeSet<(ContactId, NoteId)>,
    /// Own notes without `delivered`, and without `read`, by sequence number.
    unreceipted: [BTreeMap<(ContactId, u32), NoteId>; 2],
    /// Envelopes to come, as far as they can be made without what they will hold.
    sender_contexts: BTreeMap<ContactId, SenderContext>,
    /// Who was sent an envelope since the last look.
    wanted: BTreeSet<ContactId>,
    /// When a note ends or is given up.
    ends: BTreeSet<(Time, NoteId)>,
    links: BTreeMap<LineId, RelayState>,
    /// What is out, and by which connection; `None`: in the mixnet.
    tickets: BTreeMap<RequestId, (Option<LineId>, PendingRequest)>,
    next_ticket: u64,
    next_parcel: u64,
    stock: Option<u16>,
    retry_at: Time,
    /// When the outbox can go on that waits for nothing but time.
    pump_at: Option<Time>,
    refusals: RejectCounts,
    /// By which carrier what is being opened came.
    arriving: CarrierId,
    /// The level of the relay whose mail is being opened.
    relay_level: u8,
    kernel: &'static dyn Kernel,
    step: Step,
    out: VecDeque<Output>,
}

impl<B: Backend> Device<B> {
    /// A new identity. The first outputs store it; `relays` (at most one in this version; their
    /// `address` is not used) are dialled and get an intro mailbox.
    pub fn create(
        name: &str,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, DeviceError> {
        if relays.len() > RELAYS_MAX {
            return Err(DeviceError::TooManyRelays);
        }
        let intros: Vec<_> =
            relays.iter().map(|relay| Mailbox::draw::<B>(None, relay, now, rng)).collect();
        let entries = intros.iter().map(|slot| slot.relay.clone()).collect();
        let profile = OwnIdentity::create::<B>(name, entries, now, rng).map_err(card_refused)?;
        let identity = profile.identity::<B>();
        let prekeys = Prekeys::new(identity.duplicate());
        let mut device = Self::empty(profile, identity, prekeys);
        for slot in intros {
            device.add_mailbox(slot);
        }
        device.store_profile();
        device.start(now, rng);
        Ok(device)
    }

    fn empty(profile: OwnIdentity, identity: IdentityKeyPair, prekeys: Prekeys) -> Self {
        Self {
            profile,
            identity,
            prekeys,
            contacts: BTreeMap::new(),
            notes: BTreeMap::new(),
            parcels: BTreeMap::new(),
            slots: BTreeMap::new(),
            held: BTreeMap::new(),
            guests: BTreeMap::new(),
            bundles: BTreeMap::new(),
            announcement: None,
            net: None,
            aside: Aside::default(),
            threads: BTreeMap::new(),
            clients: BTreeMap::new(),
            waiting: BTreeSet::new(),
            unreceipted: [BTreeMap::new(), BTreeMap::new()],
            sender_contexts: BTreeMap::new(),
            wanted: BTreeSet::new(),
            ends: BTreeSet::new(),
            links: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            next_parcel: 1,
            stock: None,
            retry_at: Time::default(),
            pump_at: None,
            refusals: RejectCounts::default(),
            arriving: CarrierId::RELAY,
            relay_level: CarrierCaps::RELAY.level,
            kernel: portable(),
            step: Step::default(),
            out: VecDeque::new(),
        }
    }

    /// What every start does: what is due, then a connection to each relay with a mailbox of ours.
    fn start(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let relays: Vec<_> = self.slots.values().map(|slot| slot.relay.clone()).collect();
        for relay in relays {
            self.dial(&relay, now);
        }
        self.wake(now, rng);
    }

    /// The era of our notes to a contact, derived from its number, which is never given out again. A
    /// contact that is deleted and added again gets a new era, so its new notes are not taken for
    /// old ones.
    fn era(&self, contact: ContactId) -> Era {
        Era(labelled_hash("mezza/era", &[&self.profile.era.0, &contact.0.to_be_bytes()]))
    }

    /// Draws a pair: the one place where this device makes an ephemeral key.
    fn fresh(rng: &mut dyn CryptoRng) -> EphemeralKey {
        EphemeralKey::random::<B>(rng)
    }

    /// What makes the next note to whoever was just written to faster, for when nobody waits: the
    /// two multiplications of its envelope. Kept in memory alone.
    pub fn precompute(&mut self, rng: &mut dyn CryptoRng) {
        for id in core::mem::take(&mut self.wanted) {
            let theirs = self.contacts.get(&id).and_then(|contact| contact.their_mailbox.as_ref());
            let outer = theirs.map(|slot| {
                SenderContext::new::<B>(&slot.relay.address, &slot.seal, Self::fresh(rng))
            });
            if let Some(Ok(outer)) = outer {
                self.sender_contexts.insert(id, outer);
            }
        }
    }

    fn relay_input(
        &mut self,
        input: RelayInput,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        match input {
            RelayInput::Mail { mailbox, mail, envelope } => {
                self.arrived(mailbox, mail, &envelope, now, rng)?;
            }
            RelayInput::Up { line, level, demo } => {
                self.up(line, CarrierCaps { level, demo, ..CarrierCaps::RELAY }, now);
            }
            RelayInput::Down { line } => self.down(line),
            RelayInput::Done { ticket } => self.handed(ticket, now)?,
            RelayInput::Refused { ticket, code, retry_s } => {
                self.refused(ticket, code, retry_s, now)?;
            }
            RelayInput::Bundle { ticket, bytes, one_time } => {
                self.bundle(ticket, &bytes, one_time, now, rng)?;
            }
            RelayInput::Stock { line, left } => self.stocked(line, left, now, rng),
        }
        Ok(())
    }

    fn ticket(&mut self, line: Option<LineId>, asked: PendingRequest) -> RequestId {
        let ticket = RequestId(self.next_ticket);
        self.next_ticket += 1;
        self.tickets.insert(ticket, (line, asked));
        ticket
    }

    fn put(&mut self, kind: RecordKind, key: Vec<u8>, bucket: Retention, value: Wiping<Vec<u8>>) {
        self.aside.replaced(kind, &key);
        self.step.changes.push(RecordChange::Put { kind, key, bucket, value });
    }

    fn drop_record(&mut self, kind: RecordKind, key: Vec<u8>) {
        if !self.aside.holds(kind, &key) {
            self.step.changes.push(RecordChange::Drop { kind, key });
        }
    }

    fn act(&mut self, output: impl Into<CarrierOutput>) {
        self.step.acts.push(output.into());
    }

    fn show(&mut self, event: Event) {
        self.step.shows.push(event);
    }

    fn store_profile(&mut self) {
        self.put(RecordKind::Profile, Vec::new(), Retention::Permanent, self.profile.write());
    }

    fn store_contact(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get(&id) {
            let value = contact.write();
            self.put(RecordKind::Contact, key32(id.0), Retention::Permanent, value);
        }
    }

    fn store_note(&mut self, id: NoteId) {
        if let Some(entry) = self.notes.get(&id) {
            let (bucket, value) = (entry.bucket(), entry.write());
            self.put(RecordKind::Note, key64(id.0), bucket, value);
        }
    }

    fn store_slot(&mut self, id: MailboxId) {
        if let Some(slot) = self.slots.get(&id) {
            let value = slot.write();
            self.put(RecordKind::Slot, key32(id.0), Retention::Rolling, value);
        }
    }

    /// Rows of the ratchet: those of a session belong to the contact, prekeys to the device.
    fn store_ratchet(&mut self, contact: ContactId, changes: Changes) {
        for change in changes {
            let (kind, prefix) = match change.table() {
                Table::Session => (RecordKind::Session, key32(contact.0)),
                Table::Skipped => (RecordKind::Skipped, key32(contact.0)),
                table => (RecordKind::Prekey, [table.number()].into()),
            };
            let key = [prefix.as_slice(), change.key()].concat();
            match change {
                mezza_ratchet::Change::Put { value, .. } => {
                    self.put(kind, key, Retention::Rolling, value);
                }
                mezza_ratchet::Change::Drop { .. } => self.drop_record(kind, key),
            }
        }
    }

    /// Every row of a conversation goes.
    fn drop_conversation(&mut self, contact: ContactId, conversation: &Conversation<B>) {
        for change in conversation.records() {
            let kind = match change.table() {
                Table::Session => RecordKind::Session,
                _ => RecordKind::Skipped,
            };
            self.drop_record(kind, [key32(contact.0).as_slice(), change.key()].concat());
        }
    }

    /// Puts what the step brought about in order (the contract of [`crate::io`]).
    fn flush(&mut self) {
        let step = core::mem::take(&mut self.step);
        debug_assert!(step.changes.iter().all(|c| self.loads_again(c)), "stored, and not read");
        self.out.extend(step.facts.into_iter().map(Output::Notify));
        if !step.changes.is_empty() {
            self.out.push_back(Output::Store(WriteBatch(step.changes)));
        }
        self.out.extend(step.acts.into_iter().map(Output::Carrier));
        if let Some(seq) = self.net.as_mut().and_then(|net| net.durable.take()) {
            self.out.push_back(Output::Carrier(MixnetOutput::Durable(seq).into()));
        }
        self.out.extend(step.shows.into_iter().map(Output::Notify));
    }
}

impl<B: Backend> Machine for Device<B> {
    type Input = Input;
    type Output = Output;
    type Error = DeviceError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        match input {
            Input::Command(command) => self.command(command, now, rng)?,
            Input::Carrier(CarrierInput::Relay(input)) => self.relay_input(input, now, rng)?,
            Input::Carrier(CarrierInput::Mixnet(input)) => self.net_input(input, now, rng)?,
        }
        self.flush_outbox(now, rng);
        self.flush();
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.timers(now, rng);
        self.flush_outbox(now, rng);
        self.flush();
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.next_timer()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        self.encode()
    }
}

impl<B: Backend> fmt::Debug for Device<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Device")
    }
}

/// A card that we tried to issue ourselves.
fn card_refused(error: CardError) -> DeviceError {
    match error {
        CardError::Name => DeviceError::BadName,
        _ => DeviceError::TooManyRelays,
    }
}

fn key32(id: u32) -> Vec<u8> {
    id.to_be_bytes().into()
}

fn key64(id: u64) -> Vec<u8> {
    id.to_be_bytes().into()
}

/// Key of one chunk of what was opened lately; its length tells it apart from the windows.
fn key_recent(contact: ContactId, place: u8) -> Vec<u8> {
    [contact.0.to_be_bytes().as_slice(), &[place]].concat()
}

/// Key of what arrived from a contact in one era.
fn key_seen(contact: ContactId, era: Era) -> Vec<u8> {
    [contact.0.to_be_bytes(), era.0].concat()
}
