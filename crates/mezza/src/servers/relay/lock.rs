//! One relay process per folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::RelayError;

/// How often a taken lock is tried again.
const TRIES: usize = 20;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Held while a relay serves the folder; the system lets go of it when the process ends.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its Drop")] Flock<File>);

impl Lock {
    pub(crate) fn take(dir: &Path) -> Result<Self, RelayError> {
        let io = |source| RelayError::Io { what: "its lock file", source };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join("lock"))
            .map_err(io)?;
        match lock(file) {
            Ok(lock) => Ok(Self(lock)),
            Err(Errno::EWOULDBLOCK) => Err(RelayError::InUse { dir: dir.to_owned() }),
            Err(errno) => Err(io(io::Error::from(errno))),
        }
    }
}

impl Lock {
    /// Whether somebody serves the folder.
    pub(crate) fn is_held(dir: &Path) -> bool {
        let file = File::open(dir.join("lock"));
        file.is_ok_and(|file| {
            matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
        })
    }
}

/// Tries for a moment: a child that this process has just forked holds a copy of a lock we let go
/// of until it becomes its program.
fn lock(mut file: File) -> Result<Flock<File>, Errno> {
    for _ in 0..TRIES {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, Errno::EWOULDBLOCK)) => file = back,
            Err((_, errno)) => return Err(errno),
        }
        std::thread::sleep(PAUSE);
    }
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)
}
