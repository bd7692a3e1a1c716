//! One process per folder: a lock on a file in it, released by the system when the process ends,
//! however it ends.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use super::home::private;
use crate::api::{Exit, Fault};

/// Digits of the longest process number, and a line end.
const PID_BYTES_MAX: u64 = 12;
/// How often a lock that somebody has is tried again.
const TRIES: usize = 20;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock; dropping it lets the next one in.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a vault and leaves the number of this process in the file, or names the
    /// process that has it (exit code 75).
    pub fn take(path: &Path) -> Result<Self, Fault> {
        Self::take_of(path, "vault", "stop it with `mezza node stop`")
    }

    /// The same of something else: what is locked, and what a person does next if it is.
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
        // The number helps a person; the lock holds without it. A full disk must not keep `wipe` from running.
        let _ = written;
        Ok(Self { _file: file })
    }

    /// Takes the lock on a file and writes nothing.
    pub fn from_file(file: File) -> Result<Self, TryLockError> {
        try_lock(&file)?;
        Ok(Self { _file: file })
    }

    /// Returns true if somebody has the lock on a file.
    pub fn is_held(path: &Path) -> bool {
        let shared = File::open(path).map(|file| file.try_lock_shared());
        matches!(shared, Ok(Err(TryLockError::WouldBlock)))
    }
}

/// Tries, and tries again for a moment: a child that this process has just forked holds a copy of
/// a lock we let go of until it becomes its program.
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
        // It has the lock, but has not written its number yet.
        None => "another process".to_owned(),
    };
    Fault::new(Exit::Busy, format!("{what} is in use by {process}"), next)
}

/// The process that the file names.
fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
