//! The interface of all kernels, and the choice between them.

use crate::portable::PortableKernel;
use crate::{FixedPoint, Scalar, Strided};

/// Operations that a CPU does for many independent messages at once.
///
/// All kernels give equal bytes for equal inputs. Lengths that belong together must be equal; any
/// count is allowed. Scalars are clamped inside (RFC 7748, section 5); bit 255 of a u-coordinate is
/// ignored, and u may be p or more. An output of 32 zeros means an input of small order: the caller
/// treats it as failure. Scalars, keys and outputs in slices belong to the caller, who wipes them.
///
/// # Panics
/// Each method panics if its lengths differ, before any work.
pub trait Kernel: Sync {
    /// `"ifma"`, `"portable"`; others choose a name of their own.
    fn name(&self) -> &'static str;

    /// `out[i] = k u[i]`: one secret scalar, many points.
    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// `out[i] = k[i] u[i]`: a scalar for each point.
    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// A table for [`x25519_fixed`](Self::x25519_fixed); `None` if u belongs to the twist, is -1, or
    /// has small order. The time depends on u, which is public.
    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint>;

    /// Returns true if [`fixed_point`](Self::fixed_point) would give one, without making the table.
    fn is_fixed_point(&self, u: &[u8; 32]) -> bool;

    /// `out[i] = k[i] p`: many scalars, one point.
    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// ChaCha20-Poly1305 (RFC 8439) with 12 zero bytes as nonce and no additional data, message i
    /// under `keys[i]`: encrypts each body in place and writes its tag behind it. A key seals once.
    fn seal_each(&self, keys: &[[u8; 32]], m: Strided<'_>);

    /// The reverse: `ok[i]` becomes 1 and body i is decrypted in place, or `ok[i]` becomes 0 and
    /// body i zeros. Which messages failed does not show in the time.
    fn open_each(&self, keys: &[[u8; 32]], m: Strided<'_>, ok: &mut [u8]);
}

/// The fastest kernel of this crate that the CPU can run.
pub fn fastest_kernel() -> &'static dyn Kernel {
    ifma().unwrap_or_else(portable)
}

/// The kernel on AVX-512 with IFMA: eight points or sixteen messages in step. `None` if the CPU, or
/// the operating system, does not have it. The answer is kept after the first call.
pub fn ifma() -> Option<&'static dyn Kernel> {
    #[cfg(target_arch = "x86_64")]
    return crate::avx512::ifma();
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

/// The kernel for every CPU: one input after another.
pub fn portable() -> &'static dyn Kernel {
    &PortableKernel
}
