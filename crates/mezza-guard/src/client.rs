//! The machine of a client, which generates the ephemeral keys of its links together with its
//! guard.
//!
//! ```text
//! Dial --HAIL--> Hailed --HELLO: OPEN--> Opened --SEED, SLOT: x_c stored, POINT--> Pointed
//!      --COIN fits h--> key handed over --READY--> Ready;  Answered: x_c wiped
//! ```
//! `x_c` is stored before its point is sent, and is used with one h only (GUARD-23, GUARD-24). A
//! second coin on one `x_c` would give two keys whose difference the guard knows.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, DecodeError, Machine, Reader, Secret, Snapshot, Time, Wiping, Writer};

use crate::coin::{CoinEncoding, CoinKeyPair, CoinPurpose, CoinSecret, Rho, SlotIndex, SlotName};
use crate::connections::{Connections, NoRoom};
use crate::guard::{GuardConnection, LANES};
use crate::keys::{GuardClientId, PairingKey};
use crate::wire::control::{Control, ControlChannel, GuardMode, RefusalCode, SlotValue};

/// Most stored coins: one per destination and lane in use.
pub const STORED_COINS_MAX: usize = 64;
/// Most connections to the guard at once.
const CONNECTIONS_MAX: usize = 64;

/// Events that a client handles.
#[derive(Debug)]
pub enum Input {
    /// A connection to the guard was made, for a link to this destination.
    Dial(GuardConnection, GuardMode, u16),
    /// The guard has connected to this client.
    Accepted(GuardConnection),
    /// A control frame arrived from the guard.
    Frame(GuardConnection, Vec<u8>),
    /// The peer answered the frame with the key, so the secret is no longer needed.
    Answered(GuardConnection),
    /// The connection ended.
    Closed(GuardConnection),
}

/// Effects that a client requests.
#[derive(Debug)]
pub enum Output {
    /// Send a control frame to the guard.
    Send(GuardConnection, Vec<u8>),
    /// Store a coin, durably, before the next output.
    Store(StoredCoin),
    /// Erase the stored coin of this h.
    Erase([u8; 32]),
    /// Mix these 32 bytes into the device's random generator; they count as no entropy.
    Gift(Secret<32>),
    /// Use this key in the handshake of the unmodified protocol.
    Key(GuardConnection, CoinKeyPair),
    /// The destination answered: handshake frames may be sent.
    Ready(GuardConnection),
    /// The guard refused the connection.
    Refused(GuardConnection, RefusalCode),
    /// Close the connection: the guard broke the rules.
    Close(GuardConnection),
}

/// The reason why an input is refused. The client is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardClientError {
    /// The caller used an unknown connection number.
    #[error("no such connection")]
    UnknownConnection,
    /// The caller used a connection number that is already in use.
    #[error("the number stands for a connection already")]
    Twice,
    /// There are too many connections or stored coins.
    #[error("too many connections or points")]
    TooMany,
}

/// A coin of this client, which is stored before its point is sent. Row kind 22 of a vault.
#[derive(Debug)]
pub struct StoredCoin {
    /// The slot of the coin. For an inbound connection its lane is set once COIN shows it.
    slot: SlotIndex,
    /// The commitment of the guard.
    h: [u8; 32],
    secret: CoinSecret,
}

impl From<NoRoom> for GuardClientError {
    fn from(none: NoRoom) -> Self {
        match none {
            NoRoom::Twice => Self::Twice,
            NoRoom::Full => Self::TooMany,
        }
    }
}

impl StoredCoin {
    /// Returns the guard's commitment, which is the coin's key in a store.
    pub const fn commitment(&self) -> &[u8; 32] {
        &self.h
    }

    /// Encodes the stored form: `purpose u8 | dest u16 | index u64 | h 32 | x_c 32`.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(75);
        let SlotIndex { name, index } = &self.slot;
        w.put_u8(name.purpose.wire_byte()).put_u16(name.dest).put_u64(*index).put_bytes(&self.h);
        w.put_bytes(self.secret.encode().expose());
        Wiping::new(w.finish())
    }

    /// Reads the stored form of a coin of `client`.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not what [`encode`](Self::encode) writes.
    pub fn decode(client: GuardClientId, bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let purpose = CoinPurpose::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
            let name = SlotName { client, purpose, dest: r.read_u16()? };
            let slot = SlotIndex { name, index: r.read_u64()? };
            let h = r.read_array()?;
            let secret = CoinSecret::decode(r.read_array_ref()?).map_err(|_| DecodeError::Value)?;
            Ok(Self { slot, h, secret })
        })
    }

    fn duplicate(&self) -> Self {
        Self { slot: self.slot, h: self.h, secret: self.secret.duplicate() }
    }
}

/// One connection to the guard.
struct Dialogue {
    /// The requested mode and destination; `None` if the guard connected.
    wants: Option<(GuardMode, u16)>,
    nonce: [u8; 32],
    channel: Option<ControlChannel>,
    /// The commitment of the slot whose point was sent.
    pointed: Option<[u8; 32]>,
    /// The commitment of the slot whose key is in use.
    in_use: Option<[u8; 32]>,
}

/// The machine of a guard's client.
pub struct GuardClient {
    pairing: PairingKey,
    encoding: CoinEncoding,
    coins: BTreeMap<[u8; 32], StoredCoin>,
    dialogues: Connections<Dialogue>,
    out: VecDeque<Output>,
}

impl GuardClient {
    /// Creates a client with its pairing key.
    pub fn new(pairing: PairingKey, encoding: CoinEncoding) -> Self {
        Self {
            pairing,
            encoding,
            coins: BTreeMap::new(),
            dialogues: Connections::new(CONNECTIONS_MAX),
            out: VecDeque::new(),
        }
    }

    /// Loads a stored coin.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a coin, or if [`STORED_COINS_MAX`] coins are loaded.
    pub fn load_coin(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        // The client's name is not stored, because the pairing key determines it.
        let coin = StoredCoin::decode(self.pairing.client_id(), bytes)?;
        // There is one coin per destination and lane, so the limit bounds the memory (GUARD-36).
        if self.coins.len() >= STORED_COINS_MAX {
            return Err(DecodeError::Value);
        }
        self.coins.insert(coin.h, coin);
        Ok(())
    }

    /// Returns the coins as they are stored.
    pub fn stored_coins(&self) -> impl Iterator<Item = &StoredCoin> {
        self.coins.values()
    }

    fn begin_connection(
        &mut self,
        conn: GuardConnection,
        wants: Option<(GuardMode, u16)>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardClientError> {
        // Checked before the nonce is drawn, so that a refused connection changes nothing.
        self.dialogues.check_room(conn)?;
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        let dialogue = Dialogue { wants, nonce, channel: None, pointed: None, in_use: None };
        // The end that connected sends first. An inbound client waits for HELLO.
        if wants.is_some() {
            self.out.push_back(Output::Send(conn, self.hail_frame(nonce)));
        }
        self.dialogues.insert(conn, dialogue, now);
        Ok(())
    }

    fn hail_frame(&self, nonce: [u8; 32]) -> Vec<u8> {
        Control::Hail { client: self.pairing.client_id(), nonce }.encode_clear()
    }

    /// Handles a frame of the guard. A violation of the rules ends the connection. No coin is used
    /// twice.
    fn on_frame(
        &mut self,
        conn: GuardConnection,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardClientError> {
        let mut dialogue =
            self.dialogues.take_out(conn).ok_or(GuardClientError::UnknownConnection)?;
        if self.apply_frame(conn, &mut dialogue, frame, rng).is_some() {
            // The dialogue is taken out while it is processed, so that the check of other
            // connections sees only the others (GUARD-24).
            self.dialogues.put_back(conn, dialogue);
        } else {
            self.dialogues.remove(conn);
            self.out.push_back(Output::Close(conn));
        }
        Ok(())
    }

    fn apply_frame(
        &mut self,
        conn: GuardConnection,
        dialogue: &mut Dialogue,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Option<()> {
        let Some(channel) = &mut dialogue.channel else {
            // A frame in clear other than HELLO has no tag and is refused.
            let Control::Hello { nonce } = Control::read_clear(frame).ok()? else { return None };
            // Both nonces enter the key, so that an earlier connection cannot be replayed.
            let mut channel = ControlChannel::of_client(&self.pairing, &nonce, &dialogue.nonce);
            let answer = match dialogue.wants {
                Some((mode, dest)) => channel.seal(&Control::Open { mode, dest }),
                None => self.hail_frame(dialogue.nonce),
            };
            self.out.push_back(Output::Send(conn, answer));
            dialogue.channel = Some(channel);
            return Some(());
        };
        match channel.open(frame).ok()? {
            Control::Seed(seed) => self.out.push_back(Output::Gift(Secret::copy_from(&seed))),
            Control::Slot(slot) => self.on_slot(conn, dialogue, &slot, rng)?,
            Control::Coin(coin) => self.on_coin(conn, dialogue, &coin)?,
            Control::Ready => {
                // The destination answered, so the deadline of the handshake no longer applies.
                self.dialogues.clear_deadline(conn);
                self.out.push_back(Output::Ready(conn));
            }
            Control::Refused(code) => self.out.push_back(Output::Refused(conn, code)),
            _ => return None,
        }
        Some(())
    }

    /// Handles SLOT: uses the stored `x_c` of this commitment or draws a new one. Coins with a
    /// lower number in the slot are erased.
    fn on_slot(
        &mut self,
        conn: GuardConnection,
        dialogue: &mut Dialogue,
        slot: &SlotValue,
        rng: &mut dyn CryptoRng,
    ) -> Option<()> {
        let dest = dialogue.wants.map(|(_, dest)| dest);
        let purpose =
            if dest.is_some() { CoinPurpose::LinkDialling } else { CoinPurpose::LinkAnswering };
        // A second SLOT would need a second point in one handshake.
        if dialogue.pointed.is_some() || slot.purpose != purpose {
            return None;
        }
        let h = slot.value;
        // One key serves one handshake at a time, whatever the guard offers.
        if self.dialogues.values().any(|other| other.pointed == Some(h)) {
            return None;
        }
        if !self.coins.contains_key(&h) {
            // A larger index means that the old key was sent or will never be (GUARD-23).
            self.forget_older(dest, slot.index);
            if self.coins.len() >= STORED_COINS_MAX {
                return None;
            }
            let name =
                SlotName { client: self.pairing.client_id(), purpose, dest: dest.unwrap_or(0) };
            let slot = SlotIndex { name, index: slot.index };
            let coin = StoredCoin { slot, h, secret: CoinSecret::random(rng) };
            // Stored before POINT, because after a crash the guard requests this same point again
            // (GUARD-22, GUARD-23).
            self.out.push_back(Output::Store(coin.duplicate()));
            self.coins.insert(h, coin);
        }
        let coin = self.coins.get(&h)?;
        // A commitment that is offered again under another number would combine one `x_c` with two
        // coins.
        if coin.slot.index != slot.index || dest.is_some_and(|dest| coin.slot.name.dest != dest) {
            return None;
        }
        let point = SlotValue { value: coin.secret.point(self.encoding), ..slot.clone() };
        let frame = dialogue.channel.as_mut()?.seal(&Control::Point(point));
        // From here on no other connection may use this commitment (GUARD-24).
        dialogue.pointed = Some(h);
        self.out.push_back(Output::Send(conn, frame));
        Some(())
    }

    /// Erases coins of a destination with a lower number: their keys were sent or will never be.
    fn forget_older(&mut self, dest: Option<u16>, index: u64) {
        let Some(dest) = dest else { return };
        let is_older = |coin: &StoredCoin| {
            let SlotIndex { name, index: own } = coin.slot;
            name.purpose == CoinPurpose::LinkDialling && name.dest == dest && own <= index
        };
        let older: Vec<[u8; 32]> =
            self.coins.values().filter(|coin| is_older(coin)).map(|coin| coin.h).collect();
        for h in older {
            self.erase_coin(h);
        }
    }

    /// Stores the lane of an inbound coin, which only COIN shows, and erases older coins of that
    /// lane. Otherwise a peer that drops third messages could fill the store (GUARD-23).
    fn forget_older_of_lane(&mut self, h: [u8; 32], lane: u16, index: u64) {
        if let Some(coin) = self.coins.get_mut(&h)
            && coin.slot.name.dest != lane
        {
            coin.slot.name.dest = lane;
            // With the lane in the stored coin, a later COIN of this lane erases it after a
            // restart.
            self.out.push_back(Output::Store(coin.duplicate()));
        }
        let is_older = |coin: &StoredCoin| {
            let SlotIndex { name, index: own } = coin.slot;
            name.purpose == CoinPurpose::LinkAnswering && name.dest == lane && own < index
        };
        let older: Vec<[u8; 32]> =
            self.coins.values().filter(|coin| is_older(coin)).map(|coin| coin.h).collect();
        for h in older {
            self.erase_coin(h);
        }
    }

    fn erase_coin(&mut self, h: [u8; 32]) {
        if self.coins.remove(&h).is_some() {
            // Erased on disk too, because a thief of the store could otherwise compute past keys.
            self.out.push_back(Output::Erase(h));
        }
    }

    /// Handles COIN: computes the joint key if the coin matches the commitment (GUARD-25).
    fn on_coin(
        &mut self,
        conn: GuardConnection,
        dialogue: &mut Dialogue,
        coin: &SlotValue,
    ) -> Option<()> {
        // There is one COIN per point, because a second one would give a second key for the same
        // x_c.
        let h = dialogue.pointed.filter(|_| dialogue.in_use.is_none())?;
        let stored = self.coins.get(&h)?;
        // A coin of another slot does not match the commitment.
        if coin.index != stored.slot.index || coin.purpose != stored.slot.name.purpose {
            return None;
        }
        let rho = Rho::decode(&coin.value).ok()?;
        let dests: Vec<u16> = match dialogue.wants {
            Some((_, dest)) => alloc::vec![dest],
            // The lane is not part of SLOT, so all eight are tried against the commitment.
            None => LANES.collect(),
        };
        let of_dest = |dest: u16| {
            let name = SlotName { dest, ..stored.slot.name };
            stored.secret.with_coin(&SlotIndex { name, ..stored.slot }, &h, &rho).ok()
        };
        let (dest, pair) = dests.into_iter().find_map(|dest| Some((dest, of_dest(dest)?)))?;
        // x_c is erased when the peer answers, because a repeated frame may need the same key until
        // then.
        dialogue.in_use = Some(h);
        let index = stored.slot.index;
        if dialogue.wants.is_none() {
            self.forget_older_of_lane(h, dest, index);
        }
        self.out.push_back(Output::Key(conn, pair));
        if dialogue.wants.is_none() {
            self.dialogues.clear_deadline(conn);
        }
        Some(())
    }
}

impl Machine for GuardClient {
    type Input = Input;
    type Output = Output;
    type Error = GuardClientError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardClientError> {
        match input {
            Input::Dial(conn, mode, dest) => {
                self.begin_connection(conn, Some((mode, dest)), now, rng)
            }
            Input::Accepted(conn) => self.begin_connection(conn, None, now, rng),
            Input::Frame(conn, frame) => self.on_frame(conn, &frame, rng),
            Input::Answered(conn) => {
                let dialogue = self.dialogues.get(conn);
                let dialogue = dialogue.ok_or(GuardClientError::UnknownConnection)?;
                // The answer proves that X arrived, so x_c is no longer needed (GUARD-23).
                if let Some(h) = dialogue.in_use {
                    self.erase_coin(h);
                }
                Ok(())
            }
            Input::Closed(conn) => {
                let gone = self.dialogues.remove(conn);
                gone.map(|_| ()).ok_or(GuardClientError::UnknownConnection)
            }
        }
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        while let Some(conn) = self.dialogues.take_overdue(now) {
            self.dialogues.remove(conn);
            // A silent guard must not occupy a connection for ever.
            self.out.push_back(Output::Close(conn));
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.dialogues.deadline()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl Snapshot for GuardClient {
    fn snapshot_into(&self, w: &mut Writer) {
        for coin in self.coins.values() {
            w.put_bytes(&coin.encode());
        }
        for (conn, Dialogue { wants, nonce, channel, pointed, in_use }) in self.dialogues.iter() {
            w.put_u64(conn.0).put_u16(wants.map_or(0, |(_, dest)| dest)).put_bytes(nonce);
            for counter in channel.as_ref().map_or([0; 2], ControlChannel::counters) {
                w.put_u64(counter);
            }
            w.put_bytes(&pointed.unwrap_or_default()).put_bytes(&in_use.unwrap_or_default());
        }
        w.put_u64(self.dialogues.deadline().map_or(0, Time::as_ms)).put_u64(self.out.len() as u64);
    }
}

impl fmt::Debug for GuardClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuardClient with {} connections", self.dialogues.len())
    }
}
