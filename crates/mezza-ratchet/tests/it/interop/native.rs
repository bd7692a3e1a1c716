//! libsignal-client 0.86.5, Signal's library of 2025: PQXDH, and no older handshake.

use super::CELLS;
use super::matrix::{Ends, Jump, jump};
use super::peer::{Program, Runs};

pub const PROGRAM: Program = Program {
    name: "native",
    source: "PeerNative.java",
    runs: Runs::Java(&["libsignal-client-0.86.5.jar", "kotlin-stdlib-2.1.0.jar"]),
};

/// The matrix is right for this one, too: the library passes it against itself.
#[test]
fn the_library_against_itself() {
    let (Some(one), Some(two)) = (PROGRAM.start(), PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for one_time in [true, false] {
        for cell in CELLS {
            cell(&mut ends, one_time);
        }
    }
    jump(&mut ends, Jump { max: 2_000, held: false });
}
