//! The product of four pairings whose points in G2 are fixed. The line functions of these points
//! are computed once, the four Miller loops share their squarings, and lines are multiplied in
//! pairs.
//!
//! A line is 1 + x X v + y Y v w at the point (X, Y) = (-2x, 2y) of G1, where w^2 = v and v^3 = 1 +
//! u. Multiplying two lines takes three products in Fp2, and multiplying by the result takes 18: 21
//! in all, where two sparse products take 26.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::gt::Gt;
use super::raw::{self, Fp2, Fp6, LINES};
use super::{G1Affine, G2Affine, Limbs, silent};

/// The number of pairings in one product.
pub const PAIRS: usize = 4;
/// The number of doublings after each addition of the Miller loop: the zeros between the ones of
/// |z|.
const DOUBLINGS: [usize; 5] = [2, 3, 9, 32, 16];

/// The line functions of four points: four lines for each step, 52,224 bytes, wiped on drop.
pub struct Lines(Box<[[Line; PAIRS]]>);

silent!(Lines);

/// The coefficients x and y of a line whose constant is 1.
#[derive(Clone, Copy, Default)]
struct Line {
    x: Fp2,
    y: Fp2,
}

impl Lines {
    /// Computes the line functions of points that are not infinite. `None` if the constant of a
    /// line is 0. A point that an attacker chose can have such a line; a random point has one with
    /// a probability of 2^-750.
    pub fn new(points: &[&G2Affine; PAIRS]) -> Option<Self> {
        let mut lines = vec![Fp6::default(); PAIRS * LINES].into_boxed_slice();
        for (lines, point) in lines.as_chunks_mut().0.iter_mut().zip(points) {
            raw::precompute_lines(&point.0, lines);
        }
        let possible = normalise_lines(&mut lines);
        let mut steps = vec![[Line::default(); PAIRS]; LINES].into_boxed_slice();
        for (j, step) in steps.iter_mut().enumerate() {
            for (i, line) in step.iter_mut().enumerate() {
                let [_, x, y] = lines[i * LINES + j].fp2;
                *line = Line { x, y };
            }
        }
        lines.iter_mut().for_each(Limbs::wipe_limbs);
        let lines = Self(steps);
        possible.then_some(lines)
    }

    /// Returns the product of all `e(p_i`, `q_i`). The points must be on the curve and not
    /// infinite.
    pub fn multi_pair(&self, points: &[G1Affine; PAIRS]) -> Gt {
        let scaled = points.each_ref().map(Scaled::new);
        let mut steps = self.0.iter();
        let mut multiply = |f: &mut Gt| {
            let step = steps.next().into_iter().flat_map(|step| step.as_chunks().0);
            for (lines, points) in step.zip(scaled.as_chunks().0) {
                *f = f.mul(&multiply_lines(lines, points));
            }
        };
        let mut f = Gt::one();
        multiply(&mut f);
        for doublings in DOUBLINGS {
            multiply(&mut f);
            for _ in 0..doublings {
                f = Gt(raw::fp12_sqr(&f.0));
                multiply(&mut f);
            }
        }
        // The conjugate is taken because z is negative.
        raw::fp12_conjugate(&mut f.0);
        Gt(raw::final_exp(&f.0))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        for Line { x, y } in self.0.as_flattened_mut() {
            x.wipe_limbs();
            y.wipe_limbs();
        }
    }
}

/// Divides every line by its constant. The constant is in Fp2, and the final exponentiation maps
/// such a factor to 1, so no product of pairings changes. Returns false if a constant is 0; the
/// lines are then useless.
fn normalise_lines(lines: &mut [Fp6]) -> bool {
    // One inversion serves all lines: the products of all constants before each line are stored,
    // and used from the last line to the first.
    let mut product = fp2_one();
    let mut before = Vec::with_capacity(lines.len());
    for line in &*lines {
        before.push(product);
        product = raw::fp2_mul(&product, &line.fp2[0]);
    }
    let possible = product != Fp2::default();
    let mut inverse = raw::fp2_inverse(&product);
    for (line, before) in lines.iter_mut().zip(&before).rev() {
        let mut factor = raw::fp2_mul(&inverse, before);
        inverse = raw::fp2_mul(&inverse, &line.fp2[0]);
        line.fp2 = line.fp2.each_ref().map(|part| raw::fp2_mul(part, &factor));
        factor.wipe_limbs();
    }
    [product, inverse].iter_mut().chain(&mut before).for_each(Limbs::wipe_limbs);
    possible
}

/// The values (-2x, 2y) of a public point, by which the coefficients of a line are multiplied.
struct Scaled {
    x: raw::Fp,
    y: raw::Fp,
}

impl Scaled {
    fn new(point: &G1Affine) -> Self {
        let raw::P1Affine { x, y } = &point.0;
        Self { x: raw::fp_cneg(&raw::fp_add(x, x), true), y: raw::fp_add(y, y) }
    }

    /// Returns the line at this point.
    fn line_at(&self, line: &Line) -> Line {
        Line { x: scale_fp2(&line.x, &self.x), y: scale_fp2(&line.y, &self.y) }
    }
}

/// Returns (1 + x v + y v w) (1 + x' v + y' v w) = (1 + (1 + u) y y', x + x', x x') + (0, y + y', x
/// y' + x' y) w.
fn multiply_lines(lines: &[Line; 2], points: &[Scaled; 2]) -> Gt {
    let [a, b] = [0, 1].map(|i| points[i].line_at(&lines[i]));
    let xx = raw::fp2_mul(&a.x, &b.x);
    let yy = raw::fp2_mul(&a.y, &b.y);
    let x = raw::fp2_add(&a.x, &b.x);
    let y = raw::fp2_add(&a.y, &b.y);
    let all = raw::fp2_mul(&raw::fp2_add(&a.x, &a.y), &raw::fp2_add(&b.x, &b.y));
    let mixed = raw::fp2_sub(&raw::fp2_sub(&all, &xx), &yy);
    let [re, im] = &yy.fp;
    let shifted = Fp2 { fp: [raw::fp_sub(re, im), raw::fp_add(re, im)] };
    let constant = raw::fp2_add(&fp2_one(), &shifted);
    let zero = Fp2::default();
    Gt(raw::Fp12 { fp6: [Fp6 { fp2: [constant, x, xx] }, Fp6 { fp2: [zero, y, mixed] }] })
}

fn fp2_one() -> Fp2 {
    raw::fp12_one().fp6[0].fp2[0]
}

fn scale_fp2(a: &Fp2, b: &raw::Fp) -> Fp2 {
    Fp2 { fp: [raw::fp_mul(&a.fp[0], b), raw::fp_mul(&a.fp[1], b)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_constant_are_told() {
        let generator = G2Affine::generator();
        assert!(Lines::new(&[&generator; PAIRS]).is_some());
        let mut lines = [Fp6 { fp2: [fp2_one(); 3] }; 3];
        assert!(normalise_lines(&mut lines));
        lines[1].fp2[0] = Fp2::default();
        assert!(!normalise_lines(&mut lines));
    }
}
