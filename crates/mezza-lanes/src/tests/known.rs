//! The test vectors of RFC 7748 in every function and every lane.

use super::{array, kernels};
use crate::{BASE, FixedPoint, Kernel, Scalar, SelftestError, Strided, portable, run_selftest};
use std::vec::Vec;

/// Scalar, point and product (section 5.2).
const RFC_7748: [[&str; 3]; 2] = [
    [
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ],
    [
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ],
];

#[test]
fn section_5_in_every_lane() {
    for kernel in kernels() {
        for [k, u, product] in RFC_7748.map(|row| row.map(array)) {
            for lane in 0..9 {
                // The other lanes have other inputs.
                let mut ks = [[7; 32]; 9];
                let mut us = [BASE; 9];
                let mut out = [[0; 32]; 9];
                (ks[lane], us[lane]) = (k, u);
                kernel.x25519_pairwise(&ks, &us, &mut out);
                assert_eq!(out[lane], product, "{}", kernel.name());
                kernel.x25519_shared(&Scalar::copy_from(&k), &us, &mut out);
                assert_eq!(out[lane], product, "{}", kernel.name());
                assert_eq!(out.iter().filter(|out| **out == product).count(), 1);
            }
        }
    }
}

#[test]
fn section_5_iterated() {
    for kernel in kernels() {
        let mut k = [BASE; 8];
        let mut u = [BASE; 8];
        for round in 1..=1_000 {
            let mut out = [[0; 32]; 8];
            kernel.x25519_pairwise(&k, &u, &mut out);
            (u, k) = (k, out);
            if round == 1 {
                let once = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079";
                assert_eq!(k, [array(once); 8]);
            }
        }
        let thousand = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51";
        assert_eq!(k, [array(thousand); 8], "{}", kernel.name());
    }
}

#[test]
fn every_kernel_passes_its_self_test() {
    for kernel in kernels() {
        assert_eq!(run_selftest(kernel), Ok(()), "{}", kernel.name());
    }
}

/// The portable kernel with one operation that has a wrong bit at one index of its output.
struct Broken {
    fault: SelftestError,
    at: usize,
}

impl Broken {
    fn flip(&self, fault: SelftestError, out: &mut [[u8; 32]]) {
        if self.fault == fault
            && let Some(out) = out.get_mut(self.at)
        {
            out[self.at] ^= 0x40;
        }
    }
}

impl Kernel for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_shared(k, u, out);
        self.flip(SelftestError::Shared, out);
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_pairwise(k, u, out);
        self.flip(SelftestError::Each, out);
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        // At even indices 0 is accepted as a point of the curve, at odd indices p - 1.
        let refused = portable().fixed_point(u).is_none();
        let taken = refused && (*u == [0; 32]) == self.at.is_multiple_of(2);
        portable().fixed_point(if self.fault == SelftestError::FixedPoint && taken {
            &BASE
        } else {
            u
        })
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        portable().is_fixed_point(u) || self.fault == SelftestError::FixedPoint
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_fixed(p, k, out);
        self.flip(SelftestError::Fixed, out);
    }

    fn seal_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>) {
        let wrong = m.messages().nth(self.at).filter(|_| self.fault == SelftestError::Seal);
        if let Some((body, _)) = wrong {
            body[self.at] ^= 0x40;
        }
        portable().seal_each(keys, m);
    }

    fn open_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
        let wrong = m.messages().nth(self.at).filter(|_| self.fault == SelftestError::Open);
        if let Some((_, tag)) = wrong {
            tag[self.at % 16] ^= 0x40;
        }
        portable().open_each(keys, m, ok);
    }
}

#[test]
fn the_self_test_finds_one_wrong_bit_in_one_lane() {
    let faults = [
        SelftestError::Shared,
        SelftestError::Each,
        SelftestError::FixedPoint,
        SelftestError::Fixed,
        SelftestError::Seal,
        SelftestError::Open,
    ];
    for fault in faults {
        // The self-test forges every third message.
        for at in (1..9).filter(|at| at % 3 != 0) {
            let said = run_selftest(&Broken { fault, at });
            assert_eq!(said, Err(fault), "place {at}");
        }
    }
}

/// The portable kernel with an `open_each` that is wrong for one message of the self-test.
#[derive(Clone, Copy, Debug)]
enum BadOpen {
    /// Accepts a forged message, with a zeroed body.
    TakesForged,
    /// Rejects a forged message, with its plaintext.
    ShowsForged,
    /// Rejects a valid message, with its plaintext.
    RefusesGood,
    /// Accepts a valid message, with a wrong plaintext.
    SpoilsGood,
}

impl Kernel for BadOpen {
    fn name(&self) -> &'static str {
        "bad open"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_shared(k, u, out);
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_pairwise(k, u, out);
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

    fn open_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
        let len = m.body_bytes();
        let mut copy = Vec::new();
        m.messages().for_each(|(body, tag)| copy.extend([body, tag.as_slice()].concat()));
        portable().open_each(keys, Strided::new(&mut copy, len + 16, 0, len), ok);
        let good = matches!(self, Self::RefusesGood | Self::SpoilsGood);
        let at = ok.iter().position(|one| *one == u8::from(good)).expect("messages of both kinds");
        match self {
            Self::TakesForged => ok[at] = 1,
            Self::RefusesGood => ok[at] = 0,
            Self::ShowsForged | Self::SpoilsGood => copy[at * (len + 16)] ^= 1,
        }
        for ((body, _), opened) in m.messages().zip(copy.chunks_exact(len + 16)) {
            body.copy_from_slice(&opened[..len]);
        }
    }
}

/// The self-test checks the body and the verdict separately.
#[test]
fn the_self_test_finds_a_wrong_verdict_beside_a_right_body_and_the_reverse() {
    let kinds =
        [BadOpen::TakesForged, BadOpen::ShowsForged, BadOpen::RefusesGood, BadOpen::SpoilsGood];
    for kernel in kinds {
        assert_eq!(run_selftest(&kernel), Err(SelftestError::Open), "{kernel:?}");
    }
}
