//! Two people, from a published bundle to a conversation that has recovered from a theft of the
//! state.
//!
//! Run it with `cargo run -p mezza-ratchet --example two_parties`.
#![expect(clippy::print_stdout, reason = "it runs in a terminal")]

use mezza_core::{EphemeralKey, Machine, PortableBackend, StaticKey, Time};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Bundle, Conversation, IdentityKeyPair, OneTimePrekey, OpenError, Padding, Prekeys, SealError,
    SuiteList, safety,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

type Failure = Box<dyn std::error::Error>;
type Talk = Conversation<PortableBackend>;

fn main() -> Result<(), Failure> {
    // A program draws from the system; an example repeats itself.
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let now = Time::from_ms(1_800_000_000_000);
    let pairs: [_; 6] = core::array::from_fn(|_| EphemeralKey::random::<PortableBackend>(&mut rng));
    let [initiator, responder, base, turn_1, turn_2, turn_3] = pairs;
    let initiator = IdentityKeyPair::new(initiator.into_static());
    let responder = IdentityKeyPair::new(responder.into_static());

    // responder -> server: bundle (suite list, signed prekey), one-time keys
    let mut prekeys = Prekeys::new(responder.duplicate());
    let (bundle, one_time) = publish_prekeys(&mut prekeys, now, &mut rng)?;
    println!("published  {} B bundle, {} one-time keys", bundle.len(), one_time.len());

    // server -> initiator: bundle, one one-time key
    // The identity key and the list come from the card of the responder, never from the server.
    let checked =
        Bundle::decode(&bundle)?.check(&responder.public_key(), &SuiteList::our_suites(), now)?;
    let (session, _exporter) =
        checked.initiate_session(&initiator, base, one_time.first().copied(), &mut rng)?;
    let mut ours = Talk::new(initiator.public_key(), responder.public_key());
    let mut theirs = Talk::new(responder.public_key(), initiator.public_key());
    // The changes, like those of all later steps, must be on disk before a message is sent.
    let _changes = ours.add_session(session, now);

    // initiator -> responder: first message (identity, base key, ids, list, ratchet key 1)
    let hello = seal_text(&mut ours, "hello", Some(turn_1), now)?;
    let opened = theirs.open(&hello, &[], &responder, &mut prekeys, now)?;
    println!("opened     {} ({} B on the wire)", read_text(&opened.body), hello.len());

    // responder -> initiator: reply under ratchet key 2
    let reply = seal_text(&mut theirs, "good to hear from you", Some(turn_2), now)?;
    let mut none = Prekeys::new(initiator.duplicate());
    let opened = ours.open(&reply, &[], &initiator, &mut none, now)?;
    println!("opened     {} ({} B on the wire)", read_text(&opened.body), reply.len());

    // initiator -> responder: two messages under ratchet key 3, which arrive in the wrong order
    let one = seal_text(&mut ours, "one", Some(turn_3), now)?;
    let two = seal_text(&mut ours, "two", None, now)?;
    for message in [&two, &one] {
        let opened = theirs.open(message, &[], &responder, &mut prekeys, now)?;
        println!("opened     {}", read_text(&opened.body));
    }
    let again = theirs.open(&one, &[], &responder, &mut prekeys, now);
    println!("a repeat   {}", again.err().unwrap_or(OpenError::NoSession));

    // Both people compare this.
    println!("number     {}", safety::number(&initiator.public_key(), &responder.public_key()));
    Ok(())
}

/// Drives the prekey machine once: it asks for keys, stores and publishes them.
fn publish_prekeys(
    prekeys: &mut Prekeys,
    now: Time,
    rng: &mut ChaCha20Rng,
) -> Result<(Vec<u8>, Vec<OneTimePrekey>), Failure> {
    let mut published = (Vec::new(), Vec::new());
    prekeys.wake(now, rng);
    while let Some(output) = prekeys.poll() {
        match output {
            Output::Need { spk, opk } => {
                let mut draw =
                    |n| (0..n).map(|_| StaticKey::random::<PortableBackend>(rng)).collect();
                let fresh = Input::Fresh { spk: draw(spk), opk: draw(opk) };
                prekeys.handle(fresh, now, rng)?;
            }
            Output::Store(_rows) => {}
            Output::Publish { bundle, one_time, .. } => published = (bundle, one_time),
            Output::Low => println!("somebody drains the one-time keys"),
        }
    }
    Ok(published)
}

fn seal_text(
    talk: &mut Talk,
    body: &str,
    fresh: Option<EphemeralKey>,
    now: Time,
) -> Result<Vec<u8>, SealError> {
    let (message, _changes) = talk.seal(body.as_bytes(), &[], Padding::Blocks, fresh, now)?;
    Ok(message)
}

fn read_text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
