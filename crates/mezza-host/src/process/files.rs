//! File descriptors: raises their limit, and keeps a spare one for when none is left.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::statvfs::statvfs;

use crate::api::{Exit, Fault};

/// Descriptors that a server needs in addition to connections: store, log, listener, links,
/// refusals.
pub const OTHERS: u64 = 64;

/// Returns the bytes that this user may still write to the disk of a path; `None` if that is
/// unknown.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let disk = statvfs(path).ok()?;
    Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// Raises the soft limit of open files to the hard limit. Returns that limit.
fn raise_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// Raises the soft limit of open files to the hard limit, which must be at least `needed`.
///
/// # Errors
/// Exit code 78 if the hard limit is lower (MIX-28).
pub fn room_for_files(needed: u64) -> Result<(), Fault> {
    let refused = |text: String| Fault::new(Exit::Config, text, "raise it with `ulimit -Hn`");
    let hard = raise_limit()
        .map_err(|error| refused(format!("the limit of open files is not known: {error}")))?;
    if hard < needed {
        let text = format!("this process may have {hard} open files and needs {needed}");
        return Err(refused(text));
    }
    Ok(())
}

/// Raises the limit. Returns how many connections have descriptors.
///
/// # Errors
/// The error of the system.
pub fn connection_room() -> io::Result<usize> {
    // Even a server with very few descriptors accepts a connection.
    let room = raise_limit().map(|hard| hard.saturating_sub(OTHERS).max(hard / 2))?;
    Ok(usize::try_from(room).unwrap_or(usize::MAX))
}

/// Returns true if the system has no descriptor left, for this process or at all.
pub(crate) fn are_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EMFILE | Errno::ENFILE))
}

/// A spare descriptor, released to accept a connection that could otherwise not even be closed.
#[derive(Debug, Default)]
pub(crate) struct Spare(Option<File>);

impl Spare {
    /// Opens the spare descriptor if possible.
    pub(crate) fn fill(&mut self) {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
    }

    /// Releases the spare descriptor.
    pub(crate) fn spend(&mut self) {
        self.0 = None;
    }
}
