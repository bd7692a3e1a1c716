//! Secrets print nothing, and leave nothing in freed memory.

use mezza_hibe::bkp::{DerivedKeys, MasterSecret};
use mezza_hibe::curve::{Fr, G1Affine, G2Affine, gt::Gt};
use mezza_hibe::pairing::{PairingEngine, PairingKernel};
use mezza_hibe::shape::Path;
use mezza_hibe::{
    Bucket, EnvelopeKey, Epoch, HeldKeys, KeyTree, Shape, System, Tick, TreeProfile, Trial,
    trial_open,
};

use crate::fixture::{Person, chance};
use crate::heap::{PATTERN_BYTES, leaked};

const NOW: Tick = Tick(59_500_003);

#[test]
fn hibe_70_debug_is_the_name_alone() {
    let mut person = Person::new(1, NOW);
    let system = System::new();
    let rng = &mut chance(2);
    let master = MasterSecret::random(5, rng);
    let node = master.user_key(&system, &Path::root(), rng);
    let sums = node.empty_sums();
    let epoch = person.epoch(NOW);
    let key = person.tree.open_key(&system, epoch, rng).expect("a key");
    let mut tree = KeyTree::create(&system, Shape::Test, TreeProfile::Minute, NOW.day_start(), rng)
        .expect("a tree");
    let lent = person.tree.detect_key(epoch.plus(200), 4, rng).expect("a key");
    let seal = person.tree.card().seal_key(NOW).expect("a key");
    let envelope_key = EnvelopeKey::new(&system, &seal, NOW, rng).expect("a key");
    let pending = tree.pending_delta();
    let prepared =
        PairingKernel::Lines.prepare_points(&node.derive_user(&sums, rng).pairing_points());
    let point = G2Affine::generator();
    let shown = format!(
        "{master:?} {node:?} {sums:?} {key:?} {lent:?} {seal:?} {envelope_key:?} {prepared:?} {:?} \
         {:?} {point:?} {:?} {:?} {:?} {pending:?} {:?}",
        Fr::from_small(7),
        Gt::one(),
        point.to_point(),
        G1Affine::generator(),
        person.tree,
        Gt::one().to_bytes(),
    );
    let expected = "MasterSecret NodeKey Sums EpochKey DetectKey SealKey EnvelopeKey PreparedKey Fr Gt \
                    G2Affine G2 G1Affine KeyTree Some(Delta) Wiping";
    assert_eq!(shown, expected);
    // An opened envelope shows neither its payload nor anything that depends on a key.
    let envelope = person.envelope(NOW, b"a planted secret");
    let shown = format!("{:?}", person.trial(NOW, &envelope));
    assert!(shown.contains("payload: Wiping") && !shown.contains("planted"), "{shown}");
}

/// Pieces of compressed points.
fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.chunks_exact(96).map(|point| point[8..8 + PATTERN_BYTES].to_vec()).collect()
}

#[test]
fn the_watched_heap_sees_what_is_not_wiped() {
    let pattern: Vec<u8> = (0..32).map(|i| i * 7 + 3).collect();
    let copy = pattern.clone();
    assert_eq!(leaked(vec![pattern], move || drop(vec![copy])), 1);
}

#[test]
fn hibe_71_keys_and_payloads_are_wiped_from_the_heap() {
    let system = System::new();
    let rng = &mut chance(3);
    let mut tree =
        KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, NOW, rng).expect("a tree");
    let epoch = tree.card().epoch_of(NOW).expect("an epoch");
    // The points of every entry, as the thief of a disk would find them.
    let delta = tree.pending_delta().expect("a new tree");
    let disk = crate::thief::Disk {
        keyring: delta.keyring.to_vec(),
        records: delta.put.iter().cloned().collect(),
    };
    let opened = disk.opened(tree.card().hash());
    let points: Vec<Vec<u8>> = opened.iter().flat_map(|record| pieces(&record.points)).collect();
    let wraps =
        disk.keyring[24..].chunks_exact(37).take(opened.len()).map(|entry| entry[5..].to_vec());
    let planted: Vec<Vec<u8>> = points.into_iter().chain(wraps).collect();
    drop(delta);
    let found = leaked(planted, move || {
        let mut held = HeldKeys::new();
        held.insert(tree.open_key(&system, epoch, rng).expect("a key"));
        tree.prepare_until(epoch.plus(2), u32::MAX, rng).expect("an expansion");
        tree.erase_below(epoch.plus(5_000), rng).expect("an erasure");
        drop(tree.pending_delta());
        drop((held, tree));
    });
    assert_eq!(found, 0);
}

#[test]
fn hibe_14_delegation_keys_are_wiped_as_user_keys_are() {
    let system = System::new();
    let rng = &mut chance(4);
    let master = MasterSecret::random(5, rng);
    let node = master.user_key(&system, &Path::root(), rng);
    let planted = pieces(&node.encode());
    assert_eq!(planted.len(), 28);
    let found = leaked(planted, move || {
        let sums = node.descend_to(&node.empty_sums(), 3);
        let DerivedKeys::Node(child) = node.derive_keys(&sums, rng) else { unreachable!("a node") };
        drop(child.encode());
        drop(node.encode());
        drop((node, child, sums));
    });
    assert_eq!(found, 0);
}

#[test]
fn hibe_71_a_payload_is_wiped_when_it_goes() {
    let person = Person::new(5, NOW);
    let text: Vec<u8> = (0..32).map(|i| i * 5 + 1).collect();
    let envelope = person.envelope(NOW, &text);
    let held = person.hold(NOW);
    let found = leaked(vec![text], || {
        let trial = trial_open(&person.system, &held, &envelope);
        assert!(matches!(trial, Trial::Opened(_)));
        drop(trial);
    });
    assert_eq!(found, 0);
}

#[test]
fn hibe_10_the_master_key_is_wiped_before_create_returns() {
    let mut draws = chance(6);
    let master: Vec<Vec<u8>> =
        (0..28).map(|_| Fr::random(&mut draws).as_bytes().to_vec()).collect();
    let mut tree = None;
    let found = leaked(master, || {
        let rng = &mut chance(6);
        tree = Some(KeyTree::create(&System::new(), Shape::Wide, TreeProfile::Minute, NOW, rng));
    });
    assert_eq!(found, 0);
    assert!(tree.is_some_and(|tree| tree.is_ok()));
}

#[test]
fn hibe_24_a_key_of_the_past_has_no_delegation_key() {
    let mut person = Person::new(7, NOW);
    let epoch = person.epoch(NOW);
    person.tree.prepare_until(epoch.plus(2), u32::MAX, &mut chance(8)).expect("an expansion");
    person.tree.erase_below(epoch, &mut chance(9)).expect("an erasure");
    let delta = person.tree.pending_delta().expect("a new tree");
    let disk = crate::thief::Disk {
        keyring: delta.keyring.to_vec(),
        records: delta.put.into_iter().collect(),
    };
    let opened = disk.opened(person.tree.card().hash());
    let past = opened.iter().filter(|record| record.start <= epoch);
    let sizes: Vec<usize> = past.map(|record| record.points.len()).collect();
    assert_eq!(sizes, [384]);
}

#[test]
fn hibe_28_a_derived_key_is_another_one_each_time() {
    let person = Person::new(10, NOW);
    // An epoch far below a node that is not expanded.
    let epoch: Epoch = person.epoch(NOW).plus(70_007);
    let card = person.tree.card();
    let tick = card.first_tick(epoch);
    let mut counted = crate::fixture::mauled::Counted::new();
    let key = person.tree.open_key(&person.system, epoch, &mut counted).expect("a key");
    assert_eq!(counted.draws, 1, "s' is drawn");
    let mut held = HeldKeys::new();
    held.insert(key);
    let envelope = EnvelopeKey::new(
        &person.system,
        &card.seal_key(tick).expect("a key"),
        tick,
        &mut chance(11),
    );
    let envelope =
        envelope.expect("a key").seal(b"x", Bucket::SMALLEST, tick).expect("an envelope");
    assert!(matches!(trial_open(&person.system, &held, envelope.as_bytes()), Trial::Opened(_)));
}
