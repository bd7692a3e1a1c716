//! Fixed points: 64 windows of 4 bits. Each window has its eight multiples in the lanes of a
//! vector, so that eight scalars look up eight different multiples by one permutation per limb.

use super::edwards::{
    AffineNiels, Point, add_outlined, add_points, double_point, from_montgomery, identity,
    select_entry, to_affine_niels,
};
use super::field::{ElementBlock, Fe, add_raw, blend_elements, load_block, store_block, sub_raw};
use super::inversion::{Fractions, unpack_points};
use super::ladder::clamped_byte;
use crate::lanes::{LANES, Lanes};
use crate::wipe::wipe_bytes;
use alloc::vec::Vec;

/// Radix-16 digits of a scalar.
const WINDOWS: usize = 64;

/// The multiples of a point P, 61,440 bytes: window w has (j + 1) 16^w P in lane j, as y + x, y -
/// x, 2 d x y.
pub struct Comb(Vec<[ElementBlock; 3]>);

impl Comb {
    /// Makes the table of the point with u-coordinate `u`. `None` for the same points as in
    /// [`from_montgomery`].
    #[inline(always)]
    pub fn new<L: Lanes>(l: L, u: &[u8; 32]) -> Option<Self> {
        let point = from_montgomery(l, load_block(l, &unpack_points(&[*u])))?;
        let mut multiples = first_multiples(l, point);
        let mut x = Fractions::new(WINDOWS);
        let mut y = Fractions::new(WINDOWS);
        for _ in 0..WINDOWS {
            l.outline(
                #[inline(always)]
                || {
                    x.push_fraction(l, multiples.x, multiples.z);
                    y.push_fraction(l, multiples.y, multiples.z);
                },
            );
            for _ in 0..4 {
                multiples = double_point(l, multiples);
            }
        }
        let points = x.divide_all(l).into_iter().zip(y.divide_all(l));
        let windows = points.map(|(x, y)| {
            let AffineNiels { plus, minus, txy } = l.outline(
                #[inline(always)]
                || to_affine_niels(l, load_block(l, &x), load_block(l, &y)),
            );
            [store_block(l, plus), store_block(l, minus), store_block(l, txy)]
        });
        Some(Self(windows.collect()))
    }

    /// Multiplies the point by eight scalars. Returns fractions u = (Z + Y) / (Z - Y). Classes:
    /// canonical windows -> wide.
    #[inline(always)]
    pub fn multiply_base<L: Lanes>(&self, l: L, digits: &Digits) -> (Fe<L>, Fe<L>) {
        let mut sum = identity(l);
        let signs = digits.minus.iter().zip(&digits.zero);
        let digits = digits.index.iter().zip(signs);
        for ([plus, minus, txy], (index, (negative, zero))) in self.0.iter().zip(digits) {
            let window = AffineNiels {
                plus: load_block(l, plus),
                minus: load_block(l, minus),
                txy: load_block(l, txy),
            };
            let entry = select_entry(l, window, l.load(index), *negative, *zero);
            sum = add_points(l, sum, entry, *negative);
        }
        (add_raw(l, sum.z, sum.y), sub_raw(l, sum.z, sum.y))
    }
}

/// Computes (j + 1) P in lane j. Classes: R -> R.
#[inline(always)]
fn first_multiples<L: Lanes>(l: L, point: Point<Fe<L>>) -> Point<Fe<L>> {
    let mut fractions = [Fractions::new(1), Fractions::new(1)];
    l.outline(
        #[inline(always)]
        || {
            fractions[0].push_fraction(l, point.x, point.z);
            fractions[1].push_fraction(l, point.y, point.z);
        },
    );
    let [x, y] = fractions.map(|fraction| load_block(l, &fraction.divide_all(l)[0]));
    let point = to_affine_niels(l, x, y);
    let mut multiples = identity(l);
    // The lanes j where j + 1 has bit 3, 2, 1, 0 set.
    for lanes in [0b1000_0000, 0b0111_1000, 0b0110_0110, 0b0101_0101] {
        let twice = double_point(l, multiples);
        let more = add_outlined(l, twice, point);
        let pick = |a, b| blend_elements(l, lanes, a, b);
        multiples = Point {
            x: pick(twice.x, more.x),
            y: pick(twice.y, more.y),
            z: pick(twice.z, more.z),
            t: pick(twice.t, more.t),
        };
    }
    multiples
}

/// Digits of up to eight scalars in radix 16, from -8 to 8.
pub struct Digits {
    /// The absolute value of each digit, less 1, by window and lane; 7 for a zero digit, whose lane
    /// is blended away.
    index: [[u64; LANES]; WINDOWS],
    /// Bit j is set if digit j is negative.
    minus: [u8; WINDOWS],
    /// Bit j is set if digit j is zero.
    zero: [u8; WINDOWS],
}

impl Digits {
    /// Splits up to eight scalars, and clamps them.
    ///
    /// 8 is added to every digit but the last; after the carries of that sum each nibble less 8 is
    /// a digit from -8 to 7. The last digit takes its carry and is not reduced: it stays at most 8,
    /// since a clamped scalar has bit 255 clear.
    pub fn new(scalars: &[[u8; 32]]) -> Self {
        let mut digits =
            Self { index: [[0; LANES]; WINDOWS], minus: [0; WINDOWS], zero: [0; WINDOWS] };
        let mut sums = [[0; LANES]; 32];
        let mut over = [0; LANES];
        for (at, sums) in sums.iter_mut().enumerate() {
            let bias = if at == 31 { 0x08 } else { 0x88 };
            for lane in 0..LANES {
                let byte = scalars[lane % scalars.len()][at];
                let total = u16::from(clamped_byte(at, byte)) + bias + over[lane];
                (sums[lane], over[lane]) = (total as u8, total >> 8);
            }
        }
        for w in 0..WINDOWS {
            let bias = if w == WINDOWS - 1 { 0 } else { 8 };
            for (lane, sum) in sums[w / 2].iter().enumerate() {
                let digit = u64::from(sum >> (w % 2 * 4) & 15).wrapping_sub(bias);
                let minus = digit >> 63;
                let size = (digit ^ minus.wrapping_neg()).wrapping_add(minus);
                digits.index[w][lane] = size.wrapping_sub(1) & 7;
                digits.minus[w] |= (minus as u8) << lane;
                digits.zero[w] |= ((size.wrapping_sub(1) >> 63) as u8) << lane;
            }
        }
        wipe_bytes(sums.as_flattened_mut());
        digits
    }
}

impl Drop for Digits {
    fn drop(&mut self) {
        self.index = [[0; LANES]; WINDOWS];
        wipe_bytes(&mut self.minus);
        wipe_bytes(&mut self.zero);
        zeroize::optimization_barrier(&self.index);
    }
}
