//! The port of the carriers: another one, a toy, is added to the device from outside, and a note goes
//! over it. Who names a carrier beside it is counted by tidy.

mod medium;
mod toy;
mod ways;

use std::collections::VecDeque;
use std::rc::Rc;

use mezza_core::{Machine, PortableBackend, StaticKey, Wiping, snapshot};
use mezza_messenger::CarrierSet;
use mezza_messenger::carriers::{Carrier, Port};
use mezza_messenger::evidence::WaitReason;
use mezza_messenger::io::{Arrival, ArrivalOrigin, Ctx, Input, News, Output};
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
use toy::{CAPS, Knobs, OUTER, TOY, Toy};

/// The carriers of this version, and the toy.
struct Five {
    four: CarrierSet<PortableBackend>,
    toy: Toy,
}

snapshot!(struct Five { four, toy });

impl Five {
    fn new(knobs: &Rc<Knobs>) -> Self {
        Self { four: CarrierSet::new(mezza_lanes::portable()), toy: Toy::new(knobs) }
    }
}

enum FiveInput {
    Four(CarrierInput),
    /// A parcel of this contact, and what it is bound to.
    Toy(ContactId, Vec<u8>, Vec<u8>),
    /// Something for the device.
    Says(News),
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

    fn all_carriers(&self) -> impl Iterator<Item = &dyn Carrier> {
        // The toy stands where the link does.
        let others = self.four.all_carriers().filter(|one| one.id() != TOY);
        others.chain([&self.toy as &dyn Carrier])
    }

    fn all_carriers_mut(&mut self) -> impl Iterator<Item = &mut dyn Carrier> {
        let others = self.four.all_carriers_mut().filter(|one| one.id() != TOY);
        others.chain([&mut self.toy as &mut dyn Carrier])
    }

    fn handle_input(
        &mut self,
        input: FiveInput,
        seals: &[&StaticKey],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            FiveInput::Four(input) => self.four.handle_input(input, seals, ctx),
            FiveInput::Toy(contact, parcel, outer) => {
                let from = ArrivalOrigin::Contact(contact);
                let parcel = Wiping::new(parcel);
                let arrival = Arrival { carrier: TOY, level: 2, from, parcel, outer, ack: None };
                self.toy.news.push_back(News::Arrived(arrival));
                Ok(())
            }
            FiveInput::Says(news) => {
                self.toy.news.push_back(news);
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
    /// How the toy of each is now.
    knobs: [Rc<Knobs>; 2],
    shown: Vec<(usize, Event)>,
    /// Mail that went to the relay, by whom.
    puts: Vec<usize>,
    rng: ChaCha20Rng,
}

impl Pair {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let knobs: [Rc<Knobs>; 2] = Default::default();
        let devices = [("alice", &knobs[0]), ("bob", &knobs[1])].map(|(name, knobs)| {
            let carriers = Five::new(knobs);
            DeviceOver::create(carriers, name, &[relay()], START, &mut rng).expect("clean")
        });
        let told = VecDeque::new();
        let toys = VecDeque::new();
        let shown = vec![];
        let puts = vec![];
        let relay = Model::new(Store::default());
        let mut pair = Self { devices, relay, told, toys, carried: 0, knobs, shown, puts, rng };
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
                Output::Store(_) => {}
                Output::Durable(carrier, number) => {
                    self.input(who, Input::Stored(carrier, number));
                }
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
            self.input(who, Input::Carrier(FiveInput::Toy(from, parcel, OUTER.into())));
        }
    }

    /// An input, and what follows from it here.
    fn input(&mut self, who: usize, input: Input<FiveInput>) {
        self.devices[who].handle(input, START, &mut self.rng).expect("taken");
        self.drain(who);
    }

    /// The toy has something to say.
    fn says(&mut self, who: usize, news: News) {
        self.input(who, Input::Carrier(FiveInput::Says(news)));
        self.settle();
    }

    /// Starts a device again from its rows.
    fn restart(&mut self, who: usize) {
        let rows = self.devices[who].records().into_iter().map(|change| match change {
            RecordChange::Put { kind, key, value, .. } => (kind, key, value),
            RecordChange::Drop { .. } => unreachable!("of rows that are there"),
        });
        let device = DeviceOver::load(Five::new(&self.knobs[who]), rows, &[], START, &mut self.rng);
        self.devices[who] = device.expect("what was stored loads");
    }

    fn contact(&self, who: usize) -> ContactId {
        self.devices[who].contacts()[0].id
    }

    fn say(&mut self, who: usize, client: u8, text: &str) {
        let contact = self.contact(who);
        let client = [client; 16];
        let text = text.into();
        self.command(who, Command::Send { contact, client, text, life: None });
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
    let estimates = pair.devices[0].estimate_carriers(pair.contact(0), 100, START);
    let toy = estimates.iter().find(|estimate| estimate.carrier == TOY).expect("asked");
    assert!(toy.fits && toy.up.is_ok() && toy.caps == CAPS);
    pair.restart(1);
    pair.say(0, 4, "and after a start");
    assert_eq!(pair.devices[1].thread(pair.contact(1), None, 9, START).len(), notes.len() + 1);
}
