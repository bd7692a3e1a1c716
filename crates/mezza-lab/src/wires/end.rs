//! The two ends. The coins of a tampered initiator carry a secret.

use anyhow::{Result, anyhow, bail};
use mezza_core::CryptoRng;
use mezza_guard::coins::{Coins, Uniform};
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::elgamal::{Encryptor, KeyOwner};
use mezza_guard::{Group, Message, ViewDependent};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Connection, WireJob, hex, print_value};
use crate::asa::{RejectionSampling, element};
use crate::variant::Variant;

/// The hash of all keys of a run, which both ends print at the end.
#[derive(Default)]
struct Agreed(Sha256);

impl Agreed {
    fn add_key(&mut self, key: &[u8]) {
        self.0.update(key);
    }

    fn print_agreed(self, draws: u64) -> Result<()> {
        let digest: [u8; 32] = self.0.finalize().into();
        print_value(&json!({ "agreed": hex(&digest[..8]), "draws": draws }))
    }
}

/// Dials and begins `count` handshakes.
pub fn run_initiator<G: Group>(group: &G, variant: Variant, job: &WireJob) -> Result<()> {
    let mut wire = Connection::dial_next(job)?;
    let mut rng = ChaCha20Rng::seed_from_u64(job.seed);
    let mut agreed = Agreed::default();
    let mut tampered = make_tampered(variant, job)?;
    let mut honest = Uniform;
    for _ in 0..job.count {
        let coins: &mut dyn Coins<G> = match &mut tampered {
            Some(attack) => attack,
            None => &mut honest,
        };
        agreed.add_key(&begin_handshake(group, variant, &mut wire, coins, &mut rng)?);
    }
    agreed.print_agreed(tampered.map_or(0, |attack| attack.draws))
}

/// Makes the source of coins of a tampered initiator; `None` without an attack.
fn make_tampered(variant: Variant, job: &WireJob) -> Result<Option<RejectionSampling>> {
    let Some(attack) = &job.attack else { return Ok(None) };
    let Some(planted) = attack.planted_secret() else { return Ok(None) };
    let element =
        element::elements_of_variant(variant).find(|element| element.name == attack.element);
    let target = element.ok_or_else(|| anyhow!("no such element"))?.target;
    Ok(Some(RejectionSampling::new(attack.key(), planted, target, attack.sequence())))
}

/// Runs one handshake as the initiator. Returns its key.
fn begin_handshake<G: Group>(
    group: &G,
    variant: Variant,
    wire: &mut Connection,
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>> {
    match variant {
        Variant::Dh => {
            let (party, key) = DhParty::begin(group, coins, rng);
            wire.send_message(group, &key)?;
            let their = key_of(wire.receive_message(group)?)?;
            Ok(party.finish(group, their.seen())?.expose().to_vec())
        }
        Variant::DhComm => {
            let (committer, commitment) = Committer::begin(group, coins, rng);
            wire.send_message(group, &commitment)?;
            let their = key_of(wire.receive_message(group)?)?;
            let (opening, key) = committer.finish(group, their.seen())?;
            wire.send_message(group, &opening)?;
            Ok(key.expose().to_vec())
        }
        Variant::Eg => {
            let encryptor = Encryptor::new(group, &wire.receive_message(group)?)?;
            let text = group.power_g(&group.draw_nonzero(rng));
            wire.send_message(group, &encryptor.encrypt(group, &text, coins, rng))?;
            Ok(group.encode(&text))
        }
    }
}

/// Waits for `count` handshakes and responds to them.
pub fn run_responder<G: Group>(group: &G, variant: Variant, job: &WireJob) -> Result<()> {
    let mut wire = Connection::accept_one()?;
    let mut rng = ChaCha20Rng::seed_from_u64(job.seed);
    let mut agreed = Agreed::default();
    for _ in 0..job.count {
        agreed.add_key(&answer_handshake(group, variant, &mut wire, &mut rng)?);
    }
    agreed.print_agreed(0)
}

/// Runs one handshake as the responder. Returns its key.
fn answer_handshake<G: Group>(
    group: &G,
    variant: Variant,
    wire: &mut Connection,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>> {
    match variant {
        Variant::Dh => {
            let their = key_of(wire.receive_message(group)?)?;
            let (party, key) = DhParty::begin(group, &mut Uniform, rng);
            wire.send_message(group, &key)?;
            Ok(party.finish(group, their.seen())?.expose().to_vec())
        }
        Variant::DhComm => {
            let Message::Commitment(both) = wire.receive_message(group)? else {
                bail!("no commitment")
            };
            let commitment = both.map(|c| c.seen().clone());
            let (answerer, key) = Answerer::answer(group, commitment, &mut Uniform, rng);
            wire.send_message(group, &key)?;
            let Message::Opening(both) = wire.receive_message(group)? else { bail!("no opening") };
            let key = answerer.finish(group, both.each_ref().map(ViewDependent::seen))?;
            Ok(key.expose().to_vec())
        }
        Variant::Eg => {
            let (owner, key) = KeyOwner::generate(group, &mut Uniform, rng);
            wire.send_message(group, &key)?;
            let Message::Ciphertext(both) = wire.receive_message(group)? else {
                bail!("no ciphertext")
            };
            let text = owner.decrypt(group, both.each_ref().map(ViewDependent::seen));
            Ok(group.encode(&text))
        }
    }
}

fn key_of<G: Group>(message: Message<G>) -> Result<ViewDependent<G::Element>> {
    match message {
        Message::Key(key) => Ok(key),
        _ => bail!("no key"),
    }
}
