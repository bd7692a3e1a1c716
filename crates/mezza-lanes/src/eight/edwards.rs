//! The twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2 that is equivalent to Curve25519, in
//! extended coordinates (Hisil, Wong, Carter, Dawson 2008): x = X / Z, y = Y / Z, T = XY / Z. Its
//! formulas have no special cases.

use super::field::{
    Fe, add_raw, add_red, blend_elements, carry_limbs, is_zero, load_constant, mul, mul_outlined,
    mul_raw, pow_p58, reduce_canonical, small_element, sqr, sqr_n_outlined, sqr_raw, sub_raw,
    sub_red,
};
use crate::lanes::Lanes;

/// The curve constant d = -121665 / 121666.
const D: [u64; 5] = [
    0x0003_4dca_1359_78a3,
    0x0001_a828_3b15_6ebd,
    0x0005_e7a2_6001_c029,
    0x0007_39c6_63a0_3cbb,
    0x0005_2036_cee2_b6ff,
];
/// A square root of -1.
const I: [u64; 5] = [
    0x0006_1b27_4a0e_a0b0,
    0xd5a5_fc8f_189d,
    0x0007_ef5e_9cbd_0c60,
    0x0007_8595_a680_4c9e,
    0x0002_b832_4804_fc1d,
];

/// A point in each lane.
#[derive(Clone, Copy)]
pub struct Point<F> {
    /// X.
    pub x: F,
    /// Y.
    pub y: F,
    /// Z.
    pub z: F,
    /// T = XY / Z.
    pub t: F,
}

/// A point prepared for addition: Z = 1.
#[derive(Clone, Copy)]
pub struct AffineNiels<F> {
    /// y + x.
    pub plus: F,
    /// y - x.
    pub minus: F,
    /// 2 d x y.
    pub txy: F,
}

/// Returns the neutral element. Classes: canonical.
#[inline(always)]
pub fn identity<L: Lanes>(l: L) -> Point<Fe<L>> {
    let zero = small_element(l, 0);
    let one = small_element(l, 1);
    Point { x: zero, y: one, z: one, t: zero }
}

/// Looks up entry `digits.index` of the table in every lane, and applies the signs and zeros of the
/// digits. Classes: canonical -> canonical.
#[inline(always)]
pub fn select_entry<L: Lanes>(
    l: L,
    window: AffineNiels<Fe<L>>,
    index: L::V,
    minus: u8,
    zero: u8,
) -> AffineNiels<Fe<L>> {
    let plus = select_element(l, window.plus, index, zero, 1);
    let less = select_element(l, window.minus, index, zero, 1);
    AffineNiels {
        plus: blend_elements(l, minus, plus, less),
        minus: blend_elements(l, minus, less, plus),
        txy: select_element(l, window.txy, index, zero, 0),
    }
}

/// Looks up one element of the entry; a zero digit gives `neutral`.
#[inline(always)]
fn select_element<L: Lanes>(l: L, lanes: Fe<L>, index: L::V, zero: u8, neutral: u64) -> Fe<L> {
    let mut out = lanes;
    for limb in &mut out {
        *limb = l.permute(index, *limb);
    }
    blend_elements(l, zero, out, small_element(l, neutral))
}

/// Computes p + q, or p - q in the lanes of `minus`. In those lanes the caller has exchanged y + x
/// and y - x of `q`; the function changes the sign in F and G. Classes: raw, R -> raw.
#[inline(always)]
pub fn add_points<L: Lanes>(
    l: L,
    p: Point<Fe<L>>,
    q: AffineNiels<Fe<L>>,
    minus: u8,
) -> Point<Fe<L>> {
    let less = carry_limbs(l, sub_raw(l, p.y, p.x));
    let more = carry_limbs(l, add_raw(l, p.y, p.x));
    let b = mul_raw(l, more, q.plus);
    let t = carry_limbs(l, p.t);
    let a = mul_raw(l, less, q.minus);
    let h = carry_limbs(l, add_raw(l, b, a));
    let c = mul_raw(l, t, q.txy);
    let e = carry_limbs(l, sub_raw(l, b, a));
    let t = mul_raw(l, e, h);
    let d = add_raw(l, p.z, p.z);
    let sum = carry_limbs(l, add_raw(l, d, c));
    let difference = carry_limbs(l, sub_raw(l, d, c));
    let f = blend_elements(l, minus, difference, sum);
    let g = blend_elements(l, minus, sum, difference);
    Point { x: mul_raw(l, e, f), y: mul_raw(l, g, h), z: mul_raw(l, f, g), t }
}

/// Computes 2 p. Classes: R -> R.
pub fn double_point<L: Lanes>(l: L, p: Point<Fe<L>>) -> Point<Fe<L>> {
    l.outline(
        #[inline(always)]
        || {
            let a = sqr(l, p.x);
            let b = sqr(l, p.y);
            let zz = sqr_raw(l, p.z);
            let h = add_red(l, a, b);
            let both = sqr(l, add_red(l, p.x, p.y));
            let e = sub_red(l, h, both);
            let g = sub_red(l, a, b);
            let f = carry_limbs(l, add_raw(l, add_raw(l, zz, zz), g));
            Point { x: mul(l, e, f), y: mul(l, g, h), z: mul(l, f, g), t: mul(l, e, h) }
        },
    )
}

/// [`add_points`] compiled out of line, where speed does not matter. Classes: R, R -> R.
pub fn add_outlined<L: Lanes>(l: L, p: Point<Fe<L>>, q: AffineNiels<Fe<L>>) -> Point<Fe<L>> {
    l.outline(
        #[inline(always)]
        || {
            let sum = add_points(l, p, q, 0);
            Point {
                x: carry_limbs(l, sum.x),
                y: carry_limbs(l, sum.y),
                z: carry_limbs(l, sum.z),
                t: carry_limbs(l, sum.t),
            }
        },
    )
}

/// Converts the affine x and y for addition. Classes: R, R -> canonical.
#[inline(always)]
pub fn to_affine_niels<L: Lanes>(l: L, x: Fe<L>, y: Fe<L>) -> AffineNiels<Fe<L>> {
    let d2 = add_red(l, load_constant(l, D), load_constant(l, D));
    AffineNiels {
        plus: reduce_canonical(l, add_red(l, y, x)),
        minus: reduce_canonical(l, sub_red(l, y, x)),
        txy: reduce_canonical(l, mul_outlined(l, mul_outlined(l, x, y), d2)),
    }
}

/// Returns the point with u-coordinate `u`, the same in all lanes. `None` if no such point is on
/// the curve, or if its order divides 8. The time depends on u, which is public. Classes: R -> R.
///
/// y = (u - 1) / (u + 1) and x^2 = (y^2 - 1) / (d y^2 + 1) = -4u / (d n^2 + m^2) with n = u - 1, m
/// = u + 1. For m = 0 that is 1 / d, which has no root.
#[inline(always)]
pub fn from_montgomery<L: Lanes>(l: L, u: Fe<L>) -> Option<Point<Fe<L>>> {
    let one = small_element(l, 1);
    let n = sub_red(l, u, one);
    let m = add_red(l, u, one);
    let u2 = add_red(l, u, u);
    let a = sub_red(l, small_element(l, 0), add_red(l, u2, u2));
    let n2 = mul_outlined(l, sqr_n_outlined(l, n, 1), load_constant(l, D));
    let b = add_red(l, n2, sqr_n_outlined(l, m, 1));
    let x = root_of_quotient(l, a, b)?;
    let point = Point { x: mul_outlined(l, x, m), y: n, z: m, t: mul_outlined(l, x, n) };
    let eight = double_point(l, double_point(l, double_point(l, point)));
    // 8P has odd order, and X is zero at the identity and at a point of order 2 only.
    (is_zero(l, reduce_canonical(l, eight.x)) == 0).then_some(point)
}

/// Returns the square root of a / b, or `None`. Classes: R, R -> R.
#[inline(always)]
fn root_of_quotient<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Option<Fe<L>> {
    let b3 = mul_outlined(l, sqr_n_outlined(l, b, 1), b);
    let b7 = mul_outlined(l, sqr_n_outlined(l, b3, 1), b);
    let power = pow_p58(l, mul_outlined(l, a, b7));
    let root = mul_outlined(l, mul_outlined(l, a, b3), power);
    let square = mul_outlined(l, sqr_n_outlined(l, root, 1), b);
    if is_zero(l, reduce_canonical(l, sub_red(l, square, a))) != 0 {
        return Some(root);
    }
    let is_minus = is_zero(l, reduce_canonical(l, add_red(l, square, a))) != 0;
    let turned = mul_outlined(l, root, load_constant(l, I));
    is_minus.then_some(turned)
}
