//! A stage for a few devices and one relay, without loss: every call runs until all is quiet.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{CryptoRng, Machine, PortableBackend, Time, Wiping};
use mezza_messenger::card::{Card, CardForm, RelayEntry, RelayKey};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::{ContactState, NoteContent, NoteView};
use mezza_messenger::{
    CallerError, CarrierError, CarrierOutput, CarrierSet, Command, ContactId, Device, DeviceError,
    Event, Input, LoadError, NoteId, Output, RecordChange, RecordKind, RelayConnectionId,
    RelayInput, RelayOutput, RequestId, Unread,
};
use mezza_sim::refusal::handle_checked;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::model::{Ask, Model, Store, Tell};
use crate::saved::BackupPoint;

/// The only relay's key.
pub const RELAY: RelayKey = RelayKey([0x5f; 32]);
/// More than this is told in one breath only where two answer each other without end.
const TOLD_MAX: usize = 10_000;
/// A moment in 2026.
pub const START: Time = Time::from_ms(1_792_000_000_000);

/// The relay of every card on the stage.
pub fn relay() -> RelayEntry {
    RelayEntry {
        key: RELAY,
        address: MailboxAddress([0; 16]),
        port: 7101,
        host: "relay.example".into(),
    }
}

/// The connection to it.
pub fn connection() -> RelayConnectionId {
    relay().connection_id()
}

/// Stored records.
pub type Disk = BTreeMap<(RecordKind, Vec<u8>), Vec<u8>>;

/// Applies one batch.
pub fn write(disk: &mut Disk, changes: Vec<RecordChange>) {
    for change in changes {
        match change {
            RecordChange::Put { kind, key, value, .. } => {
                disk.insert((kind, key), value.to_vec());
            }
            RecordChange::Drop { kind, key } => {
                disk.remove(&(kind, key));
            }
        }
    }
}

/// Stores the writes of a device. Returns its other outputs, in order.
pub fn drain(device: &mut Device<PortableBackend>, disk: &mut Disk) -> Vec<Output> {
    let mut outputs = Vec::new();
    while let Some(output) = device.poll() {
        match output {
            Output::Store(batch) => write(disk, batch.0),
            output => outputs.push(output),
        }
    }
    outputs
}

/// Checks that the rows of a device equal those on its disk.
pub fn assert_same(own: &Disk, disk: &Disk) {
    if own == disk {
        return;
    }
    let names = |disk: &Disk, other: &Disk| {
        let odd = disk.iter().filter(|(key, value)| other.get(key) != Some(value));
        odd.map(|((kind, key), _)| format!("{kind:?} {key:02x?}")).collect::<Vec<_>>()
    };
    let odd = (names(own, disk), names(disk, own));
    panic!("device and disk differ: {odd:?}");
}

/// A device of this name at the only relay.
pub fn newborn(name: &str, now: Time, rng: &mut dyn CryptoRng) -> Device<PortableBackend> {
    Device::create(CarrierSet::default(), name, &[relay()], now, rng).expect("the name is clean")
}

/// The card of a device.
pub fn card(device: &Device<PortableBackend>) -> Card {
    device.card(CardForm::Full).expect("the full form always exists")
}

/// Texts of a thread, own ones behind `>`.
pub fn texts(device: &Device<PortableBackend>, contact: ContactId, now: Time) -> Vec<String> {
    let text = |note: NoteView| match note.body {
        NoteContent::Text(text) if note.incoming => text,
        NoteContent::Text(text) => format!("> {text}"),
        NoteContent::Newer => "newer".into(),
    };
    device.thread(contact, None, 10_000, now).into_iter().map(text).collect()
}

/// The records that the device says it has stored.
pub fn records(device: &Device<PortableBackend>) -> Disk {
    let mut disk = Disk::new();
    write(&mut disk, device.records());
    disk
}

/// A device from its records, all of which load (MSG-46).
pub fn load(disk: &Disk, now: Time, rng: &mut dyn CryptoRng) -> Device<PortableBackend> {
    let device = load_any(disk, now, rng).expect("what was stored loads");
    assert!(device.set_aside().is_empty(), "{:?}", device.set_aside());
    device
}

/// A device from whatever lies on a disk.
pub fn load_any(
    disk: &Disk,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<Device<PortableBackend>, LoadError> {
    load_beside(disk, &[], now, rng)
}

/// A device from a disk on which some rows could not be opened.
pub fn load_beside(
    disk: &Disk,
    unread: &[Unread],
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<Device<PortableBackend>, LoadError> {
    let rows =
        disk.iter().map(|((kind, key), value)| (*kind, key.clone(), Wiping::new(value.clone())));
    Device::load(CarrierSet::default(), rows, unread, now, rng)
}

/// One input; a refused one must leave everything as it was (MSG-36).
pub fn hand(
    device: &mut Device<PortableBackend>,
    input: impl Into<Input>,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(), DeviceError> {
    handle_checked(device, input.into(), now, rng)
}

/// One device with its disk.
pub struct Party {
    pub device: Device<PortableBackend>,
    pub disk: Disk,
    pub shown: Vec<Event>,
    pub online: bool,
    /// Everything that left, newest last.
    pub left: Vec<Ask>,
}

/// Devices and a relay.
pub struct Stage {
    pub relay: Model,
    pub parties: Vec<Party>,
    pub now: Time,
    pub rng: ChaCha20Rng,
    /// True if devices get ready for the next note once all is quiet.
    pub ahead: bool,
    /// The output at which party 0 makes a backup.
    pub point: BackupPoint,
    queue: VecDeque<(usize, Tell)>,
    clients: u8,
}

impl Stage {
    /// Devices of these names; all are online and idle.
    pub fn new(names: &[&str]) -> Self {
        let mut stage = Self {
            relay: Model::new(Store::default()),
            parties: Vec::new(),
            now: START,
            rng: ChaCha20Rng::seed_from_u64(7),
            ahead: true,
            point: BackupPoint::default(),
            queue: VecDeque::new(),
            clients: 0,
        };
        for name in names {
            stage.new_party(name);
        }
        stage
    }

    /// One device more.
    pub fn new_party(&mut self, name: &str) -> usize {
        let device = newborn(name, self.now, &mut self.rng);
        let disk = Disk::new();
        let shown = Vec::new();
        let left = Vec::new();
        self.parties.push(Party { device, disk, shown, online: true, left });
        self.settle();
        self.parties.len() - 1
    }

    /// Two people who have each other's cards and have answered each other.
    pub fn friends() -> (Self, ContactId, ContactId) {
        let mut stage = Self::new(&["alice", "bob"]);
        let bob = stage.add(0, 1);
        stage.say(0, bob, "hello bob");
        let alice = stage.only_contact(1);
        stage.command(1, Command::Accept { contact: alice }).expect("a request is accepted");
        stage.say(1, alice, "hello alice");
        assert_eq!(stage.standing(0, bob), ContactState::Open);
        assert_eq!(stage.standing(1, alice), ContactState::Open);
        (stage, bob, alice)
    }

    /// The card of a party.
    pub fn card(&self, who: usize) -> Card {
        card(&self.parties[who].device)
    }

    /// `who` adds the card of `whom`.
    pub fn add(&mut self, who: usize, whom: usize) -> ContactId {
        let card = self.card(whom);
        let ik = *card.ik().as_bytes();
        self.command(who, Command::Add { card, petname: None, in_person: false })
            .expect("a good card is taken");
        self.parties[who].device.contact_by_ik(&ik).expect("the contact was added")
    }

    /// Writes a note and lets everything happen.
    pub fn say(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId {
        let note = self.write_only(who, contact, text);
        self.settle();
        note
    }

    fn write_only(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId {
        self.clients += 1;
        let client = [self.clients; 16];
        self.command(who, Command::Send { contact, client, text: text.into(), life: None })
            .expect("the note is accepted");
        self.parties[who].device.find_sent(&client).expect("an accepted note has a number")
    }

    pub fn command(&mut self, who: usize, command: Command) -> Result<(), DeviceError> {
        self.input(who, command)?;
        self.settle();
        Ok(())
    }

    /// One input, and what follows from it here.
    pub fn input(&mut self, who: usize, input: impl Into<Input>) -> Result<(), DeviceError> {
        let result = hand(&mut self.parties[who].device, input, self.now, &mut self.rng);
        self.drain(who);
        result
    }

    /// Carries the outputs of one device out, in their order.
    pub fn drain(&mut self, who: usize) {
        let party = &mut self.parties[who];
        let mut stored = false;
        while let Some(output) = party.device.poll() {
            match output {
                Output::Store(batch) => {
                    stored = true;
                    write(&mut party.disk, batch.0);
                }
                Output::Notify(event) => party.shown.push(event),
                output @ (Output::Carrier(_) | Output::Durable(..)) => {
                    let Some(ask) = Ask::from_output(output) else { continue };
                    if !party.online {
                        continue;
                    }
                    party.left.push(ask.clone());
                    let (early, late) = self.relay.ask(who, ask);
                    self.queue.extend(early.into_iter().chain(late));
                }
            }
        }
        if stored && who == 0 {
            self.point.pass_output(&party.device, self.now);
        }
        if !party.device.set_aside().is_empty() {
            return;
        }
        assert_same(&records(&party.device), &party.disk);
    }

    /// The relay hears something from nobody here.
    pub fn hears(&mut self, ask: Ask) {
        let (early, late) = self.relay.ask(usize::MAX, ask);
        let told = early.into_iter().chain(late).filter(|(to, _)| *to < self.parties.len());
        self.queue.extend(told);
        self.settle();
    }

    /// Outputs of one input of party 0 that nobody carries out, but for what is stored.
    pub fn alone(&mut self, input: impl Into<Input>) -> Vec<Output> {
        let Self { parties, now, rng, .. } = self;
        hand(&mut parties[0].device, input, *now, rng).expect("taken");
        self.outputs()
    }

    /// Returns the outputs of party 0 now, without carrying them out.
    pub fn outputs(&mut self) -> Vec<Output> {
        let Party { device, disk, .. } = &mut self.parties[0];
        drain(device, disk)
    }

    /// Delivers what the relay says until nobody has anything to say.
    pub fn settle(&mut self) {
        for who in 0..self.parties.len() {
            self.drain(who);
        }
        let mut told = 0;
        while let Some((who, tell)) = self.queue.pop_front() {
            told += 1;
            assert!(told < TOLD_MAX, "nobody comes to rest");
            if self.parties[who].online {
                // An answer to a request of an older connection is no fault of the device.
                match self.input(who, tell.into_input(connection())) {
                    Ok(())
                    | Err(
                        DeviceError::Carrier(CarrierError::NoSuchTicket)
                        | DeviceError::Caller(CallerError::NoSuchMailbox),
                    ) => {}
                    Err(error) => panic!("the device refuses what a relay says: {error}"),
                }
            }
        }
        for party in self.parties.iter_mut().filter(|_| self.ahead) {
            party.device.precompute(&mut self.rng);
        }
    }

    /// Time passes; every deadline on the way is kept.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        loop {
            let next = self.parties.iter().filter_map(|party| party.device.deadline()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for who in 0..self.parties.len() {
                self.parties[who].device.wake(self.now, &mut self.rng);
            }
            self.settle();
            let after = self.parties.iter().filter_map(|party| party.device.deadline()).min();
            assert!(after.is_none_or(|after| after > self.now), "a deadline does not move");
        }
        self.now = end;
    }

    /// The connection of a device breaks.
    pub fn offline(&mut self, who: usize) {
        self.relay.leave(who);
        self.queue.retain(|(to, _)| *to != who);
        self.parties[who].online = false;
        self.input(who, RelayInput::Down { connection: connection() })
            .expect("going down is never refused");
    }

    /// And stands again.
    pub fn online(&mut self, who: usize) {
        self.parties[who].online = true;
        self.queue.push_back((who, Tell::Up));
        self.settle();
    }

    /// The device dies and starts from its disk.
    pub fn restart(&mut self, who: usize) {
        self.relay.leave(who);
        self.queue.retain(|(to, _)| *to != who);
        let device = load(&self.parties[who].disk, self.now, &mut self.rng);
        self.parties[who].device = device;
        self.settle();
    }

    pub fn only_contact(&self, who: usize) -> ContactId {
        let contacts = self.parties[who].device.contacts();
        assert_eq!(contacts.len(), 1);
        contacts[0].id
    }

    pub fn standing(&self, who: usize, contact: ContactId) -> ContactState {
        self.parties[who].device.contact(contact).expect("the contact is there").standing
    }

    pub fn state(&self, who: usize, note: NoteId) -> NoteState {
        self.parties[who].device.note(note, self.now).expect("the note is there").state
    }

    pub fn thread(&self, who: usize, contact: ContactId) -> Vec<NoteView> {
        self.parties[who].device.thread(contact, None, 10_000, self.now)
    }

    /// Texts of a thread, own ones behind `>`.
    pub fn texts(&self, who: usize, contact: ContactId) -> Vec<String> {
        texts(&self.parties[who].device, contact, self.now)
    }
}

/// A note of one letter.
pub fn send(contact: ContactId, client: u8) -> Input {
    Input::Command(Command::Send { contact, client: [client; 16], text: "x".into(), life: None })
}

/// The parcels that the device hands to a carrier.
pub fn carries(outputs: &[Output]) -> Vec<RequestId> {
    let tickets = outputs.iter().filter_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { ticket, .. })) => Some(*ticket),
        _ => None,
    });
    tickets.collect()
}
