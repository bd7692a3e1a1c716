//! Walks `vectors/hibe/*.txt`, right and wrong cases, and the published vectors of other people.

use data_encoding::HEXLOWER;
use mezza_hibe::bkp::{DerivedKeys, MasterSecret};
use mezza_hibe::curve::{G1, G1Affine, G2, G2Affine, hash_to_g1};
use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, CarriedEnvelope, DetectKey, Detected, EntryKind, EnvelopeKey,
    EnvelopeTime, Epoch, HeldKeys, ImportError, KeyTree, Life, PairingKernel, RecordName, Shape,
    System, Tick, TreeCalendar, TreeProfile, Trial, detect_envelopes, trial_open,
    trial_open_carried,
};

use mezza_testing::{Case, hex, read_cases, vector_folder};

use crate::fixture::{Blocks, chance, digest};

/// The folder of the cases.
const FOLDER: &str = "hibe";

/// Returns all cases of a kind, at least so many.
fn cases_of(kind: &str, least: usize) -> Vec<Case> {
    let mut cases = read_cases(FOLDER, least);
    cases.retain(|case| case.text("kind") == kind);
    assert!(cases.len() >= least, "{kind}: {}", cases.len());
    cases
}

/// Checks that a text is that of a field.
fn same(case: &Case, key: &str, value: &str) {
    assert_eq!(value, case.text(key), "{}: {key}", case.name());
}

/// The tree of a case of the kind `store`.
fn import_tree(case: &Case) -> Result<KeyTree, ImportError> {
    let card = CardBlock::decode(&case.bytes("card"), BlockPolicy::TestTree).expect("a card");
    // Python leaves the zeros at the end out, where nothing stands behind them.
    let mut keyring = case.bytes("keyring");
    keyring.resize(card.shape().ring_bytes(), 0);
    let records = case.text("records").split_whitespace().map(|record| {
        let (name, bytes) = record.split_once('=').expect("NAME=HEX");
        let parts: Vec<u64> = name.split('-').map(|part| part.parse().expect("digits")).collect();
        let kind = EntryKind::from_byte(parts[2] as u8).expect("a kind");
        let name = RecordName { generation: parts[0], start: Epoch(parts[1] as u32), kind };
        (name, HEXLOWER.decode(bytes.as_bytes()).expect("hex"))
    });
    KeyTree::import(&card, &keyring, &records.collect(), case.number("last"))
}

/// The tree that the generator stored, with the keys of both its epochs held.
fn stored(system: &System) -> (KeyTree, HeldKeys) {
    let tree = import_tree(&Case::named(FOLDER, "store-right")).expect("it loads");
    let mut held = HeldKeys::new();
    for epoch in [32, 33].map(Epoch) {
        held.insert(tree.open_key(system, epoch, &mut chance(1)).expect("a key"));
    }
    (tree, held)
}

#[test]
fn the_scheme_is_that_of_python() {
    let case = Case::named(FOLDER, "scheme");
    let system = System::new();
    let rng = &mut Blocks::new();
    let card = CardBlock::decode(&case.bytes("card"), BlockPolicy::Product).expect("a card");
    same(&case, "pkh", &hex(&card.hash().0));
    let master = MasterSecret::random(5, rng);
    let mut node = master.user_key(&system, &Shape::Wide.path_to(Epoch(0)), rng);
    same(&case, "root", &digest(&node.encode()));
    let tick = Tick(case.number("tick") as u32);
    let path = Shape::Wide.path_to(card.epoch_of(tick).expect("an epoch"));
    same(&case, "path", &path.components().iter().map(u8::to_string).collect::<Vec<_>>().join(" "));
    for m in path.components() {
        match node.derive_keys(&node.descend_to(&node.empty_sums(), *m), rng) {
            DerivedKeys::Node(child) => node = *child,
            DerivedKeys::User(leaf) => same(&case, "leaf", &hex(&leaf.encode())),
        }
    }
    let key =
        EnvelopeKey::new(&system, &card.seal_key(tick).expect("a key"), tick, rng).expect("a key");
    same(&case, "binding", &hex(&key.binding().0));
    let envelope = key.seal(&case.bytes("payload"), Bucket::SMALLEST, tick).expect("an envelope");
    same(&case, "envelope", &hex(envelope.as_bytes()));
    same(&case, "c", &hex(&envelope.as_bytes()[2..194]));
}

#[test]
fn cards() {
    for case in cases_of("card", 19) {
        let decoded = CardBlock::decode(&case.bytes("card"), BlockPolicy::Product);
        let outcome = decoded.map_or_else(|error| format!("{error:?}"), |_| "ok".into());
        let expected = case.text("expect");
        assert!(outcome.starts_with(expected), "{}: {outcome} for {expected}", case.name());
    }
}

#[test]
fn envelopes_by_both_engines() {
    for kernel in [PairingKernel::Lines, PairingKernel::Plain] {
        let system = System::with_kernel(kernel);
        let (_, held) = stored(&system);
        for case in cases_of("envelope", 30) {
            let outcome = match trial_open(&system, &held, &case.bytes("envelope")) {
                Trial::Opened(opened) => {
                    same(&case, "payload", &hex(&opened.payload));
                    "opened"
                }
                Trial::NotForMe => "not for me",
                Trial::NoKey => "no key",
                Trial::Malformed => "malformed",
            };
            same(&case, "expect", outcome);
        }
    }
}

#[test]
fn hibe_29_records_and_keyrings() {
    for case in cases_of("store", 21) {
        match import_tree(&case) {
            Ok(tree) => {
                let floors = tree.card().lives().map(|life| tree.find_floor(life));
                let floors = floors.map(|floor| floor.expect("a floor").0.to_string());
                same(&case, "expect", &floors.collect::<Vec<_>>().join(" "));
            }
            Err(error) => {
                let text = format!("{error:?}");
                let expected = case.text("expect");
                let text = text.replace("Epoch(", "").replace("))", ")");
                assert!(text.starts_with(expected), "{}: {text} for {expected}", case.name());
            }
        }
    }
    // Each record has a key of its own: no two of a tree's keyring are equal.
    let _ = System::new();
    let rng = &mut chance(3);
    let start = Tick(59_500_000).day_start();
    let tree =
        KeyTree::create(&System::new(), Shape::Test, mezza_hibe::TreeProfile::Minute, start, rng);
    let mut tree = tree.expect("a tree");
    tree.erase_below(Epoch(5), rng).expect("an erasure");
    let ring = tree.pending_delta().expect("a new tree").keyring;
    let count = usize::from(u16::from_be_bytes([ring[22], ring[23]]));
    let keys: std::collections::BTreeSet<&[u8]> =
        ring[24..].chunks_exact(37).take(count).map(|entry| &entry[5..]).collect();
    assert_eq!(keys.len(), count);
}

#[test]
fn detect_keys() {
    let system = System::new();
    for case in cases_of("detect", 6) {
        let outcome = match DetectKey::decode(&case.bytes("key")) {
            Err(_) => "malformed key",
            Ok(key) => {
                let near = Tick(case.number("near") as u32);
                match detect_envelopes(&system, &key, &[&case.bytes("envelope")], near)[0] {
                    Detected::Match(_) => "match",
                    Detected::Other => "other",
                    Detected::NoKey => "no key",
                    Detected::Malformed => "malformed",
                }
            }
        };
        same(&case, "expect", outcome);
    }
}

/// The tree of lives that the generator stored, with the keys of the first two epochs of each life held.
fn stored_lives(system: &System) -> (KeyTree, HeldKeys) {
    let tree = import_tree(&Case::named(FOLDER, "store-lives-right")).expect("it loads");
    let mut held = HeldKeys::new();
    for life in tree.card().lives() {
        let floor = tree.find_floor(life).expect("a floor");
        for epoch in [floor, floor.plus(1)] {
            held.insert(tree.open_key(system, epoch, &mut chance(1)).expect("a key"));
        }
    }
    (tree, held)
}

#[test]
fn hibe_81_the_epochs_of_lives_are_those_of_python() {
    for case in cases_of("life", 24) {
        let number = |key| case.number(key) as u32;
        let origin = Tick(number("origin"));
        let calendar = TreeCalendar { shape: Shape::Lives, profile: TreeProfile::Minute, origin };
        let life = Life::from_number(case.number("life") as u8).expect("a life");
        let epoch = calendar.find_epoch(life, Tick(number("tick"))).expect("an epoch");
        same(&case, "epoch", &epoch.0.to_string());
        let path = Shape::Lives.path_to(epoch);
        let path = path.components().iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
        same(&case, "path", &path);
        let branch = calendar.find_branch_with(epoch).expect("a branch");
        assert!(branch.life == life && calendar.first_tick(&branch, epoch).0 <= number("tick"));
    }
}

#[test]
fn hibe_85_one_trial_with_the_key_of_the_life_and_tick_that_the_carrier_names() {
    let system = System::new();
    let (_, held) = stored_lives(&system);
    for case in cases_of("cell", 17) {
        let life = Life::from_number(case.number("life") as u8).expect("a life");
        let time = EnvelopeTime { life, tick: Tick(case.number("tick") as u32) };
        let envelope = case.bytes("envelope");
        let carried = CarriedEnvelope { envelope: &envelope, time: Some(time) };
        let trial = trial_open_carried(&system, &held, &[carried]).pop().expect("a trial");
        let outcome = match trial {
            Trial::Opened(opened) => {
                same(&case, "payload", &hex(&opened.payload));
                assert_eq!((opened.life, opened.tick), (life, time.tick), "{}", case.name());
                "opened"
            }
            Trial::NotForMe => "not for me",
            Trial::NoKey => "no key",
            Trial::Malformed => "malformed",
        };
        same(&case, "expect", outcome);
    }
}

/// `life-ours-*.txt` hold what this crate seals for each life; Python opens them.
#[test]
fn python_opens_what_this_crate_seals_for_each_life() {
    let system = System::new();
    let (tree, _) = stored_lives(&system);
    for life in tree.card().lives() {
        let epoch = tree.find_floor(life).expect("a floor").plus(1);
        let tick = tree.card().first_tick(epoch);
        let seal = tree.card().seal_key_for(life, tick).expect("within the life of the card");
        let key = EnvelopeKey::new(&system, &seal, tick, &mut chance(u64::from(tick.0)));
        let envelope = key.expect("a key").seal(b"of a life", Bucket::SMALLEST, tick);
        let envelope = hex(envelope.expect("an envelope").as_bytes());
        let number = life.number();
        let payload = hex(b"of a life");
        let text = format!(
            "kind: ours\nlife: {number}\ntick: {}\nenvelope: {envelope}\npayload: {payload}\n",
            tick.0
        );
        let path = vector_folder(FOLDER).join(format!("life-ours-{number}.txt"));
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text);
    }
}

/// `ours-*.txt` hold what this crate seals; Python opens them and says what is inside.
#[test]
fn python_opens_what_this_crate_seals() {
    let system = System::new();
    let (tree, _) = stored(&system);
    for (n, payload) in [&b"from the crate"[..], b"", &[0xff; 300]].into_iter().enumerate() {
        let tick = Tick(tree.card().origin().0 + 32 + n as u32 % 2);
        let key = tree.card().seal_key(tick).expect("a key");
        let key = EnvelopeKey::new(&system, &key, tick, &mut chance(n as u64)).expect("a key");
        let envelope = key.seal(payload, Bucket::SMALLEST, tick).expect("an envelope");
        let envelope = hex(envelope.as_bytes());
        let payload = hex(payload);
        let text =
            format!("kind: ours\ntick: {}\nenvelope: {envelope}\npayload: {payload}", tick.0);
        let found = std::fs::read_to_string(vector_folder(FOLDER).join(format!("ours-{n}.txt")))
            .unwrap_or_default();
        assert_eq!(found, format!("{}\n", text.trim_end()));
    }
    assert!(vector_folder(FOLDER).join("reference.py").is_file());
}

/// RFC 9380, J.9.1.
#[test]
fn points_are_hashed_as_the_rfc_has_it() {
    let dst = b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
    let long = |head: &str, letter: &str, count| format!("{head}{}", letter.repeat(count));
    for (message, x) in [
        (
            String::new(),
            "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4e8cf62d9c09db0fac349612b759e79a1",
        ),
        (
            "abc".into(),
            "03567bc5ef9c690c2ab2ecdf6a96ef1c139cc0b2f284dca0a9a7943388a49a3aee664ba5379a7655d3c68900be2f6903",
        ),
        (
            "abcdef0123456789".into(),
            "11e0b079dea29a68f0383ee94fed1b940995272407e3bb916bbf268c263ddd57a6a27200a784cbc248e84f357ce82d98",
        ),
        (
            long("q128_", "q", 128),
            "15f68eaa693b95ccb85215dc65fa81038d69629f70aeee0d0f677cf22285e7bf58d7cb86eefe8f2e9bc3f8cb84fac488",
        ),
        (
            long("a512_", "a", 512),
            "082aabae8b7dedb0e78aeb619ad3bfd9277a2f77ba7fad20ef6aabdc6c31d19ba5a6d12283553294c1825c4b3ca2dcfe",
        ),
    ] {
        let mut bytes = hash_to_g1(message.as_bytes(), dst).to_affine().compress();
        bytes[0] &= 0x1f;
        assert_eq!(hex(&bytes), x);
    }
}

/// The multiples 0 to 999 of both generators, as the repository of zkcrypto's `bls12_381` holds them
/// (`g1_compressed_valid_test_vectors.dat` and that of g2), by the BLAKE2b-256 of each file.
#[test]
fn multiples_of_the_generators_are_those_of_zkcrypto() {
    let mut g1 = vec![0; 48];
    g1[0] = 0xc0;
    let mut g2 = vec![0; 96];
    g2[0] = 0xc0;
    let mut p = G1::infinity();
    let mut q = G2::infinity();
    for _ in 1..1_000 {
        p = p.add_affine(&G1Affine::generator());
        q = q.add_affine(&G2Affine::generator());
        g1.extend_from_slice(&p.to_affine().compress());
        g2.extend_from_slice(&q.to_affine().compress());
    }
    assert_eq!(digest(&g1), ZKCRYPTO_G1);
    assert_eq!(digest(&g2), ZKCRYPTO_G2);
}

const ZKCRYPTO_G1: &str = "55e027092f650b05e1d43f020b587617c8c7767ad7245b32cb579b22ba0918d5";
const ZKCRYPTO_G2: &str = "377bbb44434ee6186faebdb2cb2d07e6a131f9e9bb3a1ee3e9ca1d1ac93e474a";
