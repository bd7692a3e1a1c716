//! Two devices on one cable: what one sends on a connection arrives at the other, whole and in order.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{Machine, PortableBackend, Time, Wiping};
use mezza_guard::guard::GuardConnection;
use mezza_messenger::carriers::link::{
    GuardTrouble, LinkConnection, LinkReport, PairRequest, PairingStep, StreamDeframer,
};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Policy;
use mezza_messenger::{
    CarrierId, CarrierOutput, CarrierSet, Command, ContactId, Device, DeviceError, Event, Input,
    LinkInput, LinkOutput, NoteId, Output, RecordKind,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::guarded::{GUARD, GuardBox};
use crate::stage::{Disk, START, assert_same, card, records, texts, write};

/// A conversation that uses the link alone.
pub fn by_link() -> Policy {
    Policy { carriers: vec![CarrierId::LINK], ..Policy::default() }
}

pub struct Side {
    pub device: Device<PortableBackend>,
    pub disk: Disk,
    pub shown: Vec<Event>,
    pub steps: Vec<PairingStep>,
    /// Dials whose result is not reported.
    pub dials: VecDeque<(ContactId, String)>,
    /// The address of every dial.
    pub dialled: Vec<String>,
    pub wake_at: Option<u64>,
    /// Gifts of a guard.
    pub gifts: usize,
    pub trouble: Option<GuardTrouble>,
    last: u32,
    /// The connection at the other end of each of ours.
    ends: BTreeMap<LinkConnection, LinkConnection>,
}

/// When a device is killed.
#[derive(Clone, Copy)]
pub struct Kill {
    pub who: usize,
    /// The number of its outputs that are carried out before.
    pub after: usize,
}

/// An item on its way on the cable.
pub(super) enum Cargo {
    Bytes(LinkConnection, Vec<u8>),
    Close(LinkConnection),
    /// The guard connects to Ben.
    Dial(GuardConnection),
}

/// Two devices and the cable between them.
pub struct Cable {
    pub sides: [Side; 2],
    pub now: Time,
    pub boot_ms: u64,
    /// Items on their way, with their receiver.
    pub(super) cargo: VecDeque<(usize, Cargo)>,
    /// True while the cable is pulled.
    pub is_pulled: bool,
    /// Every frame that was sent: sender, bytes.
    pub sent: Vec<(usize, Vec<u8>)>,
    pub outputs: [usize; 2],
    pub kill: Option<Kill>,
    pub killed: Option<usize>,
    /// The guard at [`GUARD`], which leads to Ben.
    pub guard: Option<GuardBox>,
    client: u8,
    pub rng: ChaCha20Rng,
}

impl Cable {
    /// Ann and Ben, who hold each other's cards.
    pub fn new() -> Self {
        let mut cable = Self::strangers(17);
        cable.exchange_cards();
        cable
    }

    /// Two devices that know nobody.
    pub fn strangers(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let sides = ["ann", "ben"].map(|name| {
            let carriers = CarrierSet::default();
            let device = Device::create(carriers, name, &[], START, &mut rng).expect("clean");
            Side {
                device,
                disk: Disk::new(),
                shown: Vec::new(),
                steps: Vec::new(),
                dials: VecDeque::new(),
                dialled: Vec::new(),
                wake_at: None,
                gifts: 0,
                trouble: None,
                last: 0,
                ends: BTreeMap::new(),
            }
        });
        let mut cable = Self {
            sides,
            now: START,
            boot_ms: 50_000,
            cargo: VecDeque::new(),
            is_pulled: false,
            sent: Vec::new(),
            outputs: [0; 2],
            kill: None,
            killed: None,
            guard: None,
            client: 0,
            rng,
        };
        (0..2).for_each(|who| cable.drain(who));
        cable
    }

    /// Each adds the card of the other one, in person, and allows the link alone.
    pub fn exchange_cards(&mut self) {
        for who in 0..2 {
            let card = card(&self.sides[1 - who].device);
            self.command(who, Command::Add { card, petname: None, in_person: true });
            let contact = self.contact(who);
            self.command(who, Command::Policy { contact, policy: by_link() });
        }
    }

    /// Ann and Ben, paired.
    pub fn paired() -> Self {
        let mut cable = Self::new();
        cable.pair();
        assert_eq!(cable.steps(), [&PairingStep::Paired; 2]);
        cable
    }

    /// Both pair, Ann dials, and both say that the digits are equal.
    pub fn pair(&mut self) {
        self.request_pairing();
        self.compare(true);
    }

    /// Both ask for a pairing, and see digits.
    pub fn request_pairing(&mut self) {
        self.ask_to_pair(1, None);
        self.ask_to_pair(0, Some("ben.example:4796"));
        self.pass(2 * Time::SECOND_MS);
    }

    pub fn ask_to_pair(&mut self, who: usize, address: Option<&str>) {
        let contact = self.contact(who);
        let key = |who: usize| *card(&self.sides[who].device).ik();
        let request = PairRequest {
            contact,
            own_ik: key(who),
            ik: key(1 - who),
            address: address.map(Into::into),
        };
        self.link(who, LinkReport::Pair(request));
    }

    pub fn compare(&mut self, equal: bool) {
        for who in 0..2 {
            self.link(who, LinkReport::Confirm { equal });
        }
        self.pass(2 * Time::SECOND_MS);
    }

    /// The last step of the pairing that each was shown.
    pub fn steps(&self) -> [&PairingStep; 2] {
        [0, 1].map(|who| self.sides[who].steps.last().expect("a step"))
    }

    pub fn digits(&self) -> [String; 2] {
        [0, 1].map(|who| match self.sides[who].steps.last() {
            Some(PairingStep::Digits(digits)) => digits.clone(),
            other => panic!("no digits: {other:?}"),
        })
    }

    /// Time passes; each wakes when it asked to.
    pub fn pass(&mut self, ms: u64) {
        let end = self.boot_ms + ms;
        loop {
            self.settle();
            let alive = (0..2).filter(|who| self.killed != Some(*who));
            let next = alive.filter_map(|who| self.sides[who].wake_at).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.advance(next.max(self.boot_ms) - self.boot_ms);
            for who in 0..2 {
                if self.sides[who].wake_at.is_some_and(|at| at <= self.boot_ms) {
                    self.sides[who].wake_at = None;
                    self.link(who, LinkReport::Due);
                }
            }
        }
        self.advance(end - self.boot_ms);
        for who in 0..2 {
            if self.killed != Some(who) {
                self.sides[who].device.wake(self.now, &mut self.rng);
                self.drain(who);
            }
        }
        self.settle();
    }

    fn advance(&mut self, ms: u64) {
        self.boot_ms += ms;
        self.now = self.now.plus_ms(ms);
    }

    pub fn command(&mut self, who: usize, command: Command) {
        self.try_input(who, Input::Command(command)).expect("possible");
        self.settle();
    }

    pub fn link(&mut self, who: usize, event: LinkReport) {
        self.try_link(who, event).expect("taken");
        self.settle();
    }

    pub fn try_link(&mut self, who: usize, event: LinkReport) -> Result<(), DeviceError> {
        let input = LinkInput { boot_ms: self.boot_ms, event };
        self.try_input(who, Input::Carrier(input.into()))
    }

    pub fn try_input(&mut self, who: usize, input: Input) -> Result<(), DeviceError> {
        if self.killed == Some(who) {
            return Ok(());
        }
        let before = self.sides[who].device.snapshot();
        let handled = self.sides[who].device.handle(input, self.now, &mut self.rng);
        if handled.is_err() {
            assert!(before == self.sides[who].device.snapshot(), "a refusal changes nothing");
        }
        handled?;
        self.drain(who);
        Ok(())
    }

    fn drain(&mut self, who: usize) {
        while self.killed != Some(who)
            && let Some(output) = self.sides[who].device.poll()
        {
            if self.kill.is_some_and(|kill| kill.who == who && self.outputs[who] >= kill.after) {
                // Neither this output nor a later one is carried out.
                self.kill = None;
                self.die(who);
                return;
            }
            self.outputs[who] += 1;
            match output {
                Output::Store(batch) => write(&mut self.sides[who].disk, batch.0),
                Output::Notify(event) => self.sides[who].shown.push(event),
                Output::Durable(carrier, number) => {
                    self.try_input(who, Input::Stored(carrier, number)).expect("asked for");
                }
                Output::Carrier(CarrierOutput::Link(output)) => self.carry_out(who, output),
                Output::Carrier(_) => {}
            }
        }
    }

    fn carry_out(&mut self, who: usize, output: LinkOutput) {
        let side = &mut self.sides[who];
        match output {
            LinkOutput::Dial { contact, address } => {
                side.dialled.push(address.clone());
                side.dials.push_back((contact, address));
            }
            LinkOutput::WakeAt { boot_ms } => side.wake_at = boot_ms,
            LinkOutput::Pairing { step, .. } => side.steps.push(step),
            LinkOutput::Gift { .. } => side.gifts += 1,
            LinkOutput::GuardTrouble { trouble, .. } => side.trouble = trouble,
            LinkOutput::Send { connection, bytes } => {
                self.sent.push((who, bytes.clone()));
                if self.send_guarded(who, connection, &bytes) {
                    return;
                }
                if let Some(end) = self.sides[who].ends.get(&connection) {
                    self.cargo.push_back((1 - who, Cargo::Bytes(*end, bytes)));
                }
            }
            LinkOutput::Close { connection } => {
                self.close_guarded(who, connection);
                if let Some(end) = self.sides[who].ends.remove(&connection) {
                    self.cargo.push_back((1 - who, Cargo::Close(end)));
                }
            }
        }
    }

    /// Everything on its way arrives.
    pub fn settle(&mut self) {
        loop {
            for who in 0..2 {
                while let Some((contact, address)) = self.sides[who].dials.pop_front() {
                    if address == GUARD {
                        self.connect_guarded(who, contact);
                    } else {
                        self.connect(who, contact);
                    }
                }
            }
            let Some((who, cargo)) = self.cargo.pop_front() else {
                if self.sides.iter().all(|side| side.dials.is_empty()) {
                    return;
                }
                continue;
            };
            match cargo {
                Cargo::Bytes(connection, bytes) => {
                    let mut input = &bytes[..];
                    let frame = StreamDeframer::default().next_frame(&mut input);
                    assert!(input.is_empty(), "one frame at a time");
                    let bytes = frame.expect("sound").expect("whole");
                    let _ = self.try_link(who, LinkReport::Frame { connection, bytes });
                }
                Cargo::Dial(conn) => self.connect_behind(conn),
                Cargo::Close(connection) => {
                    self.sides[who].ends.remove(&connection);
                    let _ = self.try_link(who, LinkReport::Closed { connection });
                }
            }
        }
    }

    fn connect(&mut self, who: usize, contact: ContactId) {
        if self.is_pulled || self.killed.is_some() {
            let _ = self.try_link(who, LinkReport::DialFailed { contact });
            return;
        }
        let [own, end] = [who, 1 - who].map(|who| self.next_connection(who));
        self.sides[who].ends.insert(own, end);
        self.sides[1 - who].ends.insert(end, own);
        let _ = self.try_link(1 - who, LinkReport::Opened { connection: end, dialled: None });
        let _ = self.try_link(who, LinkReport::Opened { connection: own, dialled: Some(contact) });
    }

    pub fn next_connection(&mut self, who: usize) -> LinkConnection {
        self.sides[who].last += 1;
        LinkConnection(self.sides[who].last)
    }

    /// The cable is pulled: all connections end.
    pub fn pull(&mut self) {
        self.is_pulled = true;
        self.cut();
    }

    pub fn plug(&mut self) {
        self.is_pulled = false;
    }

    /// Nothing arrives any more on the connections of now, and nobody notices.
    pub fn lose(&mut self) {
        for side in &mut self.sides {
            side.ends.clear();
        }
    }

    /// All connections end.
    pub fn cut(&mut self) {
        self.cargo.clear();
        self.cut_guarded();
        for who in 0..2 {
            for connection in std::mem::take(&mut self.sides[who].ends).into_keys() {
                let _ = self.try_link(who, LinkReport::Closed { connection });
            }
        }
    }

    fn die(&mut self, who: usize) {
        self.killed = Some(who);
        let ends = std::mem::take(&mut self.sides[who].ends);
        self.lose_guarded(who);
        self.cargo.retain(|(to, _)| *to != who);
        for end in ends.into_values() {
            self.sides[1 - who].ends.remove(&end);
            self.cargo.push_back((1 - who, Cargo::Close(end)));
        }
    }

    /// Starts the killed device again, if there is one.
    pub fn revive(&mut self) -> bool {
        let Some(who) = self.killed.take() else { return false };
        self.restart(who);
        true
    }

    /// Starts a device again from its disk, which must load as a whole and hold what the device
    /// thinks that it stored.
    pub fn restart(&mut self, who: usize) {
        self.die(who);
        self.killed = None;
        let side = &mut self.sides[who];
        let rows = side.disk.iter();
        let rows: Vec<_> = rows
            .map(|((kind, key), value)| (*kind, key.clone(), Wiping::new(value.clone())))
            .collect();
        let device = Device::load(CarrierSet::default(), rows, &[], self.now, &mut self.rng);
        side.device = device.expect("the profile is there");
        assert!(side.device.set_aside().is_empty(), "{:?}", side.device.set_aside());
        side.dials.clear();
        side.wake_at = Some(self.boot_ms);
        self.drain(who);
        assert_same(&records(&self.sides[who].device), &self.sides[who].disk);
        self.settle();
    }

    pub fn rows(&self, who: usize, kind: RecordKind) -> usize {
        self.sides[who].disk.keys().filter(|(of, _)| *of == kind).count()
    }

    pub fn contact(&self, who: usize) -> ContactId {
        self.sides[who].device.contacts()[0].id
    }

    pub fn is_up(&self, who: usize) -> bool {
        let contact = self.contact(who);
        let estimates = self.sides[who].device.estimate_carriers(contact, 10, self.now);
        estimates.iter().any(|one| one.carrier == CarrierId::LINK && one.up.is_ok())
    }

    pub fn say(&mut self, who: usize, text: &str) -> NoteId {
        self.client += 1;
        let client = [self.client; 16];
        let contact = self.contact(who);
        self.command(who, Command::Send { contact, client, text: text.into(), life: None });
        self.sides[who].device.find_sent(&client).expect("accepted")
    }

    pub fn state(&self, who: usize, note: NoteId) -> NoteState {
        self.sides[who].device.note(note, self.now).expect("there").state
    }

    /// The texts of a thread, own ones behind `>`.
    pub fn texts(&self, who: usize) -> Vec<String> {
        texts(&self.sides[who].device, self.contact(who), self.now)
    }
}
