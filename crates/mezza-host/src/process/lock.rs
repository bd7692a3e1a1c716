//! One process per folder: a lock on a file, which the system releases when the process ends in any
//! way.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use super::home::private;
use crate::api::{Exit, Fault};

/// Digits of the longest process number, and a line end.
const PID_BYTES_MAX: u64 = 12;
/// How often a held lock is tried.
const TRIES: usize = 20;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A held lock; dropping it releases the lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a vault and writes the number of this process into the file. Else the
    /// fault names the process that holds the lock (exit code 75).
    pub fn take(path: &Path) -> Result<Self, Fault> {
        Self::take_of(path, "vault", "stop it with `mezza node stop`")
    }

    /// Takes another lock; `what` and `next` describe the locked object and the next step in the
    /// fault.
    pub fn take_of(path: &Path, what: &str, next: &str) -> Result<Self, Fault> {
        let mut file = private::open(path)?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&mut file, what, next)),
            Err(TryLockError::Error(error)) => return Err(private::cannot_write(path, &error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // The number only helps the user. A full disk must not keep `wipe` from running.
        let _ = written;
        Ok(Self { _file: file })
    }

    /// Takes the lock on a file without writing.
    pub fn from_file(file: File) -> Result<Self, TryLockError> {
        try_lock(&file)?;
        Ok(Self { _file: file })
    }

    /// Returns true if a process holds the lock on a file.
    pub fn is_held(path: &Path) -> bool {
        let shared = File::open(path).map(|file| file.try_lock_shared());
        matches!(shared, Ok(Err(TryLockError::WouldBlock)))
    }
}

/// Tries repeatedly for a moment: a child that this process has just forked holds a copy of a
/// released lock until it executes its program.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    file.try_lock()
}

fn in_use(file: &mut File, what: &str, next: &str) -> Fault {
    let process = match read_holder(file) {
        Some(pid) => format!("process {pid}"),
        // The holder has not written its number yet.
        None => "another process".to_owned(),
    };
    Fault::new(Exit::Busy, format!("{what} is in use by {process}"), next)
}

/// Returns the process that the file names.
fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
