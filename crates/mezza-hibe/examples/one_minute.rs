//! A message, a minute that was missed, and a key that is lent.
//!
//! ```text
//! Bob    card block (630 B, one QR code) --------------> Alice
//! Alice  envelope (506 B) ---------> anybody ----------> Bob
//! Bob    detect key (588 B) -------> a gateway, which passes him only what is his
//! ```
#![allow(clippy::print_stdout, reason = "an example prints")]

use mezza_hibe::{
    BlockPolicy, Bucket, CardBlock, Detected, EnvelopeKey, HeldKeys, KeyTree, Shape, System, Tick,
    TreeProfile, Trial, detect_envelopes, trial_open,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program draws from the system; an example gives the same output each time.
    let rng = &mut ChaCha20Rng::from_seed([7; 32]);
    let system = System::new();
    let now = Tick(59_500_000);

    // Bob makes a tree and shows its card.
    let mut tree = KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, now, rng)?;
    let shown = tree.card().as_bytes().to_vec();
    println!("Bob's card block has {} bytes", shown.len());

    // Alice seals for this minute. She needs no answer from Bob.
    let card = CardBlock::decode(&shown, BlockPolicy::Product)?;
    let envelope = EnvelopeKey::new(&system, &card.seal_key(now)?, now, rng)?;
    let envelope = envelope.seal(b"at the fountain", Bucket::SMALLEST, now)?;
    println!("Alice's envelope has {} bytes", envelope.as_bytes().len());

    // Bob opens it in time.
    let epoch = card.epoch_of(now)?;
    let mut held = HeldKeys::new();
    held.insert(tree.open_key(&system, epoch, rng)?);
    if let Trial::Opened(opened) = trial_open(&system, &held, envelope.as_bytes()) {
        println!("Bob reads: {}", String::from_utf8_lossy(&opened.payload));
    }

    // Bob has lent a gateway a key for a later half hour. With it the gateway recognises Bob's
    // envelopes, but cannot open them.
    let lent = tree.detect_key(epoch.plus(65), 4, rng)?;
    let (then, _) = lent.ticks();
    let later = EnvelopeKey::new(&system, &card.seal_key(then)?, then, rng)?;
    let later = later.seal(b"bring the map", Bucket::SMALLEST, then)?;
    let seen = detect_envelopes(&system, &lent, &[later.as_bytes()], then);
    println!("the gateway's key has {} bytes and says {:?}", lent.encode().len(), seen[0]);
    assert_eq!(seen, [Detected::Match(then)]);

    // Two epochs later the keys of the first epoch are erased, so that a thief of Bob's device
    // cannot open its envelopes either.
    tree.erase_below(epoch.plus(1), rng)?;
    if let Err(gone) = tree.open_key(&system, epoch, rng) {
        println!("the key of that minute: {gone}");
    }
    Ok(())
}
