//! What lies on the node's desk: the vault, the device, the lines. Only its task touches it.
//!
//! ```text
//! Empty --create--> Open <--unlock-- Locked
//!                    |                  ^
//!                    +--lock, idle------+
//! ```

pub mod ask;
mod health;
pub mod make;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::{Machine, Time};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::{Batch, Change, Command, Device, Input, Kind, Output, Ticket};
use tokio::sync::mpsc;

use super::hub::{self, Hub};
use super::{Job, Options, Refused, now, words};
use crate::backend::AwsLc;
use crate::carriers::{Pool, Report};
use crate::drive::{self, Turn};
use crate::exit::Fault;
use crate::mixnet::kernel::kernel;
use crate::rng::OsRng;
use crate::store::{Cost, Vault};
use crate::web::dto::{self, EventKind, NodeState};

/// The shortest sleep of the task, in milliseconds.
const NAP_MS_MIN: u64 = 1;
/// How long a fact that nobody waits for may wait for the next commit, in milliseconds.
const LATER_MS: u64 = 10;

/// Everything that the task owns.
pub struct Desk {
    options: Options,
    hub: Arc<Hub>,
    pool: Pool,
    open: Option<Open>,
    touched: Time,
    commit_ms: u64,
    /// `Handed` facts that go with the next commit. The receipt is often right behind them, and
    /// must not wait for a commit of theirs; after a crash the relay is asked once more.
    later: Later,
    /// Own mailboxes and bundles that the relay has not confirmed yet.
    opening: BTreeSet<Ticket>,
    /// What the device wants to hear of once it is durable, which it is by now.
    durable: Option<u64>,
}

/// Changes that may wait a moment for the next commit, with what they show.
#[derive(Default)]
struct Later {
    batches: Vec<Batch>,
    shows: Vec<Output>,
    end: Option<Time>,
}

/// What an unlocked node holds.
struct Open {
    vault: Vault,
    device: Device<AwsLc>,
}

impl Desk {
    /// A desk that is locked, or empty if there is no vault.
    pub fn new(options: Options, hub: Arc<Hub>, jobs: mpsc::Sender<Job>) -> Self {
        let pool = Pool::new(options.dialer.clone(), jobs);
        Self {
            options,
            hub,
            pool,
            open: None,
            touched: now(),
            commit_ms: 0,
            later: Later::default(),
            opening: BTreeSet::new(),
            durable: None,
        }
    }

    /// How far the node is.
    pub fn state(&self) -> NodeState {
        match self.open {
            Some(_) => NodeState::Open,
            None if Vault::exists(&self.options.vault) => NodeState::Locked,
            None => NodeState::Empty,
        }
    }

    /// What the program is doing.
    pub fn status(&self) -> dto::Status {
        dto::Status {
            version: env!("CARGO_PKG_VERSION").into(),
            state: self.state(),
            name: self.open.as_ref().map(|open| open.device.me().name),
            demo: self.options.demo,
            observer: self.options.observer.is_some(),
            idle_lock_s: self.options.idle_lock_s,
            now_ms: now().ms(),
        }
    }

    /// Makes an identity and its vault, and unlocks it.
    ///
    /// # Errors
    /// If there is one already, the name is unclean, or the disk refuses.
    pub fn create(
        &mut self,
        name: &str,
        pass: &[u8],
        relays: &[RelayEntry],
    ) -> Result<(), Refused> {
        if self.open.is_some() || Vault::exists(&self.options.vault) {
            return Err(Refused::exists());
        }
        let cost = if self.options.demo { Cost::DEMO } else { Cost::measured()? };
        let open = make::make(&self.options.vault, name, pass, cost, relays)?;
        self.begin(open)
    }

    /// Unlocks the vault.
    ///
    /// # Errors
    /// A wrong passphrase (word `passphrase`), a vault in use or damaged.
    pub fn unlock(&mut self, pass: &[u8]) -> Result<(), Refused> {
        match self.state() {
            NodeState::Open => return Ok(()),
            NodeState::Empty => return Err(Refused::empty()),
            NodeState::Locked => {}
        }
        let (vault, records) = Vault::open(&self.options.vault, pass, now()).map_err(|fault| {
            let denied = fault.code == crate::exit::Exit::Denied;
            if denied { Refused::new("passphrase", fault) } else { fault.into() }
        })?;
        let device = Device::load_on(kernel(), records, now(), &mut OsRng);
        let device = device.map_err(words::load_fault)?;
        self.begin(Open { vault, device })
    }

    fn begin(&mut self, open: Open) -> Result<(), Refused> {
        self.open = Some(open);
        self.touched = now();
        self.carry_out()?;
        tracing::info!("unlocked");
        Ok(())
    }

    /// Locks the vault: lines are hung up, keys are wiped.
    pub fn lock(&mut self) {
        self.log(Self::commit_later);
        self.pool.clear();
        self.opening.clear();
        let Some(open) = self.open.take() else { return };
        self.hub.clear();
        drop(open.device);
        if let Err(fault) = open.vault.close() {
            tracing::warn!(code = fault.code.number(), "the vault did not close cleanly");
        }
        self.hub.tell(hub::plain(EventKind::Locked));
        tracing::info!("locked");
    }

    /// A person did something: the idle lock begins anew.
    ///
    /// # Errors
    /// None; a question to the task has the form of one that may be refused.
    pub fn touch(&mut self) -> Result<(), Refused> {
        self.touched = now();
        Ok(())
    }

    /// How long the task may sleep.
    pub fn nap(&self, now: Time) -> Duration {
        let Some(open) = &self.open else { return Duration::MAX };
        let mut end = open.vault.deadline();
        end = open.device.deadline().map_or(end, |deadline| end.min(deadline));
        end = self.idle_end().map_or(end, |idle| end.min(idle));
        end = self.later.end.map_or(end, |later| end.min(later));
        // Never nothing: a deadline that stays in the past must not keep a processor busy.
        Duration::from_millis(end.since_ms(now).max(NAP_MS_MIN))
    }

    fn idle_end(&self) -> Option<Time> {
        let idle_ms = self.options.idle_lock_s * Time::SECOND_MS;
        (idle_ms > 0).then(|| self.touched.plus_ms(idle_ms))
    }

    /// Does what is due; called after every job and every nap.
    pub fn tend(&mut self) {
        if self.open.is_none() {
            return;
        }
        if self.idle_end().is_some_and(|end| now() >= end) {
            return self.lock();
        }
        if self.later.end.is_some_and(|end| now() >= end) {
            self.log(Self::commit_later);
        }
        let due = |open: &Open| open.device.deadline().is_some_and(|deadline| now() >= deadline);
        if self.open.as_ref().is_some_and(due) {
            self.log(Self::wake);
        }
        self.log(Self::turn_buckets);
    }

    fn wake(&mut self) -> Result<(), Refused> {
        self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.wake(now(), &mut OsRng);
        self.carry_out()
    }

    /// Takes a report of a line in. What the device does not know any more is dropped.
    pub fn report(&mut self, report: Report) {
        let input = self.pool.report(report);
        match &input {
            Some(Input::Handed { ticket } | Input::Refused { ticket, .. }) => {
                self.opening.remove(ticket);
            }
            Some(Input::Down { .. }) => self.opening.clear(),
            _ => {}
        }
        if let Some(input) = input
            && self.open.is_some()
        {
            let done = matches!(input, Input::Handed { .. });
            self.log(|desk| if done { desk.handed(input) } else { desk.handle(input) });
        }
    }

    /// Has the device take a command; what it changed is durable when this returns.
    ///
    /// # Errors
    /// What the device refuses, or a disk that does.
    pub fn command(&mut self, command: Command) -> Result<(), Refused> {
        self.handle(Input::Command(command))
    }

    fn handle(&mut self, input: Input) -> Result<(), Refused> {
        self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.handle(input, now(), &mut OsRng)?;
        self.carry_out()
    }

    /// Old bucket keys go before any other work (VAULT-3).
    fn turn_buckets(&mut self) -> Result<(), Refused> {
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        if now() >= open.vault.deadline() {
            open.vault.tick(now())?;
        }
        Ok(())
    }

    /// Drains the device, commits once, then does the rest in order (messenger 4.1).
    fn carry_out(&mut self) -> Result<(), Refused> {
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let turn = drive::drain(&mut open.device);
        self.finish(turn)
    }

    /// Commits, then does the rest. What the device wants to hear of is durable then.
    fn finish(&mut self, turn: Turn<Output, Batch>) -> Result<(), Refused> {
        self.commit(turn.early, turn.batches)?;
        self.perform(turn.late);
        match self.durable.take() {
            Some(seq) => self.handle(Input::Durable(seq)),
            None => Ok(()),
        }
    }

    /// Takes in what a carrier has done. If nothing but facts comes of it, they go with the next
    /// commit.
    fn handed(&mut self, input: Input) -> Result<(), Refused> {
        self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.handle(input, now(), &mut OsRng)?;
        let turn = drive::drain(&mut open.device);
        if !turn.late.is_empty() {
            return self.finish(turn);
        }
        self.tell_early(&turn.early);
        self.later.shows.extend(turn.early);
        self.later.batches.extend(turn.batches);
        self.later.end.get_or_insert(now().plus_ms(LATER_MS));
        Ok(())
    }

    fn commit_later(&mut self) -> Result<(), Refused> {
        if self.later.end.is_none() { Ok(()) } else { self.commit(Vec::new(), Vec::new()) }
    }

    /// Commits what waited and what is new as one transaction.
    fn commit(&mut self, shows: Vec<Output>, new: Vec<Batch>) -> Result<(), Refused> {
        if !new.is_empty() {
            self.tell_early(&shows);
        }
        let mut later = std::mem::take(&mut self.later);
        later.batches.extend(new);
        later.shows.extend(shows);
        if later.batches.is_empty() {
            self.perform(later.shows);
            return Ok(());
        }
        let began = now();
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        if let Err(fault) = open.vault.commit(&later.batches) {
            return Err(self.crashed(fault));
        }
        self.commit_ms = now().since_ms(began);
        self.perform(later.shows);
        self.show_thief(&later.batches);
        Ok(())
    }

    fn tell_early(&self, shows: &[Output]) {
        for output in shows {
            if let (Output::Show(event), Some(open)) = (output, &self.open) {
                self.hub.tell_early(ask::event(&open.device, *event));
            }
        }
    }

    /// Shows the observer what lies on disk of the notes that were just stored.
    fn show_thief(&self, batches: &[Batch]) {
        let (Some(observer), Some(open)) = (&self.options.observer, &self.open) else { return };
        let changes = batches.iter().flat_map(|batch| &batch.0);
        // A turn may store one note more than once; the last of them is what lies there.
        let notes: BTreeSet<&[u8]> = changes
            .filter_map(|change| match change {
                Change::Put { kind: Kind::Note, key, .. } => Some(key.as_slice()),
                _ => None,
            })
            .collect();
        for key in notes {
            if let Ok(Some((place, body))) = open.vault.at_rest(Kind::Note, key) {
                observer.lies(place, &body);
            }
        }
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match (output, &self.open) {
                (Output::Show(event), Some(open)) => {
                    self.hub.tell(ask::event(&open.device, event));
                }
                (Output::Durable(seq), _) => self.durable = Some(seq),
                (output, _) => {
                    if let Output::Open { ticket, .. } | Output::Publish { ticket, .. } = &output {
                        self.opening.insert(*ticket);
                    }
                    self.pool.order(output);
                }
            }
        }
    }

    /// A commit that fails counts as a crash: the device comes again from the vault.
    fn crashed(&mut self, fault: Fault) -> Refused {
        tracing::warn!(code = fault.code.number(), "a commit failed; loading again");
        self.pool.clear();
        self.opening.clear();
        self.later = Later::default();
        let Some(open) = self.open.take() else { return fault.into() };
        let records = open.vault.records();
        let device = records.and_then(|r| {
            Device::load_on(kernel(), r, now(), &mut OsRng).map_err(words::load_fault)
        });
        if let Ok(device) = device {
            let mut open = Open { vault: open.vault, device };
            // What a fresh device wants stored is small; if even that fails, stay locked.
            let turn = drive::drain(&mut open.device);
            if open.vault.commit(&turn.batches).is_ok() {
                self.open = Some(open);
                self.perform(turn.early);
                self.perform(turn.late);
            }
        }
        let kind = if self.open.is_some() { EventKind::Reload } else { EventKind::Locked };
        self.hub.tell(hub::plain(kind));
        fault.into()
    }

    fn log(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Refused>) {
        if let Err(refused) = work(self) {
            tracing::debug!(word = refused.word, "not done");
        }
    }

    /// The end of the task.
    pub fn end(&mut self) {
        self.lock();
    }
}
