//! Worlds: people whose network, relay and devices fail at any moment, and a judge who sees all.

mod carriers;
pub mod hosts;
mod punctual;

use std::collections::BTreeMap;

use mezza_core::{Machine, Time};
use mezza_messenger::card::{Card, CardForm};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::NoteContent;
use mezza_messenger::{Command, ContactId, Event, Input};
use mezza_sim::{CrashRate, HostId, LinkModel, World, WorldStep, for_each_seed};

use crate::stage::{START, load, records};
use hosts::{AT, Memory, Party, Say, device, newborn, on_disk, sealed};

/// The memory of the judge of a run.
#[derive(Default)]
struct Judge {
    /// Accepted notes: writer, reader, text.
    accepted: BTreeMap<String, (HostId, HostId)>,
    /// The texts that each chain key has sealed.
    chains: BTreeMap<(HostId, [u8; 32], [u8; 3]), Vec<u8>>,
    peers: BTreeMap<(HostId, ContactId), HostId>,
}

impl Judge {
    /// Looks at everything after one step.
    fn look(&mut self, world: &World<Party>, step: &WorldStep<Event>) {
        match step {
            WorldStep::Told { at: place, news: Event::Note(contact, note) } => {
                let Some(device) = device(world.host(*place)) else { return };
                let Some(view) = device.note(*note, world.now_at(*place)) else { return };
                let (NoteContent::Text(text), false) = (view.body, view.incoming) else { return };
                let Some(reader) = self.peers.get(&(*place, *contact)) else { return };
                // P3 begins here: the person was told that the note is accepted.
                assert!(
                    on_disk(world.disk(*place), &text),
                    "accepted before it was stored: {text}"
                );
                self.accepted.insert(text, (*place, *reader));
            }
            WorldStep::Told { at: place, news: Event::State(contact, note) } => {
                let Some(device) = device(world.host(*place)) else { return };
                let Some(view) = device.note(*note, world.now_at(*place)) else { return };
                let Some(reader) = self.peers.get(&(*place, *contact)) else { return };
                let NoteContent::Text(text) = view.body else { return };
                // P2: `delivered` means that the other device has it on disk.
                if view.state == NoteState::Delivered {
                    assert!(on_disk(world.disk(*reader), &text), "a state lies: {text}");
                }
            }
            WorldStep::Stored(place) => {
                let Memory::Person(disk) = world.disk(*place) else { return };
                // P5: no chain key seals two texts.
                for ((key, n), message) in sealed(disk) {
                    let old = self.chains.insert((*place, key, n), message.clone());
                    assert!(old.is_none_or(|old| old == message), "a chain key was used twice");
                }
            }
            _ => {}
        }
    }
}

/// People of a world who have each other's cards.
fn people(seed: u64, world: &mut World<Party>, judge: &mut Judge) -> Vec<HostId> {
    let count = 2 + (seed % 3) as usize;
    world.add_host(Memory::Relay(crate::model::Store::default()));
    let mut rng =
        <rand_chacha::ChaCha20Rng as rand_chacha::rand_core::SeedableRng>::seed_from_u64(seed);
    let mut disks: Vec<_> =
        (0..count).map(|i| newborn(&format!("p{i}"), START, &mut rng)).collect();
    let cards: Vec<Card> = disks
        .iter()
        .map(|disk| load(disk, START, &mut rng).card(CardForm::Full).expect("the full form"))
        .collect();
    for (i, disk) in disks.iter_mut().enumerate() {
        let mut device = load(disk, START, &mut rng);
        for (j, card) in cards.iter().enumerate().filter(|(j, _)| *j != i) {
            // In every third world the second of a pair learns of the first only by a request.
            if seed.is_multiple_of(3) && j < i {
                continue;
            }
            let card = card.clone();
            let command = Command::Add { card, petname: None, in_person: false };
            device.handle(Input::Command(command), START, &mut rng).expect("a good card");
            let ik = cards[j].ik().as_bytes();
            let contact = device.contact_by_ik(ik).expect("added");
            judge.peers.insert((HostId(i as u32 + 1), contact), HostId(j as u32 + 1));
        }
        *disk = records(&device);
    }
    disks.into_iter().map(|disk| world.add_host(Memory::Person(disk))).collect()
}

/// Orders notes at random moments of the next `span_ms`.
fn write_notes(world: &mut World<Party>, judge: &Judge, notes: usize, span_ms: u64) -> usize {
    let pairs: Vec<(HostId, ContactId)> = judge.peers.keys().copied().collect();
    for i in 0..notes {
        let (place, contact) = *world.dice().pick(&pairs).expect("somebody knows somebody");
        let delay = world.dice().between(0, span_ms);
        let mut client = [0; 16];
        client[..8].copy_from_slice(&(i as u64).to_be_bytes());
        let text = format!("note {i:04} of {place}");
        world.schedule_order(place, delay, Say { contact, client, text });
    }
    notes
}

/// Everything accepted has arrived once, and the writer knows it.
fn settle(world: &mut World<Party>, judge: &mut Judge) {
    world.stop_faults();
    world.run_for(15 * Time::MINUTE_MS, |world, step| judge.look(world, step));
    for (text, (writer, reader)) in &judge.accepted {
        let count = |place: HostId| {
            let device = device(world.host(place)).expect("everybody is up again");
            let contacts = device.contacts();
            let notes = contacts
                .iter()
                .flat_map(|contact| device.thread(contact.id, None, 10_000, world.now_at(place)));
            notes.filter(|note| note.body == NoteContent::Text(text.clone())).collect::<Vec<_>>()
        };
        let written = count(*writer);
        let read = count(*reader);
        assert_eq!(written.len(), 1, "{text} stands {} times at its writer", written.len());
        // Who is away for a month may miss what no carrier could keep; then it says so.
        if written[0].state == NoteState::Expired {
            assert!(read.len() <= 1 && world.now() >= START.plus_ms(30 * Time::DAY_MS), "{text}");
            continue;
        }
        assert_eq!(read.len(), 1, "{text} arrived {} times", read.len());
        assert_eq!(written[0].state, NoteState::Delivered, "{text}");
    }
}

#[test]
fn slow_nothing_accepted_is_lost_and_no_state_lies() {
    for_each_seed(100, |seed| {
        let mut world = World::<Party>::new(seed);
        let mut judge = Judge::default();
        let people = people(seed, &mut world, &mut judge);
        for place in &people {
            world.set_link(AT, *place, LinkModel::stream());
            world.set_crash_rate(*place, CrashRate { permille: 10, down_ms: (10, 5_000) });
            world.cache_writes(*place);
        }
        world.cache_writes(AT);
        world.set_crash_rate(AT, CrashRate { permille: 5, down_ms: (10, 3_000) });
        write_notes(&mut world, &judge, 12, 30_000);
        for _ in 0..5 {
            let place = *world.dice().pick(&people).expect("there are people");
            match world.dice().between(0, 3) {
                0 => world.cut_link(AT, place),
                1 => world.heal_link(AT, place),
                2 => world.shift_clock(place, 3 * Time::MINUTE_MS.cast_signed()),
                _ => world.crash_host(place, 2_000),
            }
            world.run_for(6_000, |world, step| judge.look(world, step));
        }
        settle(&mut world, &mut judge);
        assert!(!judge.accepted.is_empty());
    });
}

#[test]
fn slow_weeks_apart_and_still_together() {
    for_each_seed(20, |seed| {
        let mut world = World::<Party>::new(seed);
        let mut judge = Judge::default();
        let people = people(seed, &mut world, &mut judge);
        for place in &people {
            world.set_link(AT, *place, LinkModel::stream());
        }
        write_notes(&mut world, &judge, 12, 40 * Time::DAY_MS);
        for _ in 0..8 {
            let place = *world.dice().pick(&people).expect("there are people");
            world.cut_link(AT, place);
            world.run_for(5 * Time::DAY_MS, |world, step| judge.look(world, step));
            world.heal_link(AT, place);
        }
        settle(&mut world, &mut judge);
    });
}
