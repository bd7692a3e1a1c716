//! The client as one machine: it joins a network, takes part in every round of every service, and
//! carries messages, calls and invitations in them.
//!
//! ```text
//! one round    Armed ---- seal ----> Sealed ---- send ----> Sent ---- RETURN ----> over, or Fetching
//!              (times drawn)         (record, job)          (SUBMIT left)          (services 2 and 3)
//! the link     Down ---- Dial, Up ----> Greeted ---- WELCOME ----> Joined ---- Down ----> Down
//! ```
//!
//! The frames of a client and their times depend on the rounds only. An idle client draws the same
//! times, stores records of the same size, and requests one bucket of each round (MIX-21). It
//! passes frames to the line before their time (MIX-74). If a record is not durable in time, its
//! frame is not sent. Missed rounds are not made up for.

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
pub use io::{ClientError, Input, Invite, NewRoot, Output, RefusedReason, StartRounds};
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

/// Longest delay of a wake or input in ms that counts as load. With a longer delay the clock jumped
/// forward or the machine slept, and no contact loses service time.
const LATE_MS: u64 = 2 * Time::MINUTE_MS;

/// Options of a client.
pub struct ClientOptions {
    /// Hash of the genesis config, which the user pinned.
    pub pin: [u8; 32],
    /// Private key for invitations to us.
    pub dialling: StaticKey,
    /// Least noise that counts as protection.
    pub floor: NoiseFloor,
    /// Checks round keys and opens replies.
    pub kernel: &'static dyn Kernel,
}

mezza_core::snapshot!(struct ClientOptions {
    pin, dialling, floor, kernel => String::from(kernel.name()),
});

/// A write that is not durable yet.
enum PendingWrite {
    /// A record: its round, and the pieces in it, each with line number (root of a contact) and
    /// piece number.
    Record(Option<RoundId>, Vec<(u32, u32)>),
    /// A message for the messenger: line and number of its last piece.
    Message(u32, u32),
}

mezza_core::snapshot!(enum PendingWrite [Record(a, b), Message(a, b)]);

/// The client of a mixnet for one user. `Debug` shows rounds and counts only.
pub struct Client<B: Backend = PortableBackend> {
    setup: ClientOptions,
    /// The key that determines our bucket: that of `setup`, or of the locked device for which this
    /// client idles.
    bucket_key: PublicKey,
    /// True while the device is locked: no contact is served and no invitation is read (MIX-78).
    idles: bool,
    chain: Option<Chain>,
    ledger: Option<Ledger>,
    contacts: Partners,
    link: Link,
    /// Number of consecutive lines that were closed because no round arrived.
    silent_lines: u32,
    /// Number of dials since the start that searched for configs at other addresses.
    searches: u32,
    rounds: BTreeMap<RoundId, Round>,
    /// The last sealed round of each service.
    last: BTreeMap<Service, u64>,
    /// The highest round of each service in verified settings, since the start.
    shown: BTreeMap<Service, u64>,
    /// Services in which an unreadable row may be of a round that verified settings have not
    /// bounded yet.
    unread: BTreeSet<Service>,
    /// Key pairs for the outermost layers; `wanted` is the number of requested ones.
    pairs: Vec<EphemeralKey>,
    wanted: usize,
    calls: VecDeque<(PartnerId, Intent)>,
    invites: Invites,
    allow_more: bool,
    /// The number of the last row or message; `snapshot` is that of the last snapshot.
    seq: u64,
    snapshot: u64,
    snapshot_at: Time,
    awaited: BTreeMap<u64, PendingWrite>,
    /// Pieces that arrived and are in no record yet: line number (root of a contact) and piece
    /// number.
    unrecorded: VecDeque<(u32, u32)>,
    /// Time of the next steps of chains that are far behind; set once settings have shown the
    /// distance.
    walk_at: Option<Time>,
    standing: ProtectionState,
    /// Rows that could not be read at the start.
    aside: Vec<RowsSetAside>,
    /// The time of the last wake or accepted input.
    seen: Time,
    /// Start of an absence, in which this client takes part in no round and may miss calls; 0 if it
    /// began before the start of the machine.
    left: Option<Time>,
    /// The last call round that was read, if no earlier one is known to be missed.
    heard: Option<u64>,
    outputs: VecDeque<Output>,
    backend: PhantomData<fn() -> B>,
}

mezza_core::snapshot!(struct Client<B> {
    setup, bucket_key, idles, chain, ledger, contacts, link, silent_lines, searches, rounds, last, shown, unread, pairs, wanted, calls, invites,
    allow_more, seq, snapshot, snapshot_at, awaited, unrecorded, walk_at, standing, aside, seen,
    left, heard, outputs, backend,
});

/// State of the stream of one root of a contact, for comparing two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMark {
    /// The contact.
    pub contact: PartnerId,
    /// The number of the root.
    pub line: u32,
    /// The number of the next new piece.
    pub next: u32,
    /// The first piece that the partner did not acknowledge.
    pub acked_by_partner: u32,
    /// Number of the first piece that is not acknowledged to the partner.
    pub ack: u32,
    /// Bit j is set if piece `ack + 1 + j` is acknowledged to the partner.
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
    /// Returns the known configs, or `None` while the first one is being fetched.
    pub const fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// Returns the ledger of spent budget, or `None` while no config is known.
    pub const fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Returns the last sealed round of a service.
    pub fn last_sealed(&self, service: Service) -> Option<u64> {
        self.last.get(&service).copied()
    }

    /// Raises the last sealed round of a service.
    fn goes_to(&mut self, id: RoundId) {
        let last = self.last.entry(id.service).or_default();
        // A smaller value would allow a round to be sealed a second time (MIX-40).
        *last = id.round.max(*last);
    }

    /// Returns the rows that could not be read at the start, ascending.
    pub fn rows_aside(&self) -> &[RowsSetAside] {
        &self.aside
    }

    /// Returns the stream states, one per root of each contact.
    pub fn stream_marks(&self) -> impl Iterator<Item = StreamMark> {
        let all = self.contacts.all.iter();
        all.flat_map(|(id, contact)| contact.lines().map(|line| StreamMark::from_root(*id, line)))
    }

    /// Returns the rounds in progress.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    /// Returns the number of clients in the last round that returned, as the entry server reports
    /// it.
    pub const fn users(&self) -> u32 {
        self.standing.users
    }

    /// Returns true if the client has a root for a contact.
    pub fn has_contact(&self, contact: PartnerId) -> bool {
        self.contacts.all.contains_key(&contact)
    }

    /// Returns true if the client has exactly one root for a contact, and has never met the contact.
    pub fn has_unproven_root(&self, contact: PartnerId) -> bool {
        let is_unproven = |partner: &Partner| partner.others.is_empty() && partner.met_at.is_none();
        self.contacts.all.get(&contact).is_some_and(is_unproven)
    }

    /// Returns true if a contact is served at present.
    pub fn is_active(&self, contact: PartnerId) -> bool {
        self.contacts.all.get(&contact).is_some_and(Partner::is_active)
    }

    /// Returns true if all messages to a contact were acknowledged.
    pub fn is_idle(&self, contact: PartnerId) -> bool {
        let contact = self.contacts.all.get(&contact);
        contact.is_none_or(|contact| contact.lines().all(|line| line.sender.is_idle()))
    }

    /// Merges the totals of a backup and continues in a separate branch of the ledger (MIX-24).
    pub fn restore_ledger(&mut self, backup: &Ledger, now: Time, rng: &mut dyn CryptoRng) {
        if let Some(ledger) = &mut self.ledger {
            ledger.merge(backup);
            // The original of the backup may continue, too. Equal branches would hide the charges
            // of one of the two (MIX-24).
            ledger.branch_off(draw_number(rng));
            self.take_snapshot(now);
        }
    }

    fn await_write(&mut self, awaited: PendingWrite) -> u64 {
        self.seq += 1;
        self.awaited.insert(self.seq, awaited);
        self.seq
    }

    /// Handles the report that all writes up to `seq` are durable.
    fn on_stored(&mut self, seq: u64, now: Time) -> Result<(), ClientError> {
        let later = self.awaited.split_off(&seq.saturating_add(1));
        // Rows are written in order, so the newest durable number covers all before it.
        let durable = core::mem::replace(&mut self.awaited, later);
        // If no write waits for this number, the caller has an error and nothing changes.
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
                            // The piece is in a durable row. With an earlier acknowledgement a
                            // crash could lose it (MIX-33).
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

    /// Follows a clock that went back: each wait keeps its remaining length. Otherwise a client
    /// would not dial, or would serve a contact, until the clock reaches the old time. This happens
    /// even if the input is refused, because the time is not part of the input.
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

    /// Follows the clock after an accepted step. A forward jump of the clock costs no contact its
    /// service.
    fn follow_clock(&mut self, now: Time) {
        let late = self.deadline().map_or(0, |due| now.since_ms(due));
        // A late wake means sleep or a clock that jumped forward. A few minutes are the load of the
        // machine.
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

/// Returns a random number.
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
        // The clock is followed after the input, because a refused input must not move a time
        // forward.
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
        // Rounds come last, so that calls queued above enter a round that is sealed now.
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
