//! One relay process per folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::RelayError;

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
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self(lock)),
            Err((_, Errno::EWOULDBLOCK)) => Err(RelayError::InUse { dir: dir.to_owned() }),
            Err((_, errno)) => Err(io(io::Error::from(errno))),
        }
    }
}
