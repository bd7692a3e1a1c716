//! Known answers in every lane. A run takes about as long as thirty ladders.

use crate::{BASE, Kernel, Scalar, Strided};

/// Scalars in a test: a group of eight lanes and a short group.
const SCALARS: usize = 9;
/// Messages in a test: a group of sixteen and a short group.
const MESSAGES: usize = 17;
const BODY_BYTES: usize = 100;
const STRIDE_BYTES: usize = BODY_BYTES + 16;

/// Checksums of the correct outputs, as computed by `vectors/lanes/reference.py` in another way.
const EACH: u128 = 0x43d8_ef0f_827a_98c9_cff3_d856_ee77_edad;
const SHARED: u128 = 0xc78d_f72a_4e58_aaba_7549_4289_b9cb_21f3;
const TAGS: u128 = 0xd834_acc6_1763_a3ad_f025_dce1_5a59_3e53;

/// The operation in which a kernel returned a wrong result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelftestError {
    /// [`Kernel::x25519_shared`]: one scalar, many points.
    #[error("x25519_shared")]
    Shared,
    /// [`Kernel::x25519_pairwise`]: a scalar for each point.
    #[error("x25519_pairwise")]
    Each,
    /// [`Kernel::fixed_point`]: the choice of points that get a table.
    #[error("fixed_point")]
    FixedPoint,
    /// [`Kernel::x25519_fixed`]: one point, many scalars.
    #[error("x25519_fixed")]
    Fixed,
    /// [`Kernel::seal_each`].
    #[error("seal_each")]
    Seal,
    /// [`Kernel::open_each`], with valid and with forged messages.
    #[error("open_each")]
    Open,
}

/// Tests each operation of a kernel against known answers. A program calls this at its start, and
/// uses the next kernel if the test fails. Deterministic; takes about a millisecond.
///
/// # Errors
/// The first operation with a wrong result.
pub fn run_selftest(kernel: &dyn Kernel) -> Result<(), SelftestError> {
    let scalars = bytes_of::<SCALARS>();
    let mut points = [[0; 32]; SCALARS];
    kernel.x25519_pairwise(&scalars, &[BASE; SCALARS], &mut points);
    check_answer(sum_outputs(points) == EACH, SelftestError::Each)?;
    let mut out = [[0; 32]; SCALARS];
    kernel.x25519_shared(&Scalar::copy_from(&scalars[SCALARS - 1]), &points, &mut out);
    check_answer(sum_outputs(out) == SHARED, SelftestError::Shared)?;
    let refused = [[0; 32], minus_one()].iter().all(|u| kernel.fixed_point(u).is_none());
    let base = kernel.fixed_point(&BASE).filter(|_| refused).ok_or(SelftestError::FixedPoint)?;
    kernel.x25519_fixed(&base, &scalars, &mut out);
    check_answer(out == points, SelftestError::Fixed)?;
    test_aead(kernel)
}

fn test_aead(kernel: &dyn Kernel) -> Result<(), SelftestError> {
    let keys = bytes_of::<MESSAGES>();
    let text = |i: usize, j: usize| (31 * i + j) as u8;
    let mut bytes = [0; MESSAGES * STRIDE_BYTES];
    for (i, chunk) in bytes.chunks_exact_mut(STRIDE_BYTES).enumerate() {
        chunk.iter_mut().enumerate().for_each(|(j, byte)| *byte = text(i, j));
    }
    kernel.seal_each(&keys, make_strided(&mut bytes));
    let tags = bytes.chunks_exact(STRIDE_BYTES).map(|chunk| &chunk[BODY_BYTES..]);
    check_answer(sum_outputs(tags) == TAGS, SelftestError::Seal)?;
    // Every third message is forged: in the body, or in the tag.
    let forged = |i: usize| i.is_multiple_of(3);
    for i in (0..MESSAGES).filter(|i| forged(*i)) {
        bytes[i * STRIDE_BYTES + 7 * i] ^= 1;
    }
    let mut ok = [2; MESSAGES];
    kernel.open_each(&keys, make_strided(&mut bytes), &mut ok);
    for (i, chunk) in bytes.chunks_exact(STRIDE_BYTES).enumerate() {
        let right = |(j, byte): (usize, &u8)| *byte == if forged(i) { 0 } else { text(i, j) };
        let body = chunk[..BODY_BYTES].iter().enumerate().all(right);
        check_answer(body && ok[i] == u8::from(!forged(i)), SelftestError::Open)?;
    }
    Ok(())
}

fn make_strided(bytes: &mut [u8]) -> Strided<'_> {
    Strided::new(bytes, STRIDE_BYTES, 0, BODY_BYTES)
}

fn check_answer(right: bool, fault: SelftestError) -> Result<(), SelftestError> {
    if right { Ok(()) } else { Err(fault) }
}

/// Returns N arrays: 32 bytes of 1, 32 bytes of 2, and so on.
fn bytes_of<const N: usize>() -> [[u8; 32]; N] {
    core::array::from_fn(|i| [i as u8 + 1; 32])
}

/// Returns p - 1 = 2^255 - 20, which is no u-coordinate of the curve.
fn minus_one() -> [u8; 32] {
    let mut u = [0xff; 32];
    (u[0], u[31]) = (0xec, 0x7f);
    u
}

/// Computes a checksum over all bits of all outputs, dependent on their order.
fn sum_outputs<T: AsRef<[u8]>>(outputs: impl IntoIterator<Item = T>) -> u128 {
    let mut sum = 0_u128;
    for output in outputs {
        for half in output.as_ref().as_chunks().0 {
            sum = sum.rotate_left(7) ^ u128::from_le_bytes(*half);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn the_checksums_are_those_of_the_reference() {
        let case = include_str!("../../../vectors/lanes/selftest.txt");
        for (name, sum) in [("shared", SHARED), ("each", EACH), ("tags", TAGS)] {
            assert!(case.lines().any(|line| line == format!("{name}: {sum:032x}")), "{name}");
        }
    }
}
