//! A backend that computes with intervals instead of numbers. A property of the ends of an interval
//! holds for every number in it, so one run is a proof for all inputs.
//!
//! The code has no branch that depends on values. By induction, a step from a class into the same
//! class may be repeated any number of times.

use crate::lanes::{LANES, Lanes};
use core::cell::{Cell, RefCell};
use std::string::String;
use std::vec::Vec;

/// The smallest and the largest value of a lane.
pub type Interval = (u128, u128);

/// A deliberate defect: the proof must fail with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// No defect.
    Sound,
    /// Carry pass number n does nothing.
    Carry(usize),
    /// The constant `times` p, in limbs, counts as `instead` p.
    Bias { times: u64, instead: u64 },
}

/// The state of a proof run.
pub struct Proof {
    mutant: Mutant,
    shifts: Cell<usize>,
    masks: Cell<usize>,
    faults: RefCell<Vec<String>>,
}

impl Proof {
    pub fn new(mutant: Mutant) -> Self {
        let faults = RefCell::new(Vec::new());
        Self { mutant, shifts: Cell::new(0), masks: Cell::new(0), faults }
    }

    /// Returns the broken contracts.
    pub fn faults(&self) -> Vec<String> {
        self.faults.borrow().clone()
    }

    /// Returns the number of carry passes so far: each shifts five limbs by 51 bits.
    pub fn carries(&self) -> usize {
        self.shifts.get() / 5
    }

    fn demand(&self, holds: bool, what: &str) {
        if !holds {
            self.faults.borrow_mut().push(String::from(what));
        }
    }

    /// Returns true if call number `counter` belongs to the carry pass that the mutant skips.
    fn left_out(&self, counter: &Cell<usize>) -> bool {
        let call = counter.replace(counter.get() + 1);
        self.mutant == Mutant::Carry(call / 5)
    }
}

const LANE: u128 = 1 << 64;
const OPERAND: u128 = 1 << 52;
const MASK_51: u128 = (1 << 51) - 1;

impl Lanes for &Proof {
    type V = Interval;

    fn splat(self, x: u64) -> Interval {
        let x = match self.mutant {
            Mutant::Bias { times, instead } if biased(x, times) => x / times * instead,
            _ => x,
        };
        (x.into(), x.into())
    }

    fn load(self, x: &[u64; LANES]) -> Interval {
        let ends = (x.iter().min(), x.iter().max());
        (ends.0.copied().unwrap_or(0).into(), ends.1.copied().unwrap_or(0).into())
    }

    fn store(self, _: Interval) -> [u64; LANES] {
        self.demand(false, "an interval has no lanes");
        [0; LANES]
    }

    fn add(self, a: Interval, b: Interval) -> Interval {
        self.demand(a.1 + b.1 < LANE, "a carry out of a lane");
        (a.0 + b.0, a.1 + b.1)
    }

    fn sub(self, a: Interval, b: Interval) -> Interval {
        self.demand(a.0 >= b.1, "a lane below zero");
        (a.0.saturating_sub(b.1), a.1.saturating_sub(b.0))
    }

    fn and(self, a: Interval, mask: Interval) -> Interval {
        self.demand(mask.0 == mask.1, "a mask that is no constant");
        let low_bits = (mask.0 + 1).is_power_of_two();
        if mask.0 == MASK_51 && self.left_out(&self.masks) {
            return a;
        }
        if low_bits && a.1 <= mask.1 { a } else { (0, mask.1.min(a.1)) }
    }

    fn shl<const N: u32>(self, a: Interval) -> Interval {
        self.demand(a.1 << N < LANE, "a bit lost");
        (a.0 << N, a.1 << N)
    }

    fn shr<const N: u32>(self, a: Interval) -> Interval {
        if N == 51 && self.left_out(&self.shifts) {
            return (0, 0);
        }
        (a.0 >> N, a.1 >> N)
    }

    fn mul(self, a: Interval, b: Interval) -> Interval {
        self.demand(a.1 * b.1 < LANE, "a product of more than a lane");
        (a.0 * b.0, a.1 * b.1)
    }

    fn lo(self, acc: Interval, a: Interval, b: Interval) -> Interval {
        self.demand(a.1 < OPERAND && b.1 < OPERAND, "an operand of 2^52 or more");
        let product = if a.1 * b.1 < OPERAND { (a.0 * b.0, a.1 * b.1) } else { (0, OPERAND - 1) };
        self.add(acc, product)
    }

    fn hi(self, acc: Interval, a: Interval, b: Interval) -> Interval {
        self.demand(a.1 < OPERAND && b.1 < OPERAND, "an operand of 2^52 or more");
        self.add(acc, ((a.0 * b.0) >> 52, (a.1 * b.1) >> 52))
    }

    fn blend(self, _: u8, a: Interval, b: Interval) -> Interval {
        (a.0.min(b.0), a.1.max(b.1))
    }

    fn permute(self, index: Interval, a: Interval) -> Interval {
        self.demand(index.1 < LANES as u128, "an index of 8 or more");
        a
    }

    fn is_zero(self, _: Interval) -> u8 {
        0b0101_0101
    }

    fn load_columns(self, _: &[u8], _: &[usize; LANES]) -> [Interval; LANES] {
        [(0, LANE - 1); LANES]
    }

    fn outline<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Returns true if `x` is a limb of `times` p.
fn biased(x: u64, times: u64) -> bool {
    let limb = |low: u64| ((1 << 51) - low) * times;
    x == limb(19) || x == limb(1)
}
