//! XEdDSA 1.2.0, a binding to a C library of signatures: no sessions.

use mezza_core::Sha512;
use mezza_ratchet::{IdentityKey, IdentityKeyPair, xeddsa};

use super::device::Device;
use super::ours::{parse, ser};
use super::peer::{Peer, Program, Runs};
use mezza_testing::{hex, unhex_array};

use crate::fixture::draw;

const PROGRAM: Program = Program { name: "xeddsa", source: "peer_xeddsa.py", runs: Runs::Python };

/// Devices on each side; half of all keys have either sign.
const DEVICES: u8 = 64;

/// Asks `peer` whether a signature of ours is right.
fn verifies(peer: &mut Peer, identity: &IdentityKey, text: &[u8], sig: &[u8; 64]) -> bool {
    peer.one(&["verify", &ser(identity.as_bytes()), &hex(text), &hex(sig)]) == "1"
}

#[test]
fn our_signatures_are_right_for_them() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut rng = super::rng();
    for i in 0..DEVICES {
        let ours = IdentityKeyPair::new(draw(&mut rng).into_static());
        let mut sig = ours.sign::<Sha512>(&[&[i; 33]], &mut rng);
        assert!(verifies(&mut peer, &ours.public_key(), &[i; 33], &sig));
        sig[usize::from(i) % 63] ^= 1;
        assert!(!verifies(&mut peer, &ours.public_key(), &[i; 33], &sig));
    }
}

#[test]
fn their_signatures_are_right_for_us() {
    let Some(mut peer) = PROGRAM.start() else { return };
    for i in 0..DEVICES {
        let (_, identity) = parse(&peer.bundle());
        let sig = unhex_array(&peer.one(&["sign", &hex(&[i; 33])]));
        assert!(xeddsa::verify::<Sha512>(&identity, &[&[i; 33]], &sig));
        assert!(!xeddsa::verify::<Sha512>(&identity, &[&[i + 1; 33]], &sig));
    }
}
