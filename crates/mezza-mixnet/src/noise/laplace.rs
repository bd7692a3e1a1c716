//! The Laplace distribution of the paper in floating point, for reproducing its results.

use mezza_core::CryptoRng;

/// Draws `ceil(max(0, Lap(mean, b)))`. Returns the mean, rounded up, for b = 0.
pub fn draw(mean: f64, b: f64, rng: &mut dyn CryptoRng) -> u32 {
    // The sign uses another draw, so that all 53 bits describe the distance.
    let distance = -b * libm::log(open_unit(rng));
    let drawn = if rng.next_u32() & 1 == 0 { mean + distance } else { mean - distance };
    // The value is below 2^22 + 2^20 x 38, so the conversion is exact.
    #[expect(clippy::cast_sign_loss, reason = "the maximum with 0 is not negative")]
    let count = libm::ceil(drawn.max(0.0)) as u32;
    count
}

/// Returns a uniform number between 0 and 1 with 53 random bits and a half bit. It is never 0, for
/// which the logarithm is undefined.
fn open_unit(rng: &mut dyn CryptoRng) -> f64 {
    const BITS: u32 = 53;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit into the mantissa")]
    let drawn = (rng.next_u64() >> (u64::BITS - BITS)) as f64;
    libm::ldexp(drawn + 0.5, -BITS.cast_signed())
}
