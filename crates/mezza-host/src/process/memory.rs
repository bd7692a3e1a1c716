//! Protects the memory of this process: no core file, no reader of the same user, and no swap if
//! the system permits (MSG-62).
//!
//! Core files and `/proc/PID/mem` are closed for all commands, since most hold a key or a
//! passphrase for a moment. Pages are locked only if that has no limit, or if this process may lift
//! the limit: otherwise the system would refuse memory above it. Pages are locked when they are
//! touched, so that no more memory is used than before.

use std::fs;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::api::{Exit, Fault};

/// The protections that the system granted.
#[derive(Clone, Copy)]
struct Kept {
    /// The result of disabling core files and access by other processes.
    closed: Result<(), Errno>,
    /// The result of keeping memory out of swap.
    locked: Result<(), Errno>,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Asks the system, once, to protect this process's memory. Call this before any secret is in
/// memory.
pub fn protect_memory() {
    protect_once();
}

fn protect_once() -> Kept {
    *KEPT.get_or_init(|| Kept { closed: forbid_dumps(), locked: lock_pages() })
}

/// Refuses to run with readable memory, for a server that holds keys of other people (MIX-14).
///
/// # Errors
/// Exit code 78 if the system did not protect the memory.
pub fn require_closed() -> Result<(), Fault> {
    protect_once().closed.map_err(|error| {
        let text =
            format!("the system does not let this process keep its memory to itself: {error}");
        Fault::new(Exit::Config, text, "allow setrlimit and prctl to it")
    })
}

/// Logs, once, the protections that the system did not grant.
pub fn log_refusals() {
    static SAID: OnceLock<()> = OnceLock::new();
    SAID.get_or_init(|| {
        let Kept { closed, locked } = protect_once();
        if let Err(error) = closed {
            let next = "allow setrlimit and prctl";
            tracing::warn!(%error, next, "core files and other programs may hold keys");
        }
        if let Err(error) = locked
            && has_swap()
        {
            let next = "encrypt the swap, or run `ulimit -l unlimited` before";
            tracing::warn!(%error, next, "keys may reach the swap");
        }
    });
}

/// Returns true if this machine has swap; an unknown answer counts as yes.
fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").map_or(true, |swaps| swaps.lines().count() > 1)
}

fn forbid_dumps() -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).and_then(|()| set_dumpable(false))
}

fn lock_pages() -> Result<(), Errno> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    if soft != RLIM_INFINITY {
        setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?;
    }
    let touched = MlockAllFlags::from_bits_retain(nix::libc::MCL_ONFAULT);
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | touched)
}
