//! One person's device as one machine.
//!
//! ```text
//! Input -> admit, or the carrier's own judgement -> person | carried -> arrive
//!       -> leave: what waits is sealed and handed over -> commit
//! commit: facts first:  Notify.. | Store | what carriers want.. | Durable.. | Notify..
//! ```
//!
//! The device owns components and nothing else; each of them owns its fields alone. What an input
//! brings about is built as a value, a [`Step`], and committed last: at most one [`Output::Store`].

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

/// One person's device over the carriers of this version.
pub type Device<B = PortableBackend> = DeviceOver<CarrierSet<B>>;

/// One person's device: identity, contacts, conversations, outbox, over some carriers.
pub struct DeviceOver<P: Port> {
    parts: Parts<P>,
    timers: Timers<Due>,
    outputs: VecDeque<Output<P::Output>>,
}

snapshot!(struct DeviceOver<P: Port> { parts, timers, outputs });

impl<P: Port> DeviceOver<P> {
    /// A new identity over these carriers. The first outputs store it; `relays` (at most one in
    /// this version; their `address` is not used) are dialled and get an intro mailbox.
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

    /// Puts a device together from what was stored. What does not load is set aside
    /// ([`set_aside`](Self::set_aside)), as is what the store could not open (`unread`).
    ///
    /// # Errors
    /// The profile is not there or does not load.
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

    /// Starts the device: the carriers begin, then due work is done.
    fn start(parts: Parts<P>, mut step: Step, now: Time, rng: &mut dyn CryptoRng) -> Self {
        let mut device = Self { parts, timers: Timers::default(), outputs: VecDeque::new() };
        device.parts.carriers.start(&mut At { now, step: &mut step, rng });
        device.set_timers(&mut step);
        device.run_due(step, now, rng);
        device
    }

    /// Does what is due, and whatever follows from it and from `step`.
    fn run_due(&mut self, mut step: Step, now: Time, rng: &mut dyn CryptoRng) {
        let at = &mut At { now, step: &mut step, rng };
        due::fire_all(&mut self.parts, &mut self.timers, at);
        // A clock that was put back shows at any time: prekeys from the future are replaced.
        self.parts.sessions.wake_prekeys(at);
        // What somebody forgot to touch waits for a wake, and no longer.
        at.step.touch_all();
        settle::run_until_idle(&mut self.parts, at);
        self.commit_step(step);
    }

    /// Makes the next note to whoever was just written to faster; kept in memory alone.
    pub fn precompute(&mut self, rng: &mut dyn CryptoRng) {
        self.parts.carriers.prepare_next_note(rng);
    }

    fn commit_step(&mut self, mut step: Step) {
        self.set_timers(&mut step);
        commit::commit_step(&mut self.parts, step, &mut self.outputs);
    }

    fn set_timers(&mut self, step: &mut Step) {
        step.timers.drain(..).for_each(|(due, at)| self.timers.set_deadline(due, at));
    }

    /// The carriers of a device that ends.
    pub fn into_carriers(self) -> P {
        self.parts.carriers
    }

    /// The carriers.
    pub fn carriers(&self) -> &P {
        &self.parts.carriers
    }

    /// Every record as it is stored, without what was set aside and the rows of the mixnet's client.
    pub fn records(&self) -> Vec<RecordChange> {
        rows::collect_records(&self.parts)
    }

    /// The own identity.
    pub fn own_identity(&self) -> IdentityView {
        view::own_identity(&self.parts)
    }

    /// The own prekeys, in numbers.
    pub fn prekeys(&self, now: Time) -> PrekeysView {
        view::prekeys(&self.parts, now)
    }

    /// The own card in one of its forms.
    pub fn card(&self, form: CardForm) -> Result<Card, CardError> {
        self.parts.profile.card().to_form(form)
    }

    /// All contacts, requests and blocked ones too, in the order in which they came.
    pub fn contacts(&self) -> Vec<ContactView> {
        view::contacts(&self.parts)
    }

    /// One contact.
    pub fn contact(&self, id: ContactId) -> Option<ContactView> {
        view::contact(&self.parts, id)
    }

    /// Those who invite and have shown no card, in the order in which they came.
    pub fn inviters(&self) -> Vec<InvitationView> {
        self.parts.carriers.inviters()
    }

    /// The contact with this identity key.
    pub fn contact_by_ik(&self, ik: &[u8; 32]) -> Option<ContactId> {
        self.parts.contacts.by_identity(ik)
    }

    /// The newest `limit` notes of a thread older than `before`, oldest first.
    pub fn thread(
        &self,
        id: ContactId,
        before: Option<NoteId>,
        limit: usize,
        now: Time,
    ) -> Vec<NoteView> {
        view::thread(&self.parts, id, before, limit, now)
    }

    /// One note.
    pub fn note(&self, id: NoteId, now: Time) -> Option<NoteView> {
        view::note(&self.parts, id, now)
    }

    /// Own notes that are neither delivered nor given up, oldest first.
    pub fn outbox(&self, now: Time) -> Vec<NoteView> {
        view::outbox(&self.parts, now)
    }

    /// The note that a client's number has become.
    pub fn find_sent(&self, client: &[u8; 16]) -> Option<NoteId> {
        self.parts.threads.find_sent(client)
    }

    /// The safety number: 60 digits, and the bytes for a code to scan.
    pub fn safety_number(&self, id: ContactId) -> Option<(String, Vec<u8>)> {
        view::safety_number(&self.parts, id)
    }

    /// The active session with a contact, in numbers.
    pub fn session(&self, id: ContactId) -> Option<SessionSummary> {
        self.parts.sessions.summary(id)
    }

    /// The connections that this device keeps, and what they can do now.
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

    /// Counts of what came in and was of no use.
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
            Input::Stored(carrier, number) => self.parts.carriers.on_durable(carrier, number, at),
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

    /// The whole state: a refused input changes nothing of it (MSG-36).
    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl<P: Port> fmt::Debug for DeviceOver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Device")
    }
}
