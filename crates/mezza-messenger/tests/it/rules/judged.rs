//! The judge of restores: one story, with a backup at each output of the device, over each set of carriers.
//!
//! The lost device goes on to the end of the story, and then another device starts from the backup.

use std::collections::BTreeSet;

use mezza_core::{PortableBackend, Time};
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::{NoteContent, NoteView, RestoreMark, RestoredView};
use mezza_messenger::{ContactId, Device, NoteId};

use super::leaving::{cells_first, met};
use super::restored::restore;
use crate::saved::{BackupPoint, Saved, rounds_used};
use crate::stage::Stage;
use crate::town::{ROUND_MS, Town};

#[derive(Clone, Copy)]
enum Step {
    Says(usize, &'static str),
    Leaves(usize),
    Comes(usize),
}

/// Notes with and without receipts, with and without numbers, on their way and at the relay.
const STORY: [Step; 17] = [
    Step::Says(0, "a1"),
    Step::Says(1, "b1"),
    Step::Leaves(1),
    Step::Says(0, "a2"),
    Step::Says(0, "a3"),
    Step::Comes(1),
    Step::Says(1, "b2"),
    Step::Leaves(0),
    Step::Says(0, "a4"),
    Step::Says(1, "b3"),
    Step::Comes(0),
    Step::Says(0, "a5"),
    Step::Leaves(0),
    Step::Says(1, "b4"),
    Step::Comes(0),
    Step::Says(1, "b5"),
    Step::Says(0, "a6"),
];

/// Two devices and the carriers between them.
trait Scene {
    fn now(&self) -> Time;
    fn device(&self, who: usize) -> &Device<PortableBackend>;
    fn say(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId;
    fn set_online(&mut self, who: usize, is_online: bool);
    /// The output at which device 0 makes its backup.
    fn point(&mut self) -> &mut BackupPoint;
    /// Time between two steps of the story.
    fn pass_step(&mut self);
    /// Time until everything that is on its way has arrived, repetitions included.
    fn pass_all(&mut self);
    /// Device 0 is lost. Three days later another one starts from the backup, and is online.
    fn restore(&mut self, saved: Saved);
    fn start_again(&mut self, who: usize);
}

impl Scene for Stage {
    fn now(&self) -> Time {
        self.now
    }

    fn device(&self, who: usize) -> &Device<PortableBackend> {
        &self.parties[who].device
    }

    fn say(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId {
        Self::say(self, who, contact, text)
    }

    fn set_online(&mut self, who: usize, is_online: bool) {
        if is_online { self.online(who) } else { self.offline(who) }
    }

    fn point(&mut self) -> &mut BackupPoint {
        &mut self.point
    }

    fn pass_step(&mut self) {}

    fn pass_all(&mut self) {
        self.pass(40 * Time::MINUTE_MS);
    }

    fn restore(&mut self, saved: Saved) {
        self.now = self.now.plus_ms(3 * Time::DAY_MS);
        restore(self, 0, saved);
        self.online(0);
    }

    fn start_again(&mut self, who: usize) {
        self.restart(who);
    }
}

impl Scene for Town {
    fn now(&self) -> Time {
        Self::now(self)
    }

    fn device(&self, who: usize) -> &Device<PortableBackend> {
        &self.members[who].device
    }

    fn say(&mut self, who: usize, contact: ContactId, text: &str) -> NoteId {
        Self::say(self, who, contact, text)
    }

    fn set_online(&mut self, who: usize, is_online: bool) {
        Self::set_online(self, who, is_online);
    }

    fn point(&mut self) -> &mut BackupPoint {
        &mut self.point
    }

    fn pass_step(&mut self) {
        // Shorter than a note and its receipt need: backups are made with cells on their way.
        self.pass(2 * ROUND_MS);
    }

    fn pass_all(&mut self) {
        self.pass(60 * ROUND_MS);
    }

    fn restore(&mut self, saved: Saved) {
        let before = saved.rounds_used;
        self.hang_up(0);
        self.sleep(3 * Time::DAY_MS);
        let disk = saved.into_disk(self.now(), &mut self.rng).expect("a device made it");
        self.put_back(0, disk);
        self.join(0).expect("its charges are known");
        // The charges after the backup are unknown to the file. Those before it stay.
        assert!(rounds_used(self.device(0), self.now()) >= before);
    }

    fn start_again(&mut self, who: usize) {
        self.crash(who);
    }
}

fn text(note: &NoteView) -> String {
    match &note.body {
        NoteContent::Text(text) => text.clone(),
        NoteContent::Newer => String::new(),
    }
}

/// A story that ended, and its judge.
struct Judge<'a, S> {
    scene: &'a mut S,
    contacts: [ContactId; 2],
    /// The output at which the backup was made.
    at: u32,
}

impl<S: Scene> Judge<'_, S> {
    fn thread(&self, who: usize) -> Vec<NoteView> {
        let now = self.scene.now();
        self.scene.device(who).thread(self.contacts[who], None, 10_000, now)
    }

    /// The texts of a thread, of one direction. None of them is there twice.
    fn texts(&self, who: usize, incoming: bool) -> BTreeSet<String> {
        let notes = self.thread(who);
        let all: Vec<String> =
            notes.iter().filter(|note| note.incoming == incoming).map(text).collect();
        let set: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), set.len(), "{}: a note is there twice: {all:?}", self.at);
        set
    }

    fn note(&self, who: usize, note: NoteId) -> NoteView {
        self.scene.device(who).note(note, self.scene.now()).expect("it is there")
    }

    fn restore_view(&self, who: usize) -> Option<RestoredView> {
        self.scene.device(who).contact(self.contacts[who]).expect("it is there").restored
    }

    fn act(&mut self) {
        for step in STORY {
            match step {
                Step::Says(who, text) => drop(self.scene.say(who, self.contacts[who], text)),
                Step::Leaves(who) => self.scene.set_online(who, false),
                Step::Comes(who) => self.scene.set_online(who, true),
            }
            self.scene.pass_step();
        }
        self.scene.pass_all();
    }

    /// Runs the story, restores, and judges. Returns false if the story has fewer outputs.
    fn run(&mut self) -> bool {
        let at = self.at;
        *self.scene.point() = BackupPoint::after(at);
        self.act();
        let Some(saved) = self.scene.point().saved.take() else { return false };
        let own = saved.notes.iter().filter(|note| !note.incoming);
        let numbered: Vec<_> = own.clone().filter(|note| note.seq > 0).map(|n| n.id).collect();
        let unsure: Vec<_> = own.filter(|note| note.seq == 0).map(|note| note.id).collect();
        let reached = self.texts(1, true);
        self.scene.restore(saved);
        self.scene.pass_all();

        let there = self.texts(1, true);
        for note in numbered.iter().map(|note| self.note(0, *note)) {
            assert_eq!(note.state, NoteState::Delivered, "{at}: {}", text(&note));
            assert!(there.contains(&text(&note)), "{at}: {}", text(&note));
        }
        let mut known = self.texts(0, false);
        for note in unsure.iter().map(|note| self.note(0, *note)) {
            assert!(matches!(note.mark, Some(RestoreMark::Unsure(_))), "{at}");
            assert_eq!(note.state, NoteState::Queued(WaitReason::Restored), "{at}");
            assert_eq!(there.contains(&text(&note)), reached.contains(&text(&note)), "{at}");
            known.remove(&text(&note));
        }
        let mine = self.restore_view(0).expect("it comes from a backup");
        let ahead = there.difference(&known).count();
        assert_eq!(mine.ahead as usize, ahead, "{at}: {there:?} {known:?}");
        assert_eq!((mine.unsure, mine.lost), (unsure.len(), 0), "{at}");
        self.judge_contact();
        self.judge_future(mine);
        true
    }

    /// Each note of the contact is on the restored device, or is shown as lost. None is both.
    fn judge_contact(&self) {
        let came = self.texts(0, true);
        for note in self.thread(1).iter().filter(|note| !note.incoming) {
            assert_eq!(note.state, NoteState::Delivered, "{}: {}", self.at, text(note));
            let is_lost = note.mark == Some(RestoreMark::Lost);
            assert_eq!(is_lost, !came.contains(&text(note)), "{}: {}", self.at, text(note));
        }
    }

    /// Both go on, and what they saw is the same after a start.
    fn judge_future(&mut self, mine: RestoredView) {
        let [bob, alice] = self.contacts;
        let new = [self.scene.say(0, bob, "I am back"), self.scene.say(1, alice, "welcome")];
        self.scene.pass_all();
        for (who, note) in new.into_iter().enumerate() {
            assert_eq!(self.note(who, note).state, NoteState::Delivered, "{}", self.at);
        }
        // The numbers of what was lost hold nothing up.
        assert_eq!(self.scene.device(0).contact(bob).expect("there").missing, 0, "{}", self.at);
        self.scene.start_again(0);
        self.scene.start_again(1);
        assert_eq!(self.restore_view(0), Some(mine), "{}", self.at);
    }
}

#[test]
fn backup_25_both_sides_show_what_was_lost_wherever_the_backup_was_made() {
    for at in 0.. {
        let (mut scene, bob, alice) = Stage::friends();
        let contacts = [bob, alice];
        if !(Judge { scene: &mut scene, contacts, at }).run() {
            assert!(at > 20, "{at} outputs");
            return;
        }
    }
}

/// Judges each `every`-th output of the story in a town.
fn judge_town(policy: &Policy, every: u32) {
    for at in (0..).step_by(every as usize) {
        let (mut scene, ben, ann) = met(0, policy);
        let contacts = [ben, ann];
        if !(Judge { scene: &mut scene, contacts, at }).run() {
            assert!(at > 20, "{at} outputs");
            return;
        }
    }
}

#[test]
fn backup_25_slow_both_sides_show_what_was_lost_over_relay_and_mixnet() {
    judge_town(&cells_first(1), 5);
}
