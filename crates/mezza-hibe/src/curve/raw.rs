//! The calls into blst, behind references of fixed size. Only this file contains `unsafe` code.
//!
//! No pointer and no length leaves this file. The proof is the same for every function: Each
//! pointer comes from a reference to a value of exactly the type in blst's header, blst allows an
//! output to be one of the inputs, and blst reads and writes nothing else. If a function takes a
//! slice or a number of bits, a comment in its block gives the reason why the length is right.
#![expect(unsafe_code, reason = "calls into blst; each block says why it is sound")]

use alloc::vec::Vec;

use blst::BLST_ERROR::BLST_SUCCESS;
pub use blst::{
    blst_fp as Fp, blst_fp2 as Fp2, blst_fp6 as Fp6, blst_fp12 as Fp12, blst_p1 as P1,
    blst_p1_affine as P1Affine, blst_p2 as P2, blst_p2_affine as P2Affine, blst_scalar as Scalar,
};

/// Bits of a scalar that is below q.
const SCALAR_BITS: usize = 255;
/// The number of line functions of one fixed point: 63 doublings and 5 additions.
pub const LINES: usize = 68;

/// Defines functions of the form `$name(inputs) -> output`. The output starts as zeros and is
/// written by one call.
macro_rules! into_new {
    ($($(#[$doc:meta])* $name:ident($($x:ident: $t:ty),*) -> $out:ty = $call:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name($($x: &$t),*) -> $out {
            let mut out = <$out>::default();
            // SAFETY: the output and the inputs are references of the types of blst's header.
            unsafe { blst::$call(&raw mut out, $(&raw const *$x),*) };
            out
        }
    )*};
}

into_new! {
    /// Returns the sum of any two points: complete and without branches.
    p1_add(a: P1, b: P1) -> P1 = blst_p1_add_or_double;
    /// Returns the sum with an affine point; zeros stand for the infinite point.
    p1_add_affine(a: P1, b: P1Affine) -> P1 = blst_p1_add_or_double_affine;
    p1_double(a: P1) -> P1 = blst_p1_double;
    p1_from_affine(a: P1Affine) -> P1 = blst_p1_from_affine;
    p1_to_affine(a: P1) -> P1Affine = blst_p1_to_affine;
    /// Returns the sum of any two points: complete and without branches.
    p2_add(a: P2, b: P2) -> P2 = blst_p2_add_or_double;
    /// Returns the sum with an affine point; zeros stand for the infinite point.
    p2_add_affine(a: P2, b: P2Affine) -> P2 = blst_p2_add_or_double_affine;
    p2_double(a: P2) -> P2 = blst_p2_double;
    p2_from_affine(a: P2Affine) -> P2 = blst_p2_from_affine;
    p2_to_affine(a: P2) -> P2Affine = blst_p2_to_affine;
    fp_add(a: Fp, b: Fp) -> Fp = blst_fp_add;
    fp_sub(a: Fp, b: Fp) -> Fp = blst_fp_sub;
    fp_mul(a: Fp, b: Fp) -> Fp = blst_fp_mul;
    fp2_add(a: Fp2, b: Fp2) -> Fp2 = blst_fp2_add;
    fp2_sub(a: Fp2, b: Fp2) -> Fp2 = blst_fp2_sub;
    fp2_mul(a: Fp2, b: Fp2) -> Fp2 = blst_fp2_mul;
    /// Returns the inverse in constant time. The inverse of zero is zero.
    fp2_inverse(a: Fp2) -> Fp2 = blst_fp2_inverse;
    fp12_mul(a: Fp12, b: Fp12) -> Fp12 = blst_fp12_mul;
    fp12_sqr(a: Fp12) -> Fp12 = blst_fp12_sqr;
    /// Returns the square of an element of the cyclotomic subgroup.
    fp12_cyclotomic_sqr(a: Fp12) -> Fp12 = blst_fp12_cyclotomic_sqr;
    final_exp(f: Fp12) -> Fp12 = blst_final_exp;
    miller_loop(q: P2Affine, p: P1Affine) -> Fp12 = blst_miller_loop;
}

/// Returns `-a` if `negative`, else `a`, without a branch.
#[inline]
pub fn fp_cneg(a: &Fp, negative: bool) -> Fp {
    let mut out = Fp::default();
    // SAFETY: references of the types of the header; the flag is a value.
    unsafe { blst::blst_fp_cneg(&raw mut out, &raw const *a, negative) };
    out
}

/// Returns `-a` if `negative`, else `a`, without a branch.
#[inline]
pub fn fp2_cneg(a: &Fp2, negative: bool) -> Fp2 {
    let mut out = Fp2::default();
    // SAFETY: references of the types of the header; the flag is a value.
    unsafe { blst::blst_fp2_cneg(&raw mut out, &raw const *a, negative) };
    out
}

/// Returns `a + b` modulo q.
pub fn scalar_add(a: &Scalar, b: &Scalar) -> Scalar {
    let mut out = Scalar::default();
    // SAFETY: references of the types of the header.
    unsafe { blst::blst_sk_add_n_check(&raw mut out, &raw const *a, &raw const *b) };
    out
}

/// Returns `a b` modulo q.
pub fn scalar_mul(a: &Scalar, b: &Scalar) -> Scalar {
    let mut out = Scalar::default();
    // SAFETY: references of the types of the header.
    unsafe { blst::blst_sk_mul_n_check(&raw mut out, &raw const *a, &raw const *b) };
    out
}

/// Returns 64 bytes, little-endian, modulo q.
pub fn scalar_from_wide(bytes: &[u8; 64]) -> Scalar {
    let mut out = Scalar::default();
    // SAFETY: blst reads the 64 bytes that the array has.
    unsafe { blst::blst_scalar_from_le_bytes(&raw mut out, bytes.as_ptr(), bytes.len()) };
    out
}

/// Returns true if a scalar is below q.
pub fn scalar_is_canonical(a: &Scalar) -> bool {
    // SAFETY: a reference of the type of the header.
    unsafe { blst::blst_scalar_fr_check(&raw const *a) }
}

/// Returns `s p` in constant time, for s below q and p in the subgroup.
pub fn p1_mult(p: &P1, s: &Scalar) -> P1 {
    let mut out = P1::default();
    // SAFETY: blst reads 255 bits, which is within the 32 bytes of the scalar.
    unsafe { blst::blst_p1_mult(&raw mut out, &raw const *p, s.b.as_ptr(), SCALAR_BITS) };
    out
}

/// Returns `s p` in constant time, for s below q and p in the subgroup.
pub fn p2_mult(p: &P2, s: &Scalar) -> P2 {
    let mut out = P2::default();
    // SAFETY: blst reads 255 bits, which is within the 32 bytes of the scalar.
    unsafe { blst::blst_p2_mult(&raw mut out, &raw const *p, s.b.as_ptr(), SCALAR_BITS) };
    out
}

/// Returns the affine forms of points that are not infinite, with one inversion for all.
pub fn p1s_to_affine<'a>(points: impl Iterator<Item = &'a P1>) -> Vec<P1Affine> {
    let pointers: Vec<*const P1> = points.map(core::ptr::from_ref).collect();
    let mut out = alloc::vec![P1Affine::default(); pointers.len()];
    // SAFETY: `out` has as many entries as `pointers`; each pointer is from a reference to a point.
    unsafe { blst::blst_p1s_to_affine(out.as_mut_ptr(), pointers.as_ptr(), pointers.len()) };
    out
}

/// Returns the affine forms of points that are not infinite, with one inversion for all.
pub fn p2s_to_affine<'a>(points: impl Iterator<Item = &'a P2>) -> Vec<P2Affine> {
    let pointers: Vec<*const P2> = points.map(core::ptr::from_ref).collect();
    let mut out = alloc::vec![P2Affine::default(); pointers.len()];
    // SAFETY: `out` has as many entries as `pointers`; each pointer is from a reference to a point.
    unsafe { blst::blst_p2s_to_affine(out.as_mut_ptr(), pointers.as_ptr(), pointers.len()) };
    out
}

/// Defines `$name(bytes)`, which decodes a point, and `$name(point)`, which encodes one. The flags
/// in the first byte must agree with the length.
macro_rules! coded {
    ($(read $read:ident($n:literal) -> $point:ty = $call:ident;)*) => {$(
        /// Decodes a point, which may be infinite. `None` if the encoding is not canonical or the
        /// point is not on the curve.
        pub fn $read(bytes: &[u8; $n]) -> Option<$point> {
            let mut out = <$point>::default();
            // SAFETY: blst reads at most `$n` bytes, because `$call` is the function for this
            // length.
            let code = unsafe { blst::$call(&raw mut out, bytes.as_ptr()) };
            (code == BLST_SUCCESS).then_some(out)
        }
    )*};
    ($(write $write:ident($point:ty) -> $n:literal = $call:ident;)*) => {$(
        /// Encodes a point.
        pub fn $write(point: &$point) -> [u8; $n] {
            let mut out = [0; $n];
            // SAFETY: blst writes as many bytes as the array has.
            unsafe { blst::$call(out.as_mut_ptr(), &raw const *point) };
            out
        }
    )*};
    ($(check $check:ident($point:ty) = $call:ident;)*) => {$(
        pub fn $check(point: &$point) -> bool {
            // SAFETY: a reference of the type of the header.
            unsafe { blst::$call(&raw const *point) }
        }
    )*};
}

coded! {
    read p1_uncompress(48) -> P1Affine = blst_p1_uncompress;
    read p2_uncompress(96) -> P2Affine = blst_p2_uncompress;
    read p2_deserialize(192) -> P2Affine = blst_p2_deserialize;
}
coded! {
    write p1_compress(P1Affine) -> 48 = blst_p1_affine_compress;
    write p2_compress(P2Affine) -> 96 = blst_p2_affine_compress;
    write p2_serialize(P2Affine) -> 192 = blst_p2_affine_serialize;
    write fp12_bytes(Fp12) -> 576 = blst_bendian_from_fp12;
}
coded! {
    check p1_is_infinite(P1Affine) = blst_p1_affine_is_inf;
    check p1_in_subgroup(P1Affine) = blst_p1_affine_in_g1;
    check p2_is_infinite(P2Affine) = blst_p2_affine_is_inf;
    check p2_in_subgroup(P2Affine) = blst_p2_affine_in_g2;
}

/// Returns the standard generator of G1.
pub fn p1_generator() -> P1Affine {
    // SAFETY: blst returns a pointer to a constant.
    unsafe { *blst::blst_p1_affine_generator() }
}

/// Returns the standard generator of G2.
pub fn p2_generator() -> P2Affine {
    // SAFETY: blst returns a pointer to a constant.
    unsafe { *blst::blst_p2_affine_generator() }
}

/// Computes `hash_to_curve` of RFC 9380 for G1 with SHA-256, SSWU and a random oracle.
pub fn hash_to_g1(message: &[u8], dst: &[u8]) -> P1 {
    let mut out = P1::default();
    let m = message;
    let d = dst;
    // SAFETY: each pointer is passed with the length of its slice; the last pointer is null with
    // length 0.
    unsafe {
        let none = core::ptr::null();
        blst::blst_hash_to_g1(&raw mut out, m.as_ptr(), m.len(), d.as_ptr(), d.len(), none, 0);
    };
    out
}

/// Computes the 68 line functions of a point in G2.
pub fn precompute_lines(q: &P2Affine, out: &mut [Fp6; LINES]) {
    // SAFETY: blst writes 68 elements, as many as the array has.
    unsafe { blst::blst_precompute_lines(out.as_mut_ptr(), &raw const *q) };
}

/// Conjugates `a` in place, which inverts a unitary element.
pub fn fp12_conjugate(a: &mut Fp12) {
    // SAFETY: a reference of the type of the header.
    unsafe { blst::blst_fp12_conjugate(&raw mut *a) };
}

/// Returns `a` to the power of p^`N`; N must be 1, 2 or 3.
pub fn fp12_frobenius<const N: usize>(a: &Fp12) -> Fp12 {
    const { assert!(matches!(N, 1..=3)) };
    let mut out = Fp12::default();
    // SAFETY: references of the types of the header; N is in the range that blst has tables for.
    unsafe { blst::blst_fp12_frobenius_map(&raw mut out, &raw const *a, N) };
    out
}

/// Returns the neutral element.
pub fn fp12_one() -> Fp12 {
    // SAFETY: blst returns a pointer to a constant.
    unsafe { *blst::blst_fp12_one() }
}
