//! Two devices with a queue between them: the cost of a note without disk and network.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context as _, Result, ensure};
use mezza::testing::process::rng::OsRng;
use mezza_core::{Backend, Machine, Time};
use mezza_messenger::card::{CardForm, RelayEntry, RelayKey};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{
    CallerError, CarrierError, CarrierInput, CarrierOutput, CarrierSet, Command, ContactId, Device,
    DeviceError, Input, MailboxId, NoteId, Output, RelayInput, RelayOutput, WriteBatch,
};
use mezza_ratchet::OneTimePrekey;

use crate::clock::cost_ns;

/// The relay that both cards name.
const RELAY: RelayKey = RelayKey([0x5f; 32]);
/// Time between two notes. Receipts of faster notes are delayed.
const PACE_MS: u64 = 2_100;
/// Number of notes after which the reader marks them as read and the clock moves by a day, because
/// a device limits the notes of a contact per day.
const DAY_NOTES: u64 = 4_000;
/// A typical note.
const TEXT: &str =
    "The quick brown fox jumps over the lazy dog, and the dog does not even look up.";

/// The mailboxes of a relay.
#[derive(Default)]
struct Boxes {
    watched: BTreeMap<MailboxAddress, (usize, MailboxId)>,
    waiting: BTreeMap<MailboxAddress, Vec<Vec<u8>>>,
    bundles: BTreeMap<MailboxAddress, (Vec<u8>, Vec<OneTimePrekey>)>,
    mails: u64,
}

/// The costs of one note: thread CPU time in nanoseconds, including the clock reads.
#[derive(Clone, Copy, Default)]
pub struct NoteCost {
    /// The writer's device: from the command to the relay's acknowledgement.
    pub sent: f64,
    /// Pairs of clock reads included in `sent`.
    pub sent_looks: f64,
    /// The reader's device.
    pub read: f64,
    /// The writer's device: the processing of the receipt.
    pub receipt: f64,
}

/// A writer and a reader.
pub struct DevicePair<B: Backend> {
    devices: [Device<B>; 2],
    reader: ContactId,
    writer: ContactId,
    now: Time,
    boxes: Boxes,
    inputs: VecDeque<(usize, Input)>,
    /// Batches that the writer's device has output.
    batches: Vec<WriteBatch>,
    notes: u64,
}

impl<B: Backend> DevicePair<B> {
    /// Makes two devices that have each other's cards and have exchanged notes.
    ///
    /// # Errors
    /// If a device refuses.
    pub fn new(now: Time) -> Result<Self> {
        let relay = RelayEntry {
            key: RELAY,
            address: MailboxAddress([0; 16]),
            port: 7101,
            host: "relay.example".into(),
        };
        let carriers = CarrierSet::<B>::default;
        let relays = std::slice::from_ref(&relay);
        let create = |name| Device::create(carriers(), name, relays, now, &mut OsRng);
        let devices = [create("writer")?, create("reader")?];
        let boxes = Boxes::default();
        let inputs = VecDeque::new();
        let batches = Vec::new();
        let reader = ContactId(0);
        let writer = ContactId(0);
        let mut pair = Self { devices, reader, writer, now, boxes, inputs, batches, notes: 0 };
        for who in 0..2 {
            let outputs = pair.take_outputs(who);
            pair.carry_out(who, outputs);
        }
        pair.handle_inputs(&mut NoteCost::default())?;
        pair.writer = pair.add_contact(1, 0)?;
        pair.reader = pair.add_contact(0, 1)?;
        pair.send_note()?;
        let writer = pair.writer;
        pair.run_command(
            1,
            Command::Send { contact: writer, client: [0xff; 16], text: TEXT.into(), life: None },
        )?;
        pair.pass_time(PACE_MS)?;
        Ok(pair)
    }

    fn add_contact(&mut self, who: usize, whom: usize) -> Result<ContactId> {
        let card = self.devices[whom].card(CardForm::Full)?;
        let ik = *card.ik().as_bytes();
        self.run_command(who, Command::Add { card, petname: None, in_person: true })?;
        self.devices[who].contact_by_ik(&ik).context("the contact was not added")
    }

    fn run_command(&mut self, who: usize, command: Command) -> Result<()> {
        self.inputs.push_back((who, Input::Command(command)));
        self.handle_inputs(&mut NoteCost::default())
    }

    /// Writes a note and runs both devices until the writer knows that it was delivered.
    ///
    /// # Errors
    /// If a device refuses, or the note does not arrive.
    pub fn send_note(&mut self) -> Result<NoteCost> {
        let mut cost = NoteCost::default();
        self.notes += 1;
        let mut client = [0; 16];
        client[..8].copy_from_slice(&self.notes.to_be_bytes());
        let command = Command::Send { contact: self.reader, client, text: TEXT.into(), life: None };
        self.inputs.push_back((0, Input::Command(command)));
        self.handle_inputs(&mut cost)?;
        let note = self.devices[0].find_sent(&client).context("a note without a number")?;
        self.pass_time(PACE_MS)?;
        let state = self.note_state(note)?;
        ensure!(matches!(state, NoteState::Delivered | NoteState::Read), "a note stays {state:?}");
        if self.notes.is_multiple_of(DAY_NOTES) {
            let contact = self.writer;
            let note = NoteId(u64::MAX);
            self.run_command(1, Command::Seen { contact, note })?;
            self.pass_time(Time::DAY_MS)?;
        }
        Ok(cost)
    }

    fn note_state(&self, note: NoteId) -> Result<NoteState> {
        Ok(self.devices[0].note(note, self.now).context("the note is gone")?.state)
    }

    /// Returns the batches that the writer's device has output since the last call.
    pub fn take_batches(&mut self) -> Vec<WriteBatch> {
        std::mem::take(&mut self.batches)
    }

    /// Returns the device of the writer.
    pub fn writer_device(&self) -> &Device<B> {
        &self.devices[0]
    }

    /// Returns the time of the simulation.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Advances the clock and wakes the devices at each deadline on the way.
    fn pass_time(&mut self, ms: u64) -> Result<()> {
        let end = self.now.plus_ms(ms);
        loop {
            let next = self.devices.iter().filter_map(Machine::deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            // A deadline in the past advances the clock by 1 ms, so that this loop ends.
            self.now = if next > self.now { next } else { self.now.plus_ms(1) };
            for who in 0..2 {
                self.devices[who].wake(self.now, &mut OsRng);
                let outputs = self.take_outputs(who);
                self.carry_out(who, outputs);
            }
            self.handle_inputs(&mut NoteCost::default())?;
        }
        self.now = end.max(self.now);
        Ok(())
    }

    /// Handles all waiting inputs, and the inputs that follow from them.
    fn handle_inputs(&mut self, cost: &mut NoteCost) -> Result<()> {
        while let Some((who, input)) = self.inputs.pop_front() {
            let is_own = matches!(
                input,
                Input::Command(_) | Input::Carrier(CarrierInput::Relay(RelayInput::Done { .. }))
            );
            let device = &mut self.devices[who];
            let now = self.now;
            let work = || {
                let refused = device.handle(input, now, &mut OsRng).err();
                let outputs: Vec<Output> = std::iter::from_fn(|| device.poll()).collect();
                (refused, outputs)
            };
            let ((refused, outputs), ns) = cost_ns(work)?;
            match (who, is_own) {
                (0, true) => {
                    cost.sent += ns;
                    cost.sent_looks += 1.0;
                }
                (0, false) => cost.receipt += ns,
                _ => cost.read += ns,
            }
            match refused {
                None
                | Some(
                    DeviceError::Carrier(CarrierError::NoSuchTicket)
                    | DeviceError::Caller(CallerError::NoSuchMailbox),
                ) => {}
                Some(error) => return Err(error.into()),
            }
            self.carry_out(who, outputs);
        }
        Ok(())
    }

    fn take_outputs(&mut self, who: usize) -> Vec<Output> {
        let device = &mut self.devices[who];
        std::iter::from_fn(|| device.poll()).collect()
    }

    /// Carries out outputs as relay and disk.
    fn carry_out(&mut self, who: usize, outputs: Vec<Output>) {
        for output in outputs {
            let order = match output {
                Output::Store(batch) => {
                    if who == 0 {
                        self.batches.push(batch);
                    }
                    continue;
                }
                Output::Carrier(CarrierOutput::Relay(order)) => order,
                Output::Carrier(
                    CarrierOutput::Mixnet(_) | CarrierOutput::Mesh(_) | CarrierOutput::Link(_),
                )
                | Output::Durable(..)
                | Output::Notify(_) => {
                    continue;
                }
            };
            let input = match order {
                RelayOutput::Connect { relay } => {
                    RelayInput::Up { connection: relay.connection_id(), level: 1, demo: false }
                }
                RelayOutput::Put { ticket, address, envelope: bytes, .. } => {
                    self.boxes.waiting.entry(address).or_default().push(bytes);
                    self.inputs.push_back((who, RelayInput::Done { ticket }.into()));
                    self.empty_mailbox(address);
                    continue;
                }
                RelayOutput::Watch { mailbox: slot, token, .. } => {
                    let address = MailboxAddress::from_token(&token);
                    self.boxes.watched.insert(address, (who, slot));
                    self.empty_mailbox(address);
                    continue;
                }
                RelayOutput::Open { ticket, .. } | RelayOutput::Close { ticket, .. } => {
                    RelayInput::Done { ticket }
                }
                RelayOutput::Publish { ticket, token, bundle, one_time, .. } => {
                    self.boxes
                        .bundles
                        .insert(MailboxAddress::from_token(&token), (bundle, one_time));
                    RelayInput::Done { ticket }
                }
                RelayOutput::Fetch { ticket, address, .. } => {
                    match self.boxes.bundles.get_mut(&address) {
                        Some((bytes, keys)) => RelayInput::Bundle {
                            ticket,
                            bytes: bytes.clone(),
                            one_time: keys.pop(),
                        },
                        None => RelayInput::Refused { ticket, code: 1, retry_s: 0 },
                    }
                }
                RelayOutput::Disconnect { .. } | RelayOutput::Acknowledge { .. } => continue,
            };
            self.inputs.push_back((who, input.into()));
        }
    }

    /// Delivers the mail of a mailbox to its owner.
    fn empty_mailbox(&mut self, address: MailboxAddress) {
        let Some((who, slot)) = self.boxes.watched.get(&address).copied() else { return };
        for bytes in self.boxes.waiting.remove(&address).unwrap_or_default() {
            self.boxes.mails += 1;
            let mail = self.boxes.mails;
            let input = RelayInput::Mail { mailbox: slot, mail, envelope: bytes };
            self.inputs.push_back((who, input.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza::testing::backend::AwsLc;

    #[test]
    fn every_note_is_delivered_and_stored() {
        let mut pair = DevicePair::<AwsLc>::new(mezza::testing::clock::now()).unwrap();
        assert!(!pair.take_batches().is_empty());
        for _ in 0..20 {
            let cost = pair.send_note().unwrap();
            assert!(cost.sent > 0.0 && cost.read > 0.0 && cost.receipt > 0.0);
            assert!((cost.sent_looks - 2.0).abs() < 0.1, "{}", cost.sent_looks);
        }
        assert!(pair.take_batches().len() >= 40);
    }
}
