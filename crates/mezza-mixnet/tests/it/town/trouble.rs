//! Sleep, lines that die without a word, configs that change, and an entry that moves.

use mezza_core::Backend;
use mezza_mixnet::config::{Chain, SignedConfig};
use mezza_mixnet::coordinator::{self, Coordinator};
use mezza_mixnet::mix;

use super::Town;
use crate::fixture::{chain, signer};

impl<B: Backend> Town<B> {
    /// Somebody is not there for a while, or was not: being back begins with the next round.
    pub fn disturb(&mut self, at: usize) {
        self.people[at].back = None;
    }

    /// The process of a person ends, and is started again after so long.
    pub fn stop(&mut self, at: usize, ms: u64) {
        if self.people[at].client.is_some() {
            self.crash(at);
            self.people[at].up_at = Some(self.now().plus_ms(ms));
        }
    }

    /// By how many milliseconds the clock of a person is off.
    pub fn clock_error(&self, at: usize) -> u64 {
        self.people[at].ahead_ms.abs_diff(self.people[at].back_ms)
    }

    /// The line of a person dies, and only the entry is told.
    pub fn silence(&mut self, at: usize) {
        self.disturb(at);
        self.people[at].is_silent = true;
        if let Some(connection) = self.people[at].connection {
            self.city.input(coordinator::Input::Gone(connection));
        }
    }

    /// The machine of a person sleeps: nothing runs, and the entry gives the line up.
    pub fn fall_asleep(&mut self, at: usize) {
        self.silence(at);
        self.people[at].is_asleep = true;
    }

    /// It goes on; with `told` the system reports the dead line at once.
    pub fn wake_up(&mut self, at: usize, told: bool) {
        self.people[at].is_asleep = false;
        self.wake(at);
        if told {
            self.cut(at);
        }
    }

    /// Returns true if somebody answers a dial: the entry where the client takes it to be, with the key of
    /// its config. To a search it answers wherever an entry ever was.
    pub(super) fn answers(&self, at: usize, search: Option<u32>) -> bool {
        let clock = self.clock(at);
        let known = self.people[at].client.as_ref().and_then(|client| client.chain());
        let Some(taken) = known.and_then(|chain| chain.current_config(clock)) else { return true };
        let entry = self.city.entry.chain().current_config(self.now());
        search.is_some() || entry.is_some_and(|entry| entry.coordinator == taken.coordinator)
    }

    /// Guardians publish a config: mixes and entry read it.
    pub fn publish(&mut self, config: &SignedConfig) {
        for at in 0..self.city.net.mixes.len() {
            self.city.net.input(at, mix::Input::Config(config.clone()));
        }
        self.city.input(coordinator::Input::Config(config.clone()));
    }

    /// Another process is the entry from now on, with the key of this number; all lines are lost.
    pub fn replace_entry(&mut self, key: u8, configs: &[SignedConfig]) {
        let now = self.now();
        let mut known: Chain = chain(&self.city.net.config);
        for next in &configs[1..] {
            known.accept_config(next, now).expect("its guardians signed");
        }
        self.city.entry = Coordinator::new(signer(key), known, configs.to_vec());
        (0..self.people.len()).for_each(|at| self.lose_entry(at));
    }

    fn lose_entry(&mut self, at: usize) {
        self.disturb(at);
        if self.people[at].is_asleep || self.people[at].is_silent {
            return;
        }
        self.cut(at);
    }

    /// Drops what a long world need not remember.
    pub fn forget_past(&mut self) {
        let city = &mut self.city;
        city.all.clear();
        city.over.clear();
        city.hung_up.clear();
        city.refused.clear();
        city.net.refused.clear();
        let live: Vec<u64> = self.people.iter().filter_map(|person| person.connection).collect();
        city.told.retain(|connection, _| live.contains(connection));
        self.heard = live.into_iter().map(|connection| (connection, 0)).collect();
        for person in &mut self.people {
            person.frames.clear();
            person.records.clear();
            person.news.clear();
            person.drops.clear();
            person.calls.clear();
            person.times = super::disk::Times::default();
        }
    }
}
