//! GMAC as the paper prints it: one prefix for both directions, and a counter that begins anew. One
//! frame that is dropped gives two tags under one nonce, out of which the hash key falls: a root of a
//! polynomial over GF(2^128). Every tag can be forged then, without the state.

use aes_gcm::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use aes_gcm::{Aes128Gcm, Nonce};

/// The polynomial of GHASH, in the bit order of SP 800-38D.
const REDUCTION: u128 = 0xe1 << 120;

fn times(a: u128, b: u128) -> u128 {
    let mut product = 0;
    let mut shifted = a;
    for bit in (0..128).rev() {
        if b >> bit & 1 == 1 {
            product ^= shifted;
        }
        let carry = shifted & 1 == 1;
        shifted = (shifted >> 1) ^ if carry { REDUCTION } else { 0 };
    }
    product
}

/// One, in this bit order.
const ONE: u128 = 1 << 127;

fn inverse(a: u128) -> u128 {
    // a^(2^128 - 2).
    let mut result = ONE;
    let mut square = a;
    for _ in 1..128 {
        square = times(square, square);
        result = times(result, square);
    }
    result
}

fn tag(key: &[u8; 16], text: &[u8]) -> u128 {
    let cipher = Aes128Gcm::new(&(*key).into());
    let nonce = Nonce::from([7; 12]);
    let empty = InOutBuf::from(&mut [][..]);
    let tag = cipher.encrypt_inout_detached(&nonce, text, empty).expect("short");
    u128::from_be_bytes(tag.into())
}

/// The blocks of associated data, then that of the lengths.
fn blocks(text: &[u8]) -> Vec<u128> {
    let block = |part: &[u8]| {
        let mut bytes = [0; 16];
        bytes[..part.len()].copy_from_slice(part);
        u128::from_be_bytes(bytes)
    };
    let lengths = (text.len() as u128 * 8) << 64;
    text.chunks(16).map(block).chain([lengths]).collect()
}

fn ghash(key: u128, text: &[u8]) -> u128 {
    blocks(text).into_iter().fold(0, |sum, block| times(sum ^ block, key))
}

/// Polynomials, the constant first.
type Poly = Vec<u128>;

fn trim(mut poly: Poly) -> Poly {
    while poly.last() == Some(&0) {
        poly.pop();
    }
    poly
}

fn remainder(mut a: Poly, b: &Poly) -> Poly {
    let lead = inverse(*b.last().expect("not zero"));
    while a.len() >= b.len() {
        let factor = times(*a.last().expect("not empty"), lead);
        let shift = a.len() - b.len();
        for (at, coefficient) in b.iter().enumerate() {
            a[shift + at] ^= times(*coefficient, factor);
        }
        a = trim(a);
    }
    a
}

fn common(mut a: Poly, mut b: Poly) -> Poly {
    while !b.is_empty() {
        let rest = remainder(a, &b);
        (a, b) = (b, rest);
    }
    let lead = inverse(*a.last().expect("not zero"));
    a.into_iter().map(|coefficient| times(coefficient, lead)).collect()
}

/// The square of a polynomial, modulo another: squaring is linear here.
fn square(a: &Poly, modulus: &Poly) -> Poly {
    let mut squared = vec![0; 2 * a.len()];
    for (at, coefficient) in a.iter().enumerate() {
        squared[2 * at] = times(*coefficient, *coefficient);
    }
    remainder(trim(squared), modulus)
}

fn sum(a: &Poly, b: &Poly) -> Poly {
    let at = |poly: &Poly, index: usize| poly.get(index).copied().unwrap_or(0);
    trim((0..a.len().max(b.len())).map(|index| at(a, index) ^ at(b, index)).collect())
}

/// All roots in the field: the part that divides x^(2^128) + x, then split by traces.
fn roots(poly: &Poly) -> Vec<u128> {
    let x = vec![0, ONE];
    let mut power = remainder(x.clone(), poly);
    for _ in 0..128 {
        power = square(&power, poly);
    }
    let mut open = vec![common(poly.clone(), sum(&power, &x))];
    let mut found = Vec::new();
    let mut shift = 0x0123_4567_89ab_cdef_1122_3344_5566_7788_u128;
    while let Some(part) = open.pop() {
        if part.len() == 2 {
            found.push(times(part[0], inverse(part[1])));
            continue;
        }
        if part.len() < 2 {
            continue;
        }
        shift = shift.rotate_left(11) ^ ONE;
        let mut term = remainder(vec![0, shift], &part);
        let mut trace = term.clone();
        for _ in 1..128 {
            term = square(&term, &part);
            trace = sum(&trace, &term);
        }
        if trace.is_empty() {
            open.push(part);
            continue;
        }
        let half = common(part.clone(), trace.clone());
        if half.len() == part.len() || half.len() < 2 {
            open.push(part);
            continue;
        }
        let other = common(part, sum(&trace, &vec![ONE]));
        open.extend([half, other]);
    }
    found
}

/// The paper's t1 of two runs under one state, with a counter that begins anew.
#[test]
fn a_nonce_that_repeats_gives_the_hash_key_and_every_tag() {
    let state = [0x5a; 16];
    let text = |run: u8| [&b"seka1-t1"[..], &[run; 72]].concat();
    let one = text(1);
    let two = text(2);
    let tag_one = tag(&state, &one);
    let tag_two = tag(&state, &two);
    // The difference of the tags is that of two hashes: a polynomial in the hash key, known but for it.
    let first = blocks(&one);
    let second = blocks(&two);
    let mut difference: Poly = first.iter().zip(&second).map(|(a, b)| a ^ b).rev().collect();
    difference.insert(0, tag_one ^ tag_two);
    let candidates = roots(&trim(difference));
    assert!(!candidates.is_empty());
    // A tag that the attacker makes for a text of his own is right for one of them.
    let wanted = text(3);
    let forged = candidates.iter().any(|key| {
        let mask = tag_one ^ ghash(*key, &one);
        ghash(*key, &wanted) ^ mask == tag(&state, &wanted)
    });
    assert!(forged);
}
