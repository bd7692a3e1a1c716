//! Runs the cases of `vectors/guard/modp-*.txt`: the variants and their firewalls over group 15, as
//! computed by the second implementation.

use std::collections::BTreeMap;

use mezza_guard::coins::GivenCoins;
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::elgamal::{Encryptor, KeyOwner};
use mezza_guard::firewall::{
    AnsweringFirewall, AnyFirewall, CommittingFirewall, DhFirewall, KeyMaulFirewall,
    ReMaulFirewall, RerandFirewall, Stack,
};
use mezza_guard::{Firewall as _, Group as _, Message, ViewDependent};
use mezza_testing::{Case, read_cases};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::group::ModpScalar;
use super::{BYTES, Modp, Profile};

/// A case, its group, and the firewalls at both ends.
struct ModpCase<'a> {
    fields: &'a Case,
    group: &'a Modp,
    /// The generator; not used by cases that specify all coins.
    rng: ChaCha20Rng,
    own: Stack<Modp>,
    their: Stack<Modp>,
}

impl<'a> ModpCase<'a> {
    fn new(fields: &'a Case, group: &'a Modp) -> Self {
        let [own, their] = [(); 2].map(|()| Stack::new([]));
        Self { fields, group, rng: ChaCha20Rng::seed_from_u64(0), own, their }
    }

    fn scalars(&self, keys: &[&str]) -> Vec<ModpScalar> {
        let bytes: Vec<u8> = keys.iter().flat_map(|key| self.fields.bytes(key)).collect();
        bytes.chunks_exact(BYTES).map(|scalar| self.group.decode_scalar(scalar).unwrap()).collect()
    }

    fn coins(&self, keys: &[&str]) -> GivenCoins<ModpScalar> {
        GivenCoins::new(self.scalars(keys))
    }

    fn same(&self, keys: &[&str], message: &Message<Modp>) {
        for (key, field) in keys.iter().zip(message.encode_fields(self.group)) {
            self.fields.assert_bytes(key, &field);
        }
    }

    fn expect(&self, is_ok: bool) {
        assert_eq!(is_ok, self.fields.text("expect") == "ok", "{}", self.fields.name());
    }

    /// Passes a message from the end that is named first in the case to the other end, through both
    /// firewalls.
    fn there(&mut self, message: Message<Modp>) -> Message<Modp> {
        let message = self.own.change_outgoing(message, &mut self.rng).unwrap();
        self.their.change_incoming(message, &mut self.rng).unwrap()
    }

    /// Passes a message in the opposite direction.
    fn back(&mut self, message: Message<Modp>) -> Message<Modp> {
        let message = self.their.change_outgoing(message, &mut self.rng).unwrap();
        self.own.change_incoming(message, &mut self.rng).unwrap()
    }

    fn dh(&mut self) {
        let wall = |coin| -> AnyFirewall<Modp> {
            Box::new(DhFirewall::with_coins(self.group.clone(), GivenCoins::new([coin])))
        };
        self.own = Stack::new(self.scalars(&["coins"]).into_iter().map(wall));
        let (alice, a) = DhParty::begin(self.group, &mut self.coins(&["a"]), &mut self.rng);
        let (bob, b) = DhParty::begin(self.group, &mut self.coins(&["b"]), &mut self.rng);
        self.same(&["A"], &a);
        let a = self.there(a);
        let b = self.back(b);
        self.same(&["A_wire"], &a);
        self.same(&["B_seen"], &b);
        let (Message::Key(a), Message::Key(b)) = (a, b) else { panic!("keys") };
        for key in [alice.finish(self.group, b.seen()), bob.finish(self.group, a.seen())] {
            self.fields.assert_bytes("key", key.unwrap().expose());
        }
    }

    fn comm(&mut self) {
        let wall = self.fields.text("wall");
        if ["committing", "both"].contains(&wall) {
            let coins = self.coins(&["coins"]);
            let wall = CommittingFirewall::with_coins(self.group.clone(), coins);
            self.own = Stack::new([Box::new(wall) as AnyFirewall<Modp>]);
        }
        if ["answering", "both"].contains(&wall) {
            let coins = self.coins(&["beta"]);
            let wall = AnsweringFirewall::with_coins(self.group.clone(), coins);
            self.their = Stack::new([Box::new(wall) as AnyFirewall<Modp>]);
        }
        let coins = &mut self.coins(&["x", "r", "s"]);
        let (committer, commitment) = Committer::begin(self.group, coins, &mut self.rng);
        self.same(&["C1", "C2"], &commitment);
        let commitment = self.there(commitment);
        self.same(&["C1_seen", "C2_seen"], &commitment);
        let Message::Commitment(both) = commitment else { panic!("a commitment") };
        let both = both.map(|c| *c.seen());
        let coins = &mut self.coins(&["a"]);
        let (answerer, a) = Answerer::answer(self.group, both, coins, &mut self.rng);
        let a = self.back(a);
        self.same(&["A_seen"], &a);
        let Message::Key(a) = a else { panic!("a key") };
        let (opening, key) = committer.finish(self.group, a.seen()).unwrap();
        self.fields.assert_bytes("key", key.expose());
        let opening = self.there(opening);
        self.same(&["r_seen", "s_seen"], &opening);
        let Message::Opening(both) = opening else { panic!("an opening") };
        let key = answerer.finish(self.group, both.each_ref().map(ViewDependent::seen));
        self.fields.assert_bytes("key", key.unwrap().expose());
    }

    fn eg(&mut self) {
        let group = self.group.clone();
        let coins = self.coins(&["coins"]);
        let at = |wall| Stack::<Modp>::new([wall]);
        match self.fields.text("wall") {
            "rerand" => self.own = at(Box::new(RerandFirewall::with_coins(group, coins))),
            "remaul" => self.own = at(Box::new(ReMaulFirewall::with_coins(group, coins))),
            "key-maul" => self.their = at(Box::new(KeyMaulFirewall::with_coins(group, coins))),
            wall => assert_eq!(wall, "none"),
        }
        let (owner, key) = KeyOwner::generate(self.group, &mut self.coins(&["a"]), &mut self.rng);
        self.same(&["h"], &key);
        let key = self.back(key);
        let text = self.group.decode(&self.fields.bytes("m")).unwrap();
        let encryptor = Encryptor::new(self.group, &key).unwrap();
        let coins = &mut self.coins(&["b"]);
        let ciphertext = encryptor.encrypt(self.group, &text, coins, &mut self.rng);
        let ciphertext = self.there(ciphertext);
        self.same(&["c0", "c1"], &ciphertext);
        let Message::Ciphertext(both) = ciphertext else { panic!("a ciphertext") };
        assert!(owner.decrypt(self.group, both.each_ref().map(ViewDependent::seen)) == text);
    }
}

#[test]
fn slow_every_vector_of_group_15_comes_out() {
    let (group, mut seen) = (Modp::new(Profile::Safe, true), BTreeMap::<String, u32>::new());
    for case in read_cases("guard", 27) {
        let Some(kind) = case.text("kind").strip_prefix("modp-") else { continue };
        let mut case = ModpCase::new(&case, &group);
        match kind {
            "group" => {
                case.fields.assert_bytes("p", group.p().as_ref().to_be_bytes().as_ref());
                case.fields.assert_bytes("g", &group.encode(&group.g()));
                case.fields.assert_bytes("h", &group.encode(&group.h()));
            }
            "element" => case.expect(group.decode(&case.fields.bytes("bytes")).is_ok()),
            "scalar" => case.expect(group.decode_scalar(&case.fields.bytes("bytes")).is_ok()),
            "dh" => case.dh(),
            "comm" => case.comm(),
            "eg" => case.eg(),
            kind => panic!("unknown kind {kind}"),
        }
        *seen.entry(kind.to_owned()).or_default() += 1;
    }
    let counts: Vec<(&str, u32)> = seen.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
    let expected =
        [("comm", 4), ("dh", 3), ("eg", 4), ("element", 12), ("group", 1), ("scalar", 3)];
    assert_eq!(counts, expected);
}
