//! The proof that no lane overflows for any input, and tests that the proof would notice an
//! overflow.

use super::emulated::Emulated;
use super::interval::{Interval, Mutant, Proof};
use crate::BASE;
use crate::eight::comb::{Comb, Digits};
use crate::eight::edwards::{self, AffineNiels, Point};
use crate::eight::field::{self, P};
use crate::eight::ladder::{self, LadderState, SwapMasks};
use crate::eight::poly1305;
use std::string::String;
use std::vec::Vec;

/// A field element whose limbs are intervals.
type Element = [Interval; 5];

/// The bound of class R: 2^51 + 2^15.
const REDUCED: u128 = (1 << 51) + (1 << 15);
/// The bound of limb i of a product, in multiples of 2^51: for t terms, t low parts below 2^52 and
/// t - 1 high parts below 2^51, plus 19 times the bound of limb i + 5. The high parts are slightly
/// larger, since operands may exceed 2^51: `RAW_MORE` covers this.
const RAW_HALVES: [u128; 5] = [249, 195, 141, 87, 33];
/// The excess of the high parts: 2^23 is more than 19 * 5 * 2 * 2^15.
const RAW_MORE: u128 = 1 << 23;

fn all(max: u128) -> Element {
    [(0, max); 5]
}

fn reduced() -> Element {
    all(REDUCED)
}

fn raw() -> Element {
    RAW_HALVES.map(|halves| (0, (halves << 51) + RAW_MORE))
}

/// The class canonical: [0, 2^51), value below p.
fn canonical() -> Element {
    all((1 << 51) - 1)
}

/// The class wide: [0, 2^61 + 2^60).
fn wide() -> Element {
    all((1 << 61) + (1 << 60) - 1)
}

fn within(a: Element, class: Element) -> bool {
    a.iter().zip(class).all(|(a, class)| a.0 >= class.0 && a.1 <= class.1)
}

/// Returns the broken contracts, and a fault if an output exceeds its class.
fn run(mutant: Mutant, f: impl FnOnce(&Proof) -> Vec<(Element, Element)>) -> Vec<String> {
    let proof = Proof::new(mutant);
    let left = f(&proof).into_iter().any(|(out, class)| !within(out, class));
    let mut faults = proof.faults();
    faults.extend(left.then(|| String::from("an output outside its class")));
    faults
}

fn proven(f: impl FnOnce(&Proof) -> Vec<(Element, Element)>) {
    assert_eq!(run(Mutant::Sound, f), [""; 0]);
}

/// A function of one field element, or of two.
type Unary = fn(&Proof, Element) -> Element;
type Binary = fn(&Proof, Element, Element) -> Element;

#[test]
fn lanes_4_elements_of_the_field() {
    let unary: [(Element, Element, Unary); 8] = [
        (wide(), reduced(), |l, a| field::carry_limbs(l, a)),
        (reduced(), raw(), |l, a| field::sqr_raw(l, a)),
        (reduced(), reduced(), |l, a| field::sqr(l, a)),
        (reduced(), reduced(), |l, a| field::sqr_n_outlined(l, a, 3)),
        (reduced(), canonical(), |l, a| field::reduce_canonical(l, a)),
        (reduced(), reduced(), |l, a| field::invert(l, a)),
        (reduced(), reduced(), |l, a| field::pow_p58(l, a)),
        (canonical(), canonical(), |l, a| {
            assert_eq!(field::is_zero(l, a), 0b0101_0101);
            field::small_element(l, 1)
        }),
    ];
    for (class, out, f) in unary {
        proven(|l| [(f(l, class), out)].into());
    }
    let binary: [(Element, Element, Binary); 10] = [
        (reduced(), raw(), |l, a, b| field::mul_raw(l, a, b)),
        (reduced(), reduced(), |l, a, b| field::mul(l, a, b)),
        (reduced(), reduced(), |l, a, b| field::mul_outlined(l, a, b)),
        (reduced(), reduced(), |l, a, b| field::sub_red(l, a, b)),
        (reduced(), reduced(), |l, a, b| field::add_red(l, a, b)),
        (reduced(), wide(), |l, a, b| field::add_121665(l, a, b)),
        (raw(), wide(), |l, a, b| field::add_raw(l, a, b)),
        (raw(), wide(), |l, a, b| field::sub_raw(l, a, b)),
        (raw(), raw(), |l, a, b| field::blend_elements(l, 0x0f, a, b)),
        (reduced(), all(1 << 54), |l, a, b| field::sub_biased(l, a, b, 4)),
    ];
    for (class, out, f) in binary {
        proven(|l| [(f(l, class, class), out)].into());
    }
    proven(|l| {
        [
            (field::load_constant(l, P), canonical()),
            (field::load_block(l, &[[7; 8]; 5]), canonical()),
        ]
        .into()
    });
}

/// Runs one ladder step from its input classes. Returns the outputs with their classes.
fn ladder_step(l: &Proof, raw: Element, u: Element) -> Vec<(Element, Element)> {
    let pair = ladder::ladder_step(l, LadderState { x2: raw, z2: raw, x3: raw, z3: raw }, u, 0x5a);
    [pair.x2, pair.z2, pair.x3, pair.z3].map(|out| (out, raw)).into()
}

/// Runs one window of a fixed point. Returns the outputs with their classes.
fn comb_step(l: &Proof, raw: Element, table: Element) -> Vec<(Element, Element)> {
    let window = AffineNiels { plus: table, minus: table, txy: table };
    let entry = edwards::select_entry(l, window, (0, 7), 0x5a, 0x21);
    let sum = edwards::add_points(l, Point { x: raw, y: raw, z: raw, t: raw }, entry, 0x5a);
    [sum.x, sum.y, sum.z, sum.t].map(|out| (out, raw)).into()
}

#[test]
fn lanes_4_steps_lead_from_a_class_into_the_same() {
    proven(|l| ladder_step(l, raw(), reduced()));
    proven(|l| comb_step(l, raw(), reduced()));
    proven(|l| {
        // Ladder and windows begin with small numbers.
        let Point { x, y, z, t } = edwards::identity(l);
        [x, y, z, t].map(|out| (out, canonical())).into()
    });
    let proof = Proof::new(Mutant::Sound);
    ladder_step(&proof, raw(), reduced());
    assert_eq!(proof.carries(), 11, "passes of carries in a step");
}

#[test]
fn lanes_4_whole_products() {
    proven(|l| {
        let (x, z) = ladder::run_ladder(l, &SwapMasks::new(&[[0x5a; 32]]), reduced());
        [(x, raw()), (z, raw())].into()
    });
    let comb = Comb::new(Emulated, &BASE).expect("the base point");
    proven(|l| {
        let (x, z) = comb.multiply_base(l, &Digits::new(&[[0x5a; 32]]));
        [(x, wide()), (z, wide())].into()
    });
}

#[test]
fn lanes_4_points() {
    let point = || Point { x: reduced(), y: reduced(), z: reduced(), t: reduced() };
    let outputs = |p: Point<Element>| [p.x, p.y, p.z, p.t].map(|out| (out, reduced())).into();
    proven(|l| outputs(edwards::double_point(l, point())));
    let entry = || AffineNiels { plus: reduced(), minus: reduced(), txy: reduced() };
    proven(|l| outputs(edwards::add_outlined(l, point(), entry())));
    proven(|l| {
        let ready = edwards::to_affine_niels(l, reduced(), reduced());
        [ready.plus, ready.minus, ready.txy].map(|out| (out, canonical())).into()
    });
    proven(|l| {
        // The interval backend reports some lanes as zero. So a root exists, and the point appears
        // to have small order.
        assert!(edwards::from_montgomery(l, canonical()).is_none());
        Vec::new()
    });
}

#[test]
fn lanes_4_blocks_of_poly1305() {
    let limbs = |[a, b, c]: [Interval; 3]| [a, b, c, (0, 0), (0, 0)];
    let block = [(0, (1 << 44) - 1), (0, (1 << 44) - 1), (1 << 40, (1 << 41) - 1)];
    let half = [block[0], block[1], (0, (1 << 40) - 1)];
    let word = (0, u128::from(u64::MAX));
    let r = (0, (1 << 44) - 1);
    let r20 = (0, 20 << 44);
    proven(|l| {
        let key = poly1305::load_key(l, [word; 4]);
        let [a, b] = key.r20;
        let multiples = ([a, b, (0, 0), (0, 0), (0, 0)], [r20; 5]);
        let any = limbs(poly1305::split_limbs(l, word, word));
        [(limbs(key.r), limbs([r; 3])), multiples, (limbs(key.s), limbs(half)), (any, limbs(half))]
            .into()
    });
    proven(|l| {
        let split = poly1305::split_block(l, word, word);
        let four = poly1305::load_blocks(l, &[0; 64], &[0; 8]);
        [split].into_iter().chain(four).map(|of| (limbs(of), limbs(block))).collect()
    });
    let sum = [(0, (1 << 44) + (1 << 8)); 3];
    proven(|l| {
        let key = poly1305::Poly1305Keys { r: [r; 3], r20: [r20; 2], s: half };
        let [low, high] = poly1305::finish_tags(l, sum, &key);
        let tag = ([low, high, (0, 0), (0, 0), (0, 0)], [word; 5]);
        [(limbs(poly1305::absorb_block(l, sum, block, &key)), limbs(sum)), tag].into()
    });
}

#[test]
fn lanes_4_a_smaller_bias_is_noticed() {
    let bias = |times, instead| Mutant::Bias { times, instead };
    assert!(!run(bias(512, 128), |l| ladder_step(l, raw(), reduced())).is_empty());
    assert!(!run(bias(512, 128), |l| comb_step(l, raw(), reduced())).is_empty());
    let difference = |l: &Proof| [(field::sub_red(l, reduced(), reduced()), reduced())].into();
    assert!(!run(bias(4, 1), difference).is_empty());
}

#[test]
fn lanes_4_every_carry_is_needed() {
    for pass in 0..11 {
        let faults = run(Mutant::Carry(pass), |l| ladder_step(l, raw(), reduced()));
        assert!(!faults.is_empty(), "pass {pass} of the ladder");
    }
    for pass in 0..7 {
        let faults = run(Mutant::Carry(pass), |l| comb_step(l, raw(), reduced()));
        assert!(!faults.is_empty(), "pass {pass} of the comb");
    }
}

#[test]
fn lanes_4_a_wider_class_is_noticed() {
    let wider = || all(1 << 52);
    assert!(!run(Mutant::Sound, |l| ladder_step(l, raw(), wider())).is_empty());
    assert!(!run(Mutant::Sound, |l| comb_step(l, raw(), wider())).is_empty());
    let product = |l: &Proof| [(field::mul_raw(l, wider(), wider()), raw())].into();
    assert!(!run(Mutant::Sound, product).is_empty());
}
