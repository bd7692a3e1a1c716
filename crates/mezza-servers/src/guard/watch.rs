//! A watchdog for a guard, on another machine: it relays both sides of the guard, reads the coins on
//! the inside, and compares them with the keys that reach the wire.
//!
//! ```text
//! client --> watch, inside --> guard --> watch, wire --> destination
//!            h, Z, rho                   X: one of Z + rho G, each once
//! ```
//! W1: a second computation of each key must give the bytes on the wire. W2: no key is there twice.

mod relay;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use mezza_guard::coin::{CoinPurpose, Rho, SlotIndex, SlotName};
use mezza_guard::guard::GuardSide;
use mezza_guard::keys::{GuardClientId, PairingKey};
use mezza_guard::wire::control::{Control, ControlChannel, SlotValue};
use mezza_seka::wire::{Ke1, Ke2};

use super::table::ENCODING;

pub use relay::{ListeningWatch, WatchCounts, WatchHop, WatchOptions};

/// Keys that are remembered: made on the inside and not yet on the wire, and seen on the wire.
const KEYS_MAX: usize = 65_536;
/// Offset of the key in KE1 and KE2, bytes.
const KEY_AT: usize = 40;
/// Numbers of the lanes of inbound connections, which SLOT does not show.
const LANES: std::ops::Range<u16> = 0xfff0..0xfff8;

/// A finding against the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// A coin does not match its commitment.
    Commitment,
    /// A key reached the wire that no coin of the inside gives (W1).
    UnknownKey,
    /// A key reached the wire twice with different frames (W2).
    RepeatedKey,
    /// Control frames cannot be read with the pairing keys.
    Unreadable,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commitment => "a coin does not match the commitment that was sent before it",
            Self::UnknownKey => "a key reached the wire that no coin gives",
            Self::RepeatedKey => "a key reached the wire again in another frame",
            Self::Unreadable => "control frames cannot be read with the pairing codes",
        })
    }
}

/// Keys in their order, up to a limit.
#[derive(Default)]
struct RecentKeys<T> {
    by_key: BTreeMap<[u8; 32], T>,
    order: VecDeque<[u8; 32]>,
}

impl<T> RecentKeys<T> {
    fn insert(&mut self, key: [u8; 32], value: T) {
        if self.by_key.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        // The oldest keys are forgotten, so that the memory of a watchdog is bounded.
        if self.order.len() > KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }
}

/// The facts of both sides.
#[derive(Default)]
pub struct GuardWatch {
    pairings: BTreeMap<GuardClientId, PairingKey>,
    /// Keys that coins of the inside give.
    made: RecentKeys<()>,
    /// Keys on the wire, with their frames.
    seen: RecentKeys<Vec<u8>>,
    /// Handshake frames compared so far.
    pub compared: u64,
}

impl GuardWatch {
    /// Makes a watchdog for the clients with these pairing keys.
    pub fn new(pairings: impl IntoIterator<Item = PairingKey>) -> Self {
        let pairings = pairings.into_iter().map(|key| (key.client_id(), key)).collect();
        Self { pairings, ..Self::default() }
    }

    /// Compares a frame that leaves the guard towards the wire.
    ///
    /// # Errors
    /// The finding, if the frame holds a key that is not the result of a coin.
    pub fn read_wire(&mut self, frame: &[u8]) -> Result<(), Finding> {
        let is_key = matches!(frame.get(1), Some(&(Ke1::KIND | Ke2::KIND)));
        let key = frame.get(KEY_AT..).and_then(<[u8]>::first_chunk::<32>).filter(|_| is_key);
        let Some(key) = key else { return Ok(()) };
        self.compared += 1;
        if !self.made.by_key.contains_key(key) {
            return Err(Finding::UnknownKey);
        }
        match self.seen.by_key.get(key) {
            // The repetition of a frame is equal byte for byte.
            Some(first) if first != frame => Err(Finding::RepeatedKey),
            Some(_) => Ok(()),
            None => {
                self.seen.insert(*key, frame.to_vec());
                Ok(())
            }
        }
    }
}

/// A connection of the inside as the watchdog reads it.
#[derive(Default)]
pub struct InsideWatch {
    client: Option<GuardClientId>,
    nonces: [Option<[u8; 32]>; 2],
    /// The channels with which frames of the client and of the guard are opened.
    channels: Option<[ControlChannel; 2]>,
    dest: Option<u16>,
    slot: Option<SlotValue>,
    point: Option<SlotValue>,
}

impl InsideWatch {
    /// Reads a frame of the inside; `from` is [`GuardSide::Inside`] for a frame of the client.
    ///
    /// # Errors
    /// The finding, if the guard broke a rule of its coins.
    pub fn read_frame(
        &mut self,
        watch: &mut GuardWatch,
        from: GuardSide,
        frame: &[u8],
    ) -> Result<(), Finding> {
        if !frame.get(1).is_some_and(|kind| Control::is_kind(*kind)) {
            return Ok(());
        }
        let Some([of_client, of_guard]) = &mut self.channels else {
            return self.read_clear(watch, frame);
        };
        let channel = if from == GuardSide::Inside { of_client } else { of_guard };
        match channel.open(frame).map_err(|_| Finding::Unreadable)? {
            Control::Open { dest, .. } => self.dest = Some(dest),
            Control::Slot(slot) => self.slot = Some(slot),
            Control::Point(point) => self.point = Some(point),
            Control::Coin(coin) => return self.read_coin(watch, &coin),
            _ => {}
        }
        Ok(())
    }

    fn read_clear(&mut self, watch: &GuardWatch, frame: &[u8]) -> Result<(), Finding> {
        match Control::read_clear(frame).map_err(|_| Finding::Unreadable)? {
            Control::Hail { client, nonce } => {
                self.client = Some(client);
                self.nonces[0] = Some(nonce);
            }
            Control::Hello { nonce } => self.nonces[1] = Some(nonce),
            _ => return Err(Finding::Unreadable),
        }
        if let ([Some(own), Some(guard)], Some(client)) = (&self.nonces, self.client) {
            let pairing = watch.pairings.get(&client).ok_or(Finding::Unreadable)?;
            let of_client = ControlChannel::of_guard(pairing, guard, own);
            let of_guard = ControlChannel::of_client(pairing, guard, own);
            self.channels = Some([of_client, of_guard]);
        }
        Ok(())
    }

    /// Handles COIN: checks the commitment, and computes the key a second time (W1).
    fn read_coin(&mut self, watch: &mut GuardWatch, coin: &SlotValue) -> Result<(), Finding> {
        let (Some(client), Some(slot), Some(point)) = (self.client, &self.slot, &self.point) else {
            return Err(Finding::Commitment);
        };
        let rho = Rho::decode(&coin.value).map_err(|_| Finding::Commitment)?;
        let purpose = slot.purpose;
        let mut dests = match (purpose, self.dest) {
            (CoinPurpose::LinkDialling, Some(dest)) => dest..dest.saturating_add(1),
            _ => LANES,
        };
        let fits = |dest: u16| {
            let name = SlotName { client, purpose, dest };
            rho.commitment(&SlotIndex { name, index: slot.index }) == slot.value
        };
        if coin.index != slot.index || !dests.any(fits) {
            return Err(Finding::Commitment);
        }
        // A malformed point gives no key, and the guard must refuse it.
        let key = rho.public_key(ENCODING, &point.value).map_err(|_| Finding::Commitment)?;
        watch.made.insert(key, ());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::Secret;
    use mezza_guard::coin::{CoinKey, CoinSecret};
    use mezza_guard::wire::control::GuardMode;
    use mezza_host::process::rng::OsRng;

    /// The frames of one connection on the inside, and the key that they make.
    struct Inside {
        watch: GuardWatch,
        key: [u8; 32],
    }

    fn run_inside(lies: bool) -> Result<Inside, Finding> {
        let pairing = PairingKey::random(&mut OsRng);
        let client = pairing.client_id();
        let mut watch = GuardWatch::new([pairing.duplicate()]);
        let mut inside = InsideWatch::default();
        let hail = Control::Hail { client, nonce: [1; 32] };
        let hello = Control::Hello { nonce: [2; 32] };
        inside.read_frame(&mut watch, GuardSide::Inside, &hail.encode_clear())?;
        inside.read_frame(&mut watch, GuardSide::Wire, &hello.encode_clear())?;
        let mut guard = ControlChannel::of_guard(&pairing, &[2; 32], &[1; 32]);
        let mut device = ControlChannel::of_client(&pairing, &[2; 32], &[1; 32]);
        let name = SlotName { client, purpose: CoinPurpose::LinkDialling, dest: 3 };
        let slot = SlotIndex { name, index: 5 };
        let coin_key = CoinKey::from_secret(Secret::init_with(|key| key.fill(9)));
        let rho = coin_key.derive_rho(&slot);
        let h = rho.commitment(&slot);
        let secret = CoinSecret::random(&mut OsRng);
        let point = secret.point(ENCODING);
        let key = rho.public_key(ENCODING, &point).expect("a key");
        let mut coin = *rho.encode();
        coin[0] ^= u8::from(lies);
        let open = Control::Open { mode: GuardMode::Coins, dest: 3 };
        let value = |value| SlotValue::for_slot(&slot, value);
        inside.read_frame(&mut watch, GuardSide::Inside, &device.seal(&open))?;
        inside.read_frame(&mut watch, GuardSide::Wire, &guard.seal(&Control::Slot(value(h))))?;
        inside.read_frame(
            &mut watch,
            GuardSide::Inside,
            &device.seal(&Control::Point(value(point))),
        )?;
        inside.read_frame(&mut watch, GuardSide::Wire, &guard.seal(&Control::Coin(value(coin))))?;
        Ok(Inside { watch, key })
    }

    fn ke1(key: &[u8; 32], tag: u8) -> Vec<u8> {
        let mut frame = vec![1, Ke1::KIND];
        frame.resize(Ke1::BYTES, tag);
        frame[KEY_AT..KEY_AT + 32].copy_from_slice(key);
        frame
    }

    #[test]
    fn guard_54_w1_only_keys_that_coins_give_may_reach_the_wire() {
        let Inside { mut watch, key } = run_inside(false).expect("an honest guard");
        assert_eq!(watch.read_wire(&ke1(&key, 1)), Ok(()));
        assert_eq!(watch.read_wire(&ke1(&key, 1)), Ok(()), "a repetition");
        assert_eq!(watch.read_wire(&ke1(&[7; 32], 1)), Err(Finding::UnknownKey));
        assert_eq!(watch.read_wire(&[1, 0x20, 0, 0]), Ok(()), "a record has no key");
        assert_eq!(watch.compared, 3);
        assert_eq!(run_inside(true).map(drop), Err(Finding::Commitment));
    }

    #[test]
    fn guard_54_w2_a_key_that_comes_again_in_another_frame_is_found() {
        let Inside { mut watch, key } = run_inside(false).expect("an honest guard");
        assert_eq!(watch.read_wire(&ke1(&key, 1)), Ok(()));
        assert_eq!(watch.read_wire(&ke1(&key, 2)), Err(Finding::RepeatedKey));
    }

    #[test]
    fn a_watchdog_without_the_pairing_says_so() {
        let mut watch = GuardWatch::new([]);
        let mut inside = InsideWatch::default();
        let hail = Control::Hail { client: GuardClientId([1; 16]), nonce: [1; 32] };
        let hello = Control::Hello { nonce: [2; 32] }.encode_clear();
        let first = inside.read_frame(&mut watch, GuardSide::Inside, &hail.encode_clear());
        assert_eq!(first, Ok(()));
        let second = inside.read_frame(&mut watch, GuardSide::Wire, &hello);
        assert_eq!(second, Err(Finding::Unreadable));
    }
}
