//! The test cases of `vectors/lanes/`, made by `reference.py`.

use super::{Frame, array, kernels, unhex};
use crate::{Kernel, Scalar};
use std::vec::Vec;

/// Includes a case file by name.
macro_rules! case {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../vectors/lanes/", $name, ".txt")))
    };
}

const X25519: [(&str, &str); 6] = [
    case!("shared-edges"),
    case!("shared-zeros"),
    case!("shared-ones"),
    case!("each"),
    case!("fixed-base"),
    case!("fixed-other"),
];

const AEAD: [(&str, &str); 11] = [
    case!("aead-0"),
    case!("aead-1"),
    case!("aead-15"),
    case!("aead-16"),
    case!("aead-17"),
    case!("aead-63"),
    case!("aead-64"),
    case!("aead-65"),
    case!("aead-272"),
    case!("aead-368"),
    case!("aead-4096"),
];

/// Returns the values of all lines `key: value` of a case.
fn column<'a>(case: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = case.lines().filter_map(|line| line.split_once(": "));
    lines.filter(move |(name, _)| *name == key).map(|(_, value)| value)
}

#[test]
fn x25519() {
    for (name, case) in X25519 {
        let [k, u, right] = ["k", "u", "out"].map(|key| column(case, key).map(array).collect());
        let (k, u, right): (Vec<_>, Vec<_>, Vec<_>) = (k, u, right);
        assert!(k.len() == right.len() && k.len() >= 24, "{name}: {}", k.len());
        for kernel in kernels() {
            let mut out = std::vec![[0; 32]; k.len()];
            kernel.x25519_pairwise(&k, &u, &mut out);
            assert_eq!(out, right, "{name} {}", kernel.name());
            out.fill([0; 32]);
            match column(case, "kind").next() {
                Some("shared") => kernel.x25519_shared(&Scalar::copy_from(&k[0]), &u, &mut out),
                Some("fixed") => fixed(kernel, &k, &u[0], &mut out),
                _ => continue,
            }
            assert_eq!(out, right, "{name} {}", kernel.name());
        }
    }
}

/// Multiplies by tables of every kernel: a table of any kernel works in every kernel.
fn fixed(kernel: &dyn Kernel, k: &[[u8; 32]], u: &[u8; 32], out: &mut [[u8; 32]]) {
    let mut first = None;
    for maker in kernels() {
        let point = maker.fixed_point(u).expect("a point of large order");
        kernel.x25519_fixed(&point, k, out);
        assert_eq!(first.get_or_insert(out.to_vec()), out, "the table of {}", maker.name());
    }
}

#[test]
fn aead() {
    for (name, case) in AEAD {
        let keys = column(case, "key").map(array).collect::<Vec<_>>();
        let texts = case.lines().filter_map(|line| line.strip_prefix("text:"));
        let texts = texts.map(|text| unhex(text.trim())).collect::<Vec<_>>();
        let right = column(case, "sealed").map(unhex).collect::<Vec<_>>();
        assert!(keys.len() >= 2 && texts.len() == keys.len(), "{name}");
        for kernel in kernels() {
            let mut frame = Frame::new(&texts);
            kernel.seal_each(&keys, frame.strided());
            assert_eq!(frame.messages(), right, "{name} {}", kernel.name());
            let mut ok = std::vec![0; keys.len()];
            kernel.open_each(&keys, frame.strided(), &mut ok);
            assert!(ok.iter().all(|ok| *ok == 1), "{name} {}", kernel.name());
            let bodies = frame.messages().into_iter().map(|message| &message[..texts[0].len()]);
            assert!(bodies.eq(&texts), "{name} {}", kernel.name());
        }
    }
}
