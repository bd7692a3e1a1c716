//! The device of one user as one machine.
//!
//! ```text
//! Input -> admit, or the carrier's own judgement -> person | carried -> arrive
//!       -> leave: what waits is sealed and handed over -> commit
//! commit: facts first:  Notify.. | Store | what carriers want.. | Durable.. | Notify..
//! ```
//!
//! The device owns its components, and each component alone owns its fields. All effects of an
//! input are collected in a [`Step`] and committed last, with at most one [`Output::Store`].

mod admit;
mod apply;
mod arrive;
mod aside;
pub mod backup;
mod carried;
mod commit;
mod contact;
mod due;
mod first;
mod hand;
mod knock;
mod leave;
mod own_card;
mod parts;
mod person;
mod rows;
mod seal;
mod settle;
mod view;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, Machine, PortableBackend, Time, Timers, Wiping, snapshot};
use mezza_ratchet::SessionSummary;

use crate::card::{Card, CardError, CardForm, RelayEntry};
use crate::carriers::{CarrierSet, Port};
use crate::error::{DeviceError, LoadError};
use crate::io::{
    At, CarrierId, ContactId, Due, Input, NoteId, Output, RecordChange, Step, StoredRecord, Unread,
};
use crate::view::{
    CarrierEstimate, ConnectionView, ContactView, IdentityView, InvitationView, LeavingView,
    NoteView, PrekeysView, SetAside,
};
use parts::Parts;
pub use view::RejectCounts;

/// The device of one user with the carriers of this version.
pub type Device<B = PortableBackend> = DeviceOver<CarrierSet<B>>;

/// The device of one user: identity, contacts, conversations and outbox, with a set of carriers.
pub struct DeviceOver<P: Port> {
    parts: Parts<P>,
    timers: Timers<Due>,
    outputs: VecDeque<Output<P::Output>>,
}

snapshot!(struct DeviceOver<P: Port> { parts, timers, outputs });

impl<P: Port> DeviceOver<P> {
    /// Creates a device with a new identity. The first outputs store it. The device connects to
    /// `relays` (at most one in this version; the `address` fields are not used) and opens an intro
    /// mailbox there.
    pub fn create(
        carriers: P,
        name: &str,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, DeviceError> {
        let mut step = Step::default();
        let parts = person::create(carriers, name, relays, &mut At { now, step: &mut step, rng })?;
        Ok(Self::start(parts, step, now, rng))
    }

    /// Puts a device together from what was stored. What does not load is quarantined
    /// ([`set_aside`](Self::set_aside)), as is what the store could not open (`unread`).
    ///
    /// # Errors
    /// The profile is missing or does not load.
    pub fn load(
        carriers: P,
        records: impl IntoIterator<Item = StoredRecord>,
        unread: &[Unread],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, LoadError> {
        let mut step = Step::default();
        let parts =
            rows::load_device(carriers, records, unread, &mut At { now, step: &mut step, rng })?;
        Ok(Self::start(parts, step, now, rng))
    }

    /// Starts the carriers and runs all due work.
    fn start(parts: Parts<P>, mut step: Step, now: Time, rng: &mut dyn CryptoRng) -> Self {
        let mut device = Self { parts, timers: Timers::default(), outputs: VecDeque::new() };
        let at = &mut At { now, step: &mut step, rng };
        device.parts.carriers.notify_all(|one| one.start(at));
        device.set_timers(&mut step);
        device.run_due(step, now, rng);
        device
    }

    /// Runs all due work and its consequences, together with those of `step`.
    fn run_due(&mut self, mut step: Step, now: Time, rng: &mut dyn CryptoRng) {
        let at = &mut At { now, step: &mut step, rng };
        due::fire_all(&mut self.parts, &mut self.timers, at);
        // At each wake, prekeys that are dated in the future are replaced, because the clock may
        // have gone back.
        self.parts.sessions.wake_prekeys(at);
        // A contact that an earlier step did not mark as touched is flushed at the next wake at the
        // latest.
        at.step.touch_all();
        settle::run_until_idle(&mut self.parts, at);
        self.commit_step(step);
    }

    /// Computes keys in memory in advance, so that the next note to the contact just written to is
    /// sealed faster.
    pub fn precompute(&mut self, rng: &mut dyn CryptoRng) {
        self.parts.carriers.notify_all(|one| one.prepare_next_note(rng));
    }

    fn commit_step(&mut self, mut step: Step) {
        self.set_timers(&mut step);
        commit::commit_step(&mut self.parts, step, &mut self.outputs);
    }

    fn set_timers(&mut self, step: &mut Step) {
        step.timers.drain(..).for_each(|(due, at)| self.timers.set_deadline(due, at));
    }

    /// Ends the device and returns its carriers.
    pub fn into_carriers(self) -> P {
        self.parts.carriers
    }

    /// Returns the carriers.
    pub fn carriers(&self) -> &P {
        &self.parts.carriers
    }

    /// Returns every record as it is stored, except quarantined records and those of the mixnet
    /// client.
    pub fn records(&self) -> Vec<RecordChange> {
        rows::collect_records(&self.parts)
    }

    /// Returns the view of our identity.
    pub fn own_identity(&self) -> IdentityView {
        view::own_identity(&self.parts)
    }

    /// Returns numbers about our prekeys.
    pub fn prekeys(&self, now: Time) -> PrekeysView {
        view::prekeys(&self.parts, now)
    }

    /// Returns our card in one of its forms.
    ///
    /// # Errors
    /// [`CardError`] if the card does not fit into the form.
    pub fn card(&self, form: CardForm) -> Result<Card, CardError> {
        self.parts.profile.card().to_form(form)
    }

    /// Returns all contacts, including requests and blocked contacts, in the order of their
    /// creation.
    pub fn contacts(&self) -> Vec<ContactView> {
        view::contacts(&self.parts)
    }

    /// Returns one contact.
    pub fn contact(&self, id: ContactId) -> Option<ContactView> {
        view::contact(&self.parts, id)
    }

    /// Returns the inviters that have not sent a card, in the order of their invitations.
    pub fn inviters(&self) -> Vec<InvitationView> {
        self.parts.carriers.collect_all(|one| one.inviters())
    }

    /// Returns the contact with this identity key, or `None`.
    pub fn contact_by_ik(&self, ik: &[u8; 32]) -> Option<ContactId> {
        self.parts.contacts.by_identity(ik)
    }

    /// Returns the newest `limit` notes of a thread that are older than `before`, oldest first.
    pub fn thread(
        &self,
        id: ContactId,
        before: Option<NoteId>,
        limit: usize,
        now: Time,
    ) -> Vec<NoteView> {
        view::thread(&self.parts, id, before, limit, now)
    }

    /// Returns one note.
    pub fn note(&self, id: NoteId, now: Time) -> Option<NoteView> {
        view::note(&self.parts, id, now)
    }

    /// Returns our notes that are neither delivered nor given up, oldest first.
    pub fn outbox(&self, now: Time) -> Vec<NoteView> {
        view::outbox(&self.parts, now)
    }

    /// Returns the note that was sent under this number of a client, or `None`.
    pub fn find_sent(&self, client: &[u8; 16]) -> Option<NoteId> {
        self.parts.threads.find_sent(client)
    }

    /// Returns the safety number: 60 digits, and the bytes of the code to scan.
    pub fn safety_number(&self, id: ContactId) -> Option<(String, Vec<u8>)> {
        view::safety_number(&self.parts, id)
    }

    /// Returns numbers about the active session with a contact.
    pub fn session(&self, id: ContactId) -> Option<SessionSummary> {
        self.parts.sessions.summary(id)
    }

    /// Returns the connections that this device keeps, with their present abilities.
    pub fn connections(&self, now: Time) -> Vec<ConnectionView> {
        view::connections(&self.parts, now)
    }

    /// Returns the estimate of each carrier for a text of `text_bytes` bytes to this contact.
    pub fn estimate_carriers(
        &self,
        id: ContactId,
        text_bytes: usize,
        now: Time,
    ) -> Vec<CarrierEstimate> {
        view::estimate_carriers(&self.parts, id, text_bytes, now)
    }

    /// Returns the effects of removing a carrier on the notes and contacts that it serves.
    pub fn preview_leaving(&self, carrier: CarrierId, now: Time) -> LeavingView {
        view::preview_leaving(&self.parts, carrier, now)
    }

    /// Returns the stored parts that did not load at the last start.
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.parts.aside.view()
    }

    /// Returns the numbers of rejected inputs by reason.
    pub fn reject_counts(&self) -> RejectCounts {
        view::reject_counts(&self.parts)
    }
}

impl<P: Port> Machine for DeviceOver<P> {
    type Input = Input<P::Input>;
    type Output = Output<P::Output>;
    type Error = DeviceError;

    fn handle(
        &mut self,
        input: Self::Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let mut step = Step::default();
        let at = &mut At { now, step: &mut step, rng };
        match input {
            Input::Command(command) => {
                let admitted = admit::admit_command(&self.parts, command, now, at.rng)?;
                person::perform(&mut self.parts, admitted, at);
            }
            Input::Carrier(input) => carried::handle_input(&mut self.parts, input, at)
                .inspect_err(|_| debug_assert!(at.step.is_empty(), "it is refused"))?,
            Input::Stored(carrier, number) => {
                if let Some(one) = self.parts.carriers.carrier_mut(carrier) {
                    one.on_durable(number, at);
                }
            }
        }
        settle::run_until_idle(&mut self.parts, at);
        self.commit_step(step);
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.run_due(Step::default(), now, rng);
    }

    fn poll(&mut self) -> Option<Self::Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    /// Returns the whole state, which a refused input leaves unchanged (MSG-36).
    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl<P: Port> fmt::Debug for DeviceOver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Device")
    }
}
