//! Runs of the variants through any firewalls on both sides.

use mezza_core::CryptoRng;
use mezza_guard::coins::{Coins, Uniform};
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::elgamal::{Encryptor, KeyOwner};
use mezza_guard::firewall::{
    AnsweringFirewall, AnyFirewall, CommittingFirewall, DhFirewall, KeyMaulFirewall,
    ReMaulFirewall, RerandFirewall, Stack,
};
use mezza_guard::{Firewall as _, Group, Message, ViewDependent};

/// The firewalls of one end.
pub type Wall<G> = Stack<G>;

/// `k` firewalls of a kind.
pub fn wall<G: Group + 'static>(k: usize, one: impl Fn() -> AnyFirewall<G>) -> Wall<G> {
    Stack::new((0..k).map(|_| one()))
}

/// `k` firewalls of Diffie-Hellman.
pub fn dh_wall<G: Group + 'static>(group: &G, k: usize) -> Wall<G> {
    wall(k, || Box::new(DhFirewall::new(group.clone())))
}

/// `k` firewalls of the end that commits.
pub fn committing_wall<G: Group + 'static>(group: &G, k: usize) -> Wall<G> {
    wall(k, || Box::new(CommittingFirewall::new(group.clone())))
}

/// `k` firewalls of the end that answers.
pub fn answering_wall<G: Group + 'static>(group: &G, k: usize) -> Wall<G> {
    wall(k, || Box::new(AnsweringFirewall::new(group.clone())))
}

/// `k` firewalls of a key owner.
pub fn owner_wall<G: Group + 'static>(group: &G, k: usize) -> Wall<G> {
    wall(k, || Box::new(KeyMaulFirewall::new(group.clone())))
}

/// `k` firewalls of an encryptor.
pub fn encryptor_wall<G: Group + 'static>(group: &G, k: usize, remauls: bool) -> Wall<G> {
    wall(k, || {
        if remauls {
            Box::new(ReMaulFirewall::new(group.clone()))
        } else {
            Box::new(RerandFirewall::new(group.clone()))
        }
    })
}

/// Carries a message from one end through both walls to the other.
pub fn carry<G: Group>(
    group: &G,
    message: Message<G>,
    [from, to]: [&mut Wall<G>; 2],
    rng: &mut dyn CryptoRng,
) -> Message<G> {
    let out = from.change_outgoing(message, rng).expect("the own wall lets it out");
    // The wire holds bytes.
    let wire = Message::decode(group, &out.encode(group)).expect("a message of the group");
    to.change_incoming(wire, rng).expect("the other wall lets it in")
}

/// The element of a key.
pub fn key_of<G: Group>(message: &Message<G>) -> &G::Element {
    let Message::Key(key) = message else { panic!("no key") };
    key.seen()
}

/// Both elements of a commitment.
pub fn commitment_of<G: Group>(message: &Message<G>) -> [G::Element; 2] {
    let Message::Commitment(both) = message else { panic!("no commitment") };
    both.each_ref().map(|c| c.seen().clone())
}

/// Both scalars of an opening.
pub fn opening_of<G: Group>(message: &Message<G>) -> [&G::Scalar; 2] {
    let Message::Opening(both) = message else { panic!("no opening") };
    both.each_ref().map(ViewDependent::seen)
}

/// Both elements of a ciphertext.
pub fn ciphertext_of<G: Group>(message: &Message<G>) -> [&G::Element; 2] {
    let Message::Ciphertext(both) = message else { panic!("no ciphertext") };
    both.each_ref().map(ViewDependent::seen)
}

/// Diffie-Hellman; whether both ends have one key.
pub fn dh_agrees<G: Group>(
    group: &G,
    mut walls: [Wall<G>; 2],
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> bool {
    let [own, their] = &mut walls;
    let (alice, a) = DhParty::begin(group, coins, rng);
    let (bob, b) = DhParty::begin(group, &mut Uniform, rng);
    let a = carry(group, a, [own, their], rng);
    let b = carry(group, b, [their, own], rng);
    alice.finish(group, key_of(&b)) == bob.finish(group, key_of(&a))
}

/// Diffie-Hellman with a commitment; whether both ends have one key.
pub fn comm_agrees<G: Group>(
    group: &G,
    mut walls: [Wall<G>; 2],
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> bool {
    let [own, their] = &mut walls;
    let (committer, commitment) = Committer::begin(group, coins, rng);
    let commitment = commitment_of(&carry(group, commitment, [own, their], rng));
    let (answerer, a) = Answerer::answer(group, commitment, &mut Uniform, rng);
    let a = carry(group, a, [their, own], rng);
    let (opening, key) = committer.finish(group, key_of(&a)).expect("a proper key");
    let opening = carry(group, opening, [own, their], rng);
    answerer.finish(group, opening_of(&opening)).expect("an opening that fits") == key
}

/// El-Gamal: the encryptor's wall first; whether the owner reads what was encrypted.
pub fn eg_agrees<G: Group>(
    group: &G,
    mut walls: [Wall<G>; 2],
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> bool {
    let [encryptors, owners] = &mut walls;
    let (owner, key) = KeyOwner::generate(group, &mut Uniform, rng);
    let key = carry(group, key, [owners, encryptors], rng);
    let text = group.power_g(&group.draw_nonzero(rng));
    let encryptor = Encryptor::new(group, &key).expect("a proper key");
    let ciphertext = encryptor.encrypt(group, &text, coins, rng);
    let ciphertext = carry(group, ciphertext, [encryptors, owners], rng);
    owner.decrypt(group, ciphertext_of(&ciphertext)) == text
}
