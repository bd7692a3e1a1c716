//! The contacts of a client: their roots, their queued messages, and when they are served.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Secret, Time, Writer, labelled_hash, snapshot};

use super::record::SealedSlot;
use crate::contact::{CallKeywheel, ConversationKeywheel, DeadDrop, Intent, Role};
use crate::stream::{Receiver, Sender};

/// The number of a contact, chosen by the caller.
pub type PartnerId = u32;

/// Most contacts that are served at a time; with more contacts turns become rare.
pub const ACTIVE_MAX: usize = 16;
/// Milliseconds for which a contact is served without a data cell and without a command.
const ACTIVE_MS: u64 = 600 * Time::SECOND_MS;
/// Most times that the pause between repetitions doubles.
const DOUBLINGS_MAX: u8 = 16;
/// Most roots of one partner besides the one in use.
const OTHERS_MAX: usize = 3;
/// Other roots except the newest are served only in every 8th round. A root that the partner never
/// received would otherwise prevent meetings in all rounds.
const ELDER_EVERY: u64 = 8;
/// Number of consecutive cells with a lower acknowledgement than before that proves an older state
/// of the partner.
const BEHIND_CELLS: u8 = 4;
/// Flag of a stored partner whose roots have ranks.
const RANKED: u8 = 4;
/// Number of consecutive cells that tell the partner that this client stops serving it.
const LEAVING_CELLS: u8 = 3;
/// Number of consecutive missed rounds after which an active partner counts as resting. Fewer are
/// usual for a partner that also serves others.
const ABSENT_ROUNDS: u32 = 4;
/// Most partners that a client calls after an absence; `GREETED_MS` is the time in milliseconds in
/// which it must have met them (MIX-68).
const GREETED_MAX: usize = 4;
const GREETED_MS: u64 = 7 * Time::DAY_MS;
/// The earliest stored time of a contact; 0 means "none" in stored forms.
const FIRST: Time = Time::from_ms(1);
/// Hours until the next attempt to reach a partner who was not there.
const RETRY_HOURS: [u64; 3] = [1, 4, 12];

/// Returns the round of the next repetition after an unsuccessful one in `round` and `times`
/// earlier ones: 2, 4, 8 ... rounds later (MIX-42).
pub(super) fn retry_round(round: u64, times: u8) -> u64 {
    // The cap keeps the shift inside 64 bits.
    round.saturating_add(2 << times.min(DOUBLINGS_MAX))
}

/// One root of one contact.
pub(super) struct PartnerRoot {
    /// Number of the line, the stream under this root. It is never used again.
    pub id: u32,
    pub chain: ConversationKeywheel,
    pub calls: CallKeywheel,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Rank of the root among all roots of the pair, equal on both sides.
    rank: RootRank,
    /// Number of consecutive cells with a lower acknowledgement than before. Not stored.
    behind: u8,
}

snapshot!(struct PartnerRoot { id, chain, calls, sender, receiver, rank, behind });

/// The rank that decides which of two roots a pair keeps: the root of the later conversation round,
/// or for equal rounds the one with the larger tag. Both fields are 0 for a root that an older
/// version stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct RootRank {
    start: u64,
    tag: u64,
}

snapshot!(struct RootRank { start, tag });

impl PartnerRoot {
    /// Creates a root whose chains begin in these rounds.
    pub fn begin(id: u32, root: &Secret<32>, role: Role, talks: u64, calls: u64) -> Self {
        let tag = u64::from_be_bytes(labelled_hash("mezza/mix rank", &[root.expose()]));
        Self {
            id,
            chain: ConversationKeywheel::begin(root, role, talks),
            calls: CallKeywheel::begin(root, calls),
            sender: Sender::default(),
            receiver: Receiver::default(),
            rank: RootRank { start: talks, tag },
            behind: 0,
        }
    }

    /// Counts a cell with this `ack`. Returns true if the acknowledgement was lower than before in
    /// so many consecutive cells that late rounds cannot be the reason: the partner has an older
    /// state.
    pub fn is_behind(&mut self, ack: u32) -> bool {
        let is_less = ack < self.sender.first_unacked();
        self.behind = if is_less { self.behind.saturating_add(1) } else { 0 };
        self.behind >= BEHIND_CELLS
    }

    fn write_to(&self, w: &mut Writer) {
        w.put_u32(self.id).put_u64(self.rank.start).put_u64(self.rank.tag);
        self.chain.write_to(w);
        self.calls.write_to(w);
        self.sender.write_to(w);
        self.receiver.write_to(w);
    }

    /// Applies the stored record of a slot that served this root.
    pub fn replay_slot(&mut self, slot: &SealedSlot) -> Result<(), DecodeError> {
        if let Some((seq, first, piece)) = &slot.piece {
            self.sender.restore_sealed(*seq, *first, piece)?;
        }
        // One gap on either side means that rows of this root are missing (MIX-41).
        self.receiver.was_at(slot.start, slot.ack)?;
        if self.sender.apply_ack(slot.acked_by_partner, 0) {
            Ok(())
        } else {
            Err(DecodeError::Value)
        }
    }

    fn read_from(r: &mut Reader<'_>, is_ranked: bool) -> Result<Self, DecodeError> {
        let id = r.read_u32()?;
        let rank = if is_ranked {
            RootRank { start: r.read_u64()?, tag: r.read_u64()? }
        } else {
            RootRank::default()
        };
        Ok(Self {
            id,
            chain: ConversationKeywheel::read_from(r)?,
            calls: CallKeywheel::read_from(r)?,
            sender: Sender::read_from(r)?,
            receiver: Receiver::read_from(r)?,
            rank,
            behind: 0,
        })
    }
}

/// Repetition of calls to a contact that has not come.
#[derive(Clone, Copy)]
struct CallRetry {
    intent: Intent,
    /// The call round from which the contact is called again.
    again: u64,
    times: u8,
}

snapshot!(struct CallRetry { intent, again, times });

/// A contact and its roots.
pub(super) struct Partner {
    /// The bucket in which the contact looks for calls.
    pub bucket: u32,
    /// The root in use.
    pub line: PartnerRoot,
    /// Further roots that wait for a meeting, oldest first. Neither side knows which roots the
    /// other one has (MIX-67).
    pub others: Vec<PartnerRoot>,
    /// True if only our messages keep the contact served, and its messages do not. Not stored.
    pub muted: bool,
    /// True if the contact is not served at all. Not stored.
    pub suspended: bool,
    /// End of the service.
    active: Option<Time>,
    /// Milliseconds of service that remain after the suspension.
    paused: Option<u64>,
    /// Number of cells that must still tell the partner that we leave.
    leaving: Option<u8>,
    /// True if the contact was called or met since its service began.
    pub called: bool,
    ring: Option<CallRetry>,
    /// Number of consecutive rounds without a meeting.
    pub absent: u32,
    /// Time of the next attempt to reach the partner; `tries` counts the attempts.
    retry: Option<Time>,
    tries: u8,
    /// Time of the last meeting, or of the last service recorded in a row. Only its day is stored
    /// (MIX-68).
    pub met_at: Option<Time>,
}

snapshot!(struct Partner {
    bucket, line, others, muted, suspended, active, paused, leaving, called, ring, absent, retry, tries,
    met_at,
});

impl Partner {
    pub fn new(bucket: u32, line: PartnerRoot) -> Self {
        Self {
            bucket,
            line,
            others: Vec::new(),
            muted: false,
            suspended: false,
            active: None,
            paused: None,
            leaving: None,
            called: false,
            ring: None,
            absent: 0,
            retry: None,
            tries: 0,
            met_at: None,
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = &PartnerRoot> {
        core::iter::once(&self.line).chain(&self.others)
    }

    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut PartnerRoot> {
        core::iter::once(&mut self.line).chain(&mut self.others)
    }

    pub fn line_mut(&mut self, id: u32) -> Option<&mut PartnerRoot> {
        self.lines_mut().find(|line| line.id == id)
    }

    pub const fn is_active(&self) -> bool {
        self.active.is_some() && !self.suspended
    }

    /// Returns true if the partner may no longer serve this client. After a sleep this client
    /// continues, but the partner's time has run out (MIX-80).
    fn may_rest(&self, now: Time) -> bool {
        let is_met = self.met_at.is_some_and(|at| now.since_ms(at) < ACTIVE_MS);
        // A call in progress is repeated by its own schedule.
        !self.is_active() || !is_met && self.ring.is_none()
    }

    /// Restarts the service time after a message or a command.
    pub fn renew_activity(&mut self, now: Time) {
        self.active = Some(now.plus_ms(ACTIVE_MS));
        self.retry = None;
    }

    /// Starts leaving at the user's request: three cells tell the partner.
    pub const fn start_leaving(&mut self) {
        // A contact that is not served gets no cells, so none could tell it.
        if self.active.is_some() && self.leaving.is_none() {
            self.leaving = Some(LEAVING_CELLS);
        }
    }

    /// Cancels leaving at the user's request.
    pub const fn cancel_leaving(&mut self) {
        self.leaving = None;
    }

    /// Records a call in this call round. If the contact does not come, it is called again after 2,
    /// 4, 8 ... rounds, because a call only reaches partners that take part in its round.
    pub fn record_call(&mut self, round: u64, intent: Intent) {
        let times = self.ring.map_or(0, |ring| ring.times);
        let again = retry_round(round, times);
        self.ring = Some(CallRetry { intent, again, times: times.saturating_add(1) });
    }

    /// Returns the root for the next call. Every second call uses the newest root, because the
    /// partner may have only that one (it joined again) or only the one in use (MIX-67).
    pub fn call_root(&mut self) -> &mut PartnerRoot {
        let newest = self.ring.is_some_and(|ring| ring.times % 2 == 1);
        match self.others.last_mut().filter(|_| newest) {
            Some(root) => root,
            None => &mut self.line,
        }
    }

    /// Returns the intent of a call that must be repeated in this call round.
    pub fn call_is_due(&self, round: u64) -> Option<Intent> {
        let ring = self.ring.filter(|ring| self.is_active() && ring.again <= round)?;
        Some(ring.intent)
    }

    /// Moves all waiting times after the clock went back by `ms`, so that each wait keeps its
    /// length. No time becomes 0, which means "none" in stored forms.
    pub fn put_back(&mut self, ms: u64) {
        for at in [&mut self.active, &mut self.retry, &mut self.met_at].into_iter().flatten() {
            *at = at.minus_ms(ms).max(FIRST);
        }
    }

    /// Extends the service after the clock jumped forward or the process slept for `ms`. It lasts
    /// no longer than a service that begins now.
    pub fn put_forward(&mut self, ms: u64, now: Time) {
        self.active = self.active.map(|end| end.plus_ms(ms).min(now.plus_ms(ACTIVE_MS)));
    }

    /// Restores the service from a row that was stored at time `at`.
    pub fn was_served(&mut self, at: Time) {
        self.renew_activity(at);
        self.met_at = Some(at);
    }

    /// Limits the service of the contact after loading: it ends no later than a service that begins
    /// now. An earlier clock may have been ahead.
    pub fn finish_restore(&mut self, now: Time) {
        self.active = self.active.map(|end| end.min(now.plus_ms(ACTIVE_MS)));
    }

    /// Returns true if the next cell must tell that we leave, and counts that cell.
    pub fn says_leaving(&mut self, now: Time) -> bool {
        let Some(left) = self.leaving else { return false };
        self.leaving = left.checked_sub(1).filter(|left| *left > 0);
        if self.leaving.is_none() {
            self.deactivate(now);
        }
        true
    }

    /// Suspends the contact. Its state stops but is not forgotten, so that a pause does not restart
    /// its waits (MIX-42).
    pub fn pause(&mut self, now: Time) {
        self.suspended = true;
        self.paused = self.active.map(|end| end.since_ms(now));
        self.leaving = None;
    }

    /// Ends the suspension. Returns true if the contact is served again, at once or from a
    /// scheduled time on.
    pub fn resume(&mut self, now: Time) -> bool {
        self.suspended = false;
        self.active = self.active.and(self.paused.take()).map(|ms| now.plus_ms(ms));
        self.active.is_some() || self.retry.is_some()
    }

    /// Ends the service. If messages wait for the contact, a later attempt is scheduled.
    pub fn deactivate(&mut self, now: Time) {
        (self.active, self.leaving, self.called, self.ring) = (None, None, false, None);
        // Without waiting messages there is no reason to spend budget on another try.
        let waits = !self.line.sender.is_idle();
        self.retry = waits.then(|| {
            let hours = RETRY_HOURS[usize::from(self.tries).min(RETRY_HOURS.len() - 1)];
            now.plus_ms(hours * Time::HOUR_MS)
        });
        self.tries = self.tries.saturating_add(u8::from(waits));
    }

    /// Records a meeting. If the last round before a rest returns after the service ended, the next
    /// message causes a call.
    pub const fn record_meeting(&mut self, now: Time) {
        (self.tries, self.absent, self.called, self.ring) = (0, 0, self.is_active(), None);
        self.met_at = Some(now);
    }

    /// Returns true if a message waits for a partner that was met but has been missing for some
    /// rounds. The partner rests by its own count, and only a call brings it back (MIX-82).
    pub fn has_left(&self) -> bool {
        let waits = self.lines().any(|line| !line.sender.is_idle());
        self.is_active() && waits && self.ring.is_none() && self.absent >= ABSENT_ROUNDS
    }

    /// Returns the end of the service or the time of the next attempt.
    pub fn deadline(&self) -> Option<Time> {
        self.active.or(self.retry).filter(|_| !self.suspended)
    }

    /// Adds a root that waits for its first meeting. Above the limit the oldest one is dropped.
    pub fn add_root(&mut self, root: PartnerRoot) {
        if self.others.len() >= OTHERS_MAX {
            self.others.remove(0);
        }
        self.others.push(root);
    }

    /// Handles a meeting under root `id`, which is in use from now on. Unacknowledged messages move
    /// to it, and roots of a lower rank are wiped. Roots of a higher rank wait for their own
    /// meeting. Returns true if the roots changed.
    pub fn on_meeting(&mut self, id: u32) -> bool {
        let before = self.others.len();
        let at = self.others.iter().position(|root| root.id == id);
        if let Some(at) = at {
            let met = self.others.remove(at);
            // The root of the meeting is put into use, and then takes over the undelivered messages
            // of the old one (MIX-67).
            let mut old = core::mem::replace(&mut self.line, met);
            // An old root that already sends zeros is dropped, or such roots would accumulate.
            let is_kept = !old.sender.has_blanks();
            self.line.sender.adopt_unsent(&mut old.sender);
            if is_kept {
                self.others.push(old);
            }
        } else if self.line.id != id {
            return false;
        }
        let rank = self.line.rank;
        self.others.retain(|root| root.rank > rank);
        self.others.sort_by_key(|root| root.rank);
        at.is_some() || self.others.len() < before
    }

    fn write_to(&self, w: &mut Writer) {
        let met_day = self.met_at.map(|at| (at.as_ms() / Time::DAY_MS) as u32);
        let flags = u8::from(self.active.is_some()) + 2 * u8::from(met_day.is_some()) + RANKED;
        w.put_u32(self.bucket).put_u8(flags);
        w.put_u64(self.active.unwrap_or_default().as_ms());
        if let Some(day) = met_day {
            w.put_u32(day);
        }
        self.line.write_to(w);
        w.put_u8(self.others.len() as u8);
        self.others.iter().for_each(|line| line.write_to(w));
    }

    fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bucket = r.read_u32()?;
        let flags = r.read_u8()?;
        let end = Time::from_ms(r.read_u64()?);
        // Versions without ranks wrote flags 0 to 3, those without the day of the last meeting 0, 1.
        let met_day = if flags & 2 == 2 { Some(r.read_u32()?) } else { None };
        let is_active = flags & 1 == 1;
        if flags >= 2 * RANKED || is_active == (end == Time::default()) {
            return Err(DecodeError::Value);
        }
        let is_ranked = flags & RANKED == RANKED;
        let mut contact = Self::new(bucket, PartnerRoot::read_from(r, is_ranked)?);
        contact.active = is_active.then_some(end);
        contact.met_at = met_day.map(|day| Time::from_ms(u64::from(day) * Time::DAY_MS).max(FIRST));
        for _ in 0..r.read_u8()? {
            contact.others.push(PartnerRoot::read_from(r, is_ranked)?);
        }
        if contact.others.len() > OTHERS_MAX {
            return Err(DecodeError::Value);
        }
        Ok(contact)
    }
}

/// The contacts of a client by number.
#[derive(Default)]
pub(super) struct Partners {
    pub all: BTreeMap<PartnerId, Partner>,
    /// The number of the next line.
    next_line: u32,
}

snapshot!(struct Partners { all, next_line });

impl Partners {
    /// Returns a number for a new line, or `None` after the last one.
    pub fn line_number(&mut self) -> Option<u32> {
        let number = self.next_line;
        self.next_line = number.checked_add(1)?;
        Some(number)
    }

    /// Returns the contact whose root has this line number, or `None`.
    pub fn by_line(&mut self, id: u32) -> Option<(PartnerId, &mut Partner)> {
        let has = |contact: &Partner| contact.lines().any(|line| line.id == id);
        self.all.iter_mut().find(|(_, contact)| has(contact)).map(|(id, contact)| (*id, contact))
    }

    /// Returns the root with this line number, or `None`.
    pub fn find_line(&mut self, id: u32) -> Option<&mut PartnerRoot> {
        self.by_line(id)?.1.line_mut(id)
    }

    /// Starts serving a contact. Returns false if the contact was already served. With too many
    /// active contacts, the one without messages whose time ends first is deactivated. If there is
    /// none, the new contact waits for its next attempt.
    pub fn activate_contact(&mut self, id: PartnerId, now: Time) -> bool {
        let served = self.all.get(&id).filter(|contact| !contact.suspended);
        let Some(was) = served.map(Partner::is_active) else { return false };
        if !was && self.all.values().filter(|contact| contact.is_active()).count() >= ACTIVE_MAX {
            let quiet = self
                .all
                .values_mut()
                .filter(|contact| contact.is_active() && contact.line.sender.is_idle());
            let Some(quiet) = quiet.min_by_key(|contact| contact.active) else {
                self.all.get_mut(&id).into_iter().for_each(|contact| contact.deactivate(now));
                return false;
            };
            quiet.deactivate(now);
        }
        if let Some(contact) = self.all.get_mut(&id) {
            contact.renew_activity(now);
            contact.cancel_leaving();
        }
        !was
    }

    /// Returns partners that were met in the last days and may not serve this client now, most
    /// recent first. One of them may have called while this client was away (MIX-68).
    pub fn to_greet(&self, now: Time) -> Vec<PartnerId> {
        let is_apart = |contact: &Partner| !contact.suspended && contact.may_rest(now);
        let met = self.all.iter().filter(|(_, contact)| is_apart(contact));
        let met = met.filter_map(|(id, contact)| Some((contact.met_at?, *id)));
        let mut met: Vec<(Time, PartnerId)> =
            met.filter(|(at, _)| now.since_ms(*at) < GREETED_MS).collect();
        met.sort_unstable_by(|a, b| b.cmp(a));
        met.into_iter().take(GREETED_MAX).map(|(_, id)| id).collect()
    }

    /// Ends the service of contacts whose time is over. Returns the contacts whose next attempt is
    /// due, in order.
    pub fn take_due(&mut self, now: Time) -> Vec<PartnerId> {
        let mut again = Vec::new();
        for (id, contact) in self.all.iter_mut().filter(|(_, contact)| !contact.suspended) {
            if contact.active.is_some_and(|end| end <= now) {
                contact.deactivate(now);
            } else if contact.active.is_none() && contact.retry.is_some_and(|at| at <= now) {
                again.push(*id);
                contact.retry = None;
            }
        }
        again
    }

    /// Returns the roots that could be served in a round, with their turns. Advances every chain to
    /// the round, by at most `steps` steps each, served or not.
    pub fn compute_turns(&mut self, round: u64, steps: u64) -> Vec<(u32, DeadDrop)> {
        let mut turns = Vec::new();
        for contact in self.all.values_mut() {
            let active = contact.is_active();
            let newest = contact.lines().last().map(|line| line.id);
            let oldest = contact.line.id;
            for line in contact.lines_mut() {
                let there = line.chain.advance_to(round, steps) == Ok(true);
                let meeting = line.chain.meeting();
                let usual = line.id == oldest || Some(line.id) == newest;
                if there && active && (usual || round.is_multiple_of(ELDER_EVERY)) {
                    turns.push((line.id, meeting));
                }
            }
        }
        turns
    }

    /// Advances the chains towards these rounds, by at most `steps` steps in all. Returns true if
    /// all have arrived.
    pub fn walk_chains(&mut self, talks: u64, calls: u64, mut steps: u64) -> bool {
        let mut there = true;
        for line in self.all.values_mut().flat_map(Partner::lines_mut) {
            for (is_call, to) in [(false, talks), (true, calls)] {
                let from = if is_call { line.calls.round() } else { line.chain.round() };
                let share = to.saturating_sub(from).min(steps);
                let gone = if is_call {
                    line.calls.advance_to(to, share)
                } else {
                    line.chain.advance_to(to, share)
                };
                steps -= share;
                there &= gone != Ok(false);
            }
        }
        there
    }

    /// Returns for each contact the tokens of its calls to us in call round `round`. Advances its
    /// chain to that round first.
    pub fn expected_tokens(
        &mut self,
        round: u64,
        steps: u64,
    ) -> Vec<(PartnerId, Intent, [u8; 16])> {
        let mut expected = Vec::new();
        for (id, contact) in &mut self.all {
            for line in contact.lines_mut() {
                let there = line.calls.advance_to(round, steps) == Ok(true);
                let caller = line.chain.role().other();
                let tokens =
                    Intent::ALL.map(|intent| (*id, intent, line.calls.token(caller, intent)));
                if there {
                    expected.extend(tokens);
                }
            }
        }
        expected
    }

    /// Writes `next line u32 | count u16 | contacts`.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_u32(self.next_line).put_u16(self.all.len() as u16);
        for (id, contact) in &self.all {
            w.put_u32(*id);
            contact.write_to(w);
        }
    }

    /// Reads the form of [`write_to`](Self::write_to).
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut contacts = Self { all: BTreeMap::new(), next_line: r.read_u32()? };
        for _ in 0..r.read_u16()? {
            let id = r.read_u32()?;
            let contact = Partner::read_from(r)?;
            let ascends = contacts.all.last_key_value().is_none_or(|(last, _)| *last < id);
            let mut lines = contact.lines();
            if !ascends || lines.any(|line| line.id >= contacts.next_line) {
                return Err(DecodeError::Value);
            }
            drop(lines);
            contacts.all.insert(id, contact);
        }
        Ok(contacts)
    }
}
