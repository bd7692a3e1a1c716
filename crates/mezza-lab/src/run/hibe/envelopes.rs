//! Envelopes that were changed, made for two readers, or forwarded.

use anyhow::{Context as _, Result};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use mezza_core::{Blake2b512, PortableBackend, StaticKey, blake2b, labelled_hash};
use mezza_hibe::bkp::MasterSecret;
use mezza_hibe::curve::Fr;
use mezza_hibe::shape::Path;
use mezza_hibe::{Bucket, EnvelopeKey, System, Trial, trial_open};
use mezza_ratchet::{IdentityKeyPair, xeddsa};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{
    Exhibit, NOW, Person, add_both, decode_points, encapsulate_with, multiply_pairings,
    plus_order_3, seal,
};
use crate::bench::Bench;
use crate::ours::fosam;
use crate::run::experiment::Report;
use crate::run::signal::common_block;

/// Runs A5: bits of a ciphertext are flipped.
pub fn report_flip(bench: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let altered = fosam::alter_text(b"pay Bob 100", 8, b'1' ^ b'9')?;
    let accepted = altered == b"pay Bob 900";
    let mut bob = Person::new(&system, 4)?;
    let epoch = bob.current_epoch()?;
    let held = bob.hold_key(epoch, &system)?;
    let envelope = seal(&system, bob.tree.card(), NOW, b"pay Bob 100", &mut bob.rng)?;
    let step = bench.profile.pick(97, 7, 3);
    let mut tried = 0;
    let mut opened = 0;
    for bit in (16..8 * envelope.len()).step_by(step) {
        let mut changed = envelope.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        tried += 1;
        opened += u32::from(matches!(trial_open(&system, &held, &changed), Trial::Opened(_)));
    }
    add_both(
        &mut report,
        Exhibit::new(
            "AES-CTR without a tag",
            format!("read as {:?}", String::from_utf8_lossy(&altered)),
            accepted,
        ),
        Exhibit::new(
            "tag, and encapsulation again",
            format!("{opened} of {tried} flips accepted"),
            opened == 0,
        ),
    );
    Ok(report)
}

/// The two texts that two readers see in the same body.
const READ: [&[u8]; 2] = [b"meet at the gate", b"stay at home"];

/// Runs A6: one ciphertext that ChaCha20-Poly1305 opens under two keys.
pub fn report_salamander(_: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let keys = [[0x11_u8; 32], [0x22; 32]];
    let (body, tag) = two_texts(&keys).context("no block makes the tags equal")?;
    let texts = keys.map(|key| {
        let mut text = body.clone();
        let cipher = ChaCha20Poly1305::new(&key.into());
        let buffer = InOutBuf::from(text.as_mut_slice());
        let opened = cipher.decrypt_inout_detached(&Nonce::default(), &[], buffer, &Tag::from(tag));
        opened.map_or_else(|_| Vec::new(), |()| text)
    });
    let both_read =
        texts[0].starts_with(READ[0]) && texts[1].get(16..).is_some_and(|t| t.starts_with(READ[1]));
    // Ours: the tag of a body is a hash under a hashed key; equal tags under two keys would be a
    // collision.
    let tags = keys.map(|key| {
        let mut tag = [0; 32];
        blake2b(&mut tag, &key, "", &[&body]);
        tag
    });
    let found = if both_read { "both accept, and read two texts" } else { "not both accept" };
    add_both(
        &mut report,
        Exhibit::new("ChaCha20-Poly1305 under K", found.into(), both_read),
        Exhibit::new(
            "keyed BLAKE2b as the tag",
            "this body has two tags".into(),
            tags[0] != tags[1],
        ),
    );
    Ok(report)
}

/// Makes a body and its tag: block 0 is the first text under the first key, block 1 the second text
/// under the second key, and block 2 makes the tags equal.
fn two_texts(keys: &[[u8; 32]; 2]) -> Option<(Vec<u8>, [u8; 16])> {
    // Block 0 of the key stream is the Poly1305 key; the text begins with block 1.
    let streams = keys.map(|key| {
        let mut zeros = [0; 128];
        ChaCha20::new(&key.into(), &[0; 12].into()).apply_keystream(&mut zeros);
        zeros
    });
    let poly = streams.each_ref().map(|stream| core::array::from_fn(|i| stream[i]));
    (0_u32..256).find_map(|junk| {
        let second = [READ[1], &junk.to_le_bytes()].concat();
        let xor = |text: &[u8], stream: &[u8]| -> Vec<u8> {
            text.iter().zip(stream).map(|(a, b)| a ^ b).collect()
        };
        let mut body = xor(READ[0], &streams[0][64..80]);
        body.extend(xor(&second, &streams[1][80..96]));
        let (block, tag) = common_block(poly, &body)?;
        body.extend_from_slice(&block);
        Some((body, tag))
    })
}

/// Runs A7: a header of four points at infinity gives K = 1 for every receiver.
pub fn report_infinity(_: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    // A decoder that accepts points at infinity: each receiver pairs them with its own key, and the
    // weak variant hashes only K.
    let weak_key = |k: &bls12_381::Gt| -> [u8; 32] {
        labelled_hash("weak/kdf", &[format!("{k:?}").as_bytes()])
    };
    let attacker = weak_key(&bls12_381::Gt::identity());
    let mut same = 0;
    for seed in 0..10 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let master = MasterSecret::random(5, &mut rng);
        let user = master.user_key(&system, &Path::root(), &mut rng).encode();
        let (points, _) = user[..384].as_chunks::<96>();
        let k = points.iter().try_fold(bls12_381::Gt::identity(), |k, bytes| {
            let point =
                Option::<bls12_381::G2Affine>::from(bls12_381::G2Affine::from_compressed(bytes))?;
            Some(k + bls12_381::pairing(&bls12_381::G1Affine::identity(), &point))
        });
        same += u32::from(k.is_some_and(|k| weak_key(&k) == attacker));
    }
    let mut envelope = vec![0; 506];
    (envelope[0], envelope[1]) = (0x10, NOW.0 as u8);
    for slot in 0..4 {
        envelope[2 + 48 * slot] = 0xc0;
    }
    let mut opened = 0;
    for seed in 0..10 {
        let mut person = Person::new(&system, seed)?;
        let epoch = person.current_epoch()?;
        let held = person.hold_key(epoch, &system)?;
        opened += u32::from(!matches!(trial_open(&system, &held, &envelope), Trial::NotForMe));
    }
    add_both(
        &mut report,
        Exhibit::new(
            "a decoder without the check, K hashed alone",
            format!("one envelope opens for {same} of 10"),
            same == 10,
        ),
        Exhibit::new(
            "infinite points are refused",
            format!("{opened} of 10 receivers took it"),
            opened == 0,
        ),
    );
    Ok(report)
}

/// Runs A8: c0\[0\] plus a point of order 3 is a second form of the header with the same K.
pub fn second_form(_: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let master = MasterSecret::random(5, &mut rng);
    let (c, k) = encapsulate_with(&system, &master, &Path::root(), &Fr::from_small(7));
    let mut other = c;
    other[..48].copy_from_slice(&plus_order_3(c[..48].try_into()?)?);
    let key = decode_points(&master.user_key(&system, &Path::root(), &mut rng).encode())?;
    let same = other != c && multiply_pairings([&key[0], &key[1], &key[2], &key[3]], &other)? == k;
    let mut bob = Person::new(&system, 6)?;
    let epoch = bob.current_epoch()?;
    let held = bob.hold_key(epoch, &system)?;
    let mut envelope = seal(&system, bob.tree.card(), NOW, b"x", &mut bob.rng)?;
    let shifted = plus_order_3(envelope[2..50].try_into()?)?;
    envelope[2..50].copy_from_slice(&shifted);
    let refused = matches!(trial_open(&system, &held, &envelope), Trial::NotForMe);
    let told = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    add_both(
        &mut report,
        Exhibit::new(
            "K hashed without C, no subgroup check: the same K in other bytes",
            told(same),
            same,
        ),
        Exhibit::new("C in the hash and compared: accepted", told(!refused), refused),
    );
    Ok(report)
}

/// Runs A11: Bob forwards a friend's signed message to Carol. The inner layer of this exhibit is a
/// signature.
pub fn report_forward(_: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let alice = IdentityKeyPair::new(StaticKey::random::<PortableBackend>(&mut rng));
    let bob = Person::new(&system, 8)?;
    let mut carol = Person::new(&system, 9)?;
    let text = b"I leave tonight";
    // Alice signs for Bob, with and without binding to her envelope.
    let to_bob = EnvelopeKey::new(&system, &bob.card().seal_key(NOW)?, NOW, &mut rng)?;
    let signed = alice.sign::<Blake2b512>(&[text], &mut rng);
    let bound = alice.sign::<Blake2b512>(&[text, &to_bob.binding().0], &mut rng);
    // Bob seals the text that he read for Carol.
    let to_carol = EnvelopeKey::new(&system, &carol.card().seal_key(NOW)?, NOW, &mut rng)?;
    let payload = [&text[..], &signed, &bound].concat();
    let envelope = to_carol.seal(&payload, Bucket::SMALLEST, NOW)?.into_bytes();
    let epoch = carol.current_epoch()?;
    let held = carol.hold_key(epoch, &system)?;
    let Trial::Opened(opened) = trial_open(&system, &held, &envelope) else {
        anyhow::bail!("Carol cannot open what was sealed for her")
    };
    let verify = |parts: &[&[u8]], signature: &[u8; 64]| {
        xeddsa::verify::<Blake2b512>(&alice.public_key(), parts, signature)
    };
    let weak = verify(&[text], &signed);
    let ours = verify(&[text, &opened.binding.0], &bound);
    let told = |yes: bool| {
        format!("Carol takes it for a message to her: {}", if yes { "yes" } else { "no" })
    };
    add_both(
        &mut report,
        Exhibit::new("an inner layer without the binding", told(weak), weak),
        Exhibit::new("an inner layer that binds the envelope", told(ours), !ours),
    );
    Ok(report)
}
