//! Safety numbers: 60 digits that two people compare. The digits depend only on the two identity
//! keys; in Signal's form also on the two identifiers that Signal's app uses.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use mezza_core::{Hash512, blake2b};

use crate::IdentityKey;
use crate::wire::proto;

/// Rounds of the iterated hash, which make a search 2^12 times as expensive.
const SAFETY_ROUNDS: usize = 5_200;
/// The version in a scannable code of the container suites.
const VERSION: u32 = 65_537;
/// Most bytes of a scannable code.
const SCANNABLE_BYTES_MAX: usize = 78;
/// Bytes of a fingerprint in a scannable code.
const SHORT_BYTES: usize = 32;

/// Returns the 60 digits of two identities, equal on both sides.
pub fn number(local: &IdentityKey, remote: &IdentityKey) -> String {
    join_ordered(&fingerprint(local), &fingerprint(remote))
}

/// Returns the scannable form, 76 bytes: a protobuf message of a version and both fingerprints.
///
/// ```text
/// 08 version | 12 22 0A 20 local[32] | 1A 22 0A 20 remote[32]
/// ```
pub fn scannable_code(local: &IdentityKey, remote: &IdentityKey) -> Vec<u8> {
    encode_code(VERSION, &fingerprint(local), &fingerprint(remote))
}

/// Returns true if `theirs`, the code on the other device's screen, names the same two identities.
pub fn matches_code(local: &IdentityKey, remote: &IdentityKey, theirs: &[u8]) -> bool {
    scannable_code(remote, local) == theirs
}

/// An identity together with the identifier that Signal's apps hash with the key, such as a phone
/// number.
#[derive(Clone, Copy)]
pub struct NamedIdentity<'a> {
    /// The public identity key.
    pub key: &'a IdentityKey,
    /// The stable identifier, encoded as the other app encodes it.
    pub id: &'a [u8],
}

/// Returns the 60 digits in Signal's form with the hash of a suite; `signal-v3` uses SHA-512.
pub fn signal_number<H: Hash512>(local: NamedIdentity<'_>, remote: NamedIdentity<'_>) -> String {
    join_ordered(&local.fingerprint::<H>(), &remote.fingerprint::<H>())
}

/// Returns the scannable form of [`signal_number`]. Signal's apps use version 2.
pub fn signal_scannable<H: Hash512>(
    version: u32,
    local: NamedIdentity<'_>,
    remote: NamedIdentity<'_>,
) -> Vec<u8> {
    encode_code(version, &local.fingerprint::<H>(), &remote.fingerprint::<H>())
}

impl NamedIdentity<'_> {
    /// Computes the fingerprint, 64 bytes: h = 0000 | 05 | IK | id, then 5,200 times h = H(h | 05 |
    /// IK).
    fn fingerprint<H: Hash512>(&self) -> [u8; 64] {
        let key_type = [proto::KEY_TYPE];
        let key = self.key.as_bytes().as_slice();
        let mut hash = H::hash(&[&[0, 0], &key_type, key, self.id, &key_type, key]);
        for _ in 1..SAFETY_ROUNDS {
            hash = H::hash(&[&hash, &key_type, key]);
        }
        hash
    }
}

/// Computes the fingerprint, 64 bytes: h = 0001 | IK, then 5,200 times h = `B_64`("", "b2c20
/// safety", h | IK).
fn fingerprint(key: &IdentityKey) -> [u8; 64] {
    let key = key.as_bytes().as_slice();
    let mut hash = hash_round(&[&[0, 1], key, key]);
    for _ in 1..SAFETY_ROUNDS {
        hash = hash_round(&[&hash, key]);
    }
    hash
}

fn hash_round(parts: &[&[u8]]) -> [u8; 64] {
    let mut hash = [0; 64];
    blake2b(&mut hash, &[], "b2c20 safety", parts);
    hash
}

/// Encodes both fingerprints as digits and joins them, the lower one first.
fn join_ordered(local: &[u8; 64], remote: &[u8; 64]) -> String {
    let local = encode_digits(local);
    let remote = encode_digits(remote);
    if local <= remote { local + &remote } else { remote + &local }
}

/// Encodes the first 30 bytes as 30 digits: six groups of 5 bytes, big-endian, modulo 100,000.
fn encode_digits(hash: &[u8; 64]) -> String {
    let mut text = String::with_capacity(30);
    for group in hash[..30].chunks_exact(5) {
        let value = group.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        // `write!` to a string cannot fail.
        let _ = write!(text, "{:05}", value % 100_000);
    }
    text
}

fn encode_code(version: u32, local: &[u8; 64], remote: &[u8; 64]) -> Vec<u8> {
    let mut code = Vec::with_capacity(SCANNABLE_BYTES_MAX);
    proto::write_u32(1, version, &mut code);
    for (number, hash) in [(2, local), (3, remote)] {
        proto::write_length(number, SHORT_BYTES + 2, &mut code);
        proto::write_length(1, SHORT_BYTES, &mut code);
        code.extend_from_slice(&hash[..SHORT_BYTES]);
    }
    code
}
