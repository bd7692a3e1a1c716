//! Items that are owed to a contact and not confirmed. They are stored, so a crash loses none.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use crate::io::ResetCause;
use crate::note::{Era, Item, Note, NoteDigest};

/// Most ranges of given-up numbers that no receipt has passed yet. Adjacent numbers are joined, so
/// this is more than the reader's window can distinguish.
const VOIDS_MAX: usize = 512;
/// Number of flags in the first byte; the level follows them.
const FLAGS: u8 = 6;
/// Most waiting answers to voids.
const ANSWERS_MAX: usize = 8;
/// Flag in the byte of the session reset's cause: an inventory is owed, too.
const INVENTORY: u8 = 0x80;
/// Most waiting digests. Above this number the oldest are dropped, and their writer sends the notes
/// again.
const KEPT_MAX: usize = 256;

/// Items that the next note must carry besides the user's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing to say, and any may be due")]
pub(crate) struct Owed {
    /// A hello with our mailbox and card.
    pub hello: bool,
    /// Receipts for notes that have arrived.
    pub receipt: bool,
    /// The list of notes of each era that are stored here; owed after a restore of either side.
    pub inventory: bool,
    /// Receipts for notes that were read.
    pub read: bool,
    /// A new timer.
    pub timer: bool,
    /// A newer card.
    pub card: bool,
    /// A new session for this cause (a number of `ResetCause`), with a request to send again.
    pub anew: Option<u8>,
    /// True if there are new voids.
    pub void: bool,
    /// Our numbers that were given up, as ranges from and to. Every note repeats them until a
    /// receipt's floor passes them.
    pub voids: Vec<(u32, u32)>,
    /// Ranges that the contact gave up. The answer is the bits of those numbers that have arrived
    /// here.
    pub answers: Vec<(Era, u32, u32)>,
    /// Notes that arrived since the last receipt, with their digests.
    pub kept: Vec<(Era, u32, NoteDigest)>,
    /// The highest level of a message that caused an owed item; the items are not sent below it
    /// (MSG-20).
    pub level: u8,
}

snapshot!(struct Owed {
    hello, receipt, inventory, read, timer, card, anew, void, voids, answers, kept, level,
});

/// The owed items in one note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// How many of the answers to void numbers, counted from the oldest, are complete.
    pub answers: usize,
    /// The number at which the rest of the next answer begins, if the note contains a part of it.
    pub rest: Option<u32>,
    /// True if all delivery receipts are in the note.
    pub delivered: bool,
    /// True if all read receipts are in the note.
    pub read: bool,
}

impl Owed {
    /// Returns true if an item is owed that may be sent without a note of the user.
    pub fn has_any(&self) -> bool {
        self.hello
            || self.receipt
            || self.inventory
            || self.read
            || self.timer
            || self.card
            || self.anew.is_some()
            || self.void
            || !self.answers.is_empty()
    }

    /// Adds a void. Of too many ranges the oldest are dropped, and the reader shows a gap instead.
    pub fn give_up(&mut self, seq: u32) {
        self.give_up_range(seq, seq);
    }

    /// Adds a void of the numbers from one to another.
    pub fn give_up_range(&mut self, from: u32, to: u32) {
        self.void = true;
        match self.voids.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(from) => *last = to,
            _ => self.voids.push((from, to)),
        }
        // The oldest range is dropped; the reader then shows a gap instead of a void.
        if self.voids.len() > VOIDS_MAX {
            self.voids.remove(0);
        }
    }

    /// Owes the answer to a range that the contact gave up and of which some numbers have arrived
    /// here.
    pub fn add_answer(&mut self, era: Era, from: u32, to: u32) {
        // Bounded: a contact can declare voids without limit (MSG-35).
        if self.answers.len() < ANSWERS_MAX && !self.answers.contains(&(era, from, to)) {
            self.answers.push((era, from, to));
        }
    }

    /// Keeps the digest of a note that arrived, possibly again, so that the next receipt proves its
    /// bytes.
    pub fn keep_digest(&mut self, era: Era, seq: u32, digest: NoteDigest) {
        let note = (era, seq, digest);
        if !self.kept.contains(&note) {
            self.kept.push(note);
        }
        // The oldest digest is dropped. Its note is sent again and gets a digest then (MSG-95).
        if self.kept.len() > KEPT_MAX {
            self.kept.remove(0);
        }
    }

    /// Removes sent items from the owed ones.
    pub fn clear_sent(&mut self, wire: &Note, spoken: Option<Spoken>) {
        for item in &wire.items {
            match item {
                Item::Hello { .. } => self.hello = false,
                Item::Inventory(_) => self.inventory = false,
                Item::Timer(_) => self.timer = false,
                Item::Card(_) => self.card = false,
                Item::Reset(_) => self.anew = None,
                Item::Kept(kept) => self.kept.retain(|(era, seq, digest)| {
                    *era != kept.era || !kept.notes.contains(&(*seq, *digest))
                }),
                Item::Text(_)
                | Item::Receipt(_)
                | Item::Retry
                | Item::Meet(_)
                | Item::Void { .. }
                | Item::Bundle(_)
                | Item::Tag(_)
                | Item::Unknown(_) => {}
            }
        }
        // A note without a record of owed items clears nothing more.
        let Some(Spoken { answers, rest, delivered, read }) = spoken else { return };
        // Remaining digests need another receipt.
        self.receipt &= !delivered || !self.kept.is_empty();
        self.read &= !read;
        self.void = false;
        self.answers.drain(..answers);
        // The rest of a long answer stays owed (MSG-139).
        if let (Some(rest), Some((_, from, _))) = (rest, self.answers.first_mut()) {
            *from = rest;
        }
        if !self.has_any() {
            self.level = 0;
        }
    }

    /// Returns true if an item is owed that has no rate limit. Receipts and hellos have one,
    /// because a contact can cause any number of them (MSG-27).
    pub fn is_urgent(&self) -> bool {
        self.timer || self.card || self.void || self.anew.is_some()
    }

    /// Owes a new session, for this cause.
    pub fn owe_reset(&mut self, cause: ResetCause) {
        self.anew = Some(cause as u8);
    }

    /// Writes `flags u8 | cause u8 | voids | answers | kept`.
    pub fn write(&self, w: &mut Writer) {
        let flags = [self.hello, self.receipt, self.read, self.timer, self.card, self.void];
        let flags = flags.iter().rev().fold(0, |bits, on| bits << 1 | u8::from(*on));
        // Levels 1 to 4 are stored as 0 to 3; 0 is stored as level 1.
        w.put_u8(flags | self.level.saturating_sub(1) << FLAGS);
        let inventory = if self.inventory { INVENTORY } else { 0 };
        w.put_u8(self.anew.unwrap_or(0) | inventory).put_u16(self.voids.len() as u16);
        for (from, to) in &self.voids {
            w.put_u32(*from).put_u32(*to);
        }
        w.put_u8(self.answers.len() as u8);
        for (era, from, to) in &self.answers {
            w.put_bytes(&era.0).put_u32(*from).put_u32(*to);
        }
        w.put_u16(self.kept.len() as u16);
        for (era, seq, digest) in &self.kept {
            w.put_bytes(&era.0).put_u32(*seq).put_bytes(&digest.0);
        }
    }

    /// Reads the form of [`write`](Self::write); older versions have no `kept`, and `has_kept` is
    /// false for them.
    pub fn read(r: &mut Reader<'_>, has_kept: bool) -> Result<Self, DecodeError> {
        let bits = r.read_u8()?;
        let on = |i: u8| bits >> i & 1 == 1;
        let cause = r.read_u8()?;
        let mut owed = Self {
            hello: on(0),
            receipt: on(1),
            read: on(2),
            timer: on(3),
            card: on(4),
            void: on(5),
            inventory: cause & INVENTORY != 0,
            anew: Some(cause & !INVENTORY).filter(|cause| *cause != 0),
            voids: Vec::new(),
            answers: Vec::new(),
            kept: Vec::new(),
            level: 1 + (bits >> FLAGS),
        };
        for _ in 0..r.read_u16()? {
            owed.voids.push((r.read_u32()?, r.read_u32()?));
        }
        for _ in 0..r.read_u8()? {
            owed.answers.push((Era::read(r)?, r.read_u32()?, r.read_u32()?));
        }
        for _ in 0..if has_kept { r.read_u16()? } else { 0 } {
            owed.kept.push((Era::read(r)?, r.read_u32()?, NoteDigest::read(r)?));
        }
        Ok(owed)
    }
}
