//! State of a paired contact, and its stored form.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{
    CryptoRng, DecodeError, EphemeralKey, Reader, Secret, Time, Wiping, Writer, snapshot,
};
use mezza_ratchet::IdentityKey;
use mezza_seka::record::SEALED_BYTES;
use mezza_seka::{LinkId, LinkRole, Peer, PeerRecord, PeerSettings, StoreKey};

use super::guard::DEST_MAX;
use super::{GuardTrouble, LinkConnection, Suite};
use crate::io::{read_flag, read_text};

/// Version of both stored forms.
const VERSION: u8 = 1;
/// Version of a peer that is reached through a guard. Versions before quarantine it, so that they do
/// not connect around the guard.
const VERSION_GUARDED: u8 = 2;
/// Most bytes of an address: `host:port` with the longest host name.
pub(super) const ADDRESS_BYTES_MAX: usize = 255;
/// Most bytes of a bundle. Bundles of this version are below 2,000 bytes.
pub(super) const BUNDLE_BYTES_MAX: usize = 4_096;
/// The first pause after a failed dial, and the longest one, in milliseconds.
const PAUSE_MS: u64 = Time::SECOND_MS;
const PAUSE_MS_MAX: u64 = Time::MINUTE_MS;
/// The same after a handshake through a guard that got no answer: at most 17 in a day, because 20
/// block the destination for a day (GUARD-35).
const UNANSWERED_MS: u64 = 30 * Time::SECOND_MS;
const UNANSWERED_MS_MAX: u64 = 3 * Time::HOUR_MS;

/// Both identity keys to which a pairing is bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PairedKeys {
    /// Our identity key, 32 bytes.
    pub own: [u8; 32],
    /// The identity key of the contact, 32 bytes.
    pub peer: [u8; 32],
}

snapshot!(struct PairedKeys { own, peer });

/// A contact whose device is paired.
pub(super) struct LinkPeer {
    /// Seals the record inside its row, because SEKA hands out sealed records only (SEKA-52).
    pub store_key: Secret<32>,
    /// The last record of the machine, sealed.
    pub sealed: Wiping<Vec<u8>>,
    pub keys: PairedKeys,
    /// `host:port` of the contact's device; empty at a responder, which never dials.
    pub address: String,
    /// True if the other device has proven that the pairing is bound to the same identity keys.
    pub is_proven: bool,
    /// The guard's number for the contact's device; `None` without a guard.
    pub guard_dest: Option<u16>,
    // The fields below are computed from the record.
    pub role: LinkRole,
    pub own_id: LinkId,
    pub id: LinkId,
    // The fields below are not stored.
    /// The machine of the pairing; `None` until it is needed.
    pub machine: Option<Box<Peer<Suite>>>,
    /// The connection that carries parcels.
    pub up: Option<LinkConnection>,
    /// At an initiator: the connection on which the present exchange takes place.
    pub exchanging: Option<LinkConnection>,
    /// At an initiator: the end of the present dial.
    pub dials_until: Option<Time>,
    /// True if the way to the device changed during the present dial, whose connection is closed.
    pub is_dial_stale: bool,
    failures: u32,
    /// Handshakes through the guard without an answer, since the last session.
    unanswered: u32,
    /// At an initiator: the time of the next dial.
    pub next_dial: Time,
    /// The bundle that the contact's device sent, until a session began from it.
    pub bundle: Option<Vec<u8>>,
    /// True if frames under the name of the other device match no state (SEKA-60).
    pub has_alarm: bool,
    /// The key that was made with the guard, until the machine takes it.
    pub joint_key: Option<EphemeralKey>,
    /// Why the guard did not lead to the contact's device.
    pub guard_trouble: Option<GuardTrouble>,
}

snapshot!(struct LinkPeer {
    store_key, sealed, keys, address, is_proven, guard_dest, role, own_id, id,
    machine => machine.as_ref().map(|machine| mezza_core::Machine::snapshot(&**machine)),
    up, exchanging, dials_until, is_dial_stale, failures, unanswered, next_dial, bundle, has_alarm,
    joint_key, guard_trouble,
});

impl LinkPeer {
    /// Creates a peer from the last sealed record of its machine.
    ///
    /// # Errors
    /// The record does not open, or no version of this program writes it.
    pub fn new(
        store_key: Secret<32>,
        sealed: &[u8],
        keys: PairedKeys,
        address: String,
    ) -> Result<Self, DecodeError> {
        let key = StoreKey::new(store_key.duplicate());
        let (_, record) = PeerRecord::open(&key, sealed).map_err(|_| DecodeError::Value)?;
        // A record of another suite would derive other keys from the same state (SEKA-27).
        if record.suite != <Suite as mezza_seka::suite::LinkSuite>::NUMBER {
            return Err(DecodeError::Value);
        }
        Ok(Self {
            store_key,
            sealed: Wiping::new(sealed.to_vec()),
            keys,
            address,
            is_proven: false,
            guard_dest: None,
            role: record.role,
            own_id: record.own,
            id: record.peer,
            machine: None,
            up: None,
            exchanging: None,
            dials_until: None,
            is_dial_stale: false,
            failures: 0,
            unanswered: 0,
            next_dial: Time::default(),
            bundle: None,
            has_alarm: false,
            joint_key: None,
            guard_trouble: None,
        })
    }

    /// Restores the machine from the last record.
    pub fn restore_machine(&self, now: Time) -> Option<Box<Peer<Suite>>> {
        let key = || StoreKey::new(self.store_key.duplicate());
        let (seq, record) = PeerRecord::open(&key(), &self.sealed).ok()?;
        // Each exchange has a machine of its own, which would lose a number that was reserved ahead.
        let settings = PeerSettings { reserves_ahead: false, ..PeerSettings::default() };
        Peer::restore(seq, record, key(), settings, now).ok().map(Box::new)
    }

    /// Records that a dial or a connection ended, and sets the time of the next dial. The pause
    /// doubles up to a minute and varies by a fifth, so that two devices diverge.
    pub fn on_miss(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let pause_ms = PAUSE_MS.checked_shl(self.failures.min(16)).unwrap_or(PAUSE_MS_MAX);
        let pause_ms = pause_ms.min(PAUSE_MS_MAX);
        let mut draw = [0; 2];
        rng.fill_bytes(&mut draw);
        let spread = pause_ms * 2 / 5;
        let varied = pause_ms - spread / 2 + u64::from(u16::from_be_bytes(draw)) * spread / 0xffff;
        self.failures = self.failures.saturating_add(1);
        self.next_dial = now.plus_ms(varied);
    }

    /// Records that a handshake through the guard got no answer, which the guard counts (MSG-156).
    pub fn on_unanswered(&mut self, now: Time) {
        let pause_ms = UNANSWERED_MS.checked_shl(self.unanswered.min(16));
        let pause_ms = pause_ms.unwrap_or(UNANSWERED_MS_MAX).min(UNANSWERED_MS_MAX);
        self.unanswered = self.unanswered.saturating_add(1);
        self.next_dial = self.next_dial.max(now.plus_ms(pause_ms));
    }

    /// Ends the pauses, because the other device answered or has another address.
    pub fn on_sign(&mut self) {
        (self.failures, self.unanswered) = (0, 0);
        self.next_dial = Time::default();
    }

    /// Returns the row: `version u8 | proven u8 | store key[32] | sealed[256] | own identity[32] |
    /// identity[32] | len u8 | address`. Version 2 ends with the guard's number, `dest u16`.
    pub fn stored_form(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(3 + 96 + SEALED_BYTES + self.address.len());
        let version = if self.guard_dest.is_some() { VERSION_GUARDED } else { VERSION };
        w.put_u8(version).put_u8(u8::from(self.is_proven)).put_bytes(self.store_key.expose());
        w.put_bytes(&self.sealed).put_bytes(&self.keys.own).put_bytes(&self.keys.peer);
        w.put_var8(self.address.as_bytes());
        if let Some(dest) = self.guard_dest {
            w.put_u16(dest);
        }
        Wiping::new(w.finish())
    }

    /// Reads a row.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            if ![VERSION, VERSION_GUARDED].contains(&version) {
                return Err(DecodeError::Value);
            }
            let is_proven = read_flag(r)?;
            let store_key = Secret::read_from(r)?;
            let sealed = r.read_bytes(SEALED_BYTES)?;
            let keys = PairedKeys { own: r.read_array()?, peer: r.read_array()? };
            // Both keys were decoded before they were stored.
            for key in [&keys.own, &keys.peer] {
                IdentityKey::decode(key).map_err(|_| DecodeError::Value)?;
            }
            let address = read_text(r.read_var8()?)?;
            let dest = if version == VERSION_GUARDED { Some(r.read_u16()?) } else { None };
            let guard_dest = dest.filter(|dest| (1..=DEST_MAX).contains(dest));
            if guard_dest != dest {
                return Err(DecodeError::Value);
            }
            let peer = Self::new(store_key, sealed, keys, address)?;
            Ok(Self { is_proven, guard_dest, ..peer })
        })
    }
}

/// Our name on links, and the bundle that paired contacts get.
#[derive(Default)]
pub(super) struct OwnLink {
    /// Our name; `None` before the first pairing.
    pub id: Option<LinkId>,
    /// Our published bundle; empty if it is not known yet.
    pub bundle: Vec<u8>,
}

snapshot!(struct OwnLink { id, bundle });

impl OwnLink {
    /// Returns the row, or `None` before the first pairing: `version u8 | id[6] | len u16 |
    /// bundle`.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        let id = self.id?;
        let mut w = Writer::with_capacity(9 + self.bundle.len());
        w.put_u8(VERSION).put_bytes(id.as_bytes()).put_var16(&self.bundle);
        Some(Wiping::new(w.finish()))
    }

    /// Reads the row.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let id = Some(LinkId::read(r)?);
            let bundle = r.read_var16()?.to_vec();
            Ok(Self { id, bundle })
        })
    }
}
