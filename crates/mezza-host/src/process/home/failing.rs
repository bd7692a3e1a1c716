//! File operations that fail as a test plans, on the test's thread only.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write as _};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A step that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// The file of an earlier attempt is removed.
    Clear,
    /// The new file is made.
    Create,
    /// Writing the new file; after a failure half of the bytes are written.
    Write,
    /// The new file is synced.
    Sync,
    /// The new file is renamed to the final name.
    Rename,
    /// The folder is opened to be synced.
    Enter,
    /// The folder is synced.
    SyncFolder,
    /// A transaction of a relay's store begins.
    Begin,
    /// Running a statement in a transaction of a relay's store.
    Statement,
    /// A transaction of the vault, or of a relay's store, is committed.
    Commit,
    /// Moving the log of the vault into its database.
    Checkpoint,
}

impl WriteStep {
    /// The steps of a file that is replaced, in their order.
    pub const REPLACE: [Self; 7] = [
        Self::Clear,
        Self::Create,
        Self::Write,
        Self::Sync,
        Self::Rename,
        Self::Enter,
        Self::SyncFolder,
    ];

    /// All steps of a vault.
    pub const ALL: [Self; 9] = [
        Self::Clear,
        Self::Create,
        Self::Write,
        Self::Sync,
        Self::Rename,
        Self::Enter,
        Self::SyncFolder,
        Self::Commit,
        Self::Checkpoint,
    ];

    /// Returns the system errors with which this step can fail.
    pub fn errors(self) -> &'static [Errno] {
        match self {
            Self::Create | Self::Enter => &[Errno::EMFILE, Errno::ENOSPC],
            Self::Write | Self::Commit => &[Errno::ENOSPC, Errno::EIO],
            _ => &[Errno::EIO],
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    step: WriteStep,
    error: Errno,
    /// How often the step succeeds before it fails.
    after: u32,
}

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    /// Number of steps of this thread until the process is killed.
    static LIFE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Kills this process in a step of this thread, after `steps` other steps: as by `kill -9`, or as
/// if the battery were empty.
pub fn die_after(steps: u32) {
    LIFE.set(Some(steps));
}

/// Counts a step. Returns true if the process is killed in it.
fn is_last_step() -> bool {
    let left = LIFE.get();
    LIFE.set(left.map(|steps| steps.saturating_sub(1)));
    left == Some(0)
}

/// Counts a step that does not fail. The process may be killed before it.
pub fn pass_step() {
    if is_last_step() {
        die();
    }
}

fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    loop {
        std::thread::park();
    }
}

/// While this value lives, one step of this thread fails.
#[must_use]
pub struct Failing(());

impl Failing {
    /// Makes `step` fail with `error` each time, after `after` successes.
    pub fn after(after: u32, step: WriteStep, error: Errno) -> Self {
        PLAN.set(Some(Plan { step, error, after }));
        Self(())
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        PLAN.set(None);
    }
}

/// Returns the planned result of this step on this thread.
pub fn planned_result(step: WriteStep) -> io::Result<()> {
    pass_step();
    fail_if_planned(step)
}

fn fail_if_planned(step: WriteStep) -> io::Result<()> {
    let Some(plan) = PLAN.get().filter(|plan| plan.step == step) else { return Ok(()) };
    if plan.after > 0 {
        PLAN.set(Some(Plan { after: plan.after - 1, ..plan }));
        return Ok(());
    }
    Err(plan.error.into())
}

/// Returns true if this thread's plan simulates a full disk.
pub fn is_full() -> bool {
    let plan = PLAN.get().filter(|plan| plan.step == WriteStep::Create && plan.after == 0);
    plan.is_some_and(|plan| plan.error == Errno::ENOSPC)
}

/// Writes `bytes`, or half of them if the plan is to fail.
pub fn at_write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let half = &bytes[..bytes.len() / 2];
    if is_last_step() {
        let _ = file.write_all(half);
        die();
    }
    fail_if_planned(WriteStep::Write).inspect_err(|_| drop(file.write_all(half)))
}
