//! What lies on the node's desk: the vault, the device, the lines. Only its task touches it.
//!
//! ```text
//! Empty --create--> Open <--unlock-- Locked
//!                    |                  ^
//!                    +--lock, idle------+
//! ```

pub mod ask;
mod commit;
mod health;
pub mod make;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::{Machine, Time};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::carriers::mixnet::MixnetOutput;
use mezza_messenger::{
    CarrierInput, Device, Input, LineId, Output, RelayInput, RequestId, WriteBatch,
};
use tokio::sync::mpsc;

use super::hub::{self, Hub};
use super::{LastActivity, NodeMessage, NodeOptions, Refused, now, words};
use crate::backend::AwsLc;
use crate::carriers::{ConnectionReport, Pool};
use crate::drive::{self, CommitPlan};
use crate::mixnet::kernel::kernel;
use crate::rng::OsRng;
use crate::store::witness::Witness;
use crate::store::{Argon2Params, Record, Vault};
use crate::web::dto::{self, EventKind, NodeStateJson};

/// The shortest sleep of the task, in milliseconds.
const NAP_MS_MIN: u64 = 1;
/// How long a fact that nobody waits for may wait for the next commit, in milliseconds.
const LATER_MS: u64 = 10;

/// Everything that the task owns.
pub struct NodeActor {
    options: NodeOptions,
    hub: Arc<Hub>,
    pool: Pool,
    open: Option<UnlockedVault>,
    touched: Arc<LastActivity>,
    /// What the clock said last.
    seen: Time,
    commit_ms: u64,
    /// `Handed` facts that go with the next commit. The receipt is often right behind them, and
    /// must not wait for a commit of theirs; after a crash the relay is asked once more.
    later: DeferredCommit,
    /// Own mailboxes and bundles that the relay has not confirmed yet.
    opening: BTreeMap<RequestId, LineId>,
    /// What the device wants to hear of once it is durable, which it is by now.
    durable: Option<u64>,
    /// What came of the last report, not committed yet.
    heard: Option<CommitPlan<Output, WriteBatch>>,
    /// The dial that waits for the person, as the vault was put back.
    withheld: Option<MixnetOutput>,
}

/// Changes that may wait a moment for the next commit, with what they show.
#[derive(Default)]
struct DeferredCommit {
    batches: Vec<WriteBatch>,
    shows: Vec<Output>,
    end: Option<Time>,
}

/// What an unlocked node holds.
struct UnlockedVault {
    vault: Vault,
    device: Device<AwsLc>,
    witness: Option<Witness>,
}

impl NodeActor {
    /// A desk that is locked, or empty if there is no vault.
    pub fn new(
        options: NodeOptions,
        hub: Arc<Hub>,
        touched: Arc<LastActivity>,
        jobs: mpsc::Sender<NodeMessage>,
    ) -> Self {
        let pool = Pool::new(options.dialer.clone(), jobs);
        Self {
            options,
            hub,
            pool,
            open: None,
            touched,
            seen: now(),
            commit_ms: 0,
            later: DeferredCommit::default(),
            opening: BTreeMap::new(),
            durable: None,
            heard: None,
            withheld: None,
        }
    }

    /// How far the node is.
    pub fn state(&self) -> NodeStateJson {
        match self.open {
            Some(_) => NodeStateJson::Open,
            None if Vault::exists(&self.options.vault) => NodeStateJson::Locked,
            None => NodeStateJson::Empty,
        }
    }

    /// What the program is doing.
    pub fn status(&self) -> dto::StatusJson {
        dto::StatusJson {
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
        let cost = if self.options.demo { Argon2Params::DEMO } else { Argon2Params::measured()? };
        let (vault, device, turn) = make::make(&self.options.vault, name, pass, cost, relays)?;
        let witness = self.witness(&vault, &[]);
        self.begin(UnlockedVault { vault, device, witness }, turn)
    }

    /// Unlocks the vault.
    ///
    /// # Errors
    /// A wrong passphrase (word `passphrase`), a vault in use or damaged.
    pub fn unlock(&mut self, pass: &[u8]) -> Result<(), Refused> {
        match self.state() {
            NodeStateJson::Open => return Ok(()),
            NodeStateJson::Empty => return Err(Refused::empty()),
            NodeStateJson::Locked => {}
        }
        let (vault, records) = Vault::open(&self.options.vault, pass, now()).map_err(|fault| {
            let denied = fault.code == crate::exit::Exit::Denied;
            if denied { Refused::new("passphrase", fault) } else { fault.into() }
        })?;
        let witness = self.witness(&vault, &records);
        let device = Device::load_on(kernel(), records, vault.unread(), now(), &mut OsRng);
        let mut device = device.map_err(words::load_fault)?;
        let turn = drive::drain(&mut device);
        self.begin(UnlockedVault { vault, device, witness }, turn)
    }

    fn witness(&self, vault: &Vault, records: &[Record]) -> Option<Witness> {
        Some(Witness::of(self.options.witness.as_deref()?, vault, records))
    }

    fn begin(
        &mut self,
        open: UnlockedVault,
        turn: CommitPlan<Output, WriteBatch>,
    ) -> Result<(), Refused> {
        self.open = Some(open);
        self.touched.now();
        self.finish(turn)?;
        let aside = self.open.as_ref().map_or(0, |open| open.device.set_aside().len());
        if aside > 0 {
            tracing::warn!(parts = aside, "stored records could not be read: see `mezza doctor`");
        }
        tracing::info!("unlocked");
        Ok(())
    }

    /// Locks the vault: lines are hung up, keys are wiped.
    pub fn lock(&mut self) {
        self.log(Self::commit_later);
        self.pool.clear();
        self.opening.clear();
        self.withheld = None;
        let Some(open) = self.open.take() else { return };
        self.hub.clear();
        drop(open.device);
        if let Err(fault) = open.vault.close() {
            tracing::warn!(code = fault.code.number(), "the vault did not close cleanly");
        }
        self.hub.tell(hub::plain(EventKind::Locked));
        tracing::info!("locked");
    }

    /// How long the task may sleep.
    pub fn time_to_sleep(&self, now: Time) -> Duration {
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
        (idle_ms > 0).then(|| self.touched.at().plus_ms(idle_ms))
    }

    /// Does what is due; called after every job and every nap.
    pub fn run_due_work(&mut self) {
        self.tend_at(now());
    }

    /// A clock that was put back takes every end far away: then nothing waits for its own, and the
    /// device is woken to follow the clock.
    fn tend_at(&mut self, now: Time) {
        let back = now < self.seen;
        self.seen = now;
        if self.open.is_none() {
            return;
        }
        if self.touched.at() > now {
            self.touched.now();
        }
        if self.idle_end().is_some_and(|end| now >= end) {
            return self.lock();
        }
        if self.later.end.is_some_and(|end| back || now >= end) {
            self.log(Self::commit_later);
        }
        let due =
            |open: &UnlockedVault| open.device.deadline().is_some_and(|deadline| now >= deadline);
        if self.open.as_ref().is_some_and(|open| back || due(open)) {
            self.log(|desk| desk.wake(now));
        }
        self.log(Self::turn_buckets);
        if let Some(open) = &mut self.open {
            open.device.precompute(&mut OsRng);
            open.vault.prefetch();
        }
    }

    fn wake(&mut self, now: Time) -> Result<(), Refused> {
        self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.wake(now, &mut OsRng);
        self.carry_out()
    }

    /// Takes a report of a line in. What the device does not know any more is dropped.
    ///
    /// `true` if somebody was told of it ahead of the commit, which `settle` does: let them run.
    pub fn report(&mut self, report: ConnectionReport) -> bool {
        let input = self.pool.report(report);
        match &input {
            Some(CarrierInput::Relay(
                RelayInput::Done { ticket } | RelayInput::Refused { ticket, .. },
            )) => drop(self.opening.remove(ticket)),
            Some(CarrierInput::Relay(RelayInput::Down { line })) => {
                self.opening.retain(|_, at| at != line);
            }
            _ => {}
        }
        if let Some(input) = input
            && self.open.is_some()
        {
            let done = matches!(input, CarrierInput::Relay(RelayInput::Done { .. }));
            let input = Input::Carrier(input);
            self.log(|desk| if done { desk.handed(input) } else { desk.hear(input) });
        }
        self.heard.as_ref().is_some_and(|turn| !turn.early.is_empty())
    }

    fn hear(&mut self, input: Input) -> Result<(), Refused> {
        self.heard = Some(self.turn(input)?);
        Ok(())
    }

    /// Commits what came of the last report, and does the rest of it.
    pub fn settle(&mut self) {
        if let Some(turn) = self.heard.take() {
            self.log(|desk| desk.finish(turn));
        }
    }

    /// Has the device take a command; what it changed is durable when this returns.
    ///
    /// # Errors
    /// What the device refuses, or a disk that does.
    pub fn command(&mut self, command: impl Into<Input>) -> Result<(), Refused> {
        let turn = self.turn(command.into())?;
        self.finish(turn)
    }

    /// What comes of an input.
    fn turn(&mut self, input: Input) -> Result<CommitPlan<Output, WriteBatch>, Refused> {
        self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.handle(input, now(), &mut OsRng)?;
        self.drain()
    }

    /// Old bucket keys go before any other work (VAULT-3).
    fn turn_buckets(&mut self) -> Result<(), Refused> {
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        if now() >= open.vault.deadline() {
            open.vault.tick(now())?;
        }
        Ok(())
    }

    /// Takes in what a carrier has done. If nothing but facts comes of it, they go with the next
    /// commit.
    fn handed(&mut self, input: Input) -> Result<(), Refused> {
        let turn = self.turn(input)?;
        if !turn.late.is_empty() || turn.batches.is_empty() {
            return self.finish(turn);
        }
        self.later.shows.extend(turn.early);
        self.later.batches.extend(turn.batches);
        self.later.end.get_or_insert(now().plus_ms(LATER_MS));
        Ok(())
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
