//! One process per folder: a lock on a file, which the system releases when the process ends in any
//! way.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::home::private;
use crate::api::{Exit, Fault};

/// Digits of the longest process number, and a line end.
const PID_BYTES_MAX: u64 = 12;
/// How often a held lock is tried.
const TRIES: usize = 20;
/// The same if the file names no other living process.
const TRIES_UNHELD: usize = 500;
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
        let mut taken = try_lock(&file, TRIES);
        if matches!(taken, Err(TryLockError::WouldBlock)) && !names_another(&mut file) {
            taken = try_lock(&file, TRIES_UNHELD);
        }
        match taken {
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
        try_lock(&file, TRIES)?;
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
fn try_lock(file: &File, tries: usize) -> Result<(), TryLockError> {
    for _ in 0..tries {
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

/// Returns true if the file names a living process other than this one. Otherwise the lock is
/// released soon: only children that have not executed their program yet still hold it.
fn names_another(file: &mut File) -> bool {
    let Some(pid) = read_holder(file).and_then(|pid| i32::try_from(pid).ok()) else { return true };
    let lives = kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH);
    lives && Pid::from_raw(pid) != Pid::this()
}

/// Returns the process that the file names.
fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A child with a copy of the lock, whose file names `pid`.
    fn leave_to_child(path: &Path, pid: u32) -> std::process::Child {
        let mut file = private::open(path).unwrap();
        file.try_lock().unwrap();
        writeln!(file, "{pid}").unwrap();
        let child = Command::new("sleep").arg("1").stdin(Stdio::from(file)).spawn();
        child.unwrap()
    }

    #[test]
    fn a_released_lock_is_waited_for_while_a_child_still_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut child = leave_to_child(&path, std::process::id());
        assert!(Lock::is_held(&path));
        drop(Lock::take(&path).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn the_lock_of_another_process_is_refused_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut child = leave_to_child(&path, 1);
        let fault = Lock::take(&path).unwrap_err();
        assert_eq!(fault.code, Exit::Busy);
        assert!(fault.to_string().contains("process 1"), "{fault}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
