//! Threads: the notes of each contact with their facts, and the record of notes that have arrived
//! or were read.

mod answers;
mod dates;
mod note;
mod quota;
mod restored;
mod stored;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use crate::evidence::{self, Fact, FactKind, WaitReason};
use crate::io::{By, CarrierId, ContactId, Due, Effects, Event, NoteId, RecordKind, key32, key64};
use crate::note::{Era, NoteDigest};
use crate::policy::{NoteLife, timer_step};
use crate::receipt::{Receipt, SeqStatus, Window};
use crate::view::NoteContent;

pub(crate) use note::StoredNote;
use quota::Amount;
pub(crate) use quota::Quota;
pub(crate) use stored::{key_seen, read_windows, write_windows};

/// Most notes that are stored of one request.
const REQUEST_NOTES_MAX: usize = 8;
/// Most eras of one contact; each restored backup adds one.
const ERAS_MAX: usize = 64;

/// The windows of one era: of notes that arrived, and of notes that were read.
pub(crate) type Windows = (Window, Window);

/// A note that the user writes.
pub(crate) struct Draft {
    pub contact: ContactId,
    pub client: [u8; 16],
    pub text: String,
    pub era: Era,
    pub timer_s: u32,
    pub pin: u8,
    /// The life that the user chose for this note alone.
    pub life: Option<NoteLife>,
    pub at: Time,
}

/// A decoded note of the contact.
pub(crate) struct Received {
    pub contact: ContactId,
    pub era: Era,
    pub seq: u32,
    pub sent: Time,
    pub timer_s: u32,
    pub pin: u8,
    pub body: NoteContent,
    pub by: By,
    pub at: Time,
}

impl Received {
    /// Returns the digest that distinguishes this note from another one with the same number
    /// (MSG-95).
    pub fn digest(&self) -> NoteDigest {
        let text = match &self.body {
            NoteContent::Text(text) => text.as_str(),
            NoteContent::Newer => "",
        };
        NoteDigest::from_text(self.sent, text)
    }
}

/// The receipts that are owed to a contact.
pub(crate) struct Owing<'a> {
    pub delivered: bool,
    pub read: bool,
    pub answers: &'a [(Era, u32, u32)],
    pub kept: &'a [(Era, u32, NoteDigest)],
}

/// The decision about a note of the contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// The note is new and must be stored.
    Keep,
    /// The note is already stored; its receipt was lost.
    Known,
    /// The note arrived before and was deleted here, so its content cannot be compared.
    Gone,
    /// The number arrived before with different content: two copies of the writer's vault use it.
    Twice,
    /// The note is dropped without a receipt.
    Leave,
}

/// The thread of one contact.
#[derive(Default)]
struct Thread {
    notes: BTreeSet<NoteId>,
    windows: BTreeMap<Era, Windows>,
    quota: Quota,
    /// Notes that the user has not seen.
    unseen: Amount,
}

snapshot!(struct Thread { notes, windows, quota, unseen });

impl Thread {
    /// Returns the windows of an era, and creates them if they are missing. The caller stores them.
    fn open_window(&mut self, era: Era) -> &mut Windows {
        self.windows.entry(era).or_insert_with(|| (Window::new(era), Window::new(era)))
    }
}

/// All threads.
#[derive(Default)]
pub(crate) struct Threads {
    notes: BTreeMap<NoteId, StoredNote>,
    by_client: BTreeMap<[u8; 16], NoteId>,
    /// Received notes by contact, era and number.
    by_number: BTreeMap<(ContactId, Era, u32), NoteId>,
    /// Received notes by contact and time of writing, as claimed by the writer.
    by_sent: BTreeSet<(ContactId, Time, NoteId)>,
    all: BTreeMap<ContactId, Thread>,
    malformed: u64,
}

snapshot!(struct Threads { notes, by_client, by_number, by_sent, all, malformed });

impl Threads {
    /// Creates the thread of a contact.
    pub fn open_thread(&mut self, contact: ContactId) {
        self.all.entry(contact).or_default();
    }

    /// Returns the note that was sent under this number of a client, or `None`.
    pub fn find_sent(&self, client: &[u8; 16]) -> Option<NoteId> {
        self.by_client.get(client).copied()
    }

    /// Returns one note.
    pub fn get(&self, id: NoteId) -> Option<&StoredNote> {
        self.notes.get(&id)
    }

    /// Returns all notes.
    pub fn iter(&self) -> impl Iterator<Item = (NoteId, &StoredNote)> {
        self.notes.iter().map(|(id, note)| (*id, note))
    }

    /// Returns the notes of one thread, oldest first.
    pub fn thread_notes(&self, contact: ContactId) -> impl DoubleEndedIterator<Item = NoteId> {
        self.all.get(&contact).into_iter().flat_map(|thread| &thread.notes).copied()
    }

    /// Returns the notes of one thread that are older than `end`, oldest first.
    pub fn notes_before(
        &self,
        contact: ContactId,
        end: NoteId,
    ) -> impl DoubleEndedIterator<Item = NoteId> {
        let threads = self.all.get(&contact).into_iter();
        threads.flat_map(move |thread| thread.notes.range(..end)).copied()
    }

    /// Returns the number of notes that the user has not seen.
    pub fn count_unseen(&self, contact: ContactId) -> usize {
        self.all.get(&contact).map_or(0, |thread| thread.unseen.notes as usize)
    }

    /// Returns the number of notes known to be on their way to us, which are gaps in the windows.
    pub fn count_missing(&self, contact: ContactId) -> usize {
        let windows = self.all.get(&contact).into_iter().flat_map(|thread| thread.windows.values());
        windows.map(|(arrived, _)| arrived.count_missing()).sum()
    }

    /// Returns the number of notes that were dropped because the contact sent more than its share.
    pub fn refused_count(&self, contact: ContactId) -> u32 {
        self.all.get(&contact).map_or(0, |thread| thread.quota.refused_count())
    }

    /// Returns true if a note of the contact has arrived.
    pub fn has_heard(&self, contact: ContactId) -> bool {
        self.all.get(&contact).is_some_and(|thread| !thread.windows.is_empty())
    }

    /// Returns the number of decrypted messages that contained no valid note.
    pub fn rejected_count(&self) -> u64 {
        self.malformed
    }

    /// Counts a decrypted message that contained no valid note.
    pub fn count_malformed(&mut self) {
        self.malformed += 1;
    }

    /// Stores a note that the user wrote.
    pub fn add_draft(&mut self, id: NoteId, draft: Draft, effects: &mut Effects) {
        let sent = draft.at;
        self.write_copy(id, draft, sent, effects);
    }

    /// Stores a note of ours with a given time of writing, for example from a backup.
    pub fn write_copy(&mut self, id: NoteId, draft: Draft, sent: Time, effects: &mut Effects) {
        let contact = draft.contact;
        let note = StoredNote {
            contact,
            incoming: false,
            client: draft.client,
            body: NoteContent::Text(draft.text),
            era: draft.era,
            seq: 0,
            sent,
            at: draft.at,
            timer_s: draft.timer_s,
            due: None,
            level_min: draft.pin,
            carrier: None,
            level: 0,
            seen: true,
            again: false,
            voided: false,
            facts: Vec::new(),
            life: draft.life,
            why: WaitReason::Sending,
        };
        self.insert(id, note, effects);
        self.store(id, effects);
        effects.show(Event::Note(contact, id));
    }

    /// Decides about a note of the contact, and counts it against the contact's share if it must be
    /// stored.
    pub fn judge_note(&mut self, note: &Received, request: bool, effects: &mut Effects) -> Keeping {
        let thread = self.all.entry(note.contact).or_default();
        // The number of notes in a request is bounded, because any device can send them (MSG-35).
        if request && thread.notes.len() >= REQUEST_NOTES_MAX {
            return Keeping::Leave;
        }
        let known = thread.windows.get(&note.era).map(|(arrived, _)| arrived.check_seq(note.seq));
        match known.unwrap_or_else(|| Window::new(note.era).check_seq(note.seq)) {
            SeqStatus::Fresh => {}
            SeqStatus::Known => return self.compare_known(note),
            SeqStatus::Voided | SeqStatus::TooFar => return Keeping::Leave,
        }
        if self.find_twin(note).is_some() {
            // The writer's vault was restored and gives a new number to a note that is already
            // stored (MSG-108).
            self.record_arrival(note.contact, note.era, note.seq, effects);
            return Keeping::Known;
        }
        let thread = self.all.entry(note.contact).or_default();
        let kept = thread.quota.try_take(note.body.bytes(), thread.unseen, note.at);
        store_quota(note.contact, &thread.quota, effects);
        if kept {
            return Keeping::Keep;
        }
        // The note counts as not arrived, so the writer gets no receipt (MSG-51).
        effects.show(Event::Contact(note.contact));
        Keeping::Leave
    }

    /// Compares a note with the stored one of the same number. If that was deleted, only its number
    /// is known.
    fn compare_known(&self, note: &Received) -> Keeping {
        let number = (note.contact, note.era, note.seq);
        let before = self.by_number.get(&number).and_then(|id| self.notes.get(id));
        match before.map(|before| before.digest() == note.digest()) {
            Some(true) => Keeping::Known,
            Some(false) => Keeping::Twice,
            None if self.find_twin(note).is_some() => Keeping::Known,
            None => Keeping::Gone,
        }
    }

    /// Returns a stored note of the contact with the same time and text but a number of another
    /// era.
    fn find_twin(&self, note: &Received) -> Option<NoteId> {
        let first = (note.contact, note.sent, NoteId(0));
        let same_time = self.by_sent.range(first..=(note.contact, note.sent, NoteId(u64::MAX)));
        let is_twin = |id: &NoteId| {
            let kept = self.notes.get(id).filter(|kept| kept.era != note.era && kept.seq > 0);
            kept.is_some_and(|kept| kept.body == note.body)
        };
        same_time.map(|(_, _, id)| *id).find(is_twin)
    }

    /// Records the number of an arrived note. If the contact has too many eras, the one that was
    /// silent longest is dropped (MSG-109).
    fn record_arrival(&mut self, contact: ContactId, era: Era, seq: u32, effects: &mut Effects) {
        self.make_room(contact, era, effects);
        let (arrived, _) = self.all.entry(contact).or_default().open_window(era);
        arrived.insert(seq);
        self.store_windows(contact, era, effects);
    }

    fn make_room(&mut self, contact: ContactId, era: Era, effects: &mut Effects) {
        let Some(thread) = self.all.get(&contact) else { return };
        if thread.windows.contains_key(&era) || thread.windows.len() < ERAS_MAX {
            return;
        }
        let newest = |era: &Era| {
            let own = self.by_number.range((contact, *era, 0)..=(contact, *era, u32::MAX));
            own.map(|(_, id)| *id).max()
        };
        // The era that was silent longest is dropped. New eras are never refused (MSG-109).
        let Some(silent) = thread.windows.keys().copied().min_by_key(newest) else { return };
        if let Some(thread) = self.all.get_mut(&contact) {
            thread.windows.remove(&silent);
        }
        effects.drop_row(RecordKind::Seen, key_seen(contact, silent));
    }

    /// Stores a received note.
    pub fn store_received(&mut self, id: NoteId, note: Received, effects: &mut Effects) {
        let contact = note.contact;
        let era = note.era;
        let stored = StoredNote {
            contact,
            incoming: true,
            client: [0; 16],
            body: note.body,
            era,
            seq: note.seq,
            sent: note.sent,
            at: note.at,
            timer_s: timer_step(note.timer_s),
            due: None,
            level_min: note.pin,
            carrier: Some(note.by.carrier),
            level: note.by.level,
            seen: false,
            again: false,
            voided: false,
            facts: Vec::new(),
            life: None,
            why: WaitReason::Sending,
        };
        self.record_arrival(contact, era, note.seq, effects);
        self.insert(id, stored, effects);
        self.store(id, effects);
        effects.show(Event::Note(contact, id));
        effects.show(Event::Contact(contact));
    }

    /// Records numbers that the writer gave up: they leave no gap, and a late note is not shown.
    pub fn void_range(
        &mut self,
        contact: ContactId,
        era: Era,
        from: u32,
        to: u32,
        effects: &mut Effects,
    ) {
        self.make_room(contact, era, effects);
        let (arrived, read) = self.all.entry(contact).or_default().open_window(era);
        // A range beyond the window is not recorded; the writer repeats it.
        arrived.void_range(from, to);
        read.void_range(from, to);
        self.store_windows(contact, era, effects);
    }

    /// Marks the thread up to `last` as seen. Returns true if read receipts are owed. `says` is
    /// true if the conversation sends them.
    pub fn mark_seen(
        &mut self,
        contact: ContactId,
        last: NoteId,
        says: bool,
        effects: &mut Effects,
    ) -> bool {
        let Some(thread) = self.all.get_mut(&contact) else { return false };
        let mut eras = BTreeSet::new();
        let seen: Vec<NoteId> = thread.notes.range(..=last).copied().collect();
        for id in seen {
            let Some(note) = self.notes.get_mut(&id).filter(|n| n.incoming && !n.seen) else {
                continue;
            };
            note.seen = true;
            thread.unseen.subtract(note.body_bytes());
            store_note(id, note, effects);
            if let Some((_, read)) = thread.windows.get_mut(&note.era).filter(|_| says) {
                let _ = read.insert(note.seq);
                eras.insert(note.era);
            }
        }
        for era in &eras {
            self.store_windows(contact, *era, effects);
        }
        effects.show(Event::Contact(contact));
        !eras.is_empty()
    }

    /// Returns the receipts that answer a void of the contact, or the receipt that reports a
    /// conflict of its numbers.
    pub fn answer_void(&self, contact: ContactId, era: Era, from: u32, to: u32) -> Vec<Receipt> {
        // The marker of a conflict is answered with a receipt that proves nothing (MSG-91).
        if (from, to) == (u32::MAX, u32::MAX) {
            return [Receipt::for_conflict(era)].into();
        }
        let windows = self.all.get(&contact).and_then(|thread| thread.windows.get(&era));
        windows.map_or(Vec::new(), |(arrived, _)| arrived.answer_void(Receipt::DELIVERED, from, to))
    }

    /// Adds a fact about a note of ours, which is shown at once. `due` is the end of the carrier's
    /// attempts.
    pub fn add_fact(&mut self, id: NoteId, fact: Fact, due: Option<Time>, effects: &mut Effects) {
        let Some(note) = self.notes.get_mut(&id) else { return };
        let news = evidence::add_fact(&mut note.facts, fact);
        if fact.what == FactKind::Handed {
            note.due = due;
            effects.set_timer(Due::Note(id), note.due());
        } else if !news {
            return;
        }
        effects.show_early(Event::State(note.contact, id));
        store_note(id, note, effects);
    }

    /// Sets the reason why a note waits, and shows a change.
    pub fn set_wait_reason(&mut self, id: NoteId, why: WaitReason, effects: &mut Effects) {
        if let Some(note) = self.notes.get_mut(&id)
            && note.why != why
        {
            note.why = why;
            effects.show(Event::State(note.contact, id));
        }
    }

    /// Records that a note was sealed under this number for this carrier.
    pub fn record_sealed(
        &mut self,
        id: NoteId,
        era: Era,
        seq: u32,
        by: CarrierId,
        effects: &mut Effects,
    ) {
        self.update_note(id, effects, |note| {
            (note.era, note.seq, note.again) = (era, seq, false);
            (note.carrier, note.why) = (Some(by), WaitReason::Sending);
        });
    }

    /// Marks a note for sealing under a new number.
    pub fn renumber_note(&mut self, id: NoteId, effects: &mut Effects) {
        self.update_note(id, effects, |note| {
            (note.seq, note.again, note.voided, note.why) = (0, true, false, WaitReason::Sending);
        });
    }

    /// Marks a note for sealing again, because its session is lost.
    pub fn mark_for_resealing(&mut self, id: NoteId, effects: &mut Effects) {
        self.update_note(id, effects, |note| (note.again, note.why) = (true, WaitReason::Sending));
    }

    /// Raises the lowest level of our notes that no carrier took yet.
    pub fn raise_level_min(&mut self, contact: ContactId, level_min: u8, effects: &mut Effects) {
        for id in self.thread_notes(contact).collect::<Vec<_>>() {
            // A note that a carrier took has already left under its old level (MSG-89).
            let waits = |note: &StoredNote| !note.incoming && note.facts.is_empty();
            if self.notes.get(&id).is_some_and(|note| waits(note) && note.level_min < level_min) {
                self.update_note(id, effects, |note| note.level_min = level_min);
            }
        }
    }

    /// Sets the lowest level of a note of ours that no carrier took yet.
    pub fn set_level_min(&mut self, id: NoteId, level_min: u8, effects: &mut Effects) {
        self.update_note(id, effects, |note| note.level_min = level_min);
    }

    /// Records that the number of a note was declared void.
    pub fn mark_voided(&mut self, id: NoteId, effects: &mut Effects) {
        self.update_note(id, effects, |note| note.voided = true);
    }

    fn update_note(
        &mut self,
        id: NoteId,
        effects: &mut Effects,
        change: impl FnOnce(&mut StoredNote),
    ) {
        if let Some(note) = self.notes.get_mut(&id) {
            change(note);
            store_note(id, note, effects);
        }
    }

    /// Deletes a note on this device, in any state.
    pub fn remove_note(&mut self, id: NoteId, effects: &mut Effects) {
        let Some(note) = self.notes.remove(&id) else { return };
        if let Some(thread) = self.all.get_mut(&note.contact) {
            thread.notes.remove(&id);
            if note.incoming && !note.seen {
                thread.unseen.subtract(note.body_bytes());
            }
        }
        self.by_number.remove(&(note.contact, note.era, note.seq));
        self.by_sent.remove(&(note.contact, note.sent, id));
        self.by_client.remove(&note.client);
        effects.set_timer(Due::Note(id), None);
        effects.drop_row(RecordKind::Note, key64(id.0));
        effects.show(Event::Gone(note.contact, id));
    }

    /// Deletes the thread of a contact.
    pub fn forget_contact(&mut self, contact: ContactId, effects: &mut Effects) {
        for note in self.thread_notes(contact).collect::<Vec<_>>() {
            self.remove_note(note, effects);
        }
        let Some(thread) = self.all.remove(&contact) else { return };
        for era in thread.windows.keys() {
            effects.drop_row(RecordKind::Seen, key_seen(contact, *era));
        }
        if thread.quota.stored_form().is_some() {
            effects.drop_row(RecordKind::Quota, key32(contact.0));
        }
    }

    /// Loads a stored thread.
    pub fn load_thread(
        &mut self,
        contact: ContactId,
        windows: BTreeMap<Era, Windows>,
        quota: Quota,
    ) {
        let thread = Thread { windows, quota, ..Thread::default() };
        self.all.insert(contact, thread);
    }

    /// Loads a stored note.
    pub fn load_note(&mut self, id: NoteId, note: StoredNote, effects: &mut Effects) {
        self.insert(id, note, effects);
    }

    fn insert(&mut self, id: NoteId, note: StoredNote, effects: &mut Effects) {
        let thread = self.all.entry(note.contact).or_default();
        thread.notes.insert(id);
        if note.incoming && !note.seen {
            thread.unseen.add(note.body_bytes());
        }
        if note.incoming {
            self.by_number.insert((note.contact, note.era, note.seq), id);
            self.by_sent.insert((note.contact, note.sent, id));
        } else {
            self.by_client.insert(note.client, id);
        }
        effects.set_timer(Due::Note(id), note.due());
        self.notes.insert(id, note);
    }

    fn store(&self, id: NoteId, effects: &mut Effects) {
        if let Some(note) = self.notes.get(&id) {
            store_note(id, note, effects);
        }
    }

    fn store_windows(&self, contact: ContactId, era: Era, effects: &mut Effects) {
        let windows = self.all.get(&contact).and_then(|thread| thread.windows.get(&era));
        if let Some(windows) = windows {
            let key = key_seen(contact, era);
            let value = write_windows(windows);
            effects.put(RecordKind::Seen, key, value);
        }
    }

    /// Writes the rows of all threads.
    pub fn put_records(&self, effects: &mut Effects) {
        self.notes.iter().for_each(|(id, note)| store_note(*id, note, effects));
        for (contact, thread) in &self.all {
            thread.windows.keys().for_each(|era| self.store_windows(*contact, *era, effects));
            store_quota(*contact, &thread.quota, effects);
        }
    }
}

fn store_note(id: NoteId, note: &StoredNote, effects: &mut Effects) {
    effects.put_until(RecordKind::Note, key64(id.0), note.bucket(), note.write());
}

fn store_quota(contact: ContactId, quota: &Quota, effects: &mut Effects) {
    if let Some(value) = quota.stored_form() {
        effects.put(RecordKind::Quota, key32(contact.0), value);
    }
}

#[cfg(test)]
mod tests;
