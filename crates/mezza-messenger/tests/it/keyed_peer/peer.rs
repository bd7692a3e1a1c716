//! Somebody without a device who has all that a device has: identity, prekeys, sessions. What it
//! seals opens, whatever it says.

use mezza_core::{
    Blake2b512, EphemeralKey, Machine, PortableBackend, PublicKey, Secret, StaticKey, Time,
    labelled_hash,
};
use mezza_messenger::RequestId;
use mezza_messenger::card::{Card, CardDraft, RelayEntry};
use mezza_messenger::envelope::{self, EnvelopeError};
use mezza_messenger::note::{Item, Note, RemoteMailbox};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_ratchet::{
    Bundle, Conversation, IdentityKeyPair, OneTimePrekey, Padding, Prekeys, SealError, SuiteList,
    prekeys, wire,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::model::{Ask, Model, Told};
use crate::stage::{START, relay};

/// The number of a peer at the relay.
const WHO: usize = 9;

pub struct Peer {
    pub identity: IdentityKeyPair,
    pub cards: Vec<Card>,
    prekeys: Prekeys,
    talk: Conversation<PortableBackend>,
    rng: ChaCha20Rng,
    /// Where it can be written to first, and where from then on.
    pub intro: MailboxAddress,
    pub slot: RemoteMailbox,
    seal: StaticKey,
    /// Where the device is written to: its intro mailbox under a signed prekey, or its slot.
    to: Option<(MailboxAddress, PublicKey)>,
    pub seq: u32,
}

/// An identity out of one byte.
pub fn identity(scalar: u8) -> IdentityKeyPair {
    IdentityKeyPair::new(StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| {
        s.fill(scalar);
    })))
}

/// The next message of somebody without a device.
pub fn seal(
    talk: &mut Conversation<PortableBackend>,
    body: &[u8],
    padding: Padding,
    now: Time,
    rng: &mut ChaCha20Rng,
) -> Result<Vec<u8>, SealError> {
    let fresh = talk.needs_ephemeral().then(|| EphemeralKey::random::<PortableBackend>(rng));
    talk.seal(body, &[], padding, fresh, now).map(|(message, _)| message)
}

/// An envelope with this message, which need not be one, for a mailbox with this key.
pub fn wrap(
    address: MailboxAddress,
    key: PublicKey,
    message: &[u8],
    rng: &mut ChaCha20Rng,
) -> Result<Vec<u8>, EnvelopeError> {
    let parcel = [&[1], message].concat();
    let fresh = EphemeralKey::random::<PortableBackend>(rng);
    envelope::seal::<PortableBackend>(&address, &key, &parcel, fresh)
}

/// One card in forms with one of its parts each: kinds and contents. Together they may be longer
/// than a card.
pub fn forms(identity: &IdentityKeyPair, serial: u32, parts: &[(u8, Vec<u8>)]) -> Vec<Card> {
    let mut rng = ChaCha20Rng::seed_from_u64(u64::from(serial));
    let draft = CardDraft {
        serial,
        issued_days: START.as_days(),
        suites: SuiteList::our_suites(),
        name: "mallory",
        relays: Vec::new(),
    };
    let plain = Card::issue(identity, draft, &mut rng).expect("a sound card").encode();
    let mut head = plain[..plain.len() - 64].to_vec();
    assert_eq!(head.pop(), Some(0), "no parts");
    head.push(parts.len() as u8);
    for (kind, part) in parts {
        head.push(*kind);
        head.extend_from_slice(&(part.len() as u16).to_be_bytes());
        head.extend_from_slice(&labelled_hash::<16>("mezza/part", &[&[*kind], part]));
    }
    let signature = identity.sign::<Blake2b512>(&[b"mezza card 1", &head], &mut rng);
    head.extend_from_slice(&signature);
    let form =
        |(_, part): &(u8, Vec<u8>)| Card::decode(&[&head[..], part].concat()).expect("a form");
    parts.iter().map(form).collect()
}

/// The relay part of a card.
pub fn relay_part(entry: &RelayEntry) -> Vec<u8> {
    let host = entry.host.as_bytes();
    let port = entry.port.to_be_bytes();
    [&[1], &entry.key.0[..], &entry.address.0, &port, &[host.len() as u8], host].concat()
}

impl Peer {
    /// A peer that can be written to at the relay.
    pub fn new(scalar: u8, victim: &Card, relay_model: &mut Model) -> Self {
        let identity = identity(scalar);
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(scalar));
        let intro = MailboxAddress([0xc0 + scalar; 16]);
        let entry = RelayEntry { address: intro, ..relay() };
        let long = RelayEntry { host: "a.".repeat(120) + "example", ..entry.clone() };
        let parts = |entry: &RelayEntry, sizes: [usize; 3]| {
            let mut parts = vec![(1, relay_part(entry)), (2, vec![scalar; 48])];
            parts.extend((3_u8..).zip(sizes).map(|(kind, size)| (kind, vec![kind; size])));
            parts
        };
        let mut cards = forms(&identity, 70_000, &parts(&entry, [400, 300, 300]));
        cards.extend(forms(&identity, 70_000, &parts(&long, [10, 20, 30])));
        cards.extend(forms(&identity, 70_001, &parts(&long, [300, 250, 300])));
        cards.extend(forms(&identity, u32::MAX, &parts(&entry, [600, 500, 400])));
        let seal = StaticKey::random::<PortableBackend>(&mut rng);
        let slot = RemoteMailbox {
            relay: RelayEntry { address: MailboxAddress([0xe0 + scalar; 16]), ..relay() },
            seal: *seal.public_key(),
        };
        for address in [intro, slot.relay.address] {
            relay_model.store.boxes.entry(address).or_default();
        }
        let talk = Conversation::new(identity.public_key(), *victim.ik());
        let prekeys = Prekeys::new(identity.duplicate());
        let to = None;
        let seq = 0;
        Self { identity, cards, prekeys, talk, rng, intro, slot, seal, to, seq }
    }

    /// Puts prekeys up, with this one-time key beside them.
    pub fn publish(&mut self, one_time: Option<OneTimePrekey>, now: Time, relay_model: &mut Model) {
        let _ = self.prekeys.handle(prekeys::Input::Rotate, now, &mut self.rng);
        while let Some(output) = self.prekeys.poll() {
            match output {
                prekeys::Output::Need { spk, opk } => {
                    let mut draw = |n| {
                        (0..n)
                            .map(|_| StaticKey::random::<PortableBackend>(&mut self.rng))
                            .collect()
                    };
                    let fresh = prekeys::Input::Fresh { spk: draw(spk), opk: draw(opk.min(1)) };
                    let _ = self.prekeys.handle(fresh, now, &mut self.rng);
                }
                prekeys::Output::Publish { bundle, one_time: own, .. } => {
                    let keys = one_time.map_or(own, |bad| vec![bad]);
                    relay_model.store.bundles.insert(self.intro, (bundle, keys));
                }
                _ => {}
            }
        }
    }

    /// Begins a session with the device, by its bundle at the relay.
    pub fn begin(&mut self, victim: &Card, relay_model: &mut Model, now: Time) {
        let Some(address) = victim.relays().first().map(|relay| relay.address) else { return };
        let Some((bundle, keys)) = relay_model.store.bundles.get_mut(&address) else { return };
        let one_time = keys.pop();
        let checked = Bundle::decode(bundle)
            .and_then(|bundle| bundle.check(victim.ik(), victim.suites(), now));
        let Ok(checked) = checked else { return };
        let spk = *checked.spk();
        let fresh = EphemeralKey::random::<PortableBackend>(&mut self.rng);
        if let Ok((session, _)) =
            checked.initiate_session(&self.identity, fresh, one_time, &mut self.rng)
        {
            let _ = self.talk.add_session(session, now);
            self.to = Some((address, spk));
        }
    }

    /// Seals whatever the body is, and puts it where the device looks.
    pub fn send(&mut self, body: &[u8], relay_model: &mut Model, now: Time) -> Vec<Told> {
        let Some((address, key)) = self.to else { return Vec::new() };
        let Ok(message) = seal(&mut self.talk, body, Padding::Blocks, now, &mut self.rng) else {
            return Vec::new();
        };
        let Ok(bytes) = wrap(address, key, &message, &mut self.rng) else { return Vec::new() };
        let (early, late) = relay_model.ask(WHO, Ask::Put(RequestId(1), address, bytes));
        early.into_iter().chain(late).collect()
    }

    /// Reads what the device has sent, and goes on in its sessions. How many opened.
    pub fn read(&mut self, relay_model: &mut Model, now: Time) -> usize {
        let mut opened = 0;
        for address in [self.intro, self.slot.relay.address] {
            let mails = relay_model.store.boxes.insert(address, std::collections::BTreeMap::new());
            for bytes in mails.into_iter().flat_map(std::collections::BTreeMap::into_values) {
                let parcel = {
                    let open = |own| envelope::open::<PortableBackend>(&address, own, &bytes);
                    let own = self.prekeys.signed_prekeys().map(|(_, _, pair)| pair);
                    own.chain([&self.seal]).find_map(open)
                };
                let Some([1, message @ ..]) = parcel.as_deref() else { continue };
                let _ = wire::first_identity(message);
                let note = self.talk.open(message, &[], &self.identity, &mut self.prekeys, now);
                let Ok(note) = note else { continue };
                opened += 1;
                for item in Note::decode(&note.body).map_or(Vec::new(), |note| note.items) {
                    if let Item::Hello { slot: Some(slot), .. } = item {
                        self.to = Some((slot.relay.address, slot.seal));
                    }
                }
            }
        }
        opened
    }
}
