//! signal-protocol-java 2.8.1, Signal's own library of 2019.

use super::CELLS;
use super::matrix::{Ends, Jump, jump};
use super::peer::{Program, Runs};

pub const PROGRAM: Program = Program {
    name: "java",
    source: "PeerJava.java",
    runs: Runs::Java(&[
        "signal-protocol-java-2.8.1.jar",
        "curve25519-java-0.5.0.jar",
        "protobuf-javalite-3.10.0.jar",
    ]),
};

/// It lets 2,000 messages of a chain be missing.
pub const JUMP: Jump = Jump { max: 2_000, held: true };

/// The matrix is right: the library passes it against itself.
#[test]
fn the_library_against_itself() {
    let (Some(one), Some(two)) = (PROGRAM.start(), PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for one_time in [true, false] {
        for cell in CELLS {
            cell(&mut ends, one_time);
        }
    }
    jump(&mut ends, JUMP);
}
