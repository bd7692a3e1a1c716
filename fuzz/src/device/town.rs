//! Three phones, a relay, and its pending responses.

use std::collections::VecDeque;

use mezza_core::{PortableBackend, Time};
use mezza_messenger::{Device, Input};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::PHONES;
use crate::model::{Ask, Model, Store, Tell};
use crate::stage::{Disk, START, connection, drain, hand, load_any, newborn};

/// A device, its disk, and pending responses, which may be delivered in any order, once, twice or
/// never.
pub(super) struct Phone {
    pub(super) device: Device<PortableBackend>,
    pub(super) disk: Disk,
    pub(super) answers: VecDeque<Tell>,
}

pub(super) struct Town {
    pub(super) phones: Vec<Phone>,
    pub(super) relay: Model,
    pub(super) now: Time,
    pub(super) rng: ChaCha20Rng,
}

impl Town {
    pub(super) fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let phone = |name: &&str| {
            let disk = Disk::new();
            let answers = VecDeque::new();
            Phone { device: newborn(name, START, &mut rng), disk, answers }
        };
        let phones = ["alice", "bob", "carol"].iter().map(phone).collect();
        let mut town = Self { phones, relay: Model::new(Store::default()), now: START, rng };
        for who in 0..PHONES {
            town.perform_outputs(who);
            town.deliver_answers(who, 64);
        }
        town
    }

    /// Passes one input to a phone; a refusal must leave the state unchanged.
    pub(super) fn handle(&mut self, who: usize, input: Input) {
        let _ = hand(&mut self.phones[who].device, input, self.now, &mut self.rng);
        self.perform_outputs(who);
    }

    /// Delivers a message of the relay to a phone.
    pub(super) fn handle_tell(&mut self, who: usize, tell: Tell) {
        self.handle(who, tell.into_input(connection()));
    }

    /// Carries out the outputs of a phone, in order.
    pub(super) fn perform_outputs(&mut self, who: usize) {
        let Phone { device, disk, .. } = &mut self.phones[who];
        for ask in drain(device, disk).into_iter().filter_map(Ask::from_output) {
            let (early, late) = self.relay.ask(who, ask);
            for (who, tell) in early.into_iter().chain(late) {
                self.phones[who].answers.push_back(tell);
            }
        }
    }

    /// Delivers up to `count` responses in order.
    pub(super) fn deliver_answers(&mut self, who: usize, count: usize) {
        for _ in 0..count {
            let Some(answer) = self.phones[who].answers.pop_front() else { return };
            self.handle_tell(who, answer);
        }
    }

    /// Crashes a phone and starts it again from its disk.
    pub(super) fn crash_phone(&mut self, who: usize) {
        let device = load_any(&self.phones[who].disk, self.now, &mut self.rng);
        self.start_phone(who, device.expect("what a device stored loads"));
    }

    /// Replaces the device of a phone; it has received nothing yet.
    pub(super) fn start_phone(&mut self, who: usize, device: Device<PortableBackend>) {
        self.relay.leave(who);
        self.phones[who].device = device;
        self.phones[who].answers.clear();
        self.perform_outputs(who);
    }
}
