//! The parties of the world: devices that one relay serves, each with its disk.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{CryptoRng, Machine, PortableBackend, Time};
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    Command, ContactId, Device, Event, Input, Output, RecordChange, RecordKind, RelayInput,
};
use mezza_sim::{Effect, Host, HostId};

use crate::model::{Ask, Model, Store, Tell};
use crate::stage::{self, Disk, connection, drain, load, write};

/// The relay is added first.
pub const AT: HostId = HostId(0);
/// Until a lost connection is tried again: doubled each time.
const AGAIN_MS: (u64, u64) = (1_000, 600_000);

/// The state that survives a crash.
pub enum Memory {
    Person(Disk),
    Relay(Store),
}

/// One atomic change of it.
pub enum Put {
    Records(Vec<RecordChange>),
    Boxes(Store),
}

/// A packet under way.
#[derive(Clone)]
pub enum Packet {
    Ask(Ask),
    Tell(Tell),
}

/// An action of a user.
pub struct Say {
    pub contact: ContactId,
    pub client: [u8; 16],
    pub text: String,
}

/// Parties of the world.
pub enum Party {
    Person(Box<Person>),
    Relay(Model, VecDeque<Effect<Party>>),
}

/// A device and its connection.
pub struct Person {
    pub device: Device<PortableBackend>,
    again_at: Option<Time>,
    again_ms: u64,
    effects: VecDeque<Effect<Party>>,
}

/// A fresh device as records, ready to be booted.
pub fn newborn(name: &str, now: Time, rng: &mut dyn CryptoRng) -> Disk {
    let mut disk = Disk::new();
    drain(&mut stage::newborn(name, now, rng), &mut disk);
    disk
}

impl Person {
    fn input(&mut self, input: Input, now: Time, rng: &mut dyn CryptoRng) {
        // Answers to requests of an older connection are refused, which changes nothing.
        let _ = self.device.handle(input, now, rng);
        self.drain(now, rng);
    }

    fn drain(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.device.poll() {
            match output {
                Output::Store(batch) => {
                    self.effects.push_back(Effect::Write(Put::Records(batch.0)));
                }
                Output::Notify(event) => self.effects.push_back(Effect::Tell(event)),
                output @ (Output::Carrier(_) | Output::Durable(..)) => {
                    let Some(ask) = Ask::from_output(output) else { continue };
                    self.effects.push_back(Effect::Send { to: AT, packet: Packet::Ask(ask) });
                }
            }
        }
        // Everybody in this world is let in at once.
        let contacts = self.device.contacts().into_iter();
        let mut asking = contacts.filter(|view| view.standing == ContactState::Request);
        if let Some(view) = asking.next() {
            let accept = Command::Accept { contact: view.id };
            self.input(Input::Command(accept), now, rng);
        }
    }
}

impl Host for Party {
    type Disk = Memory;
    type Write = Put;
    type Packet = Packet;
    type Order = Say;
    type News = Event;

    fn boot(memory: &Memory, now: Time, rng: &mut dyn CryptoRng) -> Self {
        match memory {
            Memory::Relay(store) => {
                let model = Model { life: rng.next_u32(), ..Model::new(store.clone()) };
                Self::Relay(model, VecDeque::new())
            }
            Memory::Person(disk) => {
                let device = load(disk, now, rng);
                let effects = VecDeque::new();
                let mut person = Person { device, again_at: None, again_ms: 0, effects };
                person.drain(now, rng);
                Self::Person(Box::new(person))
            }
        }
    }

    fn apply_order(&mut self, say: Say, now: Time, rng: &mut dyn CryptoRng) {
        let Self::Person(person) = self else { return };
        let Say { contact, client, text } = say;
        person.input(Input::Command(Command::Send { contact, client, text, life: None }), now, rng);
    }

    fn deliver_packet(&mut self, from: HostId, packet: Packet, now: Time, rng: &mut dyn CryptoRng) {
        match (self, packet) {
            (Self::Person(person), Packet::Tell(tell)) => {
                person.again_ms = 0;
                person.input(tell.into_input(connection()), now, rng);
            }
            (Self::Relay(model, effects), Packet::Ask(ask)) => {
                let who = from.0 as usize;
                let quiet = matches!(ask, Ask::Hello | Ask::Watch(..));
                // Push before commit; DONE behind it.
                let (early, late) = model.ask(who, ask);
                effects.extend(early.into_iter().map(|(who, say)| tell(who, say)));
                if !quiet {
                    effects.push_back(Effect::Write(Put::Boxes(model.store.clone())));
                }
                effects.extend(late.into_iter().map(|(who, say)| tell(who, say)));
            }
            _ => unreachable!("devices ask and relays tell"),
        }
    }

    fn stream_lost(&mut self, peer: HostId, now: Time, rng: &mut dyn CryptoRng) {
        match self {
            Self::Relay(model, _) => drop(model.leave(peer.0 as usize)),
            Self::Person(person) => {
                person.input(RelayInput::Down { connection: connection() }.into(), now, rng);
                person.again_ms = (2 * person.again_ms).clamp(AGAIN_MS.0, AGAIN_MS.1);
                person.again_at = Some(now.plus_ms(person.again_ms));
            }
        }
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let Self::Person(person) = self else { return };
        if person.again_at.is_some_and(|at| at <= now) {
            person.again_at = None;
            let packet = Packet::Ask(Ask::Hello);
            person.effects.push_back(Effect::Send { to: AT, packet });
        }
        person.device.wake(now, rng);
        person.drain(now, rng);
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Relay(..) => None,
            Self::Person(person) => {
                person.device.deadline().into_iter().chain(person.again_at).min()
            }
        }
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        match self {
            Self::Relay(_, effects) => effects.pop_front(),
            Self::Person(person) => person.effects.pop_front(),
        }
    }

    fn apply_write(memory: &mut Memory, put: Put) {
        match (memory, put) {
            (Memory::Person(disk), Put::Records(changes)) => write(disk, changes),
            (Memory::Relay(store), Put::Boxes(boxes)) => *store = boxes,
            _ => unreachable!("each party writes its own kind"),
        }
    }
}

fn tell(who: usize, tell: Tell) -> Effect<Party> {
    Effect::Send { to: HostId(who as u32), packet: Packet::Tell(tell) }
}

/// One place of one chain: ratchet key and number.
pub type Link = ([u8; 32], [u8; 3]);

/// Every ratchet message that lies in a disk, by ratchet key and number: what a chain key sealed.
pub fn sealed(disk: &Disk) -> BTreeMap<Link, Vec<u8>> {
    let parcels = disk.iter().filter(|((kind, _), _)| *kind == RecordKind::Parcel);
    parcels.filter_map(|(_, record)| header(record)).collect()
}

/// The parcel stands at the end of its record, behind its length.
fn header(record: &[u8]) -> Option<(Link, Vec<u8>)> {
    let ends = |at: &usize| {
        let len = u16::from_be_bytes([record[*at - 2], record[*at - 1]]);
        usize::from(len) == record.len() - at && record[*at..].starts_with(&[1, 0xf1])
    };
    let at = (2..record.len().saturating_sub(60)).find(ends)?;
    let message = &record[at + 1..];
    // A first message holds IKa, EKa, both ids, a list of two suites and what it says to the KEM
    // key before the ratchet key.
    let rck = if message[1] == 2 { 4 + 32 + 32 + 4 + 4 + 5 + 4 + 1_568 } else { 4 };
    let key = message.get(rck..rck + 32)?.try_into().ok()?;
    let n = message.get(rck + 32..rck + 35)?.try_into().ok()?;
    Some(((key, n), message.to_vec()))
}

/// The device of a party that is up.
pub fn device(party: Option<&Party>) -> Option<&Device<PortableBackend>> {
    match party {
        Some(Party::Person(person)) => Some(&person.device),
        _ => None,
    }
}

/// Returns true if a note with this text lies on a disk.
pub fn on_disk(memory: &Memory, text: &str) -> bool {
    let Memory::Person(disk) = memory else { return false };
    let mut notes = disk.iter().filter(|((kind, _), _)| *kind == RecordKind::Note);
    notes.any(|(_, record)| record.windows(text.len()).any(|bytes| bytes == text.as_bytes()))
}
