//! The product of four pairings whose points in G2 are known ahead: their line functions are computed
//! once, and the squarings of the four Miller loops are shared.

use alloc::boxed::Box;
use alloc::vec;

use super::gt::Gt;
use super::raw::{self, Fp6, LINES};
use super::{G1Affine, G2Affine, Limbs, silent};

/// Pairings of one product.
pub const PAIRS: usize = 4;
/// Doublings behind each addition of the Miller loop: the zeros between the ones of |z|.
const DOUBLINGS: [usize; 5] = [2, 3, 9, 32, 16];

/// The line functions of four points, 78,336 bytes, which are wiped.
pub struct Lines(Box<[Fp6]>);

silent!(Lines);

impl Lines {
    /// Computes them, for points that are not infinite.
    pub fn new(points: &[&G2Affine; PAIRS]) -> Self {
        let mut lines = vec![Fp6::default(); PAIRS * LINES].into_boxed_slice();
        for (lines, point) in lines.as_chunks_mut().0.iter_mut().zip(points) {
            raw::precompute_lines(&point.0, lines);
        }
        Self(lines)
    }

    /// The product of `e(p_i`, `q_i`) for points that are on the curve and not infinite.
    pub fn multi_pair(&self, points: &[G1Affine; PAIRS]) -> Gt {
        let scaled = points.each_ref().map(Scaled::new);
        let line = |j: usize, i: usize| scaled[i].line(&self.0[i * LINES + j]);
        let mut f = Gt(sparse(&line(0, 0)));
        for i in 1..PAIRS {
            f.multiply(&line(0, i));
        }
        let mut j = 1;
        for doublings in DOUBLINGS {
            for step in 0..=doublings {
                if step > 0 {
                    f = Gt(raw::fp12_sqr(&f.0));
                }
                for i in 0..PAIRS {
                    f.multiply(&line(j, i));
                }
                j += 1;
            }
        }
        // z is negative.
        raw::fp12_conjugate(&mut f.0);
        Gt(raw::final_exp(&f.0))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Limbs::wipe_limbs);
    }
}

/// (-2x, 2y) of a public point: the factors of its lines.
struct Scaled {
    x: raw::Fp,
    y: raw::Fp,
}

impl Scaled {
    fn new(point: &G1Affine) -> Self {
        let raw::P1Affine { x, y } = &point.0;
        Self { x: raw::fp_cneg(&raw::fp_add(x, x), true), y: raw::fp_add(y, y) }
    }

    /// The line at this point.
    fn line(&self, line: &Fp6) -> Fp6 {
        let [constant, x, y] = &line.fp2;
        Fp6 { fp2: [*constant, times(x, &self.x), times(y, &self.y)] }
    }
}

impl Gt {
    fn multiply(&mut self, line: &Fp6) {
        self.0 = raw::fp12_mul_line(&self.0, line);
    }
}

fn times(a: &raw::Fp2, b: &raw::Fp) -> raw::Fp2 {
    raw::Fp2 { fp: [raw::fp_mul(&a.fp[0], b), raw::fp_mul(&a.fp[1], b)] }
}

/// A line as an element: (l0, l1, 0) + (0, l2, 0) w.
fn sparse(line: &Fp6) -> raw::Fp12 {
    let [l0, l1, l2] = line.fp2;
    let zero = raw::Fp2::default();
    raw::Fp12 { fp6: [Fp6 { fp2: [l0, l1, zero] }, Fp6 { fp2: [zero, l2, zero] }] }
}
