//! The client as one machine: it joins a network, takes part in every round of every service, and
//! carries messages, calls and invitations in them.
//!
//! ```text
//! one round    Armed ---- seal ----> Sealed ---- send ----> Sent ---- RETURN ----> over, or Fetching
//!              (times drawn)         (record, job)          (SUBMIT left)          (services 2 and 3)
//! the link     Down ---- Dial, Up ----> Greeted ---- WELCOME ----> Joined ---- Down ----> Down
//! ```
//!
//! The frames of a client and their times depend on the rounds alone: an idle one draws the same times,
//! stores records of the same size, and asks for one bucket of each round (MIX-21). It hands frames
//! to the line ahead of their time (MIX-74). What it could not make durable until its time has come
//! is not sent, and what it missed is not made up for.

mod answers;
mod buckets;
mod commands;
mod cover;
mod fill;
mod invites;
mod io;
mod links;
mod rejoin;
mod restore;
mod rounds;
mod snapshot;
mod standing;
#[cfg(test)]
mod tests;

pub use cover::LiveLine;
pub use io::{ClientError, Input, Invite, NewRoot, Output, RefusedReason};
pub use restore::{RestoreError, RowFault, RowsSetAside};
pub use snapshot::ROW_BYTES_MAX;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use mezza_core::{
    Backend, CryptoRng, EphemeralKey, Machine, PortableBackend, PublicKey, StaticKey, Time, Wiping,
};
use mezza_lanes::Kernel;

use super::contacts::{Partner, PartnerId, PartnerRoot, Partners};
use crate::config::Chain;
use crate::contact::Intent;
use crate::mix::NoiseFloor;
use crate::privacy::Ledger;
use crate::{RoundId, Service};
use invites::Invites;
use links::Link;
use rounds::Round;
use standing::ProtectionState;

/// How late a wake, or an input in its place, may be, ms. Beyond, the clock was put forward or the machine
/// slept: nobody rests because of it.
const LATE_MS: u64 = 2 * Time::MINUTE_MS;

/// How a client is set up.
pub struct ClientOptions {
    /// The hash of the genesis config, which a person pinned.
    pub pin: [u8; 32],
    /// The key under which invitations come.
    pub dialling: StaticKey,
    /// The least noise that counts as protection.
    pub floor: NoiseFloor,
    /// Checks round keys and opens replies.
    pub kernel: &'static dyn Kernel,
}

mezza_core::snapshot!(struct ClientOptions {
    pin, dialling, floor, kernel => String::from(kernel.name()),
});

/// Something that waits to be durable.
enum PendingWrite {
    /// A record: of which round, and the pieces in it.
    Record(Option<RoundId>, Vec<(u32, u32)>),
    /// A message: the last piece of which line.
    Message(u32, u32),
}

mezza_core::snapshot!(enum PendingWrite [Record(a, b), Message(a, b)]);

/// One person's side of a mixnet. `Debug` shows rounds and counts.
pub struct Client<B: Backend = PortableBackend> {
    setup: ClientOptions,
    /// The key whose bucket is fetched: that of `setup`, or of the locked device for which this one idles.
    bucket_key: PublicKey,
    /// True while the device is locked: nobody is served and no invitation is read (MIX-78).
    idles: bool,
    chain: Option<Chain>,
    ledger: Option<Ledger>,
    contacts: Partners,
    link: Link,
    /// Lines in a row that were given up because nothing came by them.
    silent_lines: u32,
    /// Dials that looked for configs at other addresses, since the start.
    searches: u32,
    rounds: BTreeMap<RoundId, Round>,
    /// The last round of each service that was sealed.
    last: BTreeMap<Service, u64>,
    /// The last round of each service in settings that verified, since the start.
    shown: BTreeMap<Service, u64>,
    /// Services in which a row that was not read may be of a round that nothing bounds yet.
    unread: BTreeSet<Service>,
    /// Pairs for the outermost layers, and how many were asked for.
    pairs: Vec<EphemeralKey>,
    wanted: usize,
    calls: VecDeque<(PartnerId, Intent)>,
    invites: Invites,
    allow_more: bool,
    /// The number of the last row or message, and of the last snapshot.
    seq: u64,
    snapshot: u64,
    snapshot_at: Time,
    awaited: BTreeMap<u64, PendingWrite>,
    /// Pieces that came and are in no record: line and number.
    unrecorded: VecDeque<(u32, u32)>,
    /// When chains that are far behind take their next steps: once settings have shown how far.
    walk_at: Option<Time>,
    standing: ProtectionState,
    /// Rows that were not read at the start.
    aside: Vec<RowsSetAside>,
    /// The time of the last wake or accepted input.
    seen: Time,
    /// Since when no round was taken part in, if calls may have been lost since; 0: since before the
    /// start.
    left: Option<Time>,
    /// The last round of calls that was heard, while none before it is known to be missed.
    heard: Option<u64>,
    outputs: VecDeque<Output>,
    backend: PhantomData<fn() -> B>,
}

mezza_core::snapshot!(struct Client<B> {
    setup, bucket_key, idles, chain, ledger, contacts, link, silent_lines, searches, rounds, last, shown, unread, pairs, wanted, calls, invites,
    allow_more, seq, snapshot, snapshot_at, awaited, unrecorded, walk_at, standing, aside, seen,
    left, heard, outputs, backend,
});

/// Where the stream of one root of a contact is, for whoever compares two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMark {
    /// Whose.
    pub contact: PartnerId,
    /// The number of the root.
    pub line: u32,
    /// The number of the next new piece.
    pub next: u32,
    /// The first piece that the partner did not acknowledge.
    pub acked_by_partner: u32,
    /// The first piece that is not acknowledged to the partner.
    pub ack: u32,
    /// Bit j: piece `ack + 1 + j` is.
    pub sack: u32,
}

impl StreamMark {
    fn from_root(contact: PartnerId, line: &PartnerRoot) -> Self {
        let (ack, sack) = line.receiver.ack_fields();
        let next = line.sender.next_piece();
        let acked_by_partner = line.sender.first_unacked();
        Self { contact, line: line.id, next, acked_by_partner, ack, sack }
    }
}

impl<B: Backend> Client<B> {
    /// The configs known; `None` while the first one is fetched.
    pub const fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// Returns the spent budget; `None` while no config is known.
    pub const fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// The last round of a service that was sealed.
    pub fn last_sealed(&self, service: Service) -> Option<u64> {
        self.last.get(&service).copied()
    }

    /// The last round of a service only goes forward.
    fn goes_to(&mut self, id: RoundId) {
        let last = self.last.entry(id.service).or_default();
        // A smaller value would allow a round to be sealed a second time (MIX-40).
        *last = id.round.max(*last);
    }

    /// Rows that were not read at the start, ascending.
    pub fn rows_aside(&self) -> &[RowsSetAside] {
        &self.aside
    }

    /// Where the streams are, one for each root of each contact.
    pub fn stream_marks(&self) -> impl Iterator<Item = StreamMark> {
        let all = self.contacts.all.iter();
        all.flat_map(|(id, contact)| contact.lines().map(|line| StreamMark::from_root(*id, line)))
    }

    /// Rounds under way.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    /// Clients in the last round that was returned, by the word of the entry.
    pub const fn users(&self) -> u32 {
        self.standing.users
    }

    /// Returns true if there is a root for a contact.
    pub fn has_contact(&self, contact: PartnerId) -> bool {
        self.contacts.all.contains_key(&contact)
    }

    /// Returns true if a contact is served at present.
    pub fn is_active(&self, contact: PartnerId) -> bool {
        self.contacts.all.get(&contact).is_some_and(Partner::is_active)
    }

    /// Returns true if everything that was sent to a contact is with it.
    pub fn is_idle(&self, contact: PartnerId) -> bool {
        let contact = self.contacts.all.get(&contact);
        contact.is_none_or(|contact| contact.lines().all(|line| line.sender.is_idle()))
    }

    /// Takes the totals of a backup, and goes on under a branch of its own (MIX-24).
    pub fn restore_ledger(&mut self, backup: &Ledger, now: Time, rng: &mut dyn CryptoRng) {
        if let Some(ledger) = &mut self.ledger {
            ledger.merge(backup);
            // The backup's original may go on, too. Equal branches would hide charges of one of
            // them (MIX-24).
            ledger.branch_off(draw_number(rng));
            self.take_snapshot(now);
        }
    }

    fn await_write(&mut self, awaited: PendingWrite) -> u64 {
        self.seq += 1;
        self.awaited.insert(self.seq, awaited);
        self.seq
    }

    /// Everything up to a number is durable.
    fn on_stored(&mut self, seq: u64, now: Time) -> Result<(), ClientError> {
        let later = self.awaited.split_off(&seq.saturating_add(1));
        // Rows are written in order, so the newest durable number vouches for all before it.
        let durable = core::mem::replace(&mut self.awaited, later);
        // A number that nothing waits for is a bug of the caller, and moves nothing.
        if durable.is_empty() {
            return Err(ClientError::Unasked);
        }
        for awaited in durable.into_values() {
            match awaited {
                PendingWrite::Message(line, last) => {
                    if let Some(line) = self.contacts.find_line(line) {
                        // The messenger has the message, so its last piece may be acknowledged now
                        // (MIX-33).
                        line.receiver.mark_kept(last);
                    }
                }
                PendingWrite::Record(round, pieces) => {
                    for (line, seq) in pieces {
                        if let Some(line) = self.contacts.find_line(line) {
                            // The piece lies in a durable row. Acknowledged earlier, a crash could
                            // lose it (MIX-33).
                            line.receiver.mark_durable(seq);
                        }
                    }
                    let Some(id) = round else { continue };
                    self.rounds.get_mut(&id).into_iter().for_each(Round::is_durable);
                    // The record is on disk, which is the condition for the SUBMIT (MIX-23).
                    self.submit_onions(id, now);
                }
            }
        }
        Ok(())
    }

    /// A clock that was put back: whatever waits for a time waits as long as before. Else a client
    /// would not dial, or would serve a contact, until the clock is where it was. The time is no part
    /// of an input: a clock that was put back is followed even if the input is refused, as at a wake.
    fn follow_back(&mut self, now: Time) {
        let back = self.seen.since_ms(now);
        if back == 0 {
            return;
        }
        self.seen = now;
        // Each wait keeps its remaining length, so that a wrong clock delays neither dials nor
        // calls (MIX-40).
        self.link.put_back(back);
        self.rounds.values_mut().for_each(|round| round.put_back(back));
        self.contacts.all.values_mut().for_each(|contact| contact.put_back(back));
        self.snapshot_at = self.snapshot_at.minus_ms(back);
        self.walk_at = self.walk_at.map(|at| at.minus_ms(back));
        self.standing.put_back(back);
        self.left = self.left.map(|at| at.minus_ms(back));
    }

    /// Follows the clock in an accepted step. A clock that was put forward takes nobody's turn
    /// away.
    fn follow_clock(&mut self, now: Time) {
        let late = self.deadline().map_or(0, |due| now.since_ms(due));
        // A late wake means sleep or a clock that was set forward. A few minutes are the load of
        // the machine.
        if late > LATE_MS && self.link.is_up() {
            let ahead = now.since_ms(self.seen);
            self.contacts.all.values_mut().for_each(|contact| contact.put_forward(ahead, now));
            self.on_pause(ahead, now);
        }
        self.seen = now;
    }

    fn apply_input(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        match input {
            Input::Up { trusted } => self.on_up(trusted, now),
            Input::Down => self.on_down(now, rng),
            Input::Frame { frame, age_ms } => self.on_frame(frame, age_ms, now, rng),
            Input::Give(pair) => {
                // A pair that was not requested could be known to another party.
                self.wanted = self.wanted.checked_sub(1).ok_or(ClientError::Unasked)?;
                self.pairs.push(pair);
                Ok(())
            }
            Input::Done(job, done) => self.on_done(&job, done, now),
            Input::Lost(id) => {
                self.rounds.get(&id).ok_or(ClientError::UnknownRound)?;
                self.miss_round(id);
                Ok(())
            }
            Input::Stored(seq) => self.on_stored(seq, now),
            Input::Add(contact) => self.add_contact(&contact, now),
            Input::Remove(contact) => self.remove_contact(contact, now),
            Input::Activate(contact) => {
                self.contacts.all.get(&contact).ok_or(ClientError::NoContact)?;
                self.contacts.activate_contact(contact, now);
                Ok(())
            }
            Input::Leave(contact) => {
                let contact = self.contacts.all.get_mut(&contact);
                contact.ok_or(ClientError::NoContact)?.start_leaving();
                Ok(())
            }
            Input::Mute(contact, muted) => {
                let contact = self.contacts.all.get_mut(&contact);
                contact.ok_or(ClientError::NoContact)?.muted = muted;
                Ok(())
            }
            Input::Suspend(contact, suspended) => self.suspend_contact(contact, suspended, now),
            Input::Retract { contact, bytes } => {
                self.retract_message(contact, &bytes, now);
                Ok(())
            }
            Input::Send { ticket, contact, bytes } => {
                self.send_message(ticket, contact, &bytes, now);
                Ok(())
            }
            Input::Call(contact, intent) => self.call_contact(contact, intent, now),
            Input::Invite(invite) => {
                self.queue_invite(invite, now);
                Ok(())
            }
            Input::AllowMore(more) => {
                self.allow_more = more;
                self.take_snapshot(now);
                Ok(())
            }
        }
    }
}

/// A number of chance.
fn draw_number(rng: &mut dyn CryptoRng) -> u64 {
    let mut bytes = [0; 8];
    rng.fill_bytes(&mut bytes);
    u64::from_be_bytes(bytes)
}

impl<B: Backend> Machine for Client<B> {
    type Input = Input;
    type Output = Output;
    type Error = ClientError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        self.follow_back(now);
        // The clock is followed after the input only: a refused input must not move a time forward.
        self.apply_input(input, now, rng)?;
        self.follow_clock(now);
        self.notify_changes(now);
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.follow_back(now);
        self.follow_clock(now);
        self.check_overdue(now);
        self.dial(now);
        if self.snapshot_at <= now {
            self.take_snapshot(now);
        }
        for contact in self.contacts.take_due(now) {
            self.look_again(contact, now);
        }
        self.walk_chains(now);
        // Rounds come last, so that calls queued above still enter a round that is sealed now.
        while let Some(id) = self.due_round(now) {
            self.move_on(id, now, rng);
        }
        self.notify_changes(now);
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let rounds = self.rounds.values().map(Round::deadline);
        let contacts = self.contacts.all.values().filter_map(Partner::deadline);
        let own = [self.link.deadline(), self.walk_at, self.standing.due, Some(self.snapshot_at)];
        rounds.chain(contacts).chain(own.into_iter().flatten()).min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        mezza_core::snapshot::snapshot_of(self)
    }
}

impl<B: Backend> fmt::Debug for Client<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", &self.link)
            .field("contacts", &self.contacts.all.len())
            .field("rounds", &self.rounds)
            .field("pairs", &(self.pairs.len(), self.wanted))
            .field("queues", &(self.calls.len(), self.invites.len(), self.unrecorded.len()))
            .field("rows", &(self.snapshot, self.seq, self.awaited.len()))
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}
