//! Two people in a mixnet: processes that stall, clocks that are put back and forth, an entry that
//! lies.

use mezza_core::{Machine, PortableBackend, Time};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::{NetworkView, NoteView};
use mezza_messenger::{ContactId, Device, RecordKind};
use mezza_sim::for_each_seed;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};

use crate::stage::{Disk, load, records};
use crate::town::{Town, cells, config};

/// From one round to the next: shorter than a stall.
const ROUND_MS: u32 = 2_000;
/// How long a process stands still.
const STALL_MS: u64 = 7_000;
/// Stories of a run; `MEZZA_TEST_SEEDS=100` takes two minutes.
const SEEDS: u64 = 20;
/// Steps of a story.
const STEPS: u32 = 20;
/// How far a clock is put back or forth at once.
const JUMPS_MS: [u64; 6] =
    [1_000, STALL_MS, 59_000, Time::MINUTE_MS, 5 * Time::MINUTE_MS, Time::DAY_MS];

/// Bytes of a contact's record that say how long it was served for its talk alone: the year, the time.
const TALK_BYTES: usize = 12;

struct Story {
    town: Town,
    /// The number of the other one at each of them.
    contacts: [ContactId; 2],
    dice: ChaCha20Rng,
    /// The notes of each of them, oldest first.
    said: [Vec<String>; 2],
}

impl Story {
    /// Two who have talked in cells.
    fn new(seed: u64) -> Self {
        let mut config = config();
        for policy in &mut config.services {
            policy.interval_ms = ROUND_MS;
        }
        let mut town = Town::with(config, &["ann", "ben"]);
        let contacts = [town.add(0, 1, cells(1)), town.add(1, 0, cells(1))];
        let dice = ChaCha20Rng::seed_from_u64(seed);
        let mut story = Self { town, contacts, dice, said: [Vec::new(), Vec::new()] };
        for who in 0..2 {
            story.say(who);
        }
        story.until_delivered(300);
        story
    }

    fn below(&mut self, end: u64) -> u64 {
        self.dice.next_u64() % end
    }

    fn say(&mut self, who: usize) {
        let text = format!("{who} {}", self.said[who].len());
        self.town.say(who, self.contacts[who], &text);
        self.said[who].push(text);
    }

    /// Something happens to one of them; who it was.
    fn step(&mut self) -> usize {
        let who = self.below(2) as usize;
        match self.below(20) {
            0..=4 => self.say(who),
            5..=9 => {
                let timers_first = self.below(2) == 0;
                self.town.stall(who, STALL_MS, timers_first);
            }
            10..=13 => self.jump(who),
            14 => {
                self.town.members[who].skew_ms = 0;
                self.town.look(who);
            }
            15 => self.town.crash(who),
            16 => self.town.hang_up(who),
            17 | 18 => {
                let seed = self.below(u64::MAX);
                self.town.members[who].entry.begin(seed);
            }
            _ => self.town.members[who].entry.end(),
        }
        let rounds = self.below(3);
        self.town.pass(rounds * u64::from(ROUND_MS));
        who
    }

    fn jump(&mut self, who: usize) {
        let ms = JUMPS_MS[self.below(JUMPS_MS.len() as u64) as usize].cast_signed();
        let back = self.below(2) == 0;
        self.town.members[who].skew_ms += if back { -ms } else { ms };
        self.town.look(who);
    }

    /// Checks that the stored state loads with nothing quarantined and, without due work, equals the running device.
    fn check(&self, who: usize) {
        let member = &self.town.members[who];
        let now = self.town.clock(who);
        let mut dice = ChaCha20Rng::seed_from_u64(1);
        let again = load(&member.disk, now, &mut dice);
        if member.device.deadline().is_some_and(|due| due <= now) {
            return;
        }
        let own = without_talk(&member.device);
        let loaded = without_talk(&again);
        let odd = own.iter().find(|(row, value)| loaded.get(row) != Some(value));
        let more = loaded.keys().find(|row| !own.contains_key(row));
        assert!(own == loaded, "loaded: {:?}, {more:?}", odd.map(|(row, _)| row));
        let used = |view: Option<NetworkView>| view.map(|network| network.rounds_used);
        let own = member.device.carriers().network_view(now);
        let loaded = again.carriers().network_view(now);
        assert_eq!(used(own), used(loaded), "the ledger");
    }

    /// Every note that came was said, and came once.
    fn check_threads(&self) {
        for (who, contact) in self.contacts.into_iter().enumerate() {
            let thread = self.town.texts(who, contact);
            let came: Vec<&String> = thread.iter().filter(|text| !text.starts_with('>')).collect();
            let mut all: Vec<&String> = self.said[1 - who].iter().collect();
            all.retain(|text| came.contains(text));
            assert_eq!(came.len(), all.len(), "a note came twice, or was never said: {thread:?}");
        }
    }

    /// How many notes were accepted, and how many of them have a receipt; these have arrived.
    fn delivered(&self) -> (usize, usize) {
        let mut sent = 0;
        let mut delivered = 0;
        for (who, contact) in self.contacts.into_iter().enumerate() {
            let other = self.town.texts(1 - who, self.contacts[1 - who]);
            let own = self.town.thread(who, contact).into_iter().filter(|note| !note.incoming);
            for (note, text) in own.zip(&self.said[who]) {
                sent += 1;
                if note.state == NoteState::Delivered {
                    delivered += 1;
                    assert!(other.contains(text), "{text} has a receipt and is not there");
                }
            }
        }
        (sent, delivered)
    }

    /// A note that the mixnet took and that has not come.
    fn under_way(&self) -> Option<String> {
        (0..2).find_map(|who| {
            let other = self.town.texts(1 - who, self.contacts[1 - who]);
            let own = self.town.thread(who, self.contacts[who]).into_iter();
            let mut notes = own.filter(|note| !note.incoming).zip(&self.said[who]);
            let waits = |(note, text): &(NoteView, &String)| {
                matches!(note.state, NoteState::Handed(_)) && !other.contains(text)
            };
            notes.find(waits).map(|(_, text)| text.clone())
        })
    }

    /// In peace whatever the mixnet took comes, with or without a receipt. Who left while something
    /// waits for it, as a clock that is ahead makes one do, is called again after ten minutes and an
    /// hour.
    fn until_come(&mut self) {
        for _ in 0..90 {
            if self.under_way().is_none() {
                return;
            }
            self.town.pass(Time::MINUTE_MS);
        }
        panic!("{:?} was handed and is lost", self.under_way());
    }

    /// Rounds pass until all is delivered, or so many have passed.
    fn until_delivered(&mut self, rounds: u32) {
        for _ in 0..rounds {
            let (sent, delivered) = self.delivered();
            if sent == delivered {
                return;
            }
            self.town.pass(ROUND_MS.into());
        }
    }

    /// Clocks are set and entries are honest again.
    fn peace(&mut self) {
        for who in 0..2 {
            self.town.members[who].skew_ms = 0;
            self.town.members[who].entry.end();
            self.town.look(who);
        }
        self.until_delivered(60);
    }
}

/// The records of a device. What the client's rows hold comes out of it again after a start, and
/// has the contact heard once more (MSG-54): that time is left out.
fn without_talk(device: &Device<PortableBackend>) -> Disk {
    let mut disk = records(device);
    for ((kind, _), value) in &mut disk {
        if *kind == RecordKind::MixnetPeer {
            value.truncate(value.len() - TALK_BYTES);
        }
    }
    // A row that is there for this alone: no root and no call.
    disk.retain(|(kind, _), value| *kind != RecordKind::MixnetPeer || *value != [1, 0, 0]);
    disk
}

#[test]
fn msg_46_slow_what_was_stored_loads_whatever_an_entry_clocks_and_stalls_do() {
    let mut sent = 0;
    let mut delivered = 0;
    for_each_seed(SEEDS, |seed| {
        let mut story = Story::new(seed);
        for _ in 0..STEPS {
            let who = story.step();
            story.check(who);
            story.check_threads();
        }
        story.peace();
        story.until_come();
        for who in 0..2 {
            story.check(who);
            story.town.crash(who);
            story.check(who);
        }
        story.check_threads();
        let of_seed = story.delivered();
        sent += of_seed.0;
        delivered += of_seed.1;
    });
    println!("{delivered} of {sent} notes were delivered");
    assert!(2 * delivered > sent, "{delivered} of {sent}");
}
