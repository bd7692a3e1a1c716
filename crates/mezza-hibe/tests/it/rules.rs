//! A test for each rule of `docs/protocols/hibe.md` that is in force and is not of the tree.

use mezza_core::Wiping;
use mezza_hibe::bkp::{DerivedKeys, MasterSecret, NodeKey};
use mezza_hibe::curve::{Fr, G1Affine, G2Affine};
use mezza_hibe::pairing::{PairingEngine, PairingKernel};
use mezza_hibe::shape::Path;
use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, CardBlockError, DetectKey, Detected, EncapsulateError,
    EnvelopeId, EnvelopeKey, Epoch, KeyTree, Shape, System, Tick, TreeError, TreeProfile, Trial,
    TrialJob, detect_envelopes, trial_open, trial_open_batch,
};
use proptest::prelude::*;

use crate::fixture::{Person, chance, envelope_for, mauled};

const NOW: Tick = Tick(59_500_003);

#[test]
fn hibe_1_wrong_encodings_are_refused() {
    let good = G1Affine::generator().compress();
    assert!(G1Affine::uncompress(&good).is_ok());
    let with = |change: fn(&mut [u8; 48])| {
        let mut bytes = good;
        change(&mut bytes);
        G1Affine::uncompress(&bytes).is_ok()
    };
    assert!(!with(|b| b[0] &= 0x7f), "not compressed");
    assert!(!with(|b| b[0] |= 0x40), "infinite and finite at once");
    assert!(!with(|b| *b = [0; 48]));
    assert!(
        !with(|b| {
            *b = [0; 48];
            b[0] = 0xc0;
        }),
        "infinity"
    );
    // x = p, which is 0 with another encoding.
    let p = "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";
    let mut bytes: [u8; 48] =
        data_encoding::HEXLOWER.decode(p.as_bytes()).expect("hex").try_into().expect("48");
    bytes[0] |= 0x80;
    assert!(G1Affine::uncompress(&bytes).is_err(), "not canonical");
    // x = 1 has no y.
    assert!(
        !with(|b| {
            *b = [0; 48];
            (b[0], b[47]) = (0x80, 1);
        }),
        "off the curve"
    );
    let mut g2 = G2Affine::generator().compress();
    assert!(G2Affine::uncompress(&g2).is_ok());
    g2[0] |= 0x40;
    assert!(G2Affine::uncompress(&g2).is_err());
}

#[test]
fn hibe_2_points_of_cards_and_detect_keys_lie_in_the_subgroup() {
    let person = Person::new(1, NOW);
    let bytes = person.tree.card().as_bytes();
    for point in 0..13 {
        let at = 6 + 48 * point;
        let mut wrong = bytes.to_vec();
        let shifted = mauled::plus_order_3(wrong[at..at + 48].try_into().expect("a point"));
        wrong[at..at + 48].copy_from_slice(&shifted);
        let decoded = CardBlock::decode(&wrong, BlockPolicy::Product);
        assert_eq!(decoded.err(), Some(CardBlockError::Point(point)));
    }
    let lent =
        person.tree.detect_key(person.epoch(NOW).plus(65), 4, &mut chance(2)).expect("a key");
    let lent = lent.encode();
    assert!(DetectKey::decode(&lent).is_ok());
    // A point of G2's curve that is outside of the subgroup: the smallest x with a y.
    let outside = (0..).find_map(|x| {
        let mut bytes = [0; 96];
        (bytes[0], bytes[95]) = (0x80, x);
        G2Affine::uncompress(&bytes).ok().filter(|point| !point.in_subgroup()).map(|_| bytes)
    });
    let outside = outside.expect("a point");
    for point in 0..(lent.len() - 12) / 96 {
        let mut wrong = lent.to_vec();
        wrong[12 + 96 * point..][..96].copy_from_slice(&outside);
        assert!(DetectKey::decode(&wrong).is_err());
    }
}

#[test]
fn hibe_5_unsafe_code_is_short_and_says_why() {
    let source = include_str!("../../src/curve/raw.rs");
    assert!(source.lines().count() <= 250);
    let unsafes = source.matches("unsafe {").count();
    assert_eq!(source.matches("// SAFETY: ").count(), unsafes);
}

#[test]
fn hibe_6_a_scalar_is_below_q_and_not_zero() {
    assert!(Fr::from_bytes(&[0; 32]).is_none());
    let q = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";
    let mut q: [u8; 32] =
        data_encoding::HEXLOWER.decode(q.as_bytes()).expect("hex").try_into().expect("32");
    q.reverse();
    assert!(Fr::from_bytes(&q).is_none());
    q[0] -= 1;
    assert!(Fr::from_bytes(&q).is_some());
    // A generator that gives q first, which is 0, is asked again.
    q[0] += 1;
    let mut draws = mauled::Draws(vec![[0; 64], q_wide(&q), [7; 64]]);
    assert_eq!(Fr::random(&mut draws).as_bytes(), Fr::from_wide(&[7; 64]).as_bytes());
}

fn q_wide(q: &[u8; 32]) -> [u8; 64] {
    core::array::from_fn(|i| q.get(i).copied().unwrap_or(0))
}

#[test]
fn hibe_11_components_of_a_path_are_in_their_ranges() {
    for epoch in (0..Shape::Wide.epoch_count()).step_by(997) {
        let path = Shape::Wide.path_to(Epoch(epoch));
        let ranges = path.components().iter().zip(Shape::Wide.arities());
        assert!(ranges.clone().all(|(m, arity)| (1..=*arity).contains(m)));
    }
    assert!(Path::new(&[0]).is_none());
}

/// The root of a small master and a key of its path, for tests of derivation.
fn root(system: &System, seed: u64) -> (MasterSecret, NodeKey) {
    let rng = &mut chance(seed);
    let master = MasterSecret::random(5, rng);
    let root = master.user_key(system, &Path::root(), rng);
    (master, root)
}

#[test]
fn hibe_12_derivations_draw_fresh_factors() {
    let system = System::new();
    let rng = &mut chance(3);
    let (_, node) = root(&system, 4);
    let sums = node.descend_to(&node.empty_sums(), 7);
    let keys = [(); 2].map(|()| match node.derive_keys(&sums, rng) {
        DerivedKeys::Node(node) => node.encode(),
        DerivedKeys::User(_) => unreachable!("a node of depth 1"),
    });
    let points = |i: usize| keys[i].chunks_exact(96);
    assert!(points(0).zip(points(1)).all(|(a, b)| a != b), "no point of two derivations is equal");
    // Two draws of 64 bytes for a node, one for a user key.
    let mut counted = mauled::Counted::new();
    node.derive_keys(&sums, &mut counted);
    assert_eq!(counted.draws, 2);
    node.derive_user(&sums, &mut counted);
    assert_eq!(counted.draws, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn hibe_13_any_split_of_a_path_opens_the_same(cuts in 0_u8..16, m in [1_u8..=16, 1_u8..=16, 1_u8..=32, 1_u8..=32, 1_u8..=64]) {
        let system = System::new();
        let rng = &mut chance(5);
        let (master, root) = root(&system, 6);
        let parameters = master.derive_parameters(&system);
        let path = Path::new(&m).expect("a path");
        // Steps end where a bit of `cuts` says so, and at the leaf.
        let mut node = root;
        let mut sums = None;
        let mut leaf = None;
        for (level, m) in m.iter().enumerate() {
            let from = sums.take().unwrap_or_else(|| node.empty_sums());
            let next = node.descend_to(&from, *m);
            if level < 4 && cuts >> level & 1 == 0 {
                sums = Some(next);
                continue;
            }
            match node.derive_keys(&next, rng) {
                DerivedKeys::Node(child) => node = *child,
                DerivedKeys::User(user) => leaf = Some(user),
            }
        }
        let leaf = leaf.expect("a leaf");
        let r = Fr::random(rng);
        let k = mezza_hibe::bkp::compute_base(&parameters).pow(&r).to_bytes();
        let opens = |id: &Path| {
            let header = mezza_hibe::bkp::compute_header(&system, &parameters.identity_points(id), &r);
            let bytes = header.each_ref().map(|point| point.to_affine().compress());
            let bytes: [u8; 192] = bytes.concat().try_into().expect("192 bytes");
            let prepared = PairingKernel::Lines.prepare_points(&leaf.pairing_points());
            let product = PairingKernel::Lines.multi_pair(&prepared, &[&bytes]).pop().expect("one");
            product.expect("points") == k
        };
        prop_assert!(opens(&path));
        let mut other = m;
        other[4] = other[4] % 64 + 1;
        prop_assert!(!opens(&Path::new(&other).expect("a path")));
    }
}

#[test]
fn hibe_20_path_and_number_are_inverse_for_all_epochs() {
    for shape in [Shape::Wide, Shape::Test] {
        for epoch in (0..shape.epoch_count()).map(Epoch) {
            assert_eq!(shape.path_epoch(&shape.path_to(epoch)), epoch);
        }
    }
}

#[test]
fn hibe_40_the_length_follows_from_the_kind() {
    let mut person = Person::new(7, NOW);
    let envelope = person.envelope(NOW, b"hello");
    for (bucket, bytes) in [506, 1018, 2042, 4090].into_iter().enumerate() {
        let bucket = Bucket::new(bucket as u8).expect("a bucket");
        assert_eq!(bucket.total_bytes(), bytes);
    }
    let malformed =
        |bytes: &[u8], person: &mut Person| matches!(person.trial(NOW, bytes), Trial::Malformed);
    assert!(malformed(&[], &mut person));
    assert!(malformed(&envelope[..505], &mut person));
    assert!(malformed(&[&envelope[..], &[0]].concat(), &mut person));
    for kind in [0x00, 0x11, 0x14, 0x20, 0x90] {
        let mut wrong = envelope.clone();
        wrong[0] = kind;
        assert!(malformed(&wrong, &mut person), "{kind:#x}");
    }
}

#[test]
fn hibe_41_byte_1_is_the_tick_whatever_the_card() {
    for profile in TreeProfile::ALL {
        let person = Person::with(8, profile, NOW);
        for tick in [NOW, Tick(NOW.0 + 100)] {
            let envelope = envelope_for(&person.system, person.tree.card(), tick, b"x");
            assert_eq!(envelope[1], tick.0 as u8);
        }
    }
}

#[test]
fn hibe_42_the_keys_are_bound_to_card_tick_and_c() {
    let mut person = Person::with(9, TreeProfile::FiveMinutes, NOW);
    let epoch = person.epoch(NOW);
    let first = person.tree.card().first_tick(epoch);
    let envelope = person.envelope(first, b"x");
    // Another tick of the same epoch has the same key and another tag.
    let mut other_tick = envelope.clone();
    other_tick[1] = other_tick[1].wrapping_add(1);
    assert!(matches!(person.trial(first, &envelope), Trial::Opened(_)));
    assert!(matches!(person.trial(first, &other_tick), Trial::NotForMe));
    // A component of order 3 pairs to 1, so K is the same, and C is not.
    let mut other_c = envelope;
    let shifted = mauled::plus_order_3(other_c[2..50].try_into().expect("a point"));
    other_c[2..50].copy_from_slice(&shifted);
    assert!(matches!(person.trial(first, &other_c), Trial::NotForMe));
}

#[test]
fn hibe_43_every_changed_byte_is_refused_before_anything_is_decrypted() {
    let mut person = Person::new(10, NOW);
    let envelope = person.envelope(NOW, b"hello");
    for at in [2, 49, 50, 98, 146, 193, 194, 226, 228, 233, 473, 474, 505] {
        let mut wrong = envelope.clone();
        wrong[at] ^= 1;
        assert!(matches!(person.trial(NOW, &wrong), Trial::NotForMe), "byte {at}");
    }
}

#[test]
fn hibe_44_opening_encapsulates_again() {
    let mut person = Person::new(11, NOW);
    let honest = mauled::sealed(&person, NOW, |_| {});
    assert!(matches!(person.trial(NOW, &honest), Trial::Opened(_)));
    // A sender with the right keys who puts the coins of another header into the body.
    let wrong = mauled::sealed(&person, NOW, |body| {
        body[..32].copy_from_slice(Fr::from_small(7).as_bytes());
    });
    assert!(matches!(person.trial(NOW, &wrong), Trial::NotForMe));
}

/// Changes the body of an envelope before it is sealed.
type Change = Box<dyn Fn(&mut [u8])>;

#[test]
fn hibe_45_coins_length_and_padding_are_checked() {
    let mut person = Person::new(12, NOW);
    let q = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";
    let mut q = data_encoding::HEXLOWER.decode(q.as_bytes()).expect("hex");
    q.reverse();
    let changes: [(&str, Change); 5] = [
        ("r = 0", Box::new(|body| body[..32].fill(0))),
        ("r + q", Box::new(move |body| mauled::add_little_endian(&mut body[..32], &q))),
        ("length 247", Box::new(|body| body[32..34].copy_from_slice(&247_u16.to_be_bytes()))),
        ("length 65535", Box::new(|body| body[32..34].fill(0xff))),
        ("padding", Box::new(|body| body[279] = 1)),
    ];
    for (name, change) in changes {
        let wrong = mauled::sealed(&person, NOW, |body| change(body));
        assert!(matches!(person.trial(NOW, &wrong), Trial::NotForMe), "{name}");
    }
}

#[test]
fn hibe_46_every_failure_behind_the_tick_is_the_same_answer() {
    let mut person = Person::new(13, NOW);
    let mut stranger = Person::new(14, NOW);
    let envelope = person.envelope(NOW, b"hello");
    let mut no_point = envelope.clone();
    no_point[2..50].fill(0xff);
    let mut infinite = envelope.clone();
    infinite[2..50].fill(0);
    infinite[2] = 0xc0;
    for bytes in [&no_point, &infinite] {
        assert_eq!(format!("{:?}", person.trial(NOW, bytes)), "NotForMe");
    }
    assert_eq!(format!("{:?}", stranger.trial(NOW, &envelope)), "NotForMe");
    let mut late = envelope;
    late[1] = late[1].wrapping_add(100);
    assert_eq!(format!("{:?}", person.trial(NOW, &late)), "NoKey");
}

#[test]
fn hibe_47_the_key_of_an_envelope_is_used_once_and_in_its_epoch() {
    let person = Person::with(15, TreeProfile::FiveMinutes, NOW);
    let card = person.tree.card();
    let first = card.first_tick(person.epoch(NOW));
    let key = |tick| {
        EnvelopeKey::new(
            &person.system,
            &card.seal_key(first).expect("a key"),
            tick,
            &mut chance(1),
        )
    };
    let sealed = |now| key(first).expect("a key").seal(b"x", Bucket::SMALLEST, now);
    assert!(sealed(Tick(first.0 + 4)).is_ok());
    assert_eq!(sealed(Tick(first.0 + 5)).err(), Some(EncapsulateError::Over));
    // It encapsulates for no other epoch.
    assert_eq!(key(Tick(first.0 + 5)).err(), Some(EncapsulateError::Over));
    assert_eq!(key(Tick(first.0 - 1)).err(), Some(EncapsulateError::NotYet));
}

#[test]
fn hibe_90_coins_decide_the_envelope_and_no_two_coins_the_same() {
    let Person { system, tree } = Person::new(41, NOW);
    let key = tree.card().seal_key(NOW).expect("its life");
    let seal = |coins: u8, text: &[u8]| {
        let coins = Wiping::new([coins; 64]);
        let key = EnvelopeKey::from_coins(&system, &key, NOW, &coins).expect("the tick of the key");
        let binding = *key.binding();
        (binding, key.seal(text, Bucket::SMALLEST, NOW).expect("it fits").into_bytes())
    };
    let (binding, envelope) = seal(1, b"text");
    assert_eq!(seal(1, b"text"), (binding, envelope.clone()), "the same after a crash");
    assert_eq!(seal(1, b"another").0, binding, "known before the text is");
    assert_ne!(seal(2, b"text").0, binding);
    let held = Person { system: System::new(), tree }.hold(NOW);
    let Trial::Opened(opened) = trial_open(&system, &held, &envelope) else { panic!("opens") };
    assert!(*opened.payload == b"text"[..] && opened.binding == binding);
}

#[test]
fn hibe_48_a_sender_outside_of_the_life_is_refused() {
    let person = Person::new(16, NOW);
    let card = person.tree.card();
    let at = |tick| card.seal_key(tick).err();
    assert_eq!(at(Tick(card.origin().0 - 1)), Some(EncapsulateError::NotYet));
    assert_eq!(at(card.origin()), None);
    assert_eq!(at(Tick(card.end_tick().0 - 1)), None);
    assert_eq!(at(card.end_tick()), Some(EncapsulateError::Over));
}

#[test]
fn hibe_49_a_payload_of_3831_bytes_is_refused() {
    let mut person = Person::new(17, NOW);
    let card = person.tree.card();
    let key = || {
        EnvelopeKey::new(&person.system, &card.seal_key(NOW).expect("a key"), NOW, &mut chance(1))
    };
    let sealed = |bytes: usize| key().expect("a key").seal(&vec![7; bytes], Bucket::SMALLEST, NOW);
    for (bytes, total) in
        [(0, 506), (246, 506), (247, 1018), (758, 1018), (1_783, 4090), (3_830, 4090)]
    {
        let envelope = sealed(bytes).expect("an envelope").into_bytes();
        assert_eq!(envelope.len(), total);
    }
    assert_eq!(sealed(3_831).err(), Some(EncapsulateError::TooLong));
    let envelope = sealed(3_830).expect("an envelope").into_bytes();
    let Trial::Opened(opened) = person.trial(NOW, &envelope) else { panic!("not opened") };
    assert_eq!(*opened.payload, vec![7; 3_830]);
}

#[test]
fn hibe_50_a_batch_gives_what_single_trials_give() {
    let mut person = Person::with(18, TreeProfile::Minute, NOW);
    let stranger = Person::new(19, NOW);
    let mut envelopes: Vec<Vec<u8>> = Vec::new();
    for n in 0..24_u32 {
        let tick = Tick(NOW.0 + n % 5 - 2);
        let card = if n % 3 == 0 { stranger.tree.card() } else { person.tree.card() };
        let mut envelope = envelope_for(&person.system, card, tick, &n.to_be_bytes());
        match n % 7 {
            3 => envelope[300] ^= 1,
            5 => envelope.truncate(100),
            6 => envelope[2..50].fill(0xff),
            _ => {}
        }
        envelopes.push(envelope);
    }
    let slices: Vec<&[u8]> = envelopes.iter().map(Vec::as_slice).collect();
    let held = person.hold(NOW);
    let shown = |trials: Vec<Trial>| {
        let show = |trial: Trial| match trial {
            Trial::Opened(opened) => format!(
                "{:?} {:?} {:?} {:?}",
                *opened.payload, opened.tick, opened.binding, opened.id
            ),
            other => format!("{other:?}"),
        };
        trials.into_iter().map(show).collect::<Vec<_>>()
    };
    let batch = shown(trial_open_batch(&person.system, &held, &slices));
    let single =
        slices.iter().map(|envelope| trial_open(&person.system, &held, envelope)).collect();
    assert_eq!(batch, shown(single));
    let words = ["[0, 0", "NotForMe", "NoKey", "Malformed"];
    assert!(
        words.iter().all(|word| batch.iter().any(|trial| trial.starts_with(word))),
        "{batch:?}"
    );
    // As jobs, and by the plain engine.
    let jobs = TrialJob::split_jobs(&held, envelopes.clone());
    let jobs = jobs.iter().flat_map(|job| job.run(&person.system)).collect();
    assert_eq!(batch, shown(jobs));
    person.system = System::with_kernel(PairingKernel::Plain);
    let held = person.hold(NOW);
    assert_eq!(batch, shown(trial_open_batch(&person.system, &held, &slices)));
}

#[test]
fn hibe_52_an_envelope_is_named_by_all_of_its_bytes() {
    let mut person = Person::new(20, NOW);
    let envelope = person.envelope(NOW, b"x");
    let Trial::Opened(opened) = person.trial(NOW, &envelope) else { panic!("not opened") };
    assert_eq!(opened.id, EnvelopeId::from_envelope(&envelope));
    for at in 0..envelope.len() {
        let mut other = envelope.clone();
        other[at] ^= 0x80;
        assert_ne!(EnvelopeId::from_envelope(&other), opened.id);
    }
}

#[test]
fn hibe_60_a_detect_key_recognises_its_subtree_and_opens_nothing() {
    let person = Person::new(21, NOW);
    let tree = &person.tree;
    let system = &person.system;
    let rng = &mut chance(22);
    let epoch = person.epoch(NOW).plus(200);
    let covered = |depth| tree.detect_key(epoch, depth, rng).expect("a key");
    let key = {
        let mut covered = covered;
        covered(4)
    };
    assert_eq!((key.epoch_count(), key.encode().len()), (65, 588));
    let (from, to) = key.ticks();
    let stranger = Person::new(23, NOW);
    for tick in (from.0 - 3..to.0 + 3).step_by(4).map(Tick) {
        let own = envelope_for(system, tree.card(), tick, b"x");
        let foreign = envelope_for(system, stranger.tree.card(), tick, b"x");
        let seen = detect_envelopes(system, &key, &[&own, &foreign], tick);
        let inside = from <= tick && tick < to;
        let expected =
            if inside { [Detected::Match(tick), Detected::Other] } else { [Detected::NoKey; 2] };
        assert_eq!(seen, expected, "{tick:?}");
    }
    // Two keys of the same subtree share no point, and none is a point of the tree.
    let other = tree.detect_key(epoch, 4, &mut chance(24)).expect("a key").encode();
    let points =
        |bytes: &[u8]| bytes[12..].chunks_exact(96).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert!(points(&key.encode()).iter().all(|point| !points(&other).contains(point)));
    // A leaf keeps no delegation key of its own.
    assert_eq!(tree.detect_key(tree.floor(), 5, &mut chance(25)).err(), Some(TreeError::Leaf));
}

#[test]
fn hibe_61_the_sizes_of_lent_keys_are_known_before() {
    assert_eq!(mezza_hibe::detect::LENT_EPOCHS_MAX, Shape::Wide.subtree_epochs(3));
    let person = Person::new(26, NOW);
    let start = person.epoch(NOW).plus(4_000);
    for (depth, epochs, bytes) in [(5, 1, 396), (4, 65, 588), (3, 2_081, 780)] {
        let key = person.tree.detect_key(start, depth, &mut chance(27));
        // Not every epoch has a path as long as that.
        let Ok(key) = key else { continue };
        assert_eq!((key.epoch_count(), key.encode().len()), (epochs, bytes));
        let again = DetectKey::decode(&key.encode()).expect("a key");
        assert_eq!(*again.encode(), *key.encode());
    }
}

#[test]
fn hibe_72_unknown_suites_and_the_test_tree_are_refused() {
    let person = Person::new(28, NOW);
    let bytes = person.tree.card().as_bytes();
    for (kind, error) in [
        (0x21, CardBlockError::Suite),
        (0x01, CardBlockError::Suite),
        (0x13, CardBlockError::Tree),
        (0x1e, CardBlockError::Tree),
        (0x1f, CardBlockError::Tree),
    ] {
        let mut wrong = bytes.to_vec();
        wrong[0] = kind;
        assert_eq!(CardBlock::decode(&wrong, BlockPolicy::Product).err(), Some(error));
    }
    let start = NOW.day_start();
    let rng = &mut chance(29);
    let small = KeyTree::create(&person.system, Shape::Test, TreeProfile::Minute, start, rng);
    let small = small.expect("a tree").card().as_bytes().to_vec();
    assert!(CardBlock::decode(&small, BlockPolicy::Product).is_err());
    assert!(CardBlock::decode(&small, BlockPolicy::TestTree).is_ok());
}

#[test]
fn a_card_is_what_its_bytes_are() {
    let person = Person::new(30, NOW);
    let bytes = person.tree.card().as_bytes();
    let decoded = CardBlock::decode(bytes, BlockPolicy::Product).expect("a card");
    assert_eq!((decoded.as_bytes(), decoded.hash()), (bytes, person.tree.card().hash()));
    for length in [0, 1, 629, 631] {
        let mut wrong = bytes.to_vec();
        wrong.resize(length, 0);
        let expected = CardBlockError::Length { bytes: length, expected: 630 };
        assert_eq!(CardBlock::decode(&wrong, BlockPolicy::Product).err(), Some(expected));
    }
    for k in [0, 2, 61, 255] {
        let mut wrong = bytes.to_vec();
        wrong[1] = k;
        assert_eq!(
            CardBlock::decode(&wrong, BlockPolicy::Product).err(),
            Some(CardBlockError::Profile)
        );
    }
    let mut late = bytes.to_vec();
    late[2..6].fill(0xff);
    assert_eq!(CardBlock::decode(&late, BlockPolicy::Product).err(), Some(CardBlockError::Origin));
}
