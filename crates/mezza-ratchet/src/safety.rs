//! Safety numbers: 60 digits that two people compare. Only identities enter.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use mezza_core::blake2b;

use crate::IdentityKey;

/// Rounds of the iterated hash; they add 12 bits to a search.
const SAFETY_ROUNDS: usize = 5_200;
/// The version in a scannable code of the container suites, 65,537, as a protobuf varint.
const VERSION_VARINT: [u8; 3] = [0x81, 0x80, 0x04];
/// Bytes of a scannable code.
const SCANNABLE_BYTES: usize = 76;

/// The 60 digits of two identities, equal on both sides.
pub fn number(local: &IdentityKey, remote: &IdentityKey) -> String {
    let (local, remote) = (digits(&fingerprint(local)), digits(&fingerprint(remote)));
    if local <= remote { local + &remote } else { remote + &local }
}

/// The scannable form, 76 bytes: a protobuf of a version and both fingerprints.
///
/// ```text
/// 08 version | 12 22 0A 20 local[32] | 1A 22 0A 20 remote[32]
/// ```
pub fn scannable(local: &IdentityKey, remote: &IdentityKey) -> Vec<u8> {
    let mut code = Vec::with_capacity(SCANNABLE_BYTES);
    code.push(0x08);
    code.extend_from_slice(&VERSION_VARINT);
    for (tag, key) in [(0x12, local), (0x1a, remote)] {
        code.extend_from_slice(&[tag, 0x22, 0x0a, 0x20]);
        code.extend_from_slice(&fingerprint(key)[..32]);
    }
    code
}

/// Whether the code on the other device's screen names the same two identities.
pub fn matches(local: &IdentityKey, remote: &IdentityKey, theirs: &[u8]) -> bool {
    scannable(remote, local) == theirs
}

/// h = 0001 | IK; 5,200 times: h = `B_64`("", "b2c20 safety", h | IK).
fn fingerprint(key: &IdentityKey) -> [u8; 64] {
    let key = key.as_bytes().as_slice();
    let mut hash = round(&[&[0, 1], key, key]);
    for _ in 1..SAFETY_ROUNDS {
        hash = round(&[&hash, key]);
    }
    hash
}

fn round(parts: &[&[u8]]) -> [u8; 64] {
    let mut hash = [0; 64];
    blake2b(&mut hash, &[], "b2c20 safety", parts);
    hash
}

/// 30 digits: six groups of 5 bytes, big-endian, modulo 100,000.
fn digits(hash: &[u8; 64]) -> String {
    let mut text = String::with_capacity(30);
    for group in hash[..30].chunks_exact(5) {
        let value = group.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        // Writing to a string cannot fail.
        let _ = write!(text, "{:05}", value % 100_000);
    }
    text
}
