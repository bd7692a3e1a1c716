//! Safety numbers: 60 digits that two people compare. Only identities enter.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::blake2b;

use crate::IdentityKey;

/// Rounds of the iterated hash; they add 12 bits to a search.
const SAFETY_ROUNDS: usize = 5_200;
/// The version in a scannable code of the container suites.
const VERSION: u32 = 0x0001_0001;

/// The 60 digits of two identities, equal on both sides.
pub fn number(local: &IdentityKey, remote: &IdentityKey) -> String {
    let (local, remote) = (digits(&fingerprint(local)), digits(&fingerprint(remote)));
    if local <= remote { local + &remote } else { remote + &local }
}

/// The scannable form, 74 bytes: a protobuf of a version and both fingerprints.
pub fn scannable(local: &IdentityKey, remote: &IdentityKey) -> Vec<u8> {
    let _ = (local, remote, VERSION);
    todo!()
}

/// Whether the code on the other device's screen names the same two identities.
pub fn matches(local: &IdentityKey, remote: &IdentityKey, theirs: &[u8]) -> bool {
    scannable(remote, local) == theirs
}

/// h = 0001 | IK; 5,200 times: h = `B_64`("", "b2c20 safety", h | IK).
fn fingerprint(key: &IdentityKey) -> [u8; 64] {
    let mut hash = [0; 64];
    let mut first = true;
    for _ in 0..SAFETY_ROUNDS {
        let mut next = [0; 64];
        if first {
            let start = [&[0, 1], key.as_bytes().as_slice(), key.as_bytes()];
            blake2b(&mut next, &[], "b2c20 safety", &start);
            first = false;
        } else {
            blake2b(&mut next, &[], "b2c20 safety", &[&hash, key.as_bytes()]);
        }
        hash = next;
    }
    hash
}

fn digits(_hash: &[u8; 64]) -> String {
    todo!()
}
