//! Compares every vector operation of this CPU's backend with the emulated backend.

use super::emulated::Emulated;
use crate::lanes::{BLOCK, LANES, Lanes, Lanes32, WORDS};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::vec::Vec;

/// Deterministic pseudorandom numbers; some are all zeros or all ones.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, bits: u32) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let all = match self.0 >> 60 {
            0 => 0,
            1 => u64::MAX,
            _ => (self.0 ^ self.0 >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        all >> (64 - bits)
    }

    fn lanes(&mut self, bits: u32) -> [u64; LANES] {
        core::array::from_fn(|_| self.next(bits))
    }

    fn block(&mut self) -> [u8; BLOCK] {
        core::array::from_fn(|_| self.next(8) as u8)
    }
}

/// Returns the results of the 64-bit operations, for inputs that meet the contracts.
fn lanes<L: Lanes>(l: L, n: &mut Numbers) -> Vec<[u64; LANES]> {
    let [a, b, c, wide] = [n.lanes(52), n.lanes(52), n.lanes(63), n.lanes(64)];
    let mask = n.next(8) as u8;
    let bytes = [a, b, c, wide].into_iter().flatten().flat_map(u64::to_le_bytes);
    let bytes = bytes.collect::<Vec<_>>();
    let at = core::array::from_fn(|_| n.next(32) as usize % (bytes.len() - 63));
    let [va, vb, vc, vw] = [l.load(&a), l.load(&b), l.load(&c), l.load(&wide)];
    let mut out = [
        l.splat(a[0]),
        l.add(vc, va),
        l.sub(l.add(vc, va), va),
        l.and(vw, l.splat((1 << 51) - 1)),
        l.shl::<4>(va),
        l.shl::<8>(va),
        l.shr::<51>(vw),
        l.shr::<24>(vw),
        l.mul(va, l.splat(19)),
        l.mul(l.shr::<32>(vw), l.shr::<32>(vc)),
        l.lo(vc, va, vb),
        l.hi(vc, va, vb),
        l.blend(mask, va, vw),
        l.permute(l.and(vw, l.splat(7)), va),
    ]
    .map(|v| l.store(v))
    .to_vec();
    out.extend(l.load_columns(&bytes, &at).map(|v| l.store(v)));
    out.push([l.is_zero(vw).into(), l.is_zero(l.shr::<63>(vw)).into(), 0, 0, 0, 0, 0, 0]);
    out.push(l.outline(|| l.store(l.add(va, vb))));
    out
}

/// Returns the results of the 32-bit operations.
fn words<L: Lanes32>(l: L, n: &mut Numbers) -> Vec<[u8; BLOCK]> {
    let rows: [[u8; BLOCK]; WORDS] = core::array::from_fn(|_| n.block());
    let [a, b] = [l.load_words(&rows[0]), l.load_words(&rows[1])];
    let turned = [l.rotl::<16>(a), l.rotl::<12>(a), l.rotl::<8>(a), l.rotl::<7>(a)];
    let all = [l.splat_words(rows[0][0].into()), l.add_words(a, b), l.xor_words(a, b)];
    let columns = l.transpose(rows.map(|row| l.load_words(&row)));
    all.into_iter().chain(turned).chain(columns).map(|w| l.store_words(w)).collect()
}

#[test]
fn lanes_3_no_lane_reads_beyond_the_end() {
    let beyond = |f: &dyn Fn(&[usize; LANES])| {
        for lane in 0..LANES {
            let mut at = [12; LANES];
            f(&at);
            for wrong in [13, 76, 77, usize::MAX, usize::MAX - 63] {
                at[lane] = wrong;
                assert!(catch_unwind(AssertUnwindSafe(|| f(&at))).is_err(), "{lane} {wrong}");
            }
        }
    };
    beyond(&|at| assert_eq!(Emulated.load_columns(&[0; 76], at), [[0; LANES]; LANES]));
    #[cfg(target_arch = "x86_64")]
    if let Some(l) = crate::avx512::Ifma::detect() {
        let columns =
            |bytes: &[u8], at: &[usize; LANES]| l.load_columns(bytes, at).map(|v| l.store(v));
        beyond(&|at| assert_eq!(columns(&[0; 76], at), [[0; LANES]; LANES]));
        assert!(catch_unwind(|| columns(&[0; 63], &[0; LANES])).is_err());
    }
}

#[test]
fn lanes_6_every_operation_is_the_emulated_one() {
    let run = |n: &mut Numbers| (lanes(Emulated, n), words(Emulated, n));
    let mut first = Numbers(1);
    let mut second = Numbers(1);
    for _ in 0..1_000 {
        let right = run(&mut first);
        #[cfg(target_arch = "x86_64")]
        let other =
            crate::avx512::Ifma::detect().map(|l| (lanes(l, &mut second), words(l, &mut second)));
        #[cfg(not(target_arch = "x86_64"))]
        let other = None;
        assert_eq!(other.unwrap_or_else(|| run(&mut second)), right);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn lanes_2_a_token_is_there_if_cpu_and_system_have_all_features() {
    // The standard library detects the features of CPU and system by its own code.
    let all = std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512ifma")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512bw");
    assert_eq!(crate::avx512::Ifma::detect().is_some(), all);
    assert_eq!(crate::ifma().is_some(), all);
    std::println!("kernel: {}", crate::fastest_kernel().name());
    assert_eq!(crate::fastest_kernel().name(), if all { "ifma" } else { "portable" });
}
