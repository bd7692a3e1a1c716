//! Somebody without a device who holds the keys of a session, and writes what no device writes.

use mezza_messenger::relay_wire::MailboxAddress;
use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, Machine as _, PortableBackend, PublicKey, StaticKey, Time};
use mezza_messenger::card::{Card, CardDraft, RelayEntry};
use mezza_messenger::envelope;
use mezza_messenger::note::{Era, Item, Kept, Note, NoteDigest, Receipt, RemoteMailbox};
use mezza_messenger::view::ContactState;
use mezza_messenger::{Command, ContactId, Input, MailboxId, RelayInput, RequestId};
use mezza_ratchet::{
    Bundle, Conversation, IdentityKeyPair, OneTimePrekey, Padding, Prekeys, SuiteList, prekeys,
};

pub use crate::keyed_peer::identity;
use crate::keyed_peer::{seal, wrap};
use crate::model::Ask;
use crate::stage::{START, Stage, relay};

/// The era of the peer's notes.
pub const ERA: Era = Era([9; 4]);
/// The peer's mailbox.
pub const MAILBOX: MailboxAddress = MailboxAddress([0xee; 16]);

pub struct Peer {
    pub identity: IdentityKeyPair,
    pub serial: u32,
    seal: StaticKey,
    prekeys: Prekeys,
    talk: Conversation<PortableBackend>,
    /// Where the device looks, and the key of its envelopes.
    to: (MailboxAddress, PublicKey),
    /// The notes that it has read, as its receipts name them.
    kept: Vec<(Era, u32, NoteDigest)>,
}

/// A note of the peer.
pub fn note(seq: u32, timer_s: u32, items: Vec<Item>) -> Note {
    Note { era: ERA, seq, sent: START, timer_s, items }
}

/// Returns the publication of these prekeys: a bundle, and one-time keys.
pub fn published(keys: &mut Prekeys, stage: &mut Stage) -> (Vec<u8>, Vec<OneTimePrekey>) {
    keys.wake(stage.now, &mut stage.rng);
    while let Some(output) = keys.poll() {
        match output {
            prekeys::Output::Need { spk, opk } => {
                let mut fresh = |n: usize| {
                    (0..n).map(|_| StaticKey::random::<PortableBackend>(&mut stage.rng)).collect()
                };
                let spk = fresh(spk);
                let opk = fresh(opk);
                let fresh = prekeys::Input::Fresh { spk, opk };
                keys.handle(fresh, stage.now, &mut stage.rng).expect("what was asked for");
            }
            prekeys::Output::Publish { bundle, one_time, .. } => return (bundle, one_time),
            _ => {}
        }
    }
    panic!("new prekeys are published")
}

pub fn text(text: &str) -> Item {
    Item::Text(text.into())
}

impl Peer {
    /// Somebody with a session to party 0, who has said nothing yet.
    pub fn new(stage: &mut Stage, scalar: u8) -> Self {
        let identity = identity(scalar);
        let card = stage.card(0);
        let address = card.relays()[0].address;
        let shelf = stage.relay.store.bundles.get_mut(&address).expect("published");
        let bundle = shelf.0.clone();
        let one_time = shelf.1.pop();
        let bundle = Bundle::decode(&bundle).expect("a bundle");
        let checked = bundle.check(card.ik(), card.suites(), stage.now).expect("sound");
        let to = (address, *checked.spk());
        let fresh = EphemeralKey::random::<PortableBackend>(&mut stage.rng);
        let begun = checked.initiate_session(&identity, fresh, one_time, &mut stage.rng);
        let mut talk = Conversation::new(identity.public_key(), *card.ik());
        let _ = talk.add_session(begun.expect("a session").0, stage.now);
        let prekeys = Prekeys::new(identity.duplicate());
        let seal = StaticKey::random::<PortableBackend>(&mut stage.rng);
        stage.relay.store.boxes.insert(MAILBOX, BTreeMap::new());
        Self { identity, serial: 70_000, seal, prekeys, talk, to, kept: Vec::new() }
    }

    /// Somebody whom party 0 has let in.
    pub fn open(stage: &mut Stage, scalar: u8) -> (Self, ContactId) {
        let mut peer = Self::new(stage, scalar);
        let hello = peer.hello(stage, relay());
        peer.put(stage, &note(1, 0, vec![hello, text("let me in")]));
        let contact = peer.contact(stage);
        stage.command(0, Command::Accept { contact }).expect("a request");
        assert_eq!(stage.standing(0, contact), ContactState::Open);
        peer.read(stage);
        (peer, contact)
    }

    /// Puts prekeys of the peer up at this address of the relay.
    pub fn publish(&mut self, stage: &mut Stage, address: MailboxAddress) {
        let bundle = published(&mut self.prekeys, stage);
        stage.relay.store.bundles.insert(address, bundle);
    }

    pub fn contact(&self, stage: &Stage) -> ContactId {
        let device = &stage.parties[0].device;
        device.contact_by_ik(self.identity.public_key().as_bytes()).expect("known to the device")
    }

    /// A hello with the peer's mailbox at `relay`.
    pub fn hello(&self, stage: &mut Stage, relay: RelayEntry) -> Item {
        let relay = RelayEntry { address: MAILBOX, ..relay };
        let slot = Some(RemoteMailbox { relay, seal: *self.seal.public_key() });
        Item::Hello { slot, tag: None, card: self.card(stage, "mallory", vec![]).encode() }
    }

    pub fn card(&self, stage: &mut Stage, name: &str, relays: Vec<RelayEntry>) -> Card {
        let serial = self.serial;
        let issued_days = START.as_days();
        let draft =
            CardDraft { serial, issued_days, suites: SuiteList::our_suites(), name, relays };
        Card::issue(&self.identity, draft, &mut stage.rng).expect("a sound card")
    }

    /// A message of the peer's session, whatever it says.
    pub fn message(&mut self, stage: &mut Stage, body: &[u8]) -> Vec<u8> {
        let sealed = seal(&mut self.talk, body, Padding::Blocks, stage.now, &mut stage.rng);
        sealed.expect("a session")
    }

    /// An envelope with this message for party 0, which need not be one.
    pub fn wrap(&self, stage: &mut Stage, message: &[u8]) -> Vec<u8> {
        wrap(self.to.0, self.to.1, message, &mut stage.rng).expect("it fits")
    }

    /// An envelope with a note for party 0.
    pub fn envelope(&mut self, stage: &mut Stage, note: &Note) -> Vec<u8> {
        let message = self.message(stage, &note.encode());
        self.wrap(stage, &message)
    }

    /// Sends party 0 a message, which need not be one.
    pub fn bring(&self, stage: &mut Stage, message: &[u8]) {
        let bytes = self.wrap(stage, message);
        stage.hears(Ask::Put(RequestId(1), self.to.0, bytes));
    }

    /// From now on the peer writes where the other one does.
    pub fn writes_where(&mut self, other: &Self) {
        self.to = other.to;
    }

    /// The mailbox of party 0 where the peer's mail arrives.
    pub fn slot(&self, stage: &Stage) -> MailboxId {
        stage.relay.watchers[&self.to.0].1
    }

    /// Sends party 0 a note.
    pub fn put(&mut self, stage: &mut Stage, note: &Note) {
        let bytes = self.envelope(stage, note);
        stage.hears(Ask::Put(RequestId(1), self.to.0, bytes));
    }

    /// The same as an input of party 0's device, past the relay.
    pub fn mail(&mut self, stage: &mut Stage, note: &Note) -> Input {
        let bytes = self.envelope(stage, note);
        RelayInput::Mail { mailbox: self.slot(stage), mail: 1, envelope: bytes }.into()
    }

    /// Takes what lies in the peer's mailbox, and goes where the device wants its mail.
    pub fn read(&mut self, stage: &mut Stage) -> Vec<Note> {
        let mails = stage.relay.store.boxes.get_mut(&MAILBOX).map(std::mem::take);
        let mut notes = Vec::new();
        for bytes in mails.expect("the peer's mailbox").into_values() {
            let parcel = envelope::open::<PortableBackend>(&MAILBOX, &self.seal, &bytes);
            let parcel = parcel.expect("an envelope for the peer");
            let identity = &self.identity;
            let prekeys = &mut self.prekeys;
            let opened = self.talk.open(&parcel[1..], &[], identity, prekeys, stage.now);
            let note = Note::decode(&opened.expect("it opens").body).expect("a note");
            for item in &note.items {
                if let Item::Hello { slot: Some(slot), .. } = item {
                    self.to = (slot.relay.address, slot.seal);
                }
            }
            if let Some(Item::Text(text)) = note.items.last() {
                self.kept.push((note.era, note.seq, NoteDigest::from_text(note.sent, text)));
            }
            notes.push(note);
        }
        notes
    }

    /// A receipt for what it has read up to `floor`, with what that was.
    pub fn receipt(&self, what: u8, floor: u32) -> Vec<Item> {
        let (era, ..) = *self.kept.last().expect("it has read a note");
        let mine = self.kept.iter().filter(|note| note.0 == era && note.1 <= floor);
        let notes = mine.map(|(_, seq, digest)| (*seq, *digest)).collect();
        vec![receipt(era, what, floor), Item::Kept(Kept { era, notes })]
    }
}

/// Returns the digests of notes of party 0: all of them written at one time, with one text.
pub fn kept(era: Era, seqs: impl Iterator<Item = u32>, sent: Time, text: &str) -> Item {
    Item::Kept(Kept {
        era,
        notes: seqs.map(|seq| (seq, NoteDigest::from_text(sent, text))).collect(),
    })
}

/// A receipt for own notes of party 0 up to `floor`.
pub fn receipt(era: Era, what: u8, floor: u32) -> Item {
    Item::Receipt(Receipt { what, era, floor, base: 0, bits: 0 })
}

/// The receipts in what a device wrote.
pub fn receipts(notes: &[Note]) -> Vec<&Receipt> {
    let items = notes.iter().flat_map(|note| &note.items);
    let receipts = items.filter_map(|item| match item {
        Item::Receipt(receipt) => Some(receipt),
        _ => None,
    });
    receipts.collect()
}
