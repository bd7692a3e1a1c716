//! Connections that pass a guard: the client of `mezza-guard` on a connection before the exchange.
//!
//! ```text
//! Dial the guard -> Opened -> HAIL, HELLO, OPEN, SLOT, POINT, COIN, READY -> KE1 with the joint key
//! ```
//!
//! A contact with a destination is reached through the guard only: without the guard there is no
//! connection, and its exchange has no key but the joint one (GUARD-55).

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, EphemeralKey, Machine, Reader, Secret, Wiping, Writer, snapshot};
use mezza_guard::client::{GuardClient, Input as GuardInput, Output as GuardOutput, StoredCoin};
use mezza_guard::coin::CoinEncoding;
use mezza_guard::guard::GuardConnection;
use mezza_guard::keys::{GuardClientId, PairingKey};
use mezza_guard::wire::control::{GuardMode, RefusalCode};

use super::peer::ADDRESS_BYTES_MAX;
use super::{EXCHANGE_MS, GuardTrouble, Link, LinkConnection, LinkOutput};
use crate::evidence::WaitReason;
use crate::io::{
    CarrierId, ContactId, Ctx, Effects, Event, RecordKind, RowsByKey, Unloaded, read_text,
};
use crate::view::Part;

/// Version of the stored pairing.
const VERSION: u8 = 1;
/// Bytes of a coin's row key: the commitment of the guard.
const COMMITMENT_BYTES: usize = 32;
/// The highest number of a destination. Higher ones are lanes of inbound connections.
pub(super) const DEST_MAX: u16 = 0xffef;

/// The guard that was joined.
pub(super) struct LinkGuard {
    /// `host:port` of the guard, at most 255 bytes.
    pub address: String,
    key: Secret<32>,
    machine: GuardClient,
}

snapshot!(struct LinkGuard { address, key, machine => Machine::snapshot(machine) });

impl LinkGuard {
    fn new(address: String, key: Secret<32>) -> Self {
        let pairing = PairingKey::from_secret(key.duplicate());
        Self { address, key, machine: GuardClient::new(pairing, CoinEncoding::X25519) }
    }

    /// Returns the row: `version u8 | pairing key[32] | len u8 | address`.
    fn stored_form(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(34 + self.address.len());
        w.put_u8(VERSION).put_bytes(self.key.expose()).put_var8(self.address.as_bytes());
        Wiping::new(w.finish())
    }

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let key = Secret::read_from(r)?;
            let address = read_text(r.read_var8()?)?;
            if address.is_empty() { Err(DecodeError::Value) } else { Ok(Self::new(address, key)) }
        })
    }

    /// Drops the rows of the coins, which are of no use under another pairing.
    fn drop_coins(&self, ctx: &mut Ctx<'_>) {
        for coin in self.machine.stored_coins() {
            ctx.effects.drop_row(RecordKind::Guard, coin.commitment().to_vec());
        }
    }

    fn client_id(&self) -> GuardClientId {
        PairingKey::from_secret(self.key.duplicate()).client_id()
    }

    /// Loads a stored coin. Its key is the guard's commitment.
    fn load_coin(&mut self, key: &[u8], row: &[u8]) -> Result<(), DecodeError> {
        read_coin(self.client_id(), key, row)?;
        self.machine.load_coin(row)
    }
}

/// Reads the row of a coin.
fn read_coin(client: GuardClientId, key: &[u8], row: &[u8]) -> Result<StoredCoin, DecodeError> {
    let coin = StoredCoin::decode(client, row)?;
    // The row would be found under another commitment than the guard offers.
    if coin.commitment()[..] == *key { Ok(coin) } else { Err(DecodeError::Value) }
}

/// Encodes a row again, as the next start reads it (MSG-43).
pub(super) fn read_again(key: &[u8], row: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
    match key.len() {
        0 => LinkGuard::read(row).map(|guard| guard.stored_form()),
        COMMITMENT_BYTES => {
            let client = GuardClientId([0; 16]);
            read_coin(client, key, row).map(|coin| coin.encode())
        }
        _ => Err(DecodeError::Value),
    }
}

/// The guard's part of a connection.
#[derive(Default)]
pub(super) struct GuardTalk {
    /// The joint key, until the exchange uses it.
    key: Option<EphemeralKey>,
    /// True if the guard has connected to the other device.
    is_ready: bool,
    /// True if the exchange has begun: frames of the other device may come.
    pub is_over: bool,
}

snapshot!(struct GuardTalk { key, is_ready, is_over });

impl GuardTrouble {
    /// Returns true if the guard itself is the reason, and not the device behind it.
    pub(super) fn is_of_guard(self) -> bool {
        !matches!(self, Self::Refused(RefusalCode::Unreachable) | Self::Unanswered)
    }
}

impl Link {
    /// Returns the reason why a contact has no connection that is up.
    pub(super) fn wait_reason(&self, contact: ContactId) -> WaitReason {
        let peer = self.peers.get(&contact).filter(|peer| peer.guard_dest.is_some());
        let Some(peer) = peer else { return WaitReason::NoCarrier };
        // Without the pairing nothing is dialled: never around the guard (GUARD-55).
        let is_guard =
            self.guard.is_none() || peer.guard_trouble.is_some_and(GuardTrouble::is_of_guard);
        if is_guard { WaitReason::Guard } else { WaitReason::NoCarrier }
    }

    /// Joins a guard. Connections through the guard before end.
    pub(super) fn join_guard(&mut self, address: String, key: Secret<32>, ctx: &mut Ctx<'_>) {
        self.restart_guarded_peers(ctx);
        match &mut self.guard {
            // The guard requires the points that were sent to it (GUARD-22).
            Some(guard) if guard.key == key => guard.address = address,
            before => {
                if let Some(before) = before {
                    before.drop_coins(ctx);
                }
                *before = Some(LinkGuard::new(address, key));
            }
        }
        if let Some(guard) = &self.guard {
            ctx.effects.put(RecordKind::Guard, Vec::new(), guard.stored_form());
        }
        ctx.effects.show_early(Event::Carrier(CarrierId::LINK));
    }

    /// Leaves the guard. Contacts with a destination are not dialled until the user joins a guard again,
    /// or takes their destination away (GUARD-61).
    pub(super) fn leave_guard(&mut self, ctx: &mut Ctx<'_>) {
        self.restart_guarded_peers(ctx);
        if let Some(guard) = self.guard.take() {
            guard.drop_coins(ctx);
            ctx.effects.drop_row(RecordKind::Guard, Vec::new());
        }
        ctx.effects.show_early(Event::Carrier(CarrierId::LINK));
    }

    /// Ends the connections through the guard.
    fn restart_guarded_peers(&mut self, ctx: &mut Ctx<'_>) {
        let guarded = self.peers.iter().filter(|(_, peer)| peer.guard_dest.is_some());
        for contact in guarded.map(|(contact, _)| *contact).collect::<Vec<_>>() {
            self.restart_peer(contact, ctx);
            self.set_guard_trouble(contact, None, ctx);
        }
    }

    /// Sets the guard's number for the contact's device; `None` connects without a guard.
    pub(super) fn set_guard_dest(
        &mut self,
        contact: ContactId,
        dest: Option<u16>,
        ctx: &mut Ctx<'_>,
    ) {
        // A connection that is up went around the guard, or to another destination.
        self.restart_peer(contact, ctx);
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.guard_dest = dest;
        }
        self.set_guard_trouble(contact, None, ctx);
        self.store_peer(contact, ctx);
    }

    /// Ends all connections with a contact, and dials anew as soon as no earlier dial is open.
    fn restart_peer(&mut self, contact: ContactId, ctx: &mut Ctx<'_>) {
        self.close_lines_of(contact, None, ctx);
        if let Some(peer) = self.peers.get_mut(&contact) {
            (peer.joint_key, peer.machine) = (None, None);
            // A connection that is being made goes around the guard, or to another destination.
            peer.is_dial_stale = peer.dials_until.is_some();
            peer.on_sign();
        }
        ctx.effects.touch(contact);
    }

    /// Begins to talk with the guard on a connection that was dialled.
    pub(super) fn begin_guarded(
        &mut self,
        contact: ContactId,
        connection: LinkConnection,
        dest: u16,
        ctx: &mut Ctx<'_>,
    ) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.guard = Some(GuardTalk::default());
        }
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.exchanging = Some(connection);
        }
        let conn = conn_of(connection);
        self.drive_guard(Some(GuardInput::Dial(conn, GuardMode::Coins, dest)), ctx);
    }

    /// Handles a control frame.
    pub(super) fn on_guard_frame(
        &mut self,
        connection: LinkConnection,
        bytes: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let is_guarded = self.lines.get(&connection).is_some_and(|line| line.guard.is_some());
        if !is_guarded {
            // Only the guard that this device dialled sends control frames.
            return self.reject_line(connection, ctx);
        }
        let input = GuardInput::Frame(conn_of(connection), bytes.to_vec());
        self.drive_guard(Some(input), ctx);
    }

    /// Erases the device's part of a key whose frame was answered (GUARD-23).
    pub(super) fn on_key_answered(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        if self.lines.get(&connection).is_some_and(|line| line.guard.is_some()) {
            self.drive_guard(Some(GuardInput::Answered(conn_of(connection))), ctx);
        }
    }

    /// Handles the end of a connection through the guard.
    pub(super) fn on_guarded_closed(
        &mut self,
        connection: LinkConnection,
        contact: Option<ContactId>,
        end: GuardedEnd,
        ctx: &mut Ctx<'_>,
    ) {
        let trouble = match end {
            GuardedEnd::Talking => Some(GuardTrouble::Closed),
            GuardedEnd::Unanswered => Some(GuardTrouble::Unanswered),
            GuardedEnd::Answered => None,
        };
        let now = self.clock;
        if let (Some(contact), Some(trouble)) = (contact, trouble) {
            let peer = self.peers.get_mut(&contact);
            if let Some(peer) = peer.filter(|_| trouble == GuardTrouble::Unanswered) {
                peer.on_unanswered(now);
            }
            self.set_guard_trouble(contact, Some(trouble), ctx);
        }
        self.drive_guard(Some(GuardInput::Closed(conn_of(connection))), ctx);
    }

    /// Passes an input to the client's machine, or wakes it, and carries out its requests.
    pub(super) fn drive_guard(&mut self, input: Option<GuardInput>, ctx: &mut Ctx<'_>) {
        let now = self.clock;
        let Some(guard) = &mut self.guard else { return };
        match input {
            // A connection that the machine has closed already is unknown to it.
            Some(input) => {
                let _ = guard.machine.handle(input, now, ctx.rng);
            }
            None => guard.machine.wake(now, ctx.rng),
        }
        let outputs = core::iter::from_fn(|| guard.machine.poll()).collect::<Vec<_>>();
        for output in outputs {
            self.carry_out_guard(output, ctx);
        }
    }

    fn carry_out_guard(&mut self, output: GuardOutput, ctx: &mut Ctx<'_>) {
        match output {
            GuardOutput::Send(conn, bytes) => {
                self.outputs.push_back(LinkOutput::Send { connection: connection_at(conn), bytes });
            }
            // The row is durable before a frame of this turn leaves (MSG-16, GUARD-23).
            GuardOutput::Store(coin) => {
                ctx.effects.put(RecordKind::Guard, coin.commitment().to_vec(), coin.encode());
            }
            GuardOutput::Erase(h) => ctx.effects.drop_row(RecordKind::Guard, h.to_vec()),
            GuardOutput::Gift(gift) => self.outputs.push_back(LinkOutput::Gift { gift }),
            GuardOutput::Key(conn, pair) => {
                let key = pair.into_ephemeral();
                self.change_talk(connection_at(conn), |talk| talk.key = Some(key), ctx);
            }
            GuardOutput::Ready(conn) => {
                self.change_talk(connection_at(conn), |talk| talk.is_ready = true, ctx);
            }
            GuardOutput::Refused(conn, code) => {
                self.fail_guarded(connection_at(conn), GuardTrouble::Refused(code), ctx);
            }
            GuardOutput::Close(conn) => {
                self.fail_guarded(connection_at(conn), GuardTrouble::Closed, ctx);
            }
        }
    }

    /// Changes the state of a connection to the guard, and begins the exchange once the key is made
    /// and the other device is connected.
    fn change_talk(
        &mut self,
        connection: LinkConnection,
        change: impl FnOnce(&mut GuardTalk),
        ctx: &mut Ctx<'_>,
    ) {
        let ends = self.clock.plus_ms(EXCHANGE_MS);
        let Some(line) = self.lines.get_mut(&connection) else { return };
        let (Some(talk), Some(contact)) = (&mut line.guard, line.contact) else { return };
        change(talk);
        if talk.is_over || !talk.is_ready {
            return;
        }
        let Some(key) = talk.key.take() else { return };
        talk.is_over = true;
        line.ends = ends;
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.joint_key = Some(key);
        }
        // An attempt is numbered only now, so that no number is lost at the guard (seka.md, 4.7).
        self.begin_exchange(contact, connection, ctx);
        // The guard has proven that it serves this destination.
        let trouble = self.peers.get(&contact).and_then(|peer| peer.guard_trouble);
        if trouble.is_some_and(GuardTrouble::is_of_guard) {
            self.set_guard_trouble(contact, None, ctx);
        }
    }

    /// Ends a connection to the guard for a reason that the user is shown.
    fn fail_guarded(
        &mut self,
        connection: LinkConnection,
        trouble: GuardTrouble,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        // The reason is known, so the end of the connection gives no other one.
        line.guard = None;
        if let Some(contact) = line.contact {
            self.set_guard_trouble(contact, Some(trouble), ctx);
        }
        self.close_line(connection, ctx);
        self.drive_guard(Some(GuardInput::Closed(conn_of(connection))), ctx);
    }

    /// Sets the reason why the guard did not lead to a contact's device, and reports it if it is
    /// another one.
    pub(super) fn set_guard_trouble(
        &mut self,
        contact: ContactId,
        trouble: Option<GuardTrouble>,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(&contact) else { return };
        if peer.guard_trouble == trouble {
            return;
        }
        peer.guard_trouble = trouble;
        self.outputs.push_back(LinkOutput::GuardTrouble { contact, trouble });
        // Waiting notes show the reason, or take the next carrier.
        ctx.effects.touch(contact);
        ctx.effects.show_early(Event::Carrier(CarrierId::LINK));
    }

    /// Loads the pairing with the guard and its coins. Returns the rows that do not load.
    pub(super) fn load_guard(&mut self, mut rows: RowsByKey) -> Vec<Unloaded> {
        let unloaded = |key: Vec<u8>, row: &Wiping<Vec<u8>>| {
            Unloaded::new(Part::Other, RecordKind::Guard, key, row)
        };
        let mut refused = Vec::new();
        if let Some(row) = rows.remove(&[][..]) {
            match LinkGuard::read(&row) {
                Ok(guard) => self.guard = Some(guard),
                // The device loads. Links with a destination stay closed (GUARD-57).
                Err(_) => refused.push(unloaded(Vec::new(), &row)),
            }
        }
        for (key, row) in rows {
            let is_loaded = match &mut self.guard {
                Some(guard) => guard.load_coin(&key, &row).is_ok(),
                None => false,
            };
            if !is_loaded {
                refused.push(unloaded(key, &row));
            }
        }
        refused
    }

    /// Writes the rows of the guard.
    pub(super) fn put_guard(&self, effects: &mut Effects) {
        let Some(guard) = &self.guard else { return };
        effects.put(RecordKind::Guard, Vec::new(), guard.stored_form());
        for coin in guard.machine.stored_coins() {
            effects.put(RecordKind::Guard, coin.commitment().to_vec(), coin.encode());
        }
    }

    /// Returns the time at which the client's machine has work.
    pub(super) fn guard_deadline(&self) -> Option<mezza_core::Time> {
        self.guard.as_ref().and_then(|guard| guard.machine.deadline())
    }
}

/// How far a connection through the guard was when it ended.
#[derive(Clone, Copy)]
pub(super) enum GuardedEnd {
    /// The guard had not connected to the other device yet.
    Talking,
    /// The other device had not answered.
    Unanswered,
    /// There was a session.
    Answered,
}

/// Returns true if an address is empty or too long for a row.
pub(super) fn is_bad_address(address: &str) -> bool {
    address.is_empty() || address.len() > ADDRESS_BYTES_MAX
}

fn conn_of(connection: LinkConnection) -> GuardConnection {
    GuardConnection(connection.0.into())
}

/// Returns the connection of the machine's number, which [`conn_of`] made.
fn connection_at(conn: GuardConnection) -> LinkConnection {
    LinkConnection(u32::try_from(conn.0).unwrap_or(u32::MAX))
}
