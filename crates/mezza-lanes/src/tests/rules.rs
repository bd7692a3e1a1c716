//! Tests of the rules in `docs/protocols/lanes.md` that no other test file covers.

use super::{Frame, array, kernels};
use crate::{BASE, FixedPoint, Scalar, SelftestError, Strided};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::string::{String, ToString};
use std::vec::Vec;

/// u-coordinates of points whose order divides 8, on the curve and on its twist, below 2^255.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

#[test]
fn lanes_6_points_of_small_order_give_zeros_and_leave_their_neighbours_alone() {
    for kernel in kernels() {
        for high in [0, 0x80] {
            let small = SMALL_ORDER.map(|u| {
                let mut u = array(u);
                u[31] |= high;
                u
            });
            let mut points = [BASE; 14];
            points.iter_mut().step_by(2).zip(small).for_each(|(point, u)| *point = u);
            let mut out = [[1; 32]; 14];
            let mut alone = [[0; 32]];
            kernel.x25519_shared(&Scalar::copy_from(&[0x5a; 32]), &points, &mut out);
            kernel.x25519_pairwise(&[[0x5a; 32]], &[BASE], &mut alone);
            for pair in out.chunks(2) {
                assert_eq!(pair, [[0; 32], alone[0]], "{}", kernel.name());
            }
        }
    }
}

#[test]
fn lanes_8_a_failed_body_is_zeros_and_the_others_are_whole() {
    let bodies = (0..33_u8).map(|i| std::vec![i; 70]).collect::<Vec<_>>();
    let keys = (0..33_u8).map(|i| [i; 32]).collect::<Vec<_>>();
    for kernel in kernels() {
        for (bad, in_tag) in (0..33).flat_map(|bad| [(bad, true), (bad, false)]) {
            let mut frame = Frame::new(&bodies);
            kernel.seal_each(&keys, frame.strided());
            for (body, tag) in frame.strided().messages().skip(bad).take(1) {
                *if in_tag { &mut tag[bad % 16] } else { &mut body[2 * bad] } ^= 0x80;
            }
            let mut ok = [9; 33];
            kernel.open_each(&keys, frame.strided(), &mut ok);
            for (i, message) in frame.messages().into_iter().enumerate() {
                let right = if i == bad { [0; 70] } else { [i as u8; 70] };
                assert_eq!((&message[..70], ok[i]), (&right[..], u8::from(i != bad)));
            }
        }
    }
}

/// An operation with one output.
type Call<'a> = &'a mut dyn FnMut(&mut [[u8; 32]; 1]);

#[test]
fn lanes_9_lengths_that_differ_are_our_bug() {
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    let word = [[0; 32]; 2];
    for kernel in kernels() {
        let base = kernel.fixed_point(&BASE).expect("the base point");
        let mut out = [[3; 32]; 1];
        let k = Scalar::copy_from(&[1; 32]);
        let cases: [Call<'_>; 4] = [
            &mut |out| kernel.x25519_shared(&k, &word, out),
            &mut |out| kernel.x25519_pairwise(&word, &word, out),
            &mut |out| kernel.x25519_pairwise(&word[..1], &word, out),
            &mut |out| kernel.x25519_fixed(&base, &word, out),
        ];
        for case in cases {
            assert!(catch_unwind(AssertUnwindSafe(|| case(&mut out))).is_err());
            assert_eq!(out, [[3; 32]], "written before the check");
        }
        let seal = || kernel.seal_each(&word, Strided::new(&mut [0; 60], 20, 0, 4));
        let open = || kernel.open_each(&word, Strided::new(&mut [0; 40], 20, 0, 4), &mut [0; 3]);
        assert!(panics(&seal) && panics(&open));
    }
    for (bytes, stride, offset, len) in
        [(40, 20, 0, 5), (40, 20, 1, 4), (39, 20, 0, 4), (40, 20, usize::MAX, 4), (0, 0, 0, 0)]
    {
        let mut buffer = std::vec![0; bytes];
        let new = || Strided::new(&mut buffer, stride, offset, len).message_count();
        assert!(catch_unwind(AssertUnwindSafe(new)).is_err(), "{bytes} {stride} {offset} {len}");
    }
    assert_eq!(Strided::new(&mut [], 16, 0, 0).message_count(), 0);
}

#[test]
fn lanes_10_nothing_but_the_cpu_chooses_the_code() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(!manifest.contains("[features]") && !manifest.contains("build ="));
    for text in
        [include_str!("../lib.rs"), include_str!("../kernel.rs"), include_str!("../portable.rs")]
    {
        let words = ["option_env!", "env!(", "cfg(feature", "cfg(target_feature"];
        assert!(words.iter().all(|word| !text.contains(word)));
    }
}

#[test]
fn lanes_11_which_points_are_fixed_ones() {
    for kernel in kernels() {
        let refused = |u: &[u8; 32]| {
            let refused = kernel.fixed_point(u).is_none();
            assert_eq!(refused, !kernel.is_fixed_point(u), "{}", kernel.name());
            refused
        };
        assert!(SMALL_ORDER.map(array).iter().all(refused));
        // -1 has no image in Edwards form.
        assert!(refused(&array(
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
        )));
        // About half of all u are on the curve, the others on the twist. A multiple of a u stays on
        // the curve or on the twist, as the u.
        let all = (2..130_u8).map(|i| core::array::from_fn(|j| if j == 0 { i } else { 0 }));
        let (twist, curve) = all.partition::<Vec<[u8; 32]>, _>(refused);
        assert!(twist.len() > 40 && curve.len() > 40 && curve.contains(&BASE));
        for (points, of_twist) in [(twist, true), (curve, false)] {
            let mut products = points.clone();
            kernel.x25519_shared(&Scalar::copy_from(&[0x77; 32]), &points, &mut products);
            assert!(products.iter().all(|u| refused(u) == of_twist));
        }
    }
}

#[test]
fn lanes_11_u_may_be_p_or_more() {
    // 9 + p does not fit into 255 bits, but 2^255 + 9 also stands for 9.
    let mut high = BASE;
    high[31] |= 0x80;
    // p + 16 = 2^255 - 3 stands for 16.
    let mut above = [0xff; 32];
    let mut below = [0; 32];
    (above[0], above[31], below[0]) = (0xfd, 0x7f, 16);
    for kernel in kernels() {
        assert!(kernel.is_fixed_point(&high));
        assert_eq!(kernel.is_fixed_point(&above), kernel.is_fixed_point(&below));
        for (same, other) in [(high, BASE), (above, below)] {
            let product = |u: &[u8; 32]| {
                let mut out = [[0; 32]];
                kernel.x25519_fixed(&kernel.fixed_point(u)?, &[[0x42; 32]], &mut out);
                Some(out)
            };
            assert_eq!(product(&same), product(&other));
        }
    }
}

#[test]
fn what_is_printed_says_nothing() {
    let scalar = Scalar::copy_from(&[0xde; 32]);
    assert_eq!(std::format!("{scalar:?}"), "Scalar");
    assert_eq!(std::format!("{:?}", Strided::new(&mut [0; 40], 20, 0, 4)), "Strided<2 x 4>");
    let texts = [SelftestError::Shared, SelftestError::FixedPoint].map(|fault| fault.to_string());
    assert_eq!(texts, ["x25519_shared", "fixed_point"].map(String::from));
    let point = kernels()[0].fixed_point(&BASE).map(|point: FixedPoint| std::format!("{point:?}"));
    assert!(point.is_some_and(|text| text.len() < 200));
}
