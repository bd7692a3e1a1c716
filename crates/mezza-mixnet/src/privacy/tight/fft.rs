//! The discrete Fourier transform of a power of two of values.

use alloc::vec::Vec;
use core::f64::consts::PI;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    pub const ONE: Self = Self { re: 1.0, im: 0.0 };

    pub fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    pub fn size(self) -> f64 {
        libm::hypot(self.re, self.im)
    }

    /// Raises to the power `k` by squaring; the relative error is below 8 k 2^-53.
    pub fn power(self, mut k: u64) -> Self {
        let mut power = Self::ONE;
        let mut square = self;
        while k > 0 {
            if k & 1 == 1 {
                power = power.times(square);
            }
            square = square.times(square);
            k >>= 1;
        }
        power
    }
}

/// Returns a bound of the error of one value after a transform of n values whose sizes add up to 1.
/// Each level rounds a product and a sum, and a root of unity is exact to its last bits.
pub fn error_bound(n: usize) -> f64 {
    8.0 * f64::EPSILON / 2.0 * f64::from(n.ilog2())
}

/// Transforms in place: value j becomes the sum of `values[x] e^(2 pi i j x / n)`. The inverse,
/// except for the factor 1/n, is the transform in reverse order: see [`mirror`].
pub fn transform(values: &mut [Complex]) {
    let n = values.len();
    // The butterflies below expect the values in bit-reversed order.
    permute_values(values);
    let roots: Vec<Complex> = (0..n / 2).map(|j| unity_root(j, n)).collect();
    let mut half = 1;
    while half < n {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (j, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = b.times(roots[j * (n / (2 * half))]);
                (*a, *b) = (
                    Complex { re: a.re + turned.re, im: a.im + turned.im },
                    Complex { re: a.re - turned.re, im: a.im - turned.im },
                );
            }
        }
        half *= 2;
    }
}

/// Returns the index of value x of an inverse transform after a second [`transform`].
pub const fn mirror(x: usize, n: usize) -> usize {
    (n - x) % n
}

#[expect(clippy::cast_precision_loss, reason = "at most 2^19 values")]
fn unity_root(j: usize, n: usize) -> Complex {
    let angle = 2.0 * PI * j as f64 / n as f64;
    Complex { re: libm::cos(angle), im: libm::sin(angle) }
}

/// Moves each value x to the index with the bits of x reversed.
fn permute_values(values: &mut [Complex]) {
    let bits = values.len().ilog2();
    for x in 0..values.len() {
        let y = if bits == 0 { 0 } else { x.reverse_bits() >> (usize::BITS - bits) };
        if x < y {
            values.swap(x, y);
        }
    }
}
