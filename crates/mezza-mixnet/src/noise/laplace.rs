//! The Laplace law of the paper, in floating point: for reproduction.

use mezza_core::CryptoRng;

/// Draws `ceil(max(0, Lap(mean, b)))`; exactly the mean, rounded up, for b = 0.
pub fn draw(mean: f64, b: f64, rng: &mut dyn CryptoRng) -> u32 {
    // The sign comes from another draw, so that 53 bits describe the distance alone.
    let distance = -b * libm::log(open_unit(rng));
    let drawn = if rng.next_u32() & 1 == 0 { mean + distance } else { mean - distance };
    // Below 2^22 + 2^20 x 38, so that the conversion is exact.
    #[expect(clippy::cast_sign_loss, reason = "the maximum with 0 is not negative")]
    let count = libm::ceil(drawn.max(0.0)) as u32;
    count
}

/// 53 uniform bits and a half: never 0, where the logarithm has no value.
fn open_unit(rng: &mut dyn CryptoRng) -> f64 {
    const BITS: u32 = 53;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit into the mantissa")]
    let drawn = (rng.next_u64() >> (u64::BITS - BITS)) as f64;
    libm::ldexp(drawn + 0.5, -BITS.cast_signed())
}
