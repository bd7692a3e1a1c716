//! Card blocks, envelopes, detect keys, stored trees, and a tree driven by operations with crashes
//! between them.

use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, Delta, DetectKey, EnvelopeKey, Epoch, HeldKeys, KeyTree,
    RecordName, Shape, System, Tick, TreeProfile, Trial, trial_open,
};
use mezza_sim::operations::Operations;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The tick at which all trees begin; a multiple of the ticks of a day.
const START: Tick = Tick(59_500_800);
/// Epochs of the small tree.
const EPOCHS: usize = 34;

fn seeded_rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn make_tree(shape: Shape) -> KeyTree {
    let tree =
        KeyTree::create(&System::new(), shape, TreeProfile::Minute, START, &mut seeded_rng(1));
    tree.expect("a tree")
}

/// A receiver with held keys, and an envelope sealed for it.
struct World {
    system: System,
    held: HeldKeys,
    sealed: Vec<u8>,
    lent: Vec<u8>,
}

fn shared_world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let system = System::new();
        let tree = make_tree(Shape::Wide);
        let mut rng = seeded_rng(2);
        let mut held = HeldKeys::new();
        for epoch in [0, 1, 2] {
            held.insert(tree.open_key(&system, Epoch(epoch), &mut rng).expect("a key"));
        }
        let key = tree.card().seal_key(START).expect("a key");
        let key = EnvelopeKey::new(&system, &key, START, &mut rng).expect("a key");
        let sealed = key.seal(b"hello", Bucket::SMALLEST, START).expect("an envelope").into_bytes();
        let lent = tree.detect_key(Epoch(70), 4, &mut rng).expect("a key").encode().to_vec();
        World { system, held, sealed, lent }
    })
}

/// Checks that a decoded card block has the bytes it came from.
pub fn check_card(data: &[u8]) {
    for policy in [BlockPolicy::Product, BlockPolicy::TestTree] {
        if let Ok(card) = CardBlock::decode(data, policy) {
            assert_eq!(card.as_bytes(), data);
            assert!(card.end_tick() > card.origin());
        }
    }
}

/// Returns the cards of trees of one life and of three lives.
pub fn card_seeds() -> Vec<Vec<u8>> {
    [Shape::Wide, Shape::Lives, Shape::Test]
        .map(|shape| make_tree(shape).card().as_bytes().to_vec())
        .into()
}

/// Checks that only the sealed envelope opens.
pub fn check_envelope(data: &[u8]) {
    let world = shared_world();
    if let Trial::Opened(opened) = trial_open(&world.system, &world.held, data) {
        assert_eq!((data, opened.payload.as_slice()), (world.sealed.as_slice(), &b"hello"[..]));
    }
}

/// Returns the sealed envelope.
pub fn envelope_seeds() -> Vec<Vec<u8>> {
    vec![shared_world().sealed.clone()]
}

/// Checks that a decoded detect key encodes to the same bytes.
pub fn check_detect(data: &[u8]) {
    if let Ok(key) = DetectKey::decode(data) {
        assert_eq!(key.encode().as_slice(), data);
    }
}

/// Returns a detect key of our tree.
pub fn detect_seeds() -> Vec<Vec<u8>> {
    vec![shared_world().lent.clone()]
}

/// The disk of a host.
#[derive(Clone, Default)]
struct Disk {
    keyring: Vec<u8>,
    records: BTreeMap<RecordName, Vec<u8>>,
}

impl Disk {
    /// Carries out the first `steps` file operations of a delta.
    fn carry_out(&mut self, delta: &Delta, steps: usize) {
        self.records.extend(delta.put.iter().take(steps).cloned());
        if steps > delta.put.len() {
            self.keyring.clone_from(&delta.keyring);
        }
        for name in delta.drop.iter().take(steps.saturating_sub(delta.put.len() + 1)) {
            self.records.remove(name);
        }
    }

    fn load_tree(&self, card: &CardBlock) -> KeyTree {
        KeyTree::import(card, &self.keyring, &self.records, 0).expect("whatever a crash left loads")
    }
}

/// Makes a small tree with its disk, stored once.
fn store_tree() -> (CardBlock, Disk) {
    let mut tree = make_tree(Shape::Test);
    let delta = tree.pending_delta().expect("a new tree");
    let mut disk = Disk::default();
    disk.carry_out(&delta, usize::MAX);
    let card = CardBlock::decode(tree.card().as_bytes(), BlockPolicy::TestTree);
    (card.expect("a card"), disk)
}

/// Loads a keyring followed by the bytes of its one record: a loaded tree stores the same floor
/// again.
pub fn check_store(data: &[u8]) {
    static STORED: OnceLock<(CardBlock, Disk)> = OnceLock::new();
    let (card, disk) = STORED.get_or_init(store_tree);
    let (keyring, record) = data.split_at_checked(disk.keyring.len()).unwrap_or((data, &[]));
    let mut records = disk.records.clone();
    if let (false, Some(first)) = (record.is_empty(), records.values_mut().next()) {
        *first = record.to_vec();
    }
    if let Ok(mut tree) = KeyTree::import(card, keyring, &records, 0) {
        let mut again = Disk::default();
        again.carry_out(&tree.export_delta(), usize::MAX);
        assert_eq!(again.load_tree(card).floor(), tree.floor());
    }
}

/// Returns a keyring alone, and one with its record.
pub fn store_seeds() -> Vec<Vec<u8>> {
    let (_, disk) = store_tree();
    let record = disk.records.values().next().cloned().unwrap_or_default();
    vec![disk.keyring.clone(), [disk.keyring, record].concat()]
}

/// Erases, expands, stores with a crash or failure at any step, and loads again. The floor must
/// never go back, a loaded tree must cover all that is not erased, and a refusal must change
/// nothing.
pub fn run_operations(data: &[u8]) {
    let (card, mut disk) = store_tree();
    let mut rng = seeded_rng(3);
    let mut tree = disk.load_tree(&card);
    let mut ops = Operations::new(data);
    for _ in 0..24 {
        let Some(op) = ops.next_kind(5) else { break };
        let floor = tree.floor();
        let size = tree.stack_size();
        let epoch = Epoch(ops.draw_below(EPOCHS + 3) as u32);
        match op {
            0 => {
                let done = tree.erase_below(epoch, &mut rng);
                assert!(done.is_ok() || (tree.floor(), tree.stack_size()) == (floor, size));
            }
            1 => drop(tree.prepare_until(epoch, ops.draw_below(60) as u32, &mut rng)),
            2 => {
                if let Some(delta) = tree.pending_delta() {
                    disk.carry_out(&delta, usize::MAX);
                    tree.confirm_stored(delta.generation);
                }
            }
            3 => {
                // A write that fails half way and is never confirmed.
                if let Some(delta) = tree.pending_delta() {
                    disk.carry_out(&delta, ops.draw_below(40));
                }
            }
            _ => {
                let before = disk.load_tree(&card).floor();
                tree = disk.load_tree(&card);
                assert!(tree.floor() == before && before.0 as usize <= EPOCHS);
                continue;
            }
        }
        assert!(tree.floor() >= floor);
        assert!(tree.stack_size().0 <= 320);
    }
}
