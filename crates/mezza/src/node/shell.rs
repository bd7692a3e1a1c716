//! The shell of the device: its vault, its carriers, and its event log. Only the node's task uses
//! it.
//!
//! ```text
//! Empty --create--> Open <--unlock-- Locked
//!                    |                  ^
//!                    +--lock, idle------+
//! ```

pub(crate) mod ask;
mod backup;
pub(crate) mod beside;
mod clock;
mod commit;
mod dates;
mod health;
mod leaving;
mod links;
pub(crate) mod make;
mod network;
mod restore;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use mezza_core::{Machine, Time};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::{CarrierId, CarrierSet, Command, Device, Event, Input, WriteBatch};
use tokio::task::yield_now;

use beside::Beside;
use dates::VaultDate;
use leaving::LeavingNotes;

use super::event_log::{self, EventLog};
use super::plan::{self, CommitPlan};
use super::{LastActivity, NodeEvent, NodeHandle, NodeOptions};
use crate::carriers::{
    Adapters, CarrierMeans, ConnectionEvent, ConnectionReport, LockedLine, may_wait,
};
use mezza_host::api::json::{self, EventKind, NodeStateJson};
use mezza_host::api::{Exit, Fault, Refused, words};
use mezza_host::backend::AwsLc;
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::backup::{BackupState, is_moving, network_to_rejoin};
use mezza_host::process::drive::Shell;
use mezza_host::process::home::Home;
use mezza_host::process::rng::OsRng;
use mezza_host::store::witness::Witness;
use mezza_host::store::{Argon2Params, Record, Vault};

/// The shortest time between two checks for due work, in milliseconds.
const NAP_MS_MIN: u64 = 1;
/// How long a fact without a waiting caller may wait for the next commit, in milliseconds.
const LATER_MS: u64 = 10;

/// Everything that the node's task owns.
pub struct NodeShell {
    options: NodeOptions,
    events: Arc<EventLog>,
    adapters: Adapters<NodeEvent>,
    open: Option<UnlockedVault>,
    touched: Arc<LastActivity>,
    /// The date at the last run of the task.
    seen: Time,
    /// True if the wall clock was doubted at the last check (MSG-99).
    doubts: bool,
    commit_ms: u64,
    /// `Handed` facts for the next commit. The receipt often follows directly and must not wait for
    /// a separate commit; after a crash the relay is asked again.
    later: DeferredCommit,
    /// Durable writes that carriers asked to be notified of.
    durable: Vec<(CarrierId, u64)>,
    /// Keyring steps that are stored and not reported to the device yet, by generation.
    keyrings: Vec<u64>,
    /// The uncommitted effects of the last report.
    heard: Option<CommitPlan>,
    /// Notes that will be deleted after the time to undo.
    leaving: LeavingNotes,
}

/// Changes that may wait a moment for the next commit, with their events.
#[derive(Default)]
struct DeferredCommit {
    batches: Vec<WriteBatch>,
    shows: Vec<Event>,
    /// The boot time of the commit at the latest.
    end: Option<Time>,
}

/// Makes the carriers of a device, with the fastest kernel of this machine.
fn make_carriers() -> CarrierSet<AwsLc> {
    CarrierSet::new(choose_kernel())
}

/// The vault of an unlocked node, with its device and its witness.
struct UnlockedVault {
    vault: Vault,
    device: Device<AwsLc>,
    beside: Beside,
    witness: Option<Witness>,
    date: VaultDate,
    /// True if the mixnet's budget lacks charges (MSG-63).
    put_back: bool,
    /// True if the current commit claims a block of the witness.
    claims: bool,
    /// The backups of the vault.
    backups: BackupState,
    /// True until the effects of the start are committed.
    is_first_commit: bool,
}

impl UnlockedVault {
    /// Makes the state of a vault that was just opened or created.
    fn new(vault: Vault, device: Device<AwsLc>, date: VaultDate) -> Self {
        let beside = Beside::default();
        let backups = BackupState::default();
        Self {
            vault,
            device,
            beside,
            witness: None,
            date,
            put_back: false,
            claims: false,
            backups,
            is_first_commit: true,
        }
    }
}

impl NodeShell {
    /// Makes a shell that is locked, or empty if there is no vault.
    pub(super) fn new(options: NodeOptions, node: &NodeHandle) -> Self {
        let clock = options.clock.clone();
        let seen = clock.date();
        let means = CarrierMeans {
            dialer: options.dialer.clone(),
            mesh: options.mesh.clone(),
            link: options.link.clone(),
        };
        let adapters = Adapters::new(means, clock, &node.jobs);
        Self {
            options,
            events: Arc::clone(&node.events),
            adapters,
            open: None,
            touched: Arc::clone(&node.touched),
            seen,
            doubts: false,
            commit_ms: 0,
            later: DeferredCommit::default(),
            durable: Vec::new(),
            keyrings: Vec::new(),
            heard: None,
            leaving: LeavingNotes::default(),
        }
    }

    /// Returns the state of the node: open, locked or empty.
    pub fn state(&self) -> NodeStateJson {
        match self.open {
            Some(_) => NodeStateJson::Open,
            None if Vault::exists(&self.options.vault) => NodeStateJson::Locked,
            None => NodeStateJson::Empty,
        }
    }

    /// Returns the state of the program.
    pub fn status(&self) -> json::StatusJson {
        json::StatusJson {
            version: env!("CARGO_PKG_VERSION").into(),
            state: self.state(),
            moved: self.is_moved(),
            name: self.open.as_ref().map(|open| open.device.own_identity().name),
            demo: self.options.demo,
            observer: self.options.observer.as_ref().is_some_and(|observer| observer.is_on()),
            idle_lock_s: self.options.idle_lock_s,
            now_ms: self.date().as_ms(),
        }
    }

    /// Makes an identity and its vault, and unlocks the vault.
    ///
    /// # Errors
    /// If an identity exists already, the name is invalid, or the disk refuses.
    pub fn create_identity(
        &mut self,
        name: &str,
        pass: &[u8],
        relays: &[RelayEntry],
    ) -> Result<(), Refused> {
        if self.open.is_some() || Vault::exists(&self.options.vault) {
            return Err(Refused::exists());
        }
        let cost = if self.options.demo { Argon2Params::DEMO } else { Argon2Params::measured()? };
        let date = VaultDate::new(&self.options.clock);
        let seed = make::VaultSeed { cost, date: date.dates_to_store() };
        let (vault, device, turn) =
            make::make_vault(&self.options.vault, name, pass, &seed, relays)?;
        let witness = self.open_witness(&vault, &[]);
        self.begin_unlocked(
            UnlockedVault { witness, ..UnlockedVault::new(vault, device, date) },
            turn,
        )
    }

    /// Unlocks the vault.
    ///
    /// # Errors
    /// A wrong passphrase (word `passphrase`), a vault in use or damaged.
    pub fn unlock_vault(&mut self, pass: &[u8]) -> Result<(), Refused> {
        match self.state() {
            NodeStateJson::Open => return Ok(()),
            NodeStateJson::Empty => return Err(self.no_identity()),
            NodeStateJson::Locked => {}
        }
        let mut date = VaultDate::new(&self.options.clock);
        let (vault, mut records) = Vault::open_by(&self.options.vault, pass, |written, day| {
            date = self.compare_date(written, day);
            date.current_date(self.options.clock.boot())
        })
        .map_err(|fault| {
            let denied = fault.code == Exit::Denied;
            if denied {
                Refused::new("passphrase", self.explain_denied(fault))
            } else {
                fault.into()
            }
        })?;
        if is_moving(&records) {
            // Another device may run from now on: no carrier starts here (BACKUP-30).
            return Err(Refused::moving());
        }
        let mut witness = self.open_witness(&vault, &records);
        let restore = restore::find_restore(witness.as_mut(), &records);
        let rejoin = network_to_rejoin(&records);
        let backups = BackupState::of_records(&records);
        let beside = Beside::take_rows(&mut records);
        let now = date.current_date(self.options.clock.boot());
        // A restored vault must not continue rounds that it does not know (MSG-63).
        let is_behind = restore.begins || restore.put_back;
        let line = self.adapters.take_line().filter(|_| !is_behind);
        let loaded = load_device(&vault, records, now, line);
        if loaded.is_err() || is_behind {
            self.adapters.on_device_gone();
        }
        let mut device = loaded?;
        if restore.begins {
            device.handle(Command::Restored.into(), now, &mut OsRng).map_err(Refused::from)?;
        }
        let mut turn = match rejoin {
            Some((network, forget)) => backup::rejoin_network(&mut device, network, forget, now),
            None => plan::drain_device(&mut device),
        };
        turn.batches.extend(restore.batches);
        let put_back = restore.put_back;
        let claims = restore.claims;
        let open = UnlockedVault::new(vault, device, date);
        self.begin_unlocked(
            UnlockedVault { beside, witness, put_back, claims, backups, ..open },
            turn,
        )
    }

    /// Lets the carriers serve the device that was just opened.
    pub(super) fn serve_device(&mut self) {
        for input in self.adapters.on_device_open() {
            self.log_refusal(|shell| shell.run_command(Input::Carrier(input)));
        }
    }

    /// Explains a wrong passphrase: a user who tries their own one in a demonstration learns where
    /// they are.
    fn explain_denied(&self, fault: Fault) -> Fault {
        let home = self.options.vault.parent().map(|home| Home::find(Some(home)));
        match home {
            Some(Ok(home)) if home.is_demonstration() => Fault {
                text: "this is the demonstration, and its passphrase is `demo`".into(),
                next: format!(
                    "for an identity of your own stop it, then say `{}`",
                    home.removal_command()
                ),
                ..fault
            },
            _ => fault,
        }
    }

    fn open_witness(&self, vault: &Vault, records: &[Record]) -> Option<Witness> {
        Some(Witness::open_for(self.options.witness.as_deref()?, vault, records))
    }

    fn begin_unlocked(
        &mut self,
        mut open: UnlockedVault,
        mut turn: CommitPlan,
    ) -> Result<(), Refused> {
        let gone = open.beside.begin_looks(&open.device);
        turn.batches.extend((!gone.0.is_empty()).then_some(gone));
        self.open = Some(open);
        self.touched.set_now();
        self.finish_plan(turn)?;
        if let Some(open) = &mut self.open {
            open.is_first_commit = false;
        }
        self.serve_device();
        // A difference between the wall clock and the date that opened the vault is a correction.
        self.log_refusal(Self::follow_clock);
        let aside = self.open.as_ref().map_or(0, |open| open.device.set_aside().len());
        if aside > 0 {
            let text = "stored records could not be read and are quarantined: see `mezza doctor`";
            tracing::warn!(parts = aside, "{text}");
        }
        // Notifies tabs that did not unlock the vault themselves (WEB-20).
        self.events.push_event(event_log::plain_event(EventKind::Unlocked));
        tracing::info!("unlocked");
        Ok(())
    }

    /// Locks the vault: keys are wiped, and connections are closed except the one to the mixnet.
    /// Its rounds go on without the keys, because leaving would reveal when the user was last
    /// active (MIX-78).
    pub fn lock_vault(&mut self) {
        self.forget_due(None);
        self.log_refusal(Self::commit_later);
        self.log_refusal(Self::write_date);
        let Some(open) = self.open.take() else { return };
        let now = self.date();
        let doubted = open.is_doubted();
        let line = open.device.into_carriers().into_line(now).filter(|_| !doubted);
        self.adapters.lock_but_for(line, now);
        self.events.clear();
        if let Err(fault) = open.vault.close() {
            tracing::warn!(code = fault.code.number(), "the vault did not close cleanly");
        }
        self.events.push_event(event_log::plain_event(EventKind::Locked));
        tracing::info!("locked");
    }

    /// Returns the boot time of the idle lock.
    fn idle_end(&self) -> Option<Time> {
        let idle_ms = self.options.idle_lock_s * Time::SECOND_MS;
        (idle_ms > 0).then(|| self.touched.last_time().plus_ms(idle_ms))
    }

    /// Does due work; called after every event and every nap.
    ///
    /// After the date was set back, the deadline of the device is far in the future, so the device
    /// is woken to adopt the new date.
    fn run_due_work_at(&mut self, now: Time) {
        let back = now < self.seen;
        self.seen = now;
        if self.open.is_none() {
            if back || self.adapters.deadline().is_some_and(|due| now >= due) {
                self.adapters.wake();
            }
            return;
        }
        let boot = self.options.clock.boot();
        if self.idle_end().is_some_and(|end| boot >= end) {
            return self.lock_vault();
        }
        self.forget_due(Some(boot));
        if self.later.end.is_some_and(|end| boot >= end) {
            self.log_refusal(Self::commit_later);
        }
        let due =
            |open: &UnlockedVault| open.device.deadline().is_some_and(|deadline| now >= deadline);
        if self.open.as_ref().is_some_and(|open| back || due(open)) {
            self.log_refusal(Self::wake_device);
        }
        self.log_refusal(|shell| shell.turn_buckets().map(drop));
        self.make_due_backup(now);
        if let Some(open) = &mut self.open {
            open.device.precompute(&mut OsRng);
            open.vault.prefetch();
        }
    }

    fn wake_device(&mut self) -> Result<(), Refused> {
        let now = self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.wake(now, &mut OsRng);
        let plan = self.drain_outputs()?;
        self.finish_plan(plan)
    }

    /// Handles a report of a carrier; `settle` carries out its effects. A report of a closed
    /// connection is dropped.
    fn handle_report(&mut self, report: ConnectionReport) {
        if let ConnectionEvent::Up { time: Some((relay, time)), .. } = &report.news {
            self.hear_time(*relay, *time);
        }
        let input = self.adapters.handle_report(report).filter(|_| self.open.is_some());
        let Some(input) = input else { return };
        let may_wait = may_wait(&input);
        self.log_refusal(|shell| {
            shell.heard =
                Some(CommitPlan { may_wait, ..shell.apply_input(Input::Carrier(input))? });
            Ok(())
        });
    }

    /// Runs a command of the device; its changes are durable when this returns.
    ///
    /// # Errors
    /// The refusal of the device, or the fault of the disk.
    pub fn run_command(&mut self, command: impl Into<Input>) -> Result<(), Refused> {
        let turn = self.apply_input(command.into())?;
        self.finish_plan(CommitPlan { own: true, ..turn })
    }

    /// Passes an input to the device. Returns its effects.
    fn apply_input(&mut self, input: Input) -> Result<CommitPlan, Refused> {
        let now = self.turn_buckets()?;
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        open.device.handle(input, now, &mut OsRng)?;
        self.drain_outputs()
    }

    /// Erases old bucket keys before any other work (VAULT-3), but after a correction of the date
    /// is stored (MSG-104). Returns the date.
    fn turn_buckets(&mut self) -> Result<Time, Refused> {
        self.follow_clock()?;
        let now = self.date();
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        if now >= open.vault.deadline() {
            open.vault.tick(now)?;
            self.write_date()?;
        }
        Ok(now)
    }

    fn log_refusal(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Refused>) {
        if let Err(refused) = work(self) {
            tracing::debug!(word = refused.word, "not done");
        }
    }
}

/// Loads a device from the records of its vault. The device continues an open line to its mixnet,
/// if there is one.
fn load_device(
    vault: &Vault,
    records: Vec<Record>,
    now: Time,
    line: Option<LockedLine>,
) -> Result<Device<AwsLc>, Fault> {
    let carriers = match line {
        Some(line) => make_carriers().with_line(line),
        None => make_carriers(),
    };
    let device = Device::load(carriers, records, vault.unread(), now, &mut OsRng);
    device.map_err(words::load_fault)
}

impl Shell for NodeShell {
    type Event = NodeEvent;

    /// Returns the date, corrected for a doubted clock.
    fn now(&self) -> Time {
        self.date()
    }

    /// Returns a deadline that is never in the past: with one in the past the task would spin.
    fn deadline(&self) -> Option<Time> {
        let nap = self.seen.plus_ms(NAP_MS_MIN);
        let Some(open) = &self.open else {
            return self.adapters.deadline().map(|end| end.max(nap));
        };
        let now = self.date();
        let boot = self.options.clock.boot();
        let by_boot = |end: Time| now.plus_ms(end.since_ms(boot));
        let ends = [
            open.device.deadline(),
            self.idle_end().map(by_boot),
            self.later.end.map(by_boot),
            self.leaving.deadline().map(by_boot),
        ];
        let end = ends.into_iter().flatten().fold(open.vault.deadline(), Time::min);
        Some(end.max(nap))
    }

    /// Does nothing: `run_due_work` does due work.
    fn wake(&mut self, _now: Time) {}

    fn handle_event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Ask(question) => question(self),
            NodeEvent::Report(report) => self.handle_report(*report),
        }
    }

    /// Commits the effects of the last report, and carries out the rest.
    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        if let Some(plan) = self.heard.take() {
            if !plan.early.is_empty() {
                // Let listeners of early events run before the commit.
                yield_now().await;
            }
            self.log_refusal(|shell| shell.finish_plan(plan));
        }
        // Let the resulting frames leave before the deadlines are checked.
        yield_now().await;
        Ok(())
    }

    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        self.look_at_clock();
        if self.open.is_some() {
            self.log_refusal(Self::follow_clock);
        }
        self.run_due_work_at(self.date());
        None
    }

    fn stop(&mut self) {
        self.lock_vault();
        self.adapters.on_device_gone();
    }
}
