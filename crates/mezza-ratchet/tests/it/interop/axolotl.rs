//! python-axolotl 0.2.3.

use super::java::JUMP;
use super::matrix::{Ends, jump};
use super::peer::{Program, Runs};
use super::{CELLS, java};

pub const PROGRAM: Program =
    Program { name: "axolotl", source: "peer_axolotl.py", runs: Runs::Python };

/// The two libraries pass the matrix against each other.
#[test]
fn against_the_library_in_java() {
    let (Some(one), Some(two)) = (PROGRAM.start(), java::PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for _ in 0..2 {
        for cell in CELLS {
            cell(&mut ends, true);
        }
        jump(&mut ends, JUMP);
        ends.swap(0, 1);
    }
}
