//! The memory of this process stays in this process: no core file, no reader of the same user, and
//! no swap where the system lets us (MSG-62).
//!
//! Core files and `/proc/PID/mem` are closed for every command alike, since most of them hold a key
//! or a passphrase for a moment. Pages are locked only if there is no limit to that, or if this
//! process may lift it: below a limit the system would refuse memory as soon as the process grew
//! beyond. Pages are locked as they are touched, so that nothing takes more memory than before.

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
    /// No core file and no reader.
    closed: Result<(), Errno>,
    /// No swap.
    locked: Result<(), Errno>,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Asks the system to keep this process's memory, once: before anything secret is in it.
pub fn protect_memory() {
    protect_once();
}

fn protect_once() -> Kept {
    *KEPT.get_or_init(|| Kept { closed: forbid_dumps(), locked: lock_pages() })
}

/// Refuses a process whose memory can be read: a server that holds other people's keys (MIX-14).
///
/// # Errors
/// 78 if the system did not close it.
pub fn require_closed() -> Result<(), Fault> {
    protect_once().closed.map_err(|error| {
        let text =
            format!("the system does not let this process keep its memory to itself: {error}");
        Fault::new(Exit::Config, text, "allow setrlimit and prctl to it")
    })
}

/// Writes into the log of a process that stays what the system did not grant, once.
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
