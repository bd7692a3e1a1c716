//! Three ways to find the difference of two sets of cells, side by side: bytes, rounds and CPU time.
//!
//! ```text
//! cargo run --release -p mezza-mesh --example compare_sets
//! ```
//!
//! The devices A and B share `held` cells. Half of the difference is at A alone, half at B. Where
//! all differs, B holds nothing. A method is done when one device knows both halves.
//!
//! - **slices**: A sends all its cells as Golomb-coded sets of 1,180 bytes, as version 1 of the mesh
//!   did, and B sends its own. Cells with equal values are found by the next nonce only, so the
//!   table shows how many of the difference one comparison misses.
//! - **ranges**: the crate `negentropy`, which sorts by time and id. Its ids have 32 bytes, of which
//!   16 are zeros here. Up to half of its bytes are therefore padding.
//! - **symbols**: rateless IBLT, the method of the mesh (`wire::sketch`).
#![allow(clippy::print_stdout, reason = "the table is the purpose of the program")]
#![allow(clippy::expect_used, reason = "the library is called with its own messages")]

mod filter;

use std::collections::BTreeSet;
use std::time::Duration;

use mezza_core::labelled_hash;
use mezza_mesh::CellId;
use mezza_mesh::wire::sketch::{
    SYMBOL_BYTES, SYMBOLS_PER_FRAME, SketchKey, SketchSymbol, estimate_symbols, find_difference,
    make_symbols,
};
use negentropy::{Id, Negentropy, NegentropyStorageVector};

/// Bytes of a SYNC before its content.
const HEAD_BYTES: usize = 26;
/// Bytes of a request for further symbols.
const MORE_BYTES: usize = 25;

/// The cost of one comparison.
struct Cost {
    bytes: usize,
    /// Frames whose sender waits for an answer before the next one.
    rounds: usize,
    cpu: Duration,
    /// Cells of the difference that were not found.
    missed: usize,
    note: String,
}

/// The cells of both devices.
struct Sets {
    a: Vec<CellId>,
    b: Vec<CellId>,
    /// Number of cells that one of them lacks.
    differ: usize,
}

fn make_ids(from: usize, count: usize) -> Vec<CellId> {
    let id = |n: usize| labelled_hash::<16>("compare", &[&(n as u64).to_be_bytes()]);
    (from..from + count).map(id).collect()
}

fn make_sets(held: usize, differ: usize) -> Sets {
    if differ == held {
        return Sets { a: make_ids(0, held), b: Vec::new(), differ };
    }
    let shared = make_ids(0, held - differ / 2);
    let side = |from| [shared.clone(), make_ids(from, differ / 2)].concat();
    Sets { a: side(1 << 32), b: side(2 << 32), differ: 2 * (differ / 2) }
}

/// Returns the result, and the CPU time of this thread for one run. The system counts CPU time by
/// ticks of its scheduler, so the work is repeated for at least 100 ms.
fn measure_cpu<T>(work: impl Fn() -> T) -> (T, Duration) {
    let read = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    };
    let start = read();
    let mut runs = 0;
    loop {
        let done = work();
        runs += 1;
        let spent = read().saturating_sub(start);
        if spent >= Duration::from_millis(100) || runs == 10_000 {
            return (done, spent / runs);
        }
    }
}

fn compare_slices(sets: &Sets) -> Cost {
    let nonce = 0x0123_4567_89ab_cdef;
    let ((bytes, missed), cpu) = measure_cpu(|| {
        let mut bytes = 0;
        let mut missed = 0;
        for (from, to) in [(&sets.a, &sets.b), (&sets.b, &sets.a)] {
            // More than 64 slices are needed above 60,000 cells; version 1 of the mesh had none.
            let slices = (from.len() * 9 / 8).div_ceil(1_100).next_power_of_two().min(64) as u8;
            for slice in 0..slices {
                let covers = |id: &&CellId| filter::slice_of(nonce, id, slices) == slice;
                let ids: Vec<CellId> = from.iter().filter(covers).copied().collect();
                let bits = filter::encode(nonce, filter::P, &ids);
                bytes += HEAD_BYTES + bits.len();
                let n = ids.len() as u16;
                let read =
                    filter::SyncFilter { nonce, slice, slices, p: filter::P, n, bits: &bits };
                let values = read.read_values().unwrap_or_default();
                let other: Vec<&CellId> = to.iter().filter(covers).collect();
                let seen = |id: &&&CellId| values.binary_search(&read.value_of(id)).is_ok();
                // A value of A that fits a cell of B by chance hides that the cell is lacking.
                let all = other.iter().filter(seen).count();
                let known: BTreeSet<_> = ids.iter().collect();
                missed += all - other.iter().filter(|id| known.contains(*id)).count();
            }
        }
        (bytes, missed)
    });
    Cost { bytes, rounds: 1, cpu, missed, note: String::new() }
}

fn compare_ranges(sets: &Sets) -> Cost {
    let store = |ids: &[CellId]| {
        let mut store = NegentropyStorageVector::new();
        for id in ids {
            let mut wide = [0; 32];
            wide[..16].copy_from_slice(id);
            // All cells of one epoch, the usual case of a life.
            store.insert(1, Id::from_byte_array(wide)).expect("an open store");
        }
        store.seal().expect("an open store");
        store
    };
    let ((bytes, rounds, found, largest), cpu) = measure_cpu(|| {
        let mut a = Negentropy::owned(store(&sets.a), 0).expect("no limit of frames");
        let mut b = Negentropy::owned(store(&sets.b), 0).expect("no limit of frames");
        let mut message = Some(a.initiate().expect("a fresh session"));
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        let mut bytes = 0;
        let mut rounds = 0;
        let mut largest = 0;
        while let Some(sent) = message {
            let answer = b.reconcile(&sent).expect("a message of the library");
            bytes += sent.len() + answer.len();
            largest = largest.max(sent.len()).max(answer.len());
            rounds += 1;
            message = a
                .reconcile_with_ids(&answer, &mut ours, &mut theirs)
                .expect("a message of the library");
        }
        (bytes, rounds, ours.len() + theirs.len(), largest)
    });
    let note = format!("largest message {largest} B");
    Cost { bytes, rounds, cpu, missed: sets.differ - found, note }
}

/// Compares one slice after the other. A slice differs by at most 1,000 cells, or a little more.
fn compare_symbols(sets: &Sets) -> Cost {
    let nonce = 0x0123_4567_89ab_cdef;
    let slices = (sets.differ / 1_000).max(1).next_power_of_two().min(128) as u8;
    let mut all = Cost {
        bytes: 0,
        rounds: 0,
        cpu: Duration::ZERO,
        missed: sets.differ,
        note: format!("{slices} slices"),
    };
    for slice in 0..slices {
        let one = compare_one(sets, SketchKey { nonce, slice, slices });
        all.bytes += one.bytes;
        all.rounds += one.rounds;
        all.cpu += one.cpu;
        all.missed -= one.found;
    }
    all
}

/// The cost of one slice.
struct SliceCost {
    bytes: usize,
    rounds: usize,
    cpu: Duration,
    found: usize,
}

fn compare_one(sets: &Sets, key: SketchKey) -> SliceCost {
    let ((bytes, rounds, found), cpu) = measure_cpu(|| {
        // The first frame of both devices, then further symbols of A.
        let mut end = 24;
        let mut bytes = HEAD_BYTES + end * SYMBOL_BYTES;
        let mut sent: Vec<Option<SketchSymbol>> = Vec::new();
        let mut rounds = 1;
        loop {
            let more = make_symbols(key, &sets.a, sent.len(), end);
            let frames = more.len().div_ceil(SYMBOLS_PER_FRAME);
            bytes += frames * HEAD_BYTES + more.len() * SYMBOL_BYTES;
            sent.extend(more.into_iter().map(Some));
            let ours = make_symbols(key, &sets.b, 0, end);
            if let Some(found) = find_difference(key, &sent, &ours) {
                return (bytes, rounds, found.ours.len() + found.theirs.len());
            }
            bytes += MORE_BYTES;
            rounds += 1;
            let next = estimate_symbols(&sent, &ours);
            if next <= end {
                return (bytes, rounds, 0);
            }
            end = next;
        }
    });
    SliceCost { bytes, rounds, cpu, found }
}

type Method = fn(&Sets) -> Cost;

fn main() {
    println!("| held | differ | method | bytes | of the limit | rounds | CPU ms | missed | |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for held in [1_000, 6_000, 20_000, 100_000] {
        for differ in BTreeSet::from([10, 1_000, held]) {
            let sets = make_sets(held, differ);
            let limit = 4 * 16 * sets.differ + 1_024;
            let methods: [(&str, Method); 3] = [
                ("slices", compare_slices),
                ("ranges", compare_ranges),
                ("symbols", compare_symbols),
            ];
            for (name, method) in methods {
                let Cost { bytes, rounds, cpu, missed, note } = method(&sets);
                let part = f64::from(bytes as u32) / f64::from(limit as u32);
                let part = if part > 1.0 { format!("**{part:.2}**") } else { format!("{part:.2}") };
                println!(
                    "| {held} | {} | {name} | {bytes} | {part} | {rounds} | {:.1} | {missed} | {note} |",
                    sets.differ,
                    cpu.as_secs_f64() * 1_000.0,
                );
            }
        }
    }
}
