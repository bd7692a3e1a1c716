//! Against implementations that nobody here wrote: each is a program of its own, spoken to by
//! lines. `cargo xtask interop` fetches them and names their folder in `MEZZA_TEST_PEERS`; without
//! it these tests are skipped, and say so.

use mezza_core::{Suite, SuiteId};
use mezza_ratchet::suite::V3;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use device::Device;
use matrix::{Cell, Ends, Jump};
use ours::Ours;
use peer::{Peer, Program};

mod device;
mod matrix;
mod ours;
mod peer;

mod axolotl;
mod java;
mod native;
mod xeddsa;

/// Tasks that any two implementations must do with each other.
const CELLS: [Cell; 5] =
    [matrix::first_messages, matrix::turns, matrix::random, matrix::flips, matrix::simultaneous];

/// The side that begins the session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    We,
    They,
}

/// The side that begins, and true if there is a one-time key.
type Case = (Role, bool);

/// Every case.
const ALL: [Case; 4] =
    [(Role::We, true), (Role::We, false), (Role::They, true), (Role::They, false)];

/// Plays one part of the matrix between us and `program`.
fn meet(program: &Program, suite: SuiteId, cell: Cell, cases: &[Case]) {
    let Some(peer) = program.start() else { return };
    let mut ends: Ends = [Box::new(Ours::new(suite)), Box::new(peer)];
    let mut begins = Role::We;
    for (role, one_time) in cases {
        if *role != begins {
            ends.swap(0, 1);
            begins = *role;
        }
        cell(&mut ends, *one_time);
    }
}

/// Sends `program` a message `max` ahead and one beyond, which it refuses; then it sends us both, and
/// we open both.
fn jumps(program: &Program, max: usize) {
    let Some(peer) = program.start() else { return };
    let mut ends: Ends = [Box::new(Ours::new(V3::ID)), Box::new(peer)];
    matrix::jump(&mut ends, Jump { max, held: true });
    ends.swap(0, 1);
    matrix::jump(&mut ends, Jump { max, held: false });
}

/// The bundles of 64 of their devices: the sign of the key is in the signature, either way.
fn both_sign_bits(peer: &mut Peer) {
    let mut signs = [0; 2];
    for _ in 0..64 {
        let (bundle, identity) = ours::parse(&peer.bundle());
        bundle.check(V3::ID, &identity, 1).expect("a good bundle");
        signs[usize::from(bundle.signature[63] >> 7)] += 1;
    }
    assert!(signs.iter().all(|count| *count > 0), "{signs:?}");
}

/// Chance for what the tests make themselves.
fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(7)
}
