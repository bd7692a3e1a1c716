//! Three phones, a relay, and the answers that are under way.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{Machine, PortableBackend, Secret, Time, Wiping};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{
    CarrierOutput, CarrierSet, Device, Input, MailboxId, Output, RecordChange, RecordKind,
    RelayInput, RelayOutput, RequestId,
};
use mezza_ratchet::OneTimePrekey;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::{PHONES, START, relay};

type Disk = BTreeMap<(RecordKind, Vec<u8>), Wiping<Vec<u8>>>;

/// What a phone may be handed later, in any order, once, twice or never.
#[derive(Clone)]
pub(super) enum Answer {
    Up,
    Handed(RequestId),
    Refused(RequestId, u8),
    Arrived(MailboxId, u64, Vec<u8>),
    Bundle(RequestId, Vec<u8>, Option<OneTimePrekey>),
}

/// A device, its disk, and what the relay still has to say to it.
pub(super) struct Phone {
    pub(super) device: Device<PortableBackend>,
    pub(super) disk: Disk,
    pub(super) answers: VecDeque<Answer>,
    pub(super) watched: BTreeMap<MailboxAddress, MailboxId>,
}

/// A box at the relay.
#[derive(Default)]
pub(super) struct Mailbox {
    pub(super) mails: BTreeMap<u64, Vec<u8>>,
    pub(super) bundle: Vec<u8>,
    pub(super) one_time: Vec<OneTimePrekey>,
}

pub(super) struct Town {
    pub(super) phones: Vec<Phone>,
    pub(super) boxes: BTreeMap<MailboxAddress, Mailbox>,
    pub(super) mails: u64,
    pub(super) now: Time,
    pub(super) rng: ChaCha8Rng,
}

impl Answer {
    pub(super) fn input(self) -> Input {
        let input = match self {
            Self::Up => RelayInput::Up { connection: relay().connection(), level: 1, demo: false },
            Self::Handed(ticket) => RelayInput::Done { ticket },
            Self::Refused(ticket, code) => RelayInput::Refused { ticket, code, retry_s: 5 },
            Self::Arrived(mailbox, mail, envelope) => RelayInput::Mail { mailbox, mail, envelope },
            Self::Bundle(ticket, bytes, one_time) => RelayInput::Bundle { ticket, bytes, one_time },
        };
        input.into()
    }
}

impl Town {
    pub(super) fn new() -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let relay = relay();
        let phone = |name: &&str| {
            let device = Device::create(
                CarrierSet::default(),
                name,
                std::slice::from_ref(&relay),
                START,
                &mut rng,
            );
            let device = device.expect("a name and a relay make a device");
            let (disk, answers) = (Disk::new(), VecDeque::new());
            Phone { device, disk, answers, watched: BTreeMap::new() }
        };
        let phones = ["alice", "bob", "carol"].iter().map(phone).collect();
        let boxes = BTreeMap::new();
        let mut town = Self { phones, boxes, mails: 0, now: START, rng };
        for who in 0..PHONES {
            town.execute(who);
            town.settle(who, 64);
        }
        town
    }

    /// Hands one input over; a refusal leaves everything as it was.
    pub(super) fn handle(&mut self, who: usize, input: Input) {
        let device = &mut self.phones[who].device;
        let before = device.snapshot();
        if device.handle(input, self.now, &mut self.rng).is_err() {
            let same = before == self.phones[who].device.snapshot();
            assert!(same, "a refused input changed the device");
        }
        self.execute(who);
    }

    /// Carries out what a phone wants, in order.
    pub(super) fn execute(&mut self, who: usize) {
        while let Some(output) = self.phones[who].device.poll() {
            if let Output::Store(batch) = output {
                for change in batch.0 {
                    match change {
                        RecordChange::Put { kind, key, value, .. } => {
                            self.phones[who].disk.insert((kind, key), value);
                        }
                        RecordChange::Drop { kind, key } => {
                            self.phones[who].disk.remove(&(kind, key));
                        }
                    }
                }
            } else if let Some(answer) = self.ask_relay(who, output) {
                self.phones[who].answers.push_back(answer);
            }
        }
    }

    pub(super) fn ask_relay(&mut self, who: usize, output: Output) -> Option<Answer> {
        let Output::Carrier(CarrierOutput::Relay(output)) = output else { return None };
        Some(match output {
            RelayOutput::Connect { .. } => Answer::Up,
            RelayOutput::Open { ticket, token, .. } => {
                self.boxes.entry(address(token.expose())).or_default();
                Answer::Handed(ticket)
            }
            RelayOutput::Close { ticket, token, .. } => {
                self.boxes.remove(&address(token.expose()));
                Answer::Handed(ticket)
            }
            RelayOutput::Watch { mailbox: slot, token, .. } => {
                self.watch(who, slot, address(token.expose()));
                return None;
            }
            RelayOutput::Put { ticket, address, envelope: bytes, .. } => {
                self.put(ticket, address, &bytes)
            }
            RelayOutput::Publish { ticket, token, bundle, one_time, replace, .. } => {
                let mailbox = self.boxes.entry(address(token.expose())).or_default();
                if replace {
                    mailbox.one_time.clear();
                }
                mailbox.bundle = bundle;
                mailbox.one_time.extend(one_time);
                Answer::Handed(ticket)
            }
            RelayOutput::Fetch { ticket, address, .. } => match self.boxes.get_mut(&address) {
                Some(mailbox) if !mailbox.bundle.is_empty() => {
                    Answer::Bundle(ticket, mailbox.bundle.clone(), mailbox.one_time.pop())
                }
                _ => Answer::Refused(ticket, 1),
            },
            RelayOutput::Acknowledge { mail, .. } => {
                self.boxes.values_mut().for_each(|mailbox| drop(mailbox.mails.remove(&mail)));
                return None;
            }
            RelayOutput::Disconnect { .. } => return None,
        })
    }

    pub(super) fn watch(&mut self, who: usize, slot: MailboxId, address: MailboxAddress) {
        let phone = &mut self.phones[who];
        phone.watched.insert(address, slot);
        if let Some(mailbox) = self.boxes.get(&address) {
            let mails = mailbox.mails.iter();
            phone
                .answers
                .extend(mails.map(|(nr, bytes)| Answer::Arrived(slot, *nr, bytes.clone())));
        }
    }

    pub(super) fn put(
        &mut self,
        ticket: RequestId,
        address: MailboxAddress,
        bytes: &[u8],
    ) -> Answer {
        let Some(mailbox) = self.boxes.get_mut(&address) else {
            return Answer::Refused(ticket, 1);
        };
        self.mails += 1;
        mailbox.mails.insert(self.mails, bytes.to_vec());
        for phone in &mut self.phones {
            if let Some(slot) = phone.watched.get(&address) {
                phone.answers.push_back(Answer::Arrived(*slot, self.mails, bytes.to_vec()));
            }
        }
        Answer::Handed(ticket)
    }

    /// Hands over up to `count` answers in their order.
    pub(super) fn settle(&mut self, who: usize, count: usize) {
        for _ in 0..count {
            let Some(answer) = self.phones[who].answers.pop_front() else { return };
            self.handle(who, answer.input());
        }
    }

    /// Dies and starts again from the disk.
    pub(super) fn crash(&mut self, who: usize) {
        let phone = &mut self.phones[who];
        let rows =
            phone.disk.iter().map(|((kind, key), value)| (*kind, key.clone(), value.clone()));
        let loaded = Device::load(CarrierSet::default(), rows, &[], self.now, &mut self.rng);
        phone.device = loaded.expect("what a device stored loads");
        phone.answers.clear();
        phone.watched.clear();
        self.execute(who);
    }
}

pub(super) fn address(token: &[u8; 32]) -> MailboxAddress {
    MailboxAddress::of(&Secret::copy_from(token))
}
