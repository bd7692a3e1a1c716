//! One process per vault: a lock on a file of the folder, released by the system when the process
//! ends, however it ends.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::exit::{Exit, Fault};
use crate::home::private;

/// Digits of the longest process number, and a line end.
const PID_BYTES_MAX: u64 = 12;

/// The lock; dropping it lets the next one in.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock and leaves the number of this process in the file, or names the process that
    /// has it (exit code 75).
    pub fn take(path: &Path) -> Result<Self, Fault> {
        let mut file = private::open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&mut file)),
            Err(TryLockError::Error(error)) => return Err(private::cannot_write(path, &error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|error| private::cannot_write(path, &error))?;
        Ok(Self { _file: file })
    }
}

fn in_use(file: &mut File) -> Fault {
    let mut text = String::new();
    let read = file.take(PID_BYTES_MAX).read_to_string(&mut text);
    let process = match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("process {pid}"),
        // It has the lock, but has not written its number yet.
        _ => "another process".to_owned(),
    };
    Fault::new(
        Exit::Busy,
        format!("vault is in use by {process}"),
        "stop it with `mezza node stop`",
    )
}
