//! One handshake in memory: a tampered initiator, its firewall, an untouched peer.

use anyhow::{Result, bail, ensure};
use mezza_core::CryptoRng;
use mezza_guard::coins::{Coins, Uniform};
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::elgamal::{Encryptor, KeyOwner};
use mezza_guard::firewall::AnyFirewall;
use mezza_guard::{Group, Message, ViewDependent};

use crate::variant::Variant;

/// The firewall between the initiator and the wire, and the messages that an observer of the wire saw.
pub struct Wall<G: Group> {
    firewall: Option<AnyFirewall<G>>,
    went_out: Vec<Message<G>>,
}

impl<G: Group> Wall<G> {
    fn pass_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>> {
        let message = match &mut self.firewall {
            Some(firewall) => firewall.change_outgoing(message, rng)?,
            None => message,
        };
        self.went_out.push(message.clone());
        Ok(message)
    }

    fn pass_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>> {
        match &mut self.firewall {
            Some(firewall) => Ok(firewall.change_incoming(message, rng)?),
            None => Ok(message),
        }
    }
}

/// Runs one handshake. Returns the outgoing messages as an observer sees them.
///
/// # Errors
/// If a firewall or the peer refuses, or both ends derive different keys.
pub fn run_handshake<G: Group>(
    group: &G,
    variant: Variant,
    firewall: Option<AnyFirewall<G>>,
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<Message<G>>> {
    let mut wall = Wall { firewall, went_out: Vec::new() };
    let agree = match variant {
        Variant::Dh => {
            let (own, a) = DhParty::begin(group, coins, rng);
            let a = key_of(wall.pass_outgoing(a, rng)?)?;
            let (peer, b) = DhParty::begin(group, &mut Uniform, rng);
            let b = key_of(wall.pass_incoming(b, rng)?)?;
            own.finish(group, b.seen())? == peer.finish(group, a.seen())?
        }
        Variant::DhComm => {
            let (own, commitment) = Committer::begin(group, coins, rng);
            let Message::Commitment(both) = wall.pass_outgoing(commitment, rng)? else {
                bail!("no commitment")
            };
            let commitment = both.map(|c| c.seen().clone());
            let (peer, a) = Answerer::answer(group, commitment, &mut Uniform, rng);
            let a = key_of(wall.pass_incoming(a, rng)?)?;
            let (opening, key) = own.finish(group, a.seen())?;
            let Message::Opening(both) = wall.pass_outgoing(opening, rng)? else {
                bail!("no opening")
            };
            peer.finish(group, both.each_ref().map(ViewDependent::seen))? == key
        }
        Variant::Eg => {
            let (peer, key) = KeyOwner::generate(group, &mut Uniform, rng);
            let encryptor = Encryptor::new(group, &wall.pass_incoming(key, rng)?)?;
            let text = group.power_g(&group.draw_nonzero(rng));
            let ciphertext = encryptor.encrypt(group, &text, coins, rng);
            let Message::Ciphertext(both) = wall.pass_outgoing(ciphertext, rng)? else {
                bail!("no ciphertext")
            };
            peer.decrypt(group, both.each_ref().map(ViewDependent::seen)) == text
        }
    };
    ensure!(agree, "the ends do not agree");
    Ok(wall.went_out)
}

/// Returns the element in a key message.
fn key_of<G: Group>(message: Message<G>) -> Result<ViewDependent<G::Element>> {
    match message {
        Message::Key(key) => Ok(key),
        _ => bail!("no key"),
    }
}
