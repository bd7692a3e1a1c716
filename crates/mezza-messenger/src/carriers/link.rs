//! The link carrier: two paired devices on one cable or network, without a server (SEKA).
//!
//! ```text
//! Pair -> six digits -> Confirm -> exchange -> proof of both identity keys -> Paired
//! initiator   Dial -> Opened -> KE1, KE2, KE3 -> records         a new connection each 120 s
//! guarded     Dial the guard -> joint key -> KE1, KE2, KE3 ..     the same, through the guard
//! responder   Opened -> KE1, KE2, KE3 -> records
//! parcel -> Data(ticket | parcel) -> stored -> Acknowledgement(ticket) -> Handed
//! ```
//!
//! The driver owns the sockets. This carrier owns the pairings, their machines and the sessions. A
//! record of SEKA is a row of the same input, and the device outputs rows before frames, so a write
//! counts as durable at once: no frame leaves before it (MSG-16, SEKA-11, SEKA-15, SEKA-16).

mod carrier;
mod exchange;
mod frames;
mod guard;
mod io;
mod line;
mod pairing;
mod peer;
mod records;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use mezza_core::{Machine, PortableBackend, Time, snapshot};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::{LinkRole, PeerAddress};

use crate::error::{CallerError, DeviceError, PersonError};
use crate::io::{
    CarrierCaps, CarrierHides, CarrierId, ContactId, Ctx, Event, News, RecordKind, key32,
};

pub use frames::StreamDeframer;
use guard::{GuardedEnd, LinkGuard};
pub use io::{
    GuardTrouble, LinkConnection, LinkInput, LinkOutput, LinkReport, PairRequest, PairingStep,
    PairingTrouble,
};
use line::{Line, LineSession};
use pairing::ContactPairing;
use peer::{LinkPeer, OwnLink};

/// The suite of all links. Its primitives are the portable ones: an exchange each two minutes and a
/// few records need no faster ones.
type Suite = DefaultSuite<PortableBackend>;
/// The cipher of the suite's frames.
type Frames = <Suite as LinkSuite>::Frames;

/// Most bytes of a parcel: that of a mailbox, so that a sealed note fits every carrier.
pub const PARCEL_BYTES_MAX: usize = 16_333;

/// Properties of the link carrier.
pub const CAPS: CarrierCaps = CarrierCaps {
    piece_bytes: PARCEL_BYTES_MAX,
    pieces_max: 1,
    around_bytes: 0,
    parcel_bytes_max: PARCEL_BYTES_MAX,
    level: 1,
    delay_ms: 10,
    delay_p99_ms: 200,
    receipts: true,
    store_h: 0,
    needs_internet: false,
    demo: false,
    // The owner of the network between both devices sees which devices talk.
    hides: CarrierHides {
        partners_from_provider: true,
        partners_from_operator: false,
        talk_from_observer: false,
    },
    noise: None,
};

/// Most connections, and most of them without a completed exchange.
const LINES_MAX: usize = 64;
const UNKNOWN_LINES_MAX: usize = 32;
/// Most parcels on their way to one contact.
const OUT_MAX: usize = 8;
/// Time limit of a dial in milliseconds, after which it counts as failed.
const DIAL_MS: u64 = 30 * Time::SECOND_MS;
/// Time limit of an exchange and of the proof after it, in milliseconds.
const EXCHANGE_MS: u64 = 10 * Time::SECOND_MS;

/// State of the link carrier.
#[derive(Default)]
pub(crate) struct Link {
    /// Boot time of the last input.
    clock: Time,
    own: OwnLink,
    /// The lowest level at which each contact is served; `None` if it is not served.
    levels: BTreeMap<ContactId, Option<u8>>,
    peers: BTreeMap<ContactId, LinkPeer>,
    lines: BTreeMap<LinkConnection, Line>,
    pairing: Option<ContactPairing>,
    /// The guard that was joined.
    guard: Option<LinkGuard>,
    wake_at: Option<Time>,
    last_ticket: u64,
    rejected: u64,
    news: VecDeque<News>,
    outputs: VecDeque<LinkOutput>,
}

snapshot!(struct Link {
    clock, own, levels, peers, lines, pairing, guard, wake_at, last_ticket, rejected, news, outputs,
});

impl Link {
    /// Handles an input of the driver.
    ///
    /// # Errors
    /// The contact is unknown, blocked or not paired, the address is empty or too long, another
    /// pairing is in progress, no digits wait for a decision, or the number of the connection is in
    /// use.
    pub fn handle_input(&mut self, input: LinkInput, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        self.check_event(&input.event)?;
        // Boot time never goes back. A later input of an earlier time must not extend deadlines.
        self.clock = self.clock.max(Time::from_ms(input.boot_ms));
        match input.event {
            // The driver has no time to wake at any more, so the next one is always requested.
            LinkReport::Due => self.wake_at = None,
            LinkReport::Opened { connection, dialled } => self.on_opened(connection, dialled, ctx),
            LinkReport::DialFailed { contact } => self.on_dial_failed(contact, ctx),
            LinkReport::Frame { connection, bytes } => self.on_frame(connection, &bytes, ctx),
            LinkReport::Closed { connection } => self.remove_line(connection, ctx),
            LinkReport::Pair(request) => self.begin_pairing(request, ctx),
            LinkReport::Confirm { equal } => self.confirm_digits(equal, ctx),
            LinkReport::CancelPairing => self.cancel_pairing(ctx),
            LinkReport::SetAddress { contact, address } => {
                self.set_address(contact, address, ctx);
            }
            LinkReport::JoinGuard { address, key } => self.join_guard(address, key, ctx),
            LinkReport::LeaveGuard => self.leave_guard(ctx),
            LinkReport::SetGuardDest { contact, dest } => self.set_guard_dest(contact, dest, ctx),
        }
        self.run_due(ctx);
        self.schedule_wake();
        Ok(())
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<LinkOutput> {
        self.outputs.pop_front()
    }

    /// Returns true if the device of this contact is paired.
    pub(super) fn is_paired(&self, contact: ContactId) -> bool {
        self.peers.contains_key(&contact)
    }

    /// Checks an event before anything changes (MSG-36).
    fn check_event(&self, event: &LinkReport) -> Result<(), DeviceError> {
        match event {
            LinkReport::Opened { connection, .. } if self.lines.contains_key(connection) => {
                // Frames of two connections under one number would be mixed.
                Err(PersonError::NotNow.into())
            }
            LinkReport::Pair(request) => {
                match self.levels.get(&request.contact) {
                    None => return Err(CallerError::NoSuchContact.into()),
                    Some(None) => return Err(PersonError::Blocked.into()),
                    Some(Some(_)) => {}
                }
                if request.address.as_deref().is_some_and(guard::is_bad_address) {
                    return Err(PersonError::BadDeviceAddress.into());
                }
                // The pairing and its first session would go around the guard (GUARD-55).
                if self.peers.get(&request.contact).is_some_and(|peer| peer.guard_dest.is_some()) {
                    return Err(PersonError::Guarded.into());
                }
                // One pairing at a time: the user must know which device shows the digits.
                if self.pairing.is_some() {
                    return Err(PersonError::PairingBusy.into());
                }
                Ok(())
            }
            LinkReport::Confirm { .. } if !self.has_digits() => Err(PersonError::NoDigits.into()),
            LinkReport::SetAddress { contact, address } => {
                let peer = self.peers.get(contact).ok_or(PersonError::NotPaired)?;
                if peer.role == LinkRole::Responder {
                    return Err(PersonError::NeverDialled.into());
                }
                if guard::is_bad_address(address) {
                    return Err(PersonError::BadDeviceAddress.into());
                }
                Ok(())
            }
            LinkReport::JoinGuard { address, .. } if guard::is_bad_address(address) => {
                Err(PersonError::BadGuardAddress.into())
            }
            LinkReport::LeaveGuard if self.guard.is_none() => Err(PersonError::NoGuard.into()),
            LinkReport::SetGuardDest { contact, dest } => self.check_guard_dest(*contact, *dest),
            _ => Ok(()),
        }
    }

    fn check_guard_dest(&self, contact: ContactId, dest: Option<u16>) -> Result<(), DeviceError> {
        let peer = self.peers.get(&contact).ok_or(PersonError::NotPaired)?;
        // A responder never dials, and connections that come in do not pass the guard yet.
        if peer.role == LinkRole::Responder {
            return Err(PersonError::NeverDialled.into());
        }
        if dest.is_some_and(|dest| !(1..=guard::DEST_MAX).contains(&dest)) {
            return Err(PersonError::BadGuardDest.into());
        }
        // A pairing in progress uses a connection around the guard.
        if self.pairing.as_ref().is_some_and(|pairing| pairing.is_with(contact)) {
            return Err(PersonError::PairingBusy.into());
        }
        if dest.is_some() && self.guard.is_none() {
            return Err(PersonError::NoGuard.into());
        }
        Ok(())
    }

    /// Returns true if the contact is served. A blocked contact is not (MSG-26).
    fn is_served(&self, contact: ContactId) -> bool {
        self.levels.get(&contact).is_some_and(Option::is_some)
    }

    fn set_address(
        &mut self,
        contact: ContactId,
        address: alloc::string::String,
        ctx: &mut Ctx<'_>,
    ) {
        // A connection to the earlier address can look open for a while after the address is gone.
        let pairs_on = self.pairing.as_ref().and_then(ContactPairing::line);
        self.close_lines_of(contact, pairs_on, ctx);
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.address = address;
            // The new address is tried at once.
            peer.dials_until = None;
            peer.on_sign();
        }
        self.store_peer(contact, ctx);
    }

    fn store_peer(&self, contact: ContactId, ctx: &mut Ctx<'_>) {
        if let Some(peer) = self.peers.get(&contact) {
            ctx.effects.put(RecordKind::LinkPeer, key32(contact.0), peer.stored_form());
        }
    }

    fn store_own(&self, ctx: &mut Ctx<'_>) {
        if let Some(row) = self.own.stored_form() {
            ctx.effects.put(RecordKind::LinkOwn, Vec::new(), row);
        }
    }

    /// Does all work whose time has come.
    fn run_due(&mut self, ctx: &mut Ctx<'_>) {
        self.wake_pairing(ctx);
        let now = self.clock;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.guard_deadline()) {
            self.drive_guard(None, ctx);
        }
        let over = self.lines.iter().filter(|(_, line)| line.ends <= now);
        for connection in over.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.close_line(connection, ctx);
        }
        let machines = self.peers.iter().filter(|(_, peer)| {
            is_due(peer.machine.as_ref().and_then(|machine| machine.deadline()))
        });
        for contact in machines.map(|(contact, _)| *contact).collect::<Vec<_>>() {
            self.drive_machine(contact, None, ctx);
        }
        for peer in self.peers.values_mut() {
            if is_due(peer.dials_until) {
                (peer.dials_until, peer.is_dial_stale) = (None, false);
                peer.on_miss(now, ctx.rng);
            }
        }
        let dials =
            self.peers.iter().filter(|(contact, peer)| is_due(self.dial_time(**contact, peer)));
        for contact in dials.map(|(contact, _)| *contact).collect::<Vec<_>>() {
            self.dial_contact(contact);
        }
    }

    fn dial_contact(&mut self, contact: ContactId) {
        let Some(peer) = self.peers.get_mut(&contact) else { return };
        let address = match (peer.guard_dest, &self.guard) {
            (None, _) => peer.address.clone(),
            (Some(_), Some(guard)) => guard.address.clone(),
            // Never around the guard.
            (Some(_), None) => return,
        };
        peer.dials_until = Some(self.clock.plus_ms(DIAL_MS));
        self.outputs.push_back(LinkOutput::Dial { contact, address });
    }

    /// Returns the time of the next dial to a contact, or `None` if none is needed. Only an
    /// initiator dials (SEKA-10).
    fn dial_time(&self, contact: ContactId, peer: &LinkPeer) -> Option<Time> {
        let may_dial = peer.role == LinkRole::Initiator
            && self.is_served(contact)
            && !peer.address.is_empty()
            && (peer.guard_dest.is_none() || self.guard.is_some())
            && peer.dials_until.is_none()
            && peer.exchanging.is_none()
            // The result of a dial belongs to the pairing while there is one.
            && self.pairing.as_ref().is_none_or(|pairing| !pairing.is_with(contact));
        let session = peer.up.and_then(|up| self.lines.get(&up)?.session.as_ref());
        let renewed = session.map_or(Time::default(), LineSession::renewal);
        may_dial.then(|| renewed.max(peer.next_dial))
    }

    /// Requests the next `Due` input, if its time has changed.
    fn schedule_wake(&mut self) {
        let lines = self.lines.values().map(|line| line.ends);
        let peers = self.peers.iter().flat_map(|(contact, peer)| {
            let machine = peer.machine.as_ref().and_then(|machine| machine.deadline());
            [machine, peer.dials_until, self.dial_time(*contact, peer)].into_iter().flatten()
        });
        let pairing = self.pairing.as_ref().and_then(ContactPairing::deadline);
        let next = lines.chain(peers).chain(pairing).chain(self.guard_deadline()).min();
        if next != self.wake_at {
            self.wake_at = next;
            self.outputs.push_back(LinkOutput::WakeAt { boot_ms: next.map(Time::as_ms) });
        }
    }

    fn on_opened(
        &mut self,
        connection: LinkConnection,
        dialled: Option<ContactId>,
        ctx: &mut Ctx<'_>,
    ) {
        let unknown = self.lines.values().filter(|line| line.session.is_none()).count();
        let is_full =
            self.lines.len() >= LINES_MAX || (dialled.is_none() && unknown >= UNKNOWN_LINES_MAX);
        let ends = self.clock.plus_ms(EXCHANGE_MS);
        if !is_full {
            self.lines.insert(connection, Line::new(dialled, ends));
        }
        let Some(contact) = dialled else {
            // Unknown devices must not use up all connections.
            if is_full {
                self.outputs.push_back(LinkOutput::Close { connection });
            }
            return;
        };
        if is_full {
            self.outputs.push_back(LinkOutput::Close { connection });
            return self.on_dial_failed(contact, ctx);
        }
        if self.pairing.as_ref().is_some_and(|pairing| pairing.dials(contact)) {
            return self.begin_run(Some(connection), ctx);
        }
        match self.peers.get_mut(&contact) {
            Some(peer) if peer.dials_until.is_some() && !peer.is_dial_stale => {
                peer.dials_until = None;
                match peer.guard_dest {
                    Some(dest) => self.begin_guarded(contact, connection, dest, ctx),
                    None => self.begin_exchange(contact, connection, ctx),
                }
            }
            // The dial came too late: the contact was forgotten or is reached otherwise.
            peer => {
                if let Some(peer) = peer {
                    (peer.dials_until, peer.is_dial_stale) = (None, false);
                }
                self.close_line(connection, ctx);
            }
        }
    }

    fn on_dial_failed(&mut self, contact: ContactId, ctx: &mut Ctx<'_>) {
        if self.pairing.as_ref().is_some_and(|pairing| pairing.dials(contact)) {
            return self.fail_pairing(PairingTrouble::NotReached, ctx);
        }
        if let Some(peer) = self.peers.get_mut(&contact).filter(|peer| peer.dials_until.is_some()) {
            peer.dials_until = None;
            if core::mem::replace(&mut peer.is_dial_stale, false) {
                // It says nothing about the present way.
                return;
            }
            peer.on_miss(self.clock, ctx.rng);
            if peer.guard_dest.is_some() {
                self.set_guard_trouble(contact, Some(GuardTrouble::Unreachable), ctx);
            }
        }
    }

    /// Closes a connection and forgets it.
    fn close_line(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        if self.lines.contains_key(&connection) {
            self.send_end(connection);
            self.outputs.push_back(LinkOutput::Close { connection });
            self.remove_line(connection, ctx);
        }
    }

    /// Forgets a connection. Parcels without an acknowledgement are returned to the device.
    fn remove_line(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        let Some(line) = self.lines.remove(&connection) else { return };
        let guarded = line.guard.as_ref().map(|talk| match line.session {
            Some(_) => GuardedEnd::Answered,
            None if talk.is_over => GuardedEnd::Unanswered,
            None => GuardedEnd::Talking,
        });
        let out = line.session.map(|session| session.out).unwrap_or_default();
        if !out.is_empty() {
            // The other device may have stored them: its ratchet recognises a repetition.
            self.news.push_back(News::Returned(out.into_values().collect()));
        }
        if let Some(peer) = line.contact.and_then(|contact| self.peers.get_mut(&contact)) {
            let was_up = peer.up.take_if(|up| *up == connection).is_some();
            let was_exchanging = peer.exchanging.take_if(|line| *line == connection).is_some();
            // A pause after each end prevents a loop with a device that closes at once.
            if was_up || was_exchanging {
                peer.on_miss(self.clock, ctx.rng);
            }
            if was_up {
                ctx.effects.show_early(Event::Carrier(CarrierId::LINK));
            }
        }
        if let Some(end) = guarded {
            self.on_guarded_closed(connection, line.contact, end, ctx);
        }
        self.on_pairing_line_closed(connection, ctx);
    }

    /// Closes all connections with a contact except `kept`.
    fn close_lines_of(
        &mut self,
        contact: ContactId,
        kept: Option<LinkConnection>,
        ctx: &mut Ctx<'_>,
    ) {
        let own = self.lines.iter().filter(|(connection, line)| {
            line.contact == Some(contact) && Some(**connection) != kept
        });
        for connection in own.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.close_line(connection, ctx);
        }
    }
}

/// Returns a connection in the form in which SEKA stores the source of a frame.
fn address_of(connection: LinkConnection) -> PeerAddress {
    let mut address = PeerAddress::default();
    address.0[..4].copy_from_slice(&connection.0.to_be_bytes());
    address
}

/// Returns the connection of such a source.
fn connection_of(address: &PeerAddress) -> LinkConnection {
    let [a, b, c, d, ..] = address.0;
    LinkConnection(u32::from_be_bytes([a, b, c, d]))
}
