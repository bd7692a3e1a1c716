//! Names, points and keys by role, and the two functions that derive keys from keys.

use core::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use mezza_core::{CryptoRng, DecodeError, PublicKey, Reader, Secret, Wiping, Writer, snapshot};
use sha2::{Digest as _, Sha256, Sha512};

/// Bytes of a [`LinkId`].
pub const ID_BYTES: usize = 6;

/// The name of a device on links, 6 bytes: a unicast Ethernet address, drawn once at random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId([u8; ID_BYTES]);

impl LinkId {
    /// Draws a locally administered name.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; ID_BYTES];
        rng.fill_bytes(&mut bytes);
        // Unicast and locally administered, so the name collides with no vendor address (IEEE 802).
        bytes[0] = (bytes[0] & 0xfc) | 0x02;
        Self(bytes)
    }

    /// Returns the name of these bytes, or `None` for a group address and for zeros.
    pub fn from_bytes(bytes: [u8; ID_BYTES]) -> Option<Self> {
        // A group address would be delivered to every station, and zeros stand for "any" in B1 and
        // S1.
        (bytes[0] & 1 == 0 && bytes != [0; ID_BYTES]).then_some(Self(bytes))
    }

    /// Returns the 6 bytes.
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Reads the next 6 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_bytes(reader.read_array()?).ok_or(DecodeError::Value)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkId")
    }
}

/// The side of a pairing: the initiator began it, and begins every exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkRole {
    /// Sends B1 and every KE1.
    Initiator,
    /// Responds.
    Responder,
}

impl LinkRole {
    /// Returns the role of the other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// Both names of a pairing, by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPair {
    /// The initiator's name.
    pub initiator: LinkId,
    /// The responder's name.
    pub responder: LinkId,
}

impl LinkPair {
    /// Returns the pair in which `own` has this role and `peer` has the other one.
    pub const fn from_role(role: LinkRole, own: LinkId, peer: LinkId) -> Self {
        match role {
            LinkRole::Initiator => Self { initiator: own, responder: peer },
            LinkRole::Responder => Self { initiator: peer, responder: own },
        }
    }

    /// Returns the name of the side in `role`.
    pub const fn side_name(&self, role: LinkRole) -> LinkId {
        match role {
            LinkRole::Initiator => self.initiator,
            LinkRole::Responder => self.responder,
        }
    }

    /// Returns both names, the initiator's first, 12 bytes.
    pub fn to_bytes(&self) -> [u8; 2 * ID_BYTES] {
        let mut bytes = [0; 2 * ID_BYTES];
        bytes[..ID_BYTES].copy_from_slice(&self.initiator.0);
        bytes[ID_BYTES..].copy_from_slice(&self.responder.0);
        bytes
    }
}

/// An X25519 public key in its only canonical form, 32 bytes: below 2^255 - 19, top bit zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CanonicalPoint(PublicKey);

impl CanonicalPoint {
    /// Returns the point of these bytes if they are its canonical form.
    pub fn from_canonical(bytes: [u8; 32]) -> Option<Self> {
        // Only 2^255 - 19 to 2^255 - 1 start with these 31 bytes. A second form of a point would
        // make a second tag input.
        let full = bytes[31] == 0x7f && bytes[1..31].iter().all(|byte| *byte == 0xff);
        (bytes[31] & 0x80 == 0 && !(full && bytes[0] >= 0xed)).then_some(Self(PublicKey(bytes)))
    }

    /// Wraps our own public key, which X25519 makes canonical.
    pub(crate) const fn from_own_key(key: &PublicKey) -> Self {
        // X25519 outputs are reduced modulo p (RFC 7748), so no check is needed.
        Self(*key)
    }

    /// Returns the point as an X25519 public key.
    pub const fn public(&self) -> &PublicKey {
        &self.0
    }

    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Reads the next 32 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_canonical(reader.read_array()?).ok_or(DecodeError::Value)
    }
}

impl fmt::Debug for CanonicalPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CanonicalPoint")
    }
}

/// The secret `st` that two devices share from one exchange to the next: 32 bytes, of which suite
/// `paper` uses the first 16.
pub struct LinkState(Secret<32>);

impl LinkState {
    /// Takes ownership of the bytes.
    pub(crate) fn new(bytes: Secret<32>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the functions of a suite, for the record, and for tests of a theft.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// Makes a second copy; the explicit name makes each copy visible in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.duplicate())
    }
}

impl PartialEq for LinkState {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for LinkState {}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkState")
    }
}

/// The key `k` of one session; it is turned into keys by direction and wiped when the session is
/// made.
pub struct SessionKey(Secret<32>);

impl SessionKey {
    /// Takes ownership of the bytes.
    pub(crate) fn new(bytes: Secret<32>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for tests of a theft.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Computes `H(key, parts)`: the first `N` bytes, at most 64, of HMAC-SHA-512 (RFC 2104).
pub(crate) fn keyed_hash<const N: usize>(key: &[u8], parts: &[&[u8]]) -> Secret<N> {
    let mac = keyed_hmac(key);
    finish_hash(mac, parts)
}

/// Prepares HMAC-SHA-512 with a key.
#[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
pub(crate) fn keyed_hmac(key: &[u8]) -> Hmac<Sha512> {
    Hmac::<Sha512>::new_from_slice(key).expect("any length")
}

/// Returns the first `N` bytes of the hash of `parts` under a prepared key.
pub(crate) fn finish_hash<const N: usize>(mut mac: Hmac<Sha512>, parts: &[&[u8]]) -> Secret<N> {
    for part in parts {
        mac.update(part);
    }
    // The whole digest is secret material too, so it is wiped and not only truncated.
    let whole = Wiping::new(<[u8; 64]>::from(mac.finalize().into_bytes()));
    Secret::init_with(|out| out.copy_from_slice(&whole[..N]))
}

/// Computes `KDF(ikm, out.len(), salt, info)`: HKDF-SHA-512 (RFC 5869).
#[expect(clippy::expect_used, reason = "64 bytes at most, HKDF gives 16,320")]
pub(crate) fn derive_key(ikm: &Secret<32>, salt: &[&[u8]], info: &[&[u8]], out: &mut [u8]) {
    let mut joined = Wiping::new([0; 64]);
    let mut len = 0;
    // Parts are joined on the stack: the longest salt is a session id and a state, 48 bytes.
    for part in salt {
        joined[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    let hkdf = Hkdf::<Sha512>::new(Some(&joined[..len]), ikm.expose());
    hkdf.expand_multi_info(info, out).expect("short");
}

snapshot!(struct LinkId(bytes));
snapshot!(struct CanonicalPoint(key));
snapshot!(struct LinkState(bytes));
snapshot!(struct SessionKey(bytes));
snapshot!(enum LinkRole [Initiator, Responder]);
snapshot!(struct LinkPair { initiator, responder });

impl LinkId {
    /// Writes the 6 bytes.
    pub(crate) fn write(self, w: &mut Writer) {
        w.put_bytes(&self.0);
    }
}

/// Returns the Ethernet address for the interface of a pairing (SEKA-85). It is the same after each
/// start, so that address tables of the other side stay valid. Each pairing of a device has a
/// different one, so that several may join one bridge.
pub fn interface_address(own: LinkId, peer: LinkId) -> [u8; 6] {
    let digest = Sha256::new()
        .chain_update(b"seka1 tap")
        .chain_update(own.as_bytes())
        .chain_update(peer.as_bytes())
        .finalize();
    let mut address = [0; 6];
    address.copy_from_slice(&digest[..6]);
    // Unicast, locally administered (IEEE 802, section 8.2).
    address[0] = address[0] & 0xfc | 0x02;
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_canonical_or_refused() {
        let mut prime = [0xff; 32];
        (prime[0], prime[31]) = (0xed, 0x7f);
        assert!(CanonicalPoint::from_canonical(prime).is_none());
        prime[0] = 0xec;
        assert!(CanonicalPoint::from_canonical(prime).is_some());
        prime[31] = 0xff;
        assert!(CanonicalPoint::from_canonical(prime).is_none());
    }

    #[test]
    fn names_are_unicast() {
        assert!(LinkId::from_bytes([0; 6]).is_none());
        assert!(LinkId::from_bytes([1, 0, 0, 0, 0, 1]).is_none());
        assert!(LinkId::from_bytes([2, 0, 0, 0, 0, 1]).is_some());
    }
}
