use super::*;
use mezza_core::labelled_hash;
use proptest::prelude::*;

fn id(n: u32) -> CellId {
    labelled_hash::<16>("test", &[&n.to_be_bytes()])
}

fn ids(range: core::ops::Range<u32>) -> Vec<CellId> {
    range.map(id).collect()
}

fn key(nonce: u64) -> SketchKey {
    SketchKey { nonce, slice: 0, slices: 1 }
}

fn compare(
    key: SketchKey,
    theirs: &[CellId],
    ours: &[CellId],
    symbols: usize,
) -> Option<Difference> {
    let sent: Vec<_> = make_symbols(key, theirs, 0, symbols).into_iter().map(Some).collect();
    let mut found = find_difference(key, &sent, &make_symbols(key, ours, 0, symbols))?;
    found.theirs.sort_unstable();
    found.ours.sort_unstable();
    Some(found)
}

fn sorted(mut ids: Vec<CellId>) -> Vec<CellId> {
    ids.sort_unstable();
    ids
}

/// The hash is SipHash-2-4: the reference of its authors, for the key 00..0f and the input 00..0f,
/// differs from ours in the key alone, so the rounds are compared with the implementation of the
/// standard library.
#[test]
#[expect(deprecated, reason = "the standard library has SipHash-2-4 under this name only")]
fn the_hash_is_siphash() {
    extern crate std;
    use core::hash::{Hasher, SipHasher};
    for n in 0..20_u32 {
        let id = id(n);
        let mut reference = SipHasher::new_with_keys(u64::from(n), 0x6d65_7a7a_7379_6e63);
        // Our words are big-endian, those of SipHash little-endian.
        let mut swapped = id;
        swapped[..8].reverse();
        swapped[8..].reverse();
        reference.write(&swapped);
        assert_eq!(key(u64::from(n)).hash_id(u128::from_be_bytes(id)), reference.finish());
    }
}

#[test]
fn mesh_30_the_symbols_of_a_set_do_not_repeat_under_another_nonce() {
    for count in [1, 2, 50] {
        let symbols = |nonce| make_symbols(key(nonce), &ids(0..count), 0, 10);
        let sums = |nonce| symbols(nonce).into_iter().map(|symbol| symbol.sum);
        assert!(sums(1).filter(|sum| *sum != 0).all(|sum| sums(2).all(|other| other != sum)));
    }
    assert_eq!(key(7).unveil(key(7).veil(&id(3))), id(3));
}

#[test]
fn a_difference_is_found_whatever_both_hold() {
    let theirs = [ids(0..5_000), ids(10_000..10_010)].concat();
    let ours = [ids(0..5_000), ids(20_000..20_007)].concat();
    let found = (20..80).find_map(|n| compare(key(7), &theirs, &ours, n)).unwrap();
    assert_eq!(found.theirs, sorted(ids(10_000..10_010)));
    assert_eq!(found.ours, sorted(ids(20_000..20_007)));
    assert_eq!(compare(key(7), &theirs, &theirs, 1), Some(Difference::default()));
    // Too few symbols are no difference, rather than a wrong one.
    assert_eq!(compare(key(7), &theirs, &ours, 8), None);
}

/// MESH-87: the cost of a difference, as symbols for each cell.
#[test]
fn mesh_87_symbols_needed_for_a_difference() {
    for (count, most) in [(10_u32, 4.0), (100, 2.0), (1_000, 1.6)] {
        let ours = ids(0..2_000);
        let theirs = [ours.clone(), ids(5_000..5_000 + count)].concat();
        let mut needed = Vec::new();
        for nonce in 0..10 {
            let enough = |n: &usize| compare(key(nonce), &theirs, &ours, *n).is_some();
            let mut low = count as usize;
            let mut high = SYMBOLS_MAX * 2;
            // Not exactly monotone, and near enough to be.
            while high - low > 4 {
                let middle = usize::midpoint(low, high);
                if enough(&middle) { high = middle } else { low = middle }
            }
            needed.push(f64::from(high as u32) / f64::from(count));
        }
        needed.sort_by(f64::total_cmp);
        assert!(needed[5] <= most, "{count}: {needed:?}");
    }
}

#[test]
fn lost_symbols_cost_others_and_nothing_else() {
    let ours = ids(0..300);
    let theirs = ids(20..310);
    let key = key(3);
    let mut sent: Vec<_> = make_symbols(key, &theirs, 0, 150).into_iter().map(Some).collect();
    sent[20..40].fill(None);
    let found = find_difference(key, &sent, &make_symbols(key, &ours, 0, 150)).unwrap();
    assert_eq!((found.theirs.len(), found.ours.len()), (10, 20));
    sent[0] = None;
    assert_eq!(find_difference(key, &sent, &make_symbols(key, &ours, 0, 150)), None);
}

#[test]
fn later_symbols_continue_a_sketch_and_slices_part_a_set() {
    let all = ids(0..500);
    let whole = make_symbols(key(9), &all, 0, 90);
    let halves = [make_symbols(key(9), &all, 0, 30), make_symbols(key(9), &all, 30, 90)].concat();
    assert_eq!(whole, halves);
    let slices = 4;
    let count = |slice| make_symbols(SketchKey { nonce: 9, slice, slices }, &all, 0, 1)[0].count;
    assert_eq!((0..slices).map(count).sum::<u16>(), 500);
    assert!((0..slices).all(|slice| count(slice) > 60));
}

#[test]
fn mesh_15_a_malformed_comparison_is_refused_by_its_head() {
    use crate::wire::WireFrame;
    let sync = |slice: u8, slices: u8, from: u16, count: u8| {
        let head = [&[5][..], &[1; 12], &[0; 8], &[slice, slices], &from.to_be_bytes(), &[count]];
        [head.concat(), alloc::vec![0; SYMBOL_BYTES * usize::from(count)]].concat()
    };
    assert!(WireFrame::decode(&sync(1, 2, 0, 2)).is_ok());
    for bad in
        [sync(0, 3, 0, 1), sync(2, 2, 0, 1), sync(0, 0, 0, 1), sync(0, 1, 0, 0), sync(0, 1, 0, 54)]
    {
        assert!(WireFrame::decode(&bad).is_err(), "{:?}", &bad[21..26]);
    }
    // A number of symbols that do not follow.
    assert!(WireFrame::decode(&sync(0, 1, 0, 53)[..48]).is_err());
}

proptest! {
    /// MESH-88: symbols that are no sketch end the work after as many ids as there are symbols.
    #[test]
    fn mesh_88_any_symbols_end(nonce: u64, sums in proptest::collection::vec((0_u32..6, any::<bool>()), 1..80)) {
        let key = key(nonce);
        // Symbols that claim one id each, as a hostile neighbour would make them.
        let forged = |(n, plus): &(u32, bool)| {
            let id = key.veil(&id(*n));
            let count = if *plus { 1 } else { u16::MAX };
            Some(SketchSymbol { sum: id, check: key.hash_id(id) as u32, count })
        };
        let sent: Vec<_> = sums.iter().map(forged).collect();
        let ours = alloc::vec![SketchSymbol::default(); sent.len()];
        if let Some(found) = find_difference(key, &sent, &ours) {
            prop_assert!(found.theirs.len() + found.ours.len() <= sent.len());
        }
    }
}
