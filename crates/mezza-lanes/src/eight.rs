//! The vector kernel, generic over the backend: eight products or sixteen messages at a time.
//!
//! | module | noun |
//! |---|---|
//! | `field` | GF(2^255 - 19) in lanes, and its classes of limbs |
//! | `ladder` | one scalar or eight, eight points |
//! | `edwards`, `comb` | one point, eight scalars |
//! | `inversion` | one inversion for 256 quotients; bytes in and out |
//! | `chacha20`, `poly1305`, `aead` | sixteen messages |
#![expect(clippy::inline_always, reason = "arithmetic is compiled where its backend is known")]

mod aead;
mod chacha20;
pub mod comb;
pub mod edwards;
pub mod field;
mod inversion;
pub mod ladder;
pub mod poly1305;

use crate::fixed_point::MultiplesTable;
use crate::lanes::{LANES, Lanes, Lanes32};
use crate::{FixedPoint, Kernel, Scalar, Strided};
use comb::{Comb, Digits};
use field::load_block;
use inversion::{Fractions, pack_points, unpack_points, wipe_group};
use ladder::{SwapMasks, run_ladder};

/// Groups of eight points that share an inversion, whose cost is then below 2 %.
const INVERSION_GROUPS: usize = 32;
/// Points that share an inversion.
const BATCH: usize = INVERSION_GROUPS * LANES;

/// A kernel on the vectors of the backend `L`.
pub struct VectorKernel<L> {
    lanes: L,
    name: &'static str,
}

impl<L: Lanes + Lanes32> VectorKernel<L> {
    /// Makes a kernel of this name; `lanes` proves that the CPU supports it.
    pub const fn new(lanes: L, name: &'static str) -> Self {
        Self { lanes, name }
    }

    /// Divides the collected fractions, and writes as many results as `out` holds.
    fn write_quotients(&self, fractions: Fractions, out: &mut [[u8; 32]]) {
        let l = self.lanes;
        let mut quotients = l.outline(
            #[inline(always)]
            || fractions.divide_all(l),
        );
        for (quotient, out) in quotients.iter_mut().zip(out.chunks_mut(LANES)) {
            pack_points(quotient, out);
            wipe_group(quotient);
        }
    }
}

impl<L: Lanes + Lanes32 + Sync> Kernel for VectorKernel<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert_eq!(u.len(), out.len(), "an output for each point");
        let l = self.lanes;
        let masks = SwapMasks::new(core::slice::from_ref(k.expose()));
        for (u, out) in u.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut fractions = Fractions::new(INVERSION_GROUPS);
            for u in u.chunks(LANES) {
                l.outline(
                    #[inline(always)]
                    || {
                        let (x, z) = run_ladder(l, &masks, load_block(l, &unpack_points(u)));
                        fractions.push_fraction(l, x, z);
                    },
                );
            }
            self.write_quotients(fractions, out);
        }
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert!(
            k.len() == u.len() && u.len() == out.len(),
            "a scalar and an output for each point"
        );
        let l = self.lanes;
        for ((k, u), out) in k.chunks(BATCH).zip(u.chunks(BATCH)).zip(out.chunks_mut(BATCH)) {
            let mut fractions = Fractions::new(INVERSION_GROUPS);
            for (k, u) in k.chunks(LANES).zip(u.chunks(LANES)) {
                let masks = SwapMasks::new(k);
                l.outline(
                    #[inline(always)]
                    || {
                        let (x, z) = run_ladder(l, &masks, load_block(l, &unpack_points(u)));
                        fractions.push_fraction(l, x, z);
                    },
                );
            }
            self.write_quotients(fractions, out);
        }
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        let l = self.lanes;
        let comb = l.outline(
            #[inline(always)]
            || Comb::new(l, u),
        )?;
        Some(FixedPoint::new(u, MultiplesTable::Comb(comb)))
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        let l = self.lanes;
        l.outline(
            #[inline(always)]
            || edwards::from_montgomery(l, load_block(l, &unpack_points(&[*u]))).is_some(),
        )
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert_eq!(k.len(), out.len(), "an output for each scalar");
        let MultiplesTable::Comb(comb) = &p.table else {
            return self.without_table(p.u(), k, out);
        };
        let l = self.lanes;
        for (k, out) in k.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut fractions = Fractions::new(INVERSION_GROUPS);
            for k in k.chunks(LANES) {
                let digits = Digits::new(k);
                l.outline(
                    #[inline(always)]
                    || {
                        let (x, z) = comb.multiply_base(l, &digits);
                        fractions.push_fraction(l, x, z);
                    },
                );
            }
            self.write_quotients(fractions, out);
        }
    }

    fn seal_each(&self, keys: &[[u8; 32]], m: Strided<'_>) {
        assert_eq!(keys.len(), m.message_count(), "a key for each message");
        self.lanes.outline(
            #[inline(always)]
            || aead::seal_all(self.lanes, keys, m),
        );
    }

    fn open_each(&self, keys: &[[u8; 32]], m: Strided<'_>, ok: &mut [u8]) {
        assert!(keys.len() == m.message_count() && keys.len() == ok.len(), "a key and a flag each");
        self.lanes.outline(
            #[inline(always)]
            || aead::open_all(self.lanes, keys, m, ok),
        );
    }
}

impl<L: Lanes + Lanes32 + Sync> VectorKernel<L> {
    /// Multiplies a fixed point without a usable table, such as one made by another kernel.
    fn without_table(&self, u: &[u8; 32], k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        for (k, out) in k.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            self.x25519_pairwise(k, &[*u; BATCH][..k.len()], out);
        }
    }
}
