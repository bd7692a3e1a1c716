//! The stored record of a pairing, 208 bytes, and its sealed form, 256 bytes; only the sealed form
//! leaves the crate (SEKA-52).
//!
//! ```text
//! sealed = seq u64 | nonce[24] | XChaCha20-Poly1305(record, AAD = seq)
//! ```
//!
//! A file has two slots. A write goes to the older one; the record with the highest `seq` that
//! opens is used.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Reader, Secret, Wiping, Writer, snapshot, xchacha};

use crate::error::RecordError;
use crate::keys::{LinkId, LinkPair, LinkRole, LinkState};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 208;
/// Bytes of a sealed record.
pub const SEALED_BYTES: usize = 8 + xchacha::NONCE_BYTES + RECORD_BYTES + xchacha::TAG_BYTES;
/// Maximum bytes of a name.
pub const NAME_BYTES: usize = 32;

const MAGIC: &[u8; 4] = b"SKR1";
const RECORD_VERSION: u8 = 1;
/// Status: an exchange was accepted.
const ACCEPTED: u8 = 1;
/// Status: both users compared six digits.
const COMPARED: u8 = 2;

/// The last address of a peer, as its carrier encodes it, 20 bytes. The protocol treats it as
/// opaque.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerAddress(pub [u8; 20]);

/// The key that seals records on a disk.
pub struct StoreKey(Secret<32>);

impl StoreKey {
    /// Takes ownership of the 32 bytes.
    pub fn new(bytes: Secret<32>) -> Self {
        Self(bytes)
    }

    /// Makes a second copy; the explicit name makes each copy visible in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.duplicate())
    }
}

impl core::fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("StoreKey")
    }
}

/// The stored state of a pairing.
pub struct PeerRecord {
    /// Our role; it never changes.
    pub role: LinkRole,
    /// The suite; it never changes.
    pub suite: u8,
    /// True if an exchange was accepted, which completes the pairing.
    pub accepted: bool,
    /// True if both users compared six digits.
    pub compared: bool,
    /// Our name on links.
    pub own: LinkId,
    /// The peer's name on links.
    pub peer: LinkId,
    /// The state of the last accepted exchange.
    pub(crate) current: LinkState,
    /// At a responder: the state of an exchange that was answered and is not confirmed yet.
    pub(crate) pending: Option<LinkState>,
    /// The attempt that made the current state; -1 for the pairing.
    pub(crate) current_born: i64,
    /// The attempt that made the pending state; -1 for the pairing.
    pub(crate) pending_born: i64,
    /// At an initiator: the first unreserved attempt.
    pub(crate) attempt_next: i64,
    /// At a responder: the last answered attempt; -1 for none.
    pub(crate) attempt_seen: i64,
    /// Number of accepted exchanges.
    pub rekeys: u64,
    /// Time of the pairing, ms since 1970 by the clock at that time.
    pub created_ms: u64,
    /// Time of the last accepted exchange, ms since 1970 by the clock at that time.
    pub accepted_ms: u64,
    /// The last address of the peer.
    pub address: PeerAddress,
    /// The name of the link for the user: 1 to 32 bytes.
    pub name: String,
    /// The number of this link on this machine.
    pub link: u16,
}

impl PeerRecord {
    /// Returns true if the pairing is complete, or may be: an initiator that accepted the response
    /// with the pending state proves this with its next KE1 (SEKA-87).
    pub fn may_stand(&self) -> bool {
        self.accepted || (self.role == LinkRole::Responder && self.pending.is_some())
    }

    /// Returns both names by role.
    pub fn pair(&self) -> LinkPair {
        LinkPair::from_role(self.role, self.own, self.peer)
    }

    /// Makes a second copy, for a change that is not durable yet.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            current: self.current.duplicate(),
            pending: self.pending.as_ref().map(LinkState::duplicate),
            name: self.name.clone(),
            ..*self
        }
    }

    fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(RECORD_BYTES);
        let status = u8::from(self.accepted) * ACCEPTED + u8::from(self.compared) * COMPARED;
        w.put_bytes(MAGIC)
            .put_u8(RECORD_VERSION)
            .put_u8(role_byte(self.role))
            .put_u8(self.suite)
            .put_u8(status);
        w.put_bytes(self.own.as_bytes()).put_bytes(self.peer.as_bytes());
        w.put_bytes(self.current.expose()).put_u8(u8::from(self.pending.is_some()));
        w.put_bytes(self.pending.as_ref().map_or(&[0; 32], |state| state.expose()));
        for number in [self.current_born, self.pending_born, self.attempt_next, self.attempt_seen] {
            w.put_bytes(&number.to_be_bytes());
        }
        w.put_u64(self.rekeys).put_u64(self.created_ms).put_u64(self.accepted_ms);
        w.put_bytes(&self.address.0);
        let end = w.len() + NAME_BYTES;
        w.put_bytes(self.name.as_bytes()).pad_to(end);
        w.put_u16(self.link).pad_to(RECORD_BYTES);
        Wiping::new(w.finish())
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |reader| {
            if reader.read_array_ref::<4>()? != MAGIC || reader.read_u8()? != RECORD_VERSION {
                return Err(DecodeError::Value);
            }
            let role = role_of(reader.read_u8()?)?;
            let suite = reader.read_u8()?;
            let status = reader.read_u8()?;
            // Unknown status bits come from a newer version, whose record would be misread here.
            if status > (ACCEPTED | COMPARED) {
                return Err(DecodeError::Value);
            }
            let own = LinkId::read(reader)?;
            let peer = LinkId::read(reader)?;
            let current = LinkState::new(Secret::read_from(reader)?);
            let is_pending = read_flag(reader.read_u8()?)?;
            let pending = LinkState::new(Secret::read_from(reader)?);
            let mut number = || reader.read_array().map(i64::from_be_bytes);
            let numbers = [number()?, number()?, number()?, number()?];
            let [current_born, pending_born, attempt_next, attempt_seen] = numbers;
            // Every u32 attempt number is valid. -1 stands before the first attempt (the pairing,
            // or none yet), and 2^32 after the last one.
            let sound = |number: &i64| (-1..=1 << 32).contains(number);
            // Equal names would give both directions the same nonce prefix.
            if !numbers.iter().all(sound) || own == peer {
                return Err(DecodeError::Value);
            }
            let record = Self {
                role,
                suite,
                accepted: status & ACCEPTED != 0,
                compared: status & COMPARED != 0,
                own,
                peer,
                current,
                pending: is_pending.then_some(pending),
                current_born,
                pending_born,
                attempt_next,
                attempt_seen,
                rekeys: reader.read_u64()?,
                created_ms: reader.read_u64()?,
                accepted_ms: reader.read_u64()?,
                address: PeerAddress(reader.read_array()?),
                name: name_of(reader.read_array_ref()?)?,
                link: reader.read_u16()?,
            };
            check_zeros(reader.read_rest())?;
            Ok(record)
        })
    }

    /// Seals the record under a number that grows with every write.
    #[expect(clippy::expect_used, reason = "208 bytes")]
    pub(crate) fn seal(
        &self,
        key: &StoreKey,
        seq: u64,
        rng: &mut dyn CryptoRng,
    ) -> [u8; SEALED_BYTES] {
        // A random 24-byte nonce does not repeat, even if a slot is written twice with one number.
        let mut nonce = [0; xchacha::NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let mut text = self.encode();
        let aad = seq.to_be_bytes();
        let tag = xchacha::seal(&key.0, &nonce, &aad, &mut text).expect("short");
        let mut w = Writer::with_capacity(SEALED_BYTES);
        w.put_u64(seq).put_bytes(&nonce).put_bytes(&text).put_bytes(&tag);
        let mut sealed = [0; SEALED_BYTES];
        sealed.copy_from_slice(&w.finish());
        sealed
    }

    /// Opens a sealed record. Returns its number and the record.
    ///
    /// # Errors
    /// A seal that does not open, or a record that no version writes.
    pub fn open(key: &StoreKey, sealed: &[u8]) -> Result<(u64, Self), RecordError> {
        let mut reader = Reader::new(sealed);
        let seq = reader.read_u64()?;
        let nonce = reader.read_array_ref()?;
        // The record holds states, so its plaintext is wiped.
        let mut text = Wiping::new(reader.read_bytes(RECORD_BYTES)?.to_vec());
        let tag = reader.read_array_ref()?;
        reader.expect_end()?;
        if !xchacha::open(&key.0, nonce, &seq.to_be_bytes(), &mut text, tag) {
            return Err(RecordError::Sealed);
        }
        Ok((seq, Self::decode(&text)?))
    }

    /// Returns the newer of two slots that opens: number, slot index, record. A slot that does not
    /// open is skipped (SEKA-50).
    ///
    /// # Errors
    /// The fault of the first slot, if neither opens.
    pub fn open_newest(
        key: &StoreKey,
        slots: [&[u8]; 2],
    ) -> Result<(u64, usize, Self), RecordError> {
        let [first, second] = slots.map(|sealed| Self::open(key, sealed));
        match (first, second) {
            // The higher number is the newer write (section Records on the disk).
            (Ok((a, _)), Ok((b, second))) if b > a => Ok((b, 1, second)),
            (Ok((a, first)), _) => Ok((a, 0, first)),
            (Err(_), Ok((b, second))) => Ok((b, 1, second)),
            (Err(error), Err(_)) => Err(error),
        }
    }
}

impl core::fmt::Debug for PeerRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PeerRecord")
    }
}

fn role_byte(role: LinkRole) -> u8 {
    match role {
        LinkRole::Initiator => 0,
        LinkRole::Responder => 1,
    }
}

fn role_of(byte: u8) -> Result<LinkRole, DecodeError> {
    match byte {
        0 => Ok(LinkRole::Initiator),
        1 => Ok(LinkRole::Responder),
        _ => Err(DecodeError::Value),
    }
}

fn read_flag(byte: u8) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

fn name_of(bytes: &[u8; NAME_BYTES]) -> Result<String, DecodeError> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    check_zeros(&bytes[len..])?;
    let name = core::str::from_utf8(&bytes[..len]).map_err(|_| DecodeError::Value)?;
    is_name(name).then(|| name.into()).ok_or(DecodeError::Value)
}

/// Returns true if a link may have this name: 1 to 15 bytes, as for network interfaces, of letters,
/// digits, `-`, `_` and `.`, beginning with a letter.
pub fn is_name(name: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // 15 bytes: the longest name of a network interface in Linux (IFNAMSIZ minus the zero).
    name.len() <= 15
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(sound)
}

fn check_zeros(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(DecodeError::Value) }
}

snapshot!(struct StoreKey(bytes));
snapshot!(struct PeerAddress(bytes));
snapshot!(struct PeerRecord {
    role, suite, accepted, compared, own, peer, current, pending,
    current_born => current_born.to_be_bytes(), pending_born => pending_born.to_be_bytes(),
    attempt_next => attempt_next.to_be_bytes(), attempt_seen => attempt_seen.to_be_bytes(),
    rekeys, created_ms, accepted_ms, address, name, link,
});
