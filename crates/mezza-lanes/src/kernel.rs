//! The interface of all kernels, and the selection of a kernel.

use crate::portable::PortableKernel;
use crate::{FixedPoint, Scalar, Strided};

/// Batch operations on many independent messages.
///
/// All kernels produce equal bytes for equal inputs. Slices of one call must have equal lengths;
/// any length is allowed. Scalars are clamped inside (RFC 7748, section 5); bit 255 of a
/// u-coordinate is ignored, and u may be p or more. An output of 32 zeros means an input of small
/// order: the caller treats it as failure. Scalars, keys and outputs in slices belong to the
/// caller, who wipes them.
///
/// # Panics
/// Each method panics if its lengths differ, before any work.
pub trait Kernel: Sync {
    /// Returns the name: `"ifma"` or `"portable"`; kernels of other crates choose their own.
    fn name(&self) -> &'static str;

    /// Computes `out[i] = k u[i]`: one secret scalar, many points.
    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// Computes `out[i] = k[i] u[i]`: a scalar for each point.
    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// Makes a table for [`x25519_fixed`](Self::x25519_fixed). `None` if u belongs to the twist, is
    /// -1, or has small order. The time depends on u, which is public.
    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint>;

    /// Returns true if [`fixed_point`](Self::fixed_point) would return a point, without making the
    /// table.
    fn is_fixed_point(&self, u: &[u8; 32]) -> bool;

    /// Computes `out[i] = k[i] p`: many scalars, one point.
    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]);

    /// Encrypts each body in place, and writes its tag behind it: ChaCha20-Poly1305 (RFC 8439) with
    /// 12 zero bytes as nonce and no additional data, message i under `keys[i]`. A key must seal
    /// only one message.
    fn seal_each(&self, keys: &[[u8; 32]], m: Strided<'_>);

    /// Decrypts each body in place and sets `ok[i]` to 1; after a wrong tag, body i is zeroed and
    /// `ok[i]` is 0. The time does not show which messages failed.
    fn open_each(&self, keys: &[[u8; 32]], m: Strided<'_>, ok: &mut [u8]);
}

/// Returns the fastest kernel of this crate that the CPU supports.
pub fn fastest_kernel() -> &'static dyn Kernel {
    ifma().unwrap_or_else(portable)
}

/// Returns the kernel on AVX-512 with IFMA: eight points or sixteen messages at a time. `None` if
/// the CPU or the operating system does not support it. The result is cached.
pub fn ifma() -> Option<&'static dyn Kernel> {
    #[cfg(target_arch = "x86_64")]
    return crate::avx512::ifma();
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

/// Returns the kernel for every CPU: one input after another.
pub fn portable() -> &'static dyn Kernel {
    &PortableKernel
}
