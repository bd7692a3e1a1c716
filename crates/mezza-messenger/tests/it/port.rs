//! The port of the carriers: a fifth one, a toy, is added to the device from outside, and a note
//! goes over it. The files that know which carriers there are, are counted.

mod ways;

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use mezza_core::{Machine, PortableBackend, StaticKey, Time, Wiping, snapshot};
use mezza_messenger::CarrierSet;
use mezza_messenger::carriers::{Carrier, Port};
use mezza_messenger::evidence::WaitReason;
use mezza_messenger::io::{
    Arrival, ArrivalOrigin, At, CarrierCaps, CarrierState, ContactFacts, Handover, Input, Leaving,
    Missing, News, Output, Route,
};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::NoteContent;
use mezza_messenger::{
    CarrierId, CarrierInput, CarrierOutput, Command, ContactId, DeviceError, DeviceOver, Event,
    RecordChange,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::model::{Ask, Model, Store, Tell};
use crate::stage::{START, connection, relay};

/// No stored form has this number.
const TOY: CarrierId = CarrierId::of(5);
const CAPS: CarrierCaps = CarrierCaps {
    piece_bytes: 1_000,
    pieces_max: 9,
    around_bytes: 0,
    parcel_bytes_max: 9_000,
    level: 2,
    delay_ms: 1,
    delay_p99_ms: 1,
    receipts: true,
    store_h: 0,
    needs_internet: false,
    demo: true,
};

/// A carrier that gives each parcel to the test.
struct Toy {
    handed: VecDeque<Vec<u8>>,
    news: VecDeque<News>,
    /// Why the toy takes nothing now.
    waits: Rc<Cell<Option<WaitReason>>>,
}

snapshot!(struct Toy { handed, news, waits => waits.get() });

impl Carrier for Toy {
    fn state(&self, _: Option<&ContactFacts<'_>>, _: Time) -> Option<CarrierState> {
        Some(CarrierState { reached: true, up: true, caps: CAPS })
    }

    fn route(
        &mut self,
        _: &ContactFacts<'_>,
        _: (u8, bool),
        _: &mut At<'_>,
    ) -> Result<Route, Missing> {
        match self.waits.get() {
            Some(why) => Err(Missing::Wait(why)),
            None => Ok(Route { carrier: TOY, until: None, invitation: false, address: vec![7] }),
        }
    }

    fn waits_for_place(&self) -> bool {
        false
    }

    fn hand(&mut self, parcel: &Leaving<'_>, _: &mut At<'_>) -> Handover {
        assert_eq!(parcel.route.address, [7], "a route is its carrier's");
        self.handed.push_back(parcel.bytes.to_vec());
        self.news.push_back(News::Handed { parcel: parcel.id, again: None });
        Handover::Out
    }

    fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

/// The carriers of this version, and the toy.
struct Five {
    four: CarrierSet<PortableBackend>,
    toy: Toy,
}

snapshot!(struct Five { four, toy });

impl Five {
    fn new(waits: &Rc<Cell<Option<WaitReason>>>) -> Self {
        let four = CarrierSet::new(mezza_lanes::portable());
        let (handed, news, waits) = (VecDeque::new(), VecDeque::new(), Rc::clone(waits));
        Self { four, toy: Toy { handed, news, waits } }
    }
}

enum FiveInput {
    Four(CarrierInput),
    /// A parcel of this contact.
    Toy(ContactId, Vec<u8>),
}

enum FiveOutput {
    Four(CarrierOutput),
    Toy(Vec<u8>),
}

snapshot!(enum FiveOutput [Four(a), Toy(a)]);

impl Port for Five {
    type Backend = PortableBackend;
    type Input = FiveInput;
    type Output = FiveOutput;

    fn one(&self, id: CarrierId) -> Option<&dyn Carrier> {
        if id == TOY { Some(&self.toy) } else { self.four.one(id) }
    }

    fn one_mut(&mut self, id: CarrierId) -> Option<&mut dyn Carrier> {
        if id == TOY { Some(&mut self.toy) } else { self.four.one_mut(id) }
    }

    fn all(&self) -> impl Iterator<Item = (CarrierId, &dyn Carrier)> {
        self.four.all().chain([(TOY, &self.toy as &dyn Carrier)])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = (CarrierId, &mut dyn Carrier)> {
        self.four.all_mut().chain([(TOY, &mut self.toy as &mut dyn Carrier)])
    }

    fn input(
        &mut self,
        input: FiveInput,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            FiveInput::Four(input) => self.four.input(input, seals, at),
            FiveInput::Toy(contact, parcel) => {
                let (from, parcel) = (ArrivalOrigin::Contact(contact), Wiping::new(parcel));
                let arrival = Arrival { carrier: TOY, level: 2, from, parcel, ack: None };
                self.toy.news.push_back(News::Arrived(arrival));
                Ok(())
            }
        }
    }

    fn poll(&mut self) -> Option<FiveOutput> {
        let toy = self.toy.handed.pop_front().map(FiveOutput::Toy);
        toy.or_else(|| self.four.poll().map(FiveOutput::Four))
    }
}

/// Two devices over five carriers, a relay, and what lies in the hands of the toy.
struct Pair {
    devices: [DeviceOver<Five>; 2],
    relay: Model,
    told: VecDeque<(usize, Tell)>,
    toys: VecDeque<(usize, Vec<u8>)>,
    carried: usize,
    /// Why the toy of each takes nothing now.
    waits: [Rc<Cell<Option<WaitReason>>>; 2],
    shown: Vec<(usize, Event)>,
    /// Mail that went to the relay, by whom.
    puts: Vec<usize>,
    rng: ChaCha20Rng,
}

impl Pair {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let waits: [Rc<Cell<Option<WaitReason>>>; 2] = Default::default();
        let devices = [("alice", &waits[0]), ("bob", &waits[1])].map(|(name, waits)| {
            let carriers = Five::new(waits);
            DeviceOver::create(carriers, name, &[relay()], START, &mut rng).expect("clean")
        });
        let (told, toys, shown, puts) = (VecDeque::new(), VecDeque::new(), vec![], vec![]);
        let relay = Model::new(Store::default());
        let mut pair = Self { devices, relay, told, toys, carried: 0, waits, shown, puts, rng };
        pair.settle();
        pair
    }

    /// Alice has written to Bob, by the relay.
    fn asked() -> Self {
        let mut pair = Self::new();
        let card = pair.devices[1].card(mezza_messenger::card::CardForm::Full).expect("a card");
        pair.command(0, Command::Add { card, petname: None, in_person: false });
        pair.say(0, 1, "by the relay");
        pair
    }

    /// And he has answered.
    fn friends() -> Self {
        let mut pair = Self::asked();
        let contact = pair.contact(1);
        pair.command(1, Command::Accept { contact });
        pair.say(1, 2, "and back");
        pair
    }

    fn goes_by(&mut self, who: usize, policy: Policy) {
        let contact = self.contact(who);
        self.command(who, Command::Policy { contact, policy });
    }

    fn command(&mut self, who: usize, command: Command) {
        let input = Input::Command(command);
        self.devices[who].handle(input, START, &mut self.rng).expect("possible");
        self.settle();
    }

    fn drain(&mut self, who: usize) {
        while let Some(output) = self.devices[who].poll() {
            match output {
                Output::Store(_) | Output::Durable(..) => {}
                Output::Notify(event) => self.shown.push((who, event)),
                Output::Carrier(FiveOutput::Toy(parcel)) => self.toys.push_back((1 - who, parcel)),
                Output::Carrier(FiveOutput::Four(output)) => {
                    let Some(ask) = Ask::from_output(Output::Carrier(output)) else { continue };
                    self.puts.extend(matches!(ask, Ask::Put(..)).then_some(who));
                    let (early, late) = self.relay.ask(who, ask);
                    self.told.extend(early.into_iter().chain(late));
                }
            }
        }
    }

    fn settle(&mut self) {
        (0..2).for_each(|who| self.drain(who));
        while let Some((who, tell)) = self.told.pop_front() {
            let Input::Carrier(input) = tell.into_input(connection()) else {
                unreachable!("of a relay")
            };
            let _ = self.devices[who].handle(
                Input::Carrier(FiveInput::Four(input)),
                START,
                &mut self.rng,
            );
            self.drain(who);
        }
        while let Some((who, parcel)) = self.toys.pop_front() {
            self.carried += 1;
            let from = self.devices[who].contacts()[0].id;
            let input = Input::Carrier(FiveInput::Toy(from, parcel));
            self.devices[who].handle(input, START, &mut self.rng).expect("taken");
            self.drain(who);
        }
    }

    /// Starts a device again from its rows.
    fn restart(&mut self, who: usize) {
        let rows = self.devices[who].records().into_iter().map(|change| match change {
            RecordChange::Put { kind, key, value, .. } => (kind, key, value),
            RecordChange::Drop { .. } => unreachable!("of rows that are there"),
        });
        let device = DeviceOver::load(Five::new(&self.waits[who]), rows, &[], START, &mut self.rng);
        self.devices[who] = device.expect("what was stored loads");
    }

    fn contact(&self, who: usize) -> ContactId {
        self.devices[who].contacts()[0].id
    }

    fn say(&mut self, who: usize, client: u8, text: &str) {
        let (contact, client, text) = (self.contact(who), [client; 16], text.into());
        self.command(who, Command::Send { contact, client, text });
    }
}

#[test]
fn a_note_goes_over_a_carrier_that_the_device_does_not_know() {
    let mut pair = Pair::friends();
    for who in 0..2 {
        pair.goes_by(who, Policy { carriers: vec![TOY], level_min: 2, ..Policy::default() });
    }
    assert_eq!(pair.carried, 0);
    pair.say(0, 3, "by the toy");
    assert_eq!(pair.carried, 2, "the note and its receipt");
    let notes = pair.devices[1].thread(pair.contact(1), None, 9, START);
    let last = notes.last().expect("notes");
    assert!(last.body == NoteContent::Text("by the toy".into()) && last.carrier == Some(TOY));
    let own = pair.devices[0].outbox(START);
    assert!(own.is_empty(), "delivered: {own:?}");
    let estimates = pair.devices[0].preview(pair.contact(0), 100, START);
    let toy = estimates.iter().find(|estimate| estimate.carrier == TOY).expect("asked");
    assert!(toy.fits && toy.up && toy.caps == CAPS);
    pair.restart(1);
    pair.say(0, 4, "and after a start");
    assert_eq!(pair.devices[1].thread(pair.contact(1), None, 9, START).len(), notes.len() + 1);
}

/// The files of the device, outside of the carriers' own folder, that name one of them.
fn naming() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        let entries = std::fs::read_dir(folder).expect("a folder of the crate");
        for path in entries.map(|entry| entry.expect("readable").path()) {
            if path.is_dir() {
                walk(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("source");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let names =
                ["CarrierId::RELAY", "CarrierId::MIXNET", "carriers::relay", "carriers::mixnet"];
            let owns = ["carriers.relay", "carriers.mixnet"];
            let names = names.iter().chain(&owns).any(|name| text.contains(name));
            let name = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
            let name = name.expect("below src").display().to_string();
            if names && !name.starts_with("carriers/") {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    found
}

#[test]
fn these_files_of_the_device_know_which_carriers_there_are() {
    let expected =
        ["carriers.rs", "device/rows/older.rs", "lib.rs", "outbox/parcel.rs", "policy.rs"];
    assert_eq!(naming(), expected, "ARCHITECTURE has this list");
}
