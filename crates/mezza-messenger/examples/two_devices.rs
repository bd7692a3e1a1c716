//! Two devices and a relay in one process: Alice writes to Bob, and a receipt comes back.
//!
//! `cargo run -p mezza-messenger --example two_devices` prints each request to the relay as
//! `sender -> relay`, and each event for a user.
//!
//! `Driver` has about 60 lines and does the work of the program: it stores records, carries requests to
//! the carrier, returns the replies, and shows events. `Relay` is the smallest carrier that works: it
//! keeps mailboxes and bundles in memory and accepts every request. A real relay also checks tokens,
//! limits and time, and keeps mail until a device acknowledges it.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a demonstration that prints")]

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{Machine, PortableBackend, Time};
use mezza_messenger::card::{CardForm, RelayEntry, RelayKey};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::NoteContent;
use mezza_messenger::{
    CarrierOutput, CarrierSet, Command, Device, Event, Input, MailboxId, Output, RecordChange,
    RecordKind, RelayInput, RelayOutput,
};
use mezza_ratchet::OneTimePrekey;
use mezza_sim::SimRng;

const NOW: Time = Time::from_ms(1_792_000_000_000);
const NAMES: [&str; 2] = ["alice", "bob"];

/// The stored records of a device.
type Disk = BTreeMap<(RecordKind, Vec<u8>), Vec<u8>>;

/// The state of the relay, by the address of a mailbox.
#[derive(Default)]
struct Relay {
    /// The device that reads the mailbox, and the number by which that device knows it.
    readers: BTreeMap<MailboxAddress, (usize, MailboxId)>,
    bundles: BTreeMap<MailboxAddress, (Vec<u8>, Vec<OneTimePrekey>)>,
    mails: u64,
}

impl Relay {
    /// Handles one request of a device. Returns the replies, each with the device that receives it.
    fn handle(&mut self, from: usize, request: RelayOutput) -> Vec<(usize, RelayInput)> {
        println!("{:>5} -> relay  {request:?}", NAMES[from]);
        let reply = match request {
            RelayOutput::Connect { relay } => {
                RelayInput::Up { connection: relay.connection_id(), level: 1, demo: false }
            }
            RelayOutput::Watch { ticket, mailbox, token, .. } => {
                self.readers.insert(MailboxAddress::from_token(&token), (from, mailbox));
                RelayInput::Done { ticket }
            }
            RelayOutput::Publish { ticket, token, bundle, one_time, .. } => {
                self.bundles.insert(MailboxAddress::from_token(&token), (bundle, one_time));
                RelayInput::Done { ticket }
            }
            RelayOutput::Fetch { ticket, address, .. } => {
                let (bytes, one_time) = self.bundles.get_mut(&address).expect("published");
                RelayInput::Bundle { ticket, bytes: bytes.clone(), one_time: one_time.pop() }
            }
            RelayOutput::Put { ticket, address, envelope, .. } => {
                let (to, mailbox) = self.readers[&address];
                self.mails += 1;
                let mail = RelayInput::Mail { mailbox, mail: self.mails, envelope };
                return vec![(to, mail), (from, RelayInput::Done { ticket })];
            }
            RelayOutput::Open { ticket, .. } | RelayOutput::Close { ticket, .. } => {
                RelayInput::Done { ticket }
            }
            RelayOutput::Acknowledge { .. } | RelayOutput::Disconnect { .. } => return vec![],
        };
        vec![(from, reply)]
    }
}

/// The program around both devices: their storage, their carrier and their source of randomness.
struct Driver {
    devices: [Device<PortableBackend>; 2],
    disks: [Disk; 2],
    relay: Relay,
    rng: SimRng,
}

impl Driver {
    /// Runs both devices until no output and no input is left.
    fn run(&mut self, mut inputs: VecDeque<(usize, Input)>) {
        loop {
            // The contract of `Machine`: drain all outputs before the next input.
            inputs.extend((0..2).flat_map(|who| self.drain_outputs(who)));
            let Some((who, input)) = inputs.pop_front() else { return };
            self.devices[who].handle(input, NOW, self.rng.rng()).expect("a valid input");
        }
    }

    /// Carries out the outputs of one device in their order. Returns the replies of the relay.
    fn drain_outputs(&mut self, who: usize) -> Vec<(usize, Input)> {
        let mut replies = Vec::new();
        while let Some(output) = self.devices[who].poll() {
            match output {
                // A program syncs the batch to its disk before it carries out the next output. Otherwise
                // a crash could send a ciphertext and lose the ratchet state that made it.
                Output::Store(batch) => batch.0.into_iter().for_each(|change| match change {
                    RecordChange::Put { kind, key, value, .. } => {
                        self.disks[who].insert((kind, key), value.to_vec());
                    }
                    RecordChange::Drop { kind, key } => {
                        self.disks[who].remove(&(kind, key));
                    }
                }),
                Output::Carrier(CarrierOutput::Relay(request)) => {
                    let answers = self.relay.handle(who, request).into_iter();
                    replies.extend(answers.map(|(to, input)| (to, input.into())));
                }
                Output::Notify(event) => self.print_event(who, event),
                // Outputs for a mixnet: neither device has joined one.
                Output::Carrier(
                    CarrierOutput::Mixnet(_) | CarrierOutput::Mesh(_) | CarrierOutput::Link(_),
                )
                | Output::Durable(..) => {}
            }
        }
        replies
    }

    /// Prints an event. An event contains numbers only, so the text comes from the device.
    fn print_event(&self, who: usize, event: Event) {
        if let Event::Note(_, note) | Event::State(_, note) = event
            && let Some(view) = self.devices[who].note(note, NOW)
            && let NoteContent::Text(text) = view.body
        {
            println!("{:>5}: \"{text}\" is {:?}", NAMES[who], view.state);
        } else {
            println!("{:>5}: {event:?}", NAMES[who]);
        }
    }
}

fn main() {
    let relay = RelayEntry {
        key: RelayKey([7; 32]),
        address: MailboxAddress([0; 16]),
        port: 7101,
        host: "relay.example".into(),
    };
    let mut rng = SimRng::new(7, 0);
    let devices = NAMES.map(|name| {
        let relays = std::slice::from_ref(&relay);
        Device::create(CarrierSet::default(), name, relays, NOW, rng.rng()).expect("a valid name")
    });
    let mut driver = Driver { devices, disks: Default::default(), relay: Relay::default(), rng };
    println!("Both devices open their mailboxes and publish their bundles.");
    driver.run(VecDeque::new());

    println!("\nAlice adds Bob's card and writes. Her device fetches Bob's bundle first.");
    let card = driver.devices[1].card(CardForm::Full).expect("a card");
    let ik = *card.ik().as_bytes();
    let add = Command::Add { card, petname: None, in_person: false };
    driver.run(VecDeque::from([(0, add.into())]));
    let contact = driver.devices[0].contact_by_ik(&ik).expect("added");
    let send = Command::Send { contact, client: [1; 16], text: "hello bob".into(), life: None };
    driver.run(VecDeque::from([(0, send.into())]));

    println!("\nBob accepts the request. His device sends the receipt.");
    let contact = driver.devices[1].contacts().first().expect("a request").id;
    driver.run(VecDeque::from([(1, Command::Accept { contact }.into())]));

    let note = driver.devices[0].find_sent(&[1; 16]).expect("accepted");
    let state = driver.devices[0].note(note, NOW).expect("stored").state;
    assert_eq!(state, NoteState::Delivered);
    println!("\nStored records: {} and {}.", driver.disks[0].len(), driver.disks[1].len());
}
