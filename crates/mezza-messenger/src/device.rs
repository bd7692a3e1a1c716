//! The device of one user as one machine.
//!
//! ```text
//! Input -> admit, or the check by the carrier -> person | carried -> arrive
//!       -> leave: seals waiting notes and hands them over -> commit
//! commit: Notify (facts).. | Store | requests of carriers.. | Durable.. | Notify..
//! ```
//!
//! The device owns its components, and each component alone owns its fields. One input is handled by
//! one `Turn`. It collects all effects of the input in [`Effects`], which are committed last, with
//! at most one [`Output::Store`].

mod admit;
mod apply;
mod arrive;
mod aside;
pub mod backup;
mod carried;
mod commit;
mod components;
mod contact;
mod due;
mod first;
mod hand;
mod knock;
mod leave;
mod own_card;
mod person;
mod rows;
mod seal;
mod settle;
mod turn;
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
    CarrierId, ContactId, Ctx, Due, Effects, Input, NoteId, Output, RecordChange, StoredRecord,
    Unread,
};
use crate::view::{
    CarrierEstimate, ConnectionView, ContactView, IdentityView, InvitationView, LeavingView,
    NoteView, PrekeysView, SetAside,
};
use components::Components;
use turn::Turn;
pub use view::RejectCounts;

/// The device of one user with the carriers of this version.
pub type Device<B = PortableBackend> = DeviceOver<CarrierSet<B>>;

/// The device of one user: identity, contacts, conversations and outbox, with a set of carriers.
pub struct DeviceOver<P: Port> {
    components: Components<P>,
    timers: Timers<Due>,
    outputs: VecDeque<Output<P::Output>>,
}

snapshot!(struct DeviceOver<P: Port> { components, timers, outputs });

impl<P: Port> DeviceOver<P> {
    /// Creates a device with a new identity. The first outputs store it. The device connects to
    /// `relays` (at most one in this version; the `address` fields are not used) and opens an intro
    /// mailbox there.
    ///
    /// # Errors
    /// The name or the relays do not fit on a card.
    pub fn create(
        carriers: P,
        name: &str,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, DeviceError> {
        let mut effects = Effects::default();
        let ctx = &mut Ctx { now, effects: &mut effects, rng };
        let components = person::create_components(carriers, name, relays, ctx)?;
        Ok(Self::start(components, effects, now, rng))
    }

    /// Loads a device from its stored rows. Rows that do not load are quarantined
    /// ([`set_aside`](Self::set_aside)), as are rows that the store could not open (`unread`).
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
        let mut effects = Effects::default();
        let ctx = &mut Ctx { now, effects: &mut effects, rng };
        let components = rows::load_components(carriers, records, unread, ctx)?;
        Ok(Self::start(components, effects, now, rng))
    }

    /// Starts the carriers and runs all due work.
    fn start(
        components: Components<P>,
        mut effects: Effects,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let mut device = Self { components, timers: Timers::default(), outputs: VecDeque::new() };
        let ctx = Ctx { now, effects: &mut effects, rng };
        Turn::new(&mut device.components, ctx).notify_carriers(|one, ctx| one.start(ctx));
        device.run_due(effects, now, rng);
        device
    }

    /// Runs all due work and its consequences, and commits their effects together with `effects`.
    fn run_due(&mut self, mut effects: Effects, now: Time, rng: &mut dyn CryptoRng) {
        let ctx = Ctx { now, effects: &mut effects, rng };
        let mut turn = Turn::new(&mut self.components, ctx);
        turn.fire_expired(&mut self.timers);
        // At each wake, prekeys that are dated in the future are replaced, because the clock may
        // have gone back.
        turn.device.sessions.wake_prekeys(&mut turn.ctx);
        // A contact that an earlier turn did not mark as touched is flushed at the next wake at the
        // latest.
        turn.ctx.effects.touch_all();
        turn.run_until_idle();
        self.commit_effects(effects);
    }

    /// Computes keys in advance, so that the next note to the last recipient is sealed faster.
    pub fn precompute(&mut self, rng: &mut dyn CryptoRng) {
        self.components.carriers.notify_all(|one| one.prepare_next_note(rng));
    }

    /// Commits the effects of a turn as outputs.
    fn commit_effects(&mut self, mut effects: Effects) {
        effects.apply_timers(&mut self.timers);
        commit::append_outputs(&mut self.components, effects, &mut self.outputs);
    }

    /// Ends the device and returns its carriers.
    pub fn into_carriers(self) -> P {
        self.components.carriers
    }

    /// Returns the carriers.
    pub fn carriers(&self) -> &P {
        &self.components.carriers
    }

    /// Returns every stored record, except quarantined ones and those of the mixnet client.
    pub fn records(&self) -> Vec<RecordChange> {
        self.components.collect_records()
    }

    /// Returns the view of our identity.
    pub fn own_identity(&self) -> IdentityView {
        self.components.view_identity()
    }

    /// Returns numbers about our prekeys.
    pub fn prekeys(&self, now: Time) -> PrekeysView {
        self.components.view_prekeys(now)
    }

    /// Returns our card in one of its forms.
    ///
    /// # Errors
    /// [`CardError`] if the card does not fit into the form.
    pub fn card(&self, form: CardForm) -> Result<Card, CardError> {
        self.components.profile.card().to_form(form)
    }

    /// Returns all contacts, including requests and blocked contacts, oldest first.
    pub fn contacts(&self) -> Vec<ContactView> {
        self.components.view_contacts()
    }

    /// Returns one contact.
    pub fn contact(&self, id: ContactId) -> Option<ContactView> {
        self.components.view_contact(id)
    }

    /// Returns the inviters that have not sent a card, in the order of their invitations.
    pub fn inviters(&self) -> Vec<InvitationView> {
        self.components.carriers.collect_all(|one| one.inviters())
    }

    /// Returns the contact with this identity key, or `None`.
    pub fn contact_by_ik(&self, ik: &[u8; 32]) -> Option<ContactId> {
        self.components.contacts.by_identity(ik)
    }

    /// Returns the newest `limit` notes of a thread that are older than `before`, oldest first.
    pub fn thread(
        &self,
        id: ContactId,
        before: Option<NoteId>,
        limit: usize,
        now: Time,
    ) -> Vec<NoteView> {
        self.components.view_thread(id, before, limit, now)
    }

    /// Returns one note.
    pub fn note(&self, id: NoteId, now: Time) -> Option<NoteView> {
        self.components.view_note(id, now)
    }

    /// Returns our notes that are neither delivered nor given up, oldest first.
    pub fn outbox(&self, now: Time) -> Vec<NoteView> {
        self.components.view_outbox(now)
    }

    /// Returns the note that was sent under this number of a client, or `None`.
    pub fn find_sent(&self, client: &[u8; 16]) -> Option<NoteId> {
        self.components.threads.find_sent(client)
    }

    /// Returns the safety number: 60 digits, and the bytes of the code to scan.
    pub fn safety_number(&self, id: ContactId) -> Option<(String, Vec<u8>)> {
        self.components.compute_safety_number(id)
    }

    /// Returns numbers about the active session with a contact.
    pub fn session(&self, id: ContactId) -> Option<SessionSummary> {
        self.components.sessions.summary(id)
    }

    /// Returns the connections that this device keeps, with their present abilities.
    pub fn connections(&self, now: Time) -> Vec<ConnectionView> {
        self.components.view_connections(now)
    }

    /// Returns the estimate of each carrier for a text of `text_bytes` bytes to this contact.
    pub fn estimate_carriers(
        &self,
        id: ContactId,
        text_bytes: usize,
        now: Time,
    ) -> Vec<CarrierEstimate> {
        self.components.estimate_carriers(id, text_bytes, now)
    }

    /// Returns the effects of removing a carrier on the notes and contacts that it serves.
    pub fn preview_leaving(&self, carrier: CarrierId, now: Time) -> LeavingView {
        self.components.preview_leaving(carrier, now)
    }

    /// Returns the stored parts that did not load at the last start.
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.components.aside.view()
    }

    /// Returns the numbers of rejected inputs by reason.
    pub fn reject_counts(&self) -> RejectCounts {
        self.components.collect_reject_counts()
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
        let mut effects = Effects::default();
        let ctx = Ctx { now, effects: &mut effects, rng };
        let mut turn = Turn::new(&mut self.components, ctx);
        match input {
            Input::Command(command) => {
                let admitted = turn.device.admit_command(command, now, turn.ctx.rng)?;
                turn.perform(admitted);
            }
            Input::Carrier(input) => turn
                .handle_input(input)
                .inspect_err(|_| debug_assert!(turn.ctx.effects.is_empty(), "it is refused"))?,
            Input::Stored(carrier, number) => turn.confirm_durable(carrier, number),
        }
        turn.run_until_idle();
        self.commit_effects(effects);
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.run_due(Effects::default(), now, rng);
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
