//! Vaults that have more than one life, on both sides and over all carriers: copies that are put back, that
//! run beside the original, that move without the state folder (MSG-91, MSG-127).
//!
//! A judge looks after each step: nothing stands as delivered that the other side never had, nothing is shown
//! twice, and nobody hears of it to whom nobody wrote. Once one life is left on each side, all that waits
//! arrives within a bound, and so does what is written then.

use std::collections::BTreeSet;

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::view::NoteContent;
use mezza_messenger::{CarrierId, Command, ContactId};
use mezza_sim::{SimRng, for_each_seed};

use crate::stage::Disk;
use crate::town::{ROUND_MS, Town, cells, config};

/// A third party whose card both hold and to which neither writes.
const CID: usize = 2;
/// The time in which everything works again by itself, ms.
const BOUND_MS: u64 = 40 * Time::MINUTE_MS;
/// Steps of one story.
const STEPS: (u64, u64) = (4, 14);

/// One side of the conversation.
struct Side {
    /// The devices of its vault: one, or two that run beside each other.
    lives: Vec<usize>,
    contact: ContactId,
    copy: Option<Disk>,
    /// All that the other side wrote and any life of this vault has had on its disk.
    had: BTreeSet<String>,
    written: u32,
    /// When its person last began anew, as was said.
    advised_at: Option<Time>,
}

/// The conversation, and the town in which it is.
struct Story {
    town: Town,
    sides: [Side; 2],
    dice: SimRng,
    log: Vec<String>,
}

/// Which carriers a conversation takes.
fn policy(carriers: &[CarrierId]) -> Policy {
    match carriers {
        [CarrierId::RELAY] => Policy::default(),
        [CarrierId::MIXNET] => cells(1),
        all => Policy { carriers: all.to_vec(), fallback: Fallback::Listed, ..Policy::default() },
    }
}

impl Story {
    /// Two who have written to each other, and hold the card of a third.
    fn begin(seed: u64, carriers: &[CarrierId]) -> Self {
        let mut config = config();
        if carriers == [CarrierId::RELAY] {
            // Rounds cost time, and carry nothing here.
            config.services.iter_mut().for_each(|policy| policy.interval_ms = 3_600_000);
        }
        let mut town = Town::with(config, &["ann", "ben", "cid"]);
        let contacts = [town.add(0, 1, policy(carriers)), town.add(1, 0, policy(carriers))];
        for who in 0..2 {
            town.add(who, CID, policy(carriers));
        }
        let sides = [0, 1].map(|who| Side {
            lives: vec![who],
            contact: contacts[who],
            copy: None,
            had: BTreeSet::new(),
            written: 0,
            advised_at: None,
        });
        let dice = SimRng::new(seed, 0);
        let mut story = Self { town, sides, dice, log: Vec::new() };
        for side in 0..2 {
            story.write(side, 0);
            story.pass(10 * ROUND_MS);
        }
        for _ in 0..60 {
            if story.open().is_empty() {
                return story;
            }
            story.pass(ROUND_MS);
        }
        panic!("they do not meet: {}", story.state());
    }

    fn write(&mut self, side: usize, life: usize) {
        let Side { lives, contact, written, .. } = &mut self.sides[side];
        *written += 1;
        let text = format!("{} of {side}", *written);
        let who = lives[life];
        let contact = *contact;
        self.town.say(who, contact, &text);
        self.judge();
    }

    fn pass(&mut self, ms: u64) {
        let end = self.town.now().plus_ms(ms);
        while self.town.now() < end {
            self.town.pass(ROUND_MS.min(end.since_ms(self.town.now())));
            self.judge();
        }
    }

    /// One step by chance.
    fn step(&mut self) {
        let side = self.dice.between(0, 1) as usize;
        let life = self.dice.between(0, self.sides[side].lives.len() as u64 - 1) as usize;
        let who = self.sides[side].lives[life];
        let is_noticed = self.dice.chance(500);
        let step = self.dice.between(0, 9);
        match step {
            0..=2 => self.write(side, life),
            3 => self.sides[side].copy = Some(self.town.members[who].disk.clone()),
            4 => {
                if let Some(disk) = self.sides[side].copy.clone() {
                    self.town.put_back(who, disk);
                    self.notice(who, is_noticed);
                }
            }
            5 => self.second_life(side, who, is_noticed),
            6 => self.last_life(side),
            7 => {
                let disk = self.town.members[who].disk.clone();
                self.town.put_back(who, disk);
                self.notice(who, true);
            }
            _ => {
                let is_online = self.town.members[who].relay;
                self.town.set_online(who, !is_online);
            }
        }
        self.log.push(format!(
            "{} step {step} side {side} life {who} noticed {is_noticed}",
            self.town.now().since_ms(crate::stage::START) / 1_000
        ));
        self.judge();
        let pause_ms = [1_000, 20_000, Time::MINUTE_MS, 4 * Time::MINUTE_MS, 12 * Time::MINUTE_MS];
        let pause_ms = *self.dice.pick(&pause_ms).expect("there are some");
        self.pass(pause_ms);
    }

    /// The vault is older than its witness, or came without it.
    fn notice(&mut self, who: usize, is_noticed: bool) {
        if is_noticed {
            self.town.command(who, Command::Restored).expect("always");
        }
    }

    /// A copy runs beside the original.
    fn second_life(&mut self, side: usize, who: usize, is_noticed: bool) {
        if self.sides[side].lives.len() > 1 {
            return;
        }
        let own = || self.town.members[who].disk.clone();
        let disk = self.sides[side].copy.clone().unwrap_or_else(own);
        let life = self.town.begin_life(disk);
        self.notice(life, is_noticed);
        self.sides[side].lives.push(life);
    }

    /// One of two lives ends.
    fn last_life(&mut self, side: usize) {
        while self.sides[side].lives.len() > 1 {
            let at = self.dice.between(0, 1) as usize;
            let who = self.sides[side].lives.remove(at);
            self.town.end_life(who);
        }
    }

    /// Looks at everything.
    fn judge(&mut self) {
        for side in 0..2 {
            for life in self.sides[side].lives.clone() {
                let own = &mut self.sides[side];
                let texts = self.town.texts(life, own.contact);
                let texts: Vec<String> =
                    texts.into_iter().filter(|text| !text.starts_with('>')).collect();
                let all: BTreeSet<String> = texts.iter().cloned().collect();
                assert_eq!(texts.len(), all.len(), "shown twice to {side}: {texts:?}");
                own.had.extend(all);
            }
        }
        for side in 0..2 {
            let other = &self.sides[1 - side].had;
            let own = &self.sides[side];
            for life in &own.lives {
                for note in self.town.thread(*life, own.contact) {
                    let NoteContent::Text(text) = note.body else { continue };
                    let is_there = matches!(note.state, NoteState::Delivered | NoteState::Read);
                    assert!(
                        note.incoming || !is_there || other.contains(&text),
                        "a state lies: {text}"
                    );
                }
            }
        }
        let cid = &self.town.members[CID].device;
        assert!(cid.contacts().is_empty() && cid.inviters().is_empty(), "a third is written to");
    }

    /// Own notes of the last lives that have not arrived.
    fn open(&self) -> Vec<String> {
        let own = self.sides.iter().flat_map(|side| {
            let notes = side.lives.iter().flat_map(|life| self.town.thread(*life, side.contact));
            notes.filter(|note| !note.incoming)
        });
        let open = own.filter(|note| !matches!(note.state, NoteState::Delivered | NoteState::Read));
        open.map(|note| format!("{:?} {:?}", note.body, note.state)).collect()
    }

    /// One life is left on each side, and both write. Returns the time until all has arrived, ms.
    fn end(&mut self) -> Result<u64, String> {
        for side in 0..2 {
            self.last_life(side);
            let who = self.sides[side].lives[0];
            self.town.set_online(who, true);
            self.write(side, 0);
        }
        let begun = self.town.now();
        while self.town.now().since_ms(begun) < BOUND_MS {
            if self.open().is_empty() {
                return Ok(self.town.now().since_ms(begun));
            }
            (0..2).for_each(|side| self.follow_advice(side));
            self.pass(ROUND_MS);
        }
        Err(self.state())
    }

    /// Where nothing but the mixnet serves the conversation, the person does what is said at a contact that
    /// is not met.
    fn follow_advice(&mut self, side: usize) {
        let Side { lives, contact, advised_at, .. } = &mut self.sides[side];
        let who = lives[0];
        let contact = *contact;
        let now = self.town.now();
        let view = self.town.members[who].device.contact(contact).expect("there");
        let is_alone = view.policy.carriers == [CarrierId::MIXNET];
        let rests = advised_at.is_some_and(|at| now.since_ms(at) < BOUND_MS / 2);
        if is_alone && !rests && view.trouble == Some(DeliveryProblem::Absent) {
            *advised_at = Some(now);
            self.town.command(who, Command::Reset { contact }).expect("open");
        }
    }

    /// Open notes, trouble and session of each side: the cause of a failure.
    fn state(&self) -> String {
        let mut all = String::new();
        for side in &self.sides {
            for life in &side.lives {
                let device = &self.town.members[*life].device;
                let notes = self.town.thread(*life, side.contact).into_iter();
                let open = notes.filter(|note| {
                    !note.incoming && !matches!(note.state, NoteState::Delivered | NoteState::Read)
                });
                let open: Vec<String> =
                    open.map(|note| format!("{:?} {:?}", text(&note.body), note.state)).collect();
                let contact = device.contact(side.contact).expect("there");
                let session = device.session(side.contact);
                let line = format!(
                    "\nlife {life}: {open:?}, {:?}, {:?}, session {session:?}, knows {}",
                    contact.standing,
                    contact.trouble,
                    self.town.is_known(*life, side.contact)
                );
                all.push_str(&line);
            }
        }
        all
    }
}

fn text(body: &NoteContent) -> &str {
    match body {
        NoteContent::Text(text) => text,
        NoteContent::Newer => "newer",
    }
}

/// A story of this seed. Returns the time until everything worked again, ms.
fn story(seed: u64, carriers: &[CarrierId]) -> u64 {
    let mut story = Story::begin(seed, carriers);
    for _ in 0..story.dice.between(STEPS.0, STEPS.1) {
        story.step();
    }
    match story.end() {
        Ok(ms) => ms,
        Err(open) => panic!("{open} after {:#?}", story.log),
    }
}

#[test]
fn msg_127_vaults_with_many_lives_write_to_each_other_again() {
    for_each_seed(20, |seed| {
        story(seed, &[CarrierId::RELAY]);
    });
}

#[test]
fn msg_127_slow_vaults_with_many_lives_write_to_each_other_again() {
    for_each_seed(300, |seed| {
        story(seed, &[CarrierId::RELAY]);
    });
}

#[test]
fn msg_129_slow_vaults_with_many_lives_go_on_over_the_carrier_that_works() {
    for_each_seed(4, |seed| {
        story(seed, &[CarrierId::MIXNET, CarrierId::RELAY]);
    });
}

#[test]
fn msg_130_slow_vaults_with_many_lives_go_on_in_cells_or_say_what_to_do() {
    for_each_seed(4, |seed| {
        story(seed, &[CarrierId::MIXNET]);
    });
}
