//! The kernel of a server: eight lanes where the CPU has AVX-512 IFMA, else aws-lc, else dalek.
//!
//! aws-lc computes only ladders, two to three times as fast as the portable code. Combs and AEADs
//! stay with `mezza-lanes`: aws-lc has no comb for arbitrary points, and its AEAD leaks in its time
//! which messages failed (LANES, promise L2). Together they take 5 % of a round.

use std::sync::OnceLock;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use mezza_lanes::{
    FixedPoint, Kernel, Scalar, SelftestError, Strided, ifma, portable, run_selftest,
};

/// The kernel with ladders of aws-lc.
struct AwsLcKernel;

/// The kernel that this process uses.
static CHOSEN: OnceLock<&'static dyn Kernel> = OnceLock::new();

/// Returns the fastest kernel whose self-test passes on this machine; chosen once.
pub fn choose_kernel() -> &'static dyn Kernel {
    *CHOSEN.get_or_init(|| {
        let sound = |kernel: &&'static dyn Kernel| examine_kernel(*kernel).is_ok();
        runnable_kernels().into_iter().find(sound).unwrap_or_else(portable)
    })
}

/// Selects this kernel instead of the fastest. Returns false if a kernel was chosen already.
pub fn force_kernel(kernel: &'static dyn Kernel) -> bool {
    CHOSEN.set(kernel).is_ok()
}

/// Returns the kernels that this CPU can run, fastest first.
pub fn runnable_kernels() -> Vec<&'static dyn Kernel> {
    [ifma(), Some(aws_lc()), Some(portable())].into_iter().flatten().collect()
}

/// Runs the self-test of a kernel; a fault is also logged.
///
/// # Errors
/// The first operation with a wrong result.
pub fn examine_kernel(kernel: &dyn Kernel) -> Result<(), SelftestError> {
    run_selftest(kernel).inspect_err(|fault| {
        tracing::error!(kernel = kernel.name(), %fault, "a kernel computes wrong answers");
    })
}

/// Returns the kernel on aws-lc.
pub fn aws_lc() -> &'static dyn Kernel {
    &AwsLcKernel
}

impl Kernel for AwsLcKernel {
    fn name(&self) -> &'static str {
        "aws-lc"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert_eq!(u.len(), out.len(), "an output for each point");
        let own = make_private(k.expose());
        for (u, out) in u.iter().zip(out) {
            multiply_point(&own, u, out);
        }
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert!(
            k.len() == u.len() && u.len() == out.len(),
            "a scalar and an output for each point"
        );
        for ((k, u), out) in k.iter().zip(u).zip(out) {
            multiply_point(&make_private(k), u, out);
        }
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        portable().fixed_point(u)
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        portable().is_fixed_point(u)
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_fixed(p, k, out);
    }

    fn seal_each(&self, keys: &[[u8; 32]], m: Strided<'_>) {
        portable().seal_each(keys, m);
    }

    fn open_each(&self, keys: &[[u8; 32]], m: Strided<'_>, ok: &mut [u8]) {
        portable().open_each(keys, m, ok);
    }
}

/// Imports a private key; aws-lc clamps it and wipes its copy.
#[expect(clippy::expect_used, reason = "every 32 bytes are an X25519 scalar")]
fn make_private(scalar: &[u8; 32]) -> PrivateKey {
    PrivateKey::from_private_key(&X25519, scalar).expect("32 bytes")
}

/// Computes `out = own u`; zeros for a point of small order, which aws-lc refuses.
fn multiply_point(own: &PrivateKey, u: &[u8; 32], out: &mut [u8; 32]) {
    let shared = agree(own, UnparsedPublicKey::new(&X25519, u), (), |shared| {
        <[u8; 32]>::try_from(shared).map_err(|_| ())
    });
    *out = shared.unwrap_or([0; 32]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns edge-case points: of small order, not reduced, with bit 255 set.
    fn hard() -> Vec<[u8; 32]> {
        let byte = |at: usize, value: u8| {
            let mut u = [0; 32];
            u[at] = value;
            u
        };
        let mut p = [0xff; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        let mut above = p;
        above[0] = 0xf6;
        vec![byte(0, 0), byte(0, 1), byte(0, 9), byte(31, 0x80), p, above, [0xff; 32]]
    }

    #[test]
    fn aws_lc_passes_the_selftest_and_a_kernel_is_chosen() {
        assert_eq!(run_selftest(aws_lc()), Ok(()));
        let expected = ifma().map_or("aws-lc", Kernel::name);
        assert_eq!(choose_kernel().name(), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn aws_lc_gives_the_bytes_of_the_portable_kernel(
            k: [u8; 32],
            points in proptest::collection::vec(any::<[u8; 32]>(), 0..12),
            scalars: [[u8; 32]; 20],
        ) {
            let points = [hard(), points].concat();
            let zeros = vec![[0; 32]; points.len()];
            let mut ours = zeros.clone();
            let mut theirs = zeros;
            let scalar = Scalar::copy_from(&k);
            aws_lc().x25519_shared(&scalar, &points, &mut ours);
            portable().x25519_shared(&scalar, &points, &mut theirs);
            prop_assert_eq!(&ours, &theirs);
            let scalars = &scalars[..points.len().min(20)];
            let points = &points[..scalars.len()];
            let mut ours = vec![[0; 32]; points.len()];
            let mut theirs = vec![[0; 32]; points.len()];
            aws_lc().x25519_pairwise(scalars, points, &mut ours);
            portable().x25519_pairwise(scalars, points, &mut theirs);
            prop_assert_eq!(ours, theirs);
        }
    }
}
