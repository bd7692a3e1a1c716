//! Stores the highest round that a mix signed, per service. A mix stores nothing else on disk
//! (MIX-15).
//!
//! The file has the lines `mezza-mix-signed-1`, then `service round`, beside the key. The key file
//! is locked while a mix runs, because two processes with one key would sign one round twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use mezza_mixnet::{RoundId, Service};
use nix::fcntl::{Flock, FlockArg};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// The first line.
const HEAD: &str = "mezza-mix-signed-1";
/// Most bytes of the file.
const BYTES_MAX: usize = 256;

/// The file, and the lock of the key beside it.
#[derive(Debug)]
pub struct Signed {
    path: PathBuf,
    rounds: BTreeMap<Service, u64>,
    _lock: Flock<File>,
}

impl Signed {
    /// Opens the file beside a key; a missing file means that no round was signed yet.
    ///
    /// # Errors
    /// Exit code 75 if another process runs with this key, 65 if the file is malformed.
    pub fn open_beside(key: &Path) -> Result<Self, Fault> {
        let file = File::open(key).map_err(|error| private::cannot_read(key, &error))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            let text = format!("another mix runs with {}", key.display());
            Fault::new(Exit::Busy, text, "stop that one")
        })?;
        let mut path = key.as_os_str().to_owned();
        path.push(".signed");
        let path = PathBuf::from(path);
        private::sweep_leftover(&path)?;
        let rounds = if path.exists() { read_rounds(&path)? } else { BTreeMap::new() };
        Ok(Self { path, rounds, _lock: lock })
    }

    /// Returns the highest rounds that were signed.
    pub const fn rounds(&self) -> &BTreeMap<Service, u64> {
        &self.rounds
    }

    /// Stores a round as signed, and returns once the file is durable.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written; the mix must not sign then.
    pub fn store_round(&mut self, id: RoundId) -> Result<(), Fault> {
        let highest = self.rounds.entry(id.service).or_default();
        *highest = id.round.max(*highest);
        let lines =
            self.rounds.iter().map(|(service, round)| format!("{} {round}\n", service.number()));
        let text = format!("{HEAD}\n{}", lines.collect::<String>());
        private::replace(&self.path, text.as_bytes())
    }
}

fn read_rounds(path: &Path) -> Result<BTreeMap<Service, u64>, Fault> {
    let bytes = private::read(path, BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let mut lines = text.lines();
    let head = lines.next() == Some(HEAD) && text.ends_with('\n');
    let line = |line: &str| {
        let (service, round) = line.split_once(' ')?;
        Some((Service::from_number(service.parse().ok()?).ok()?, round.parse().ok()?))
    };
    let rounds = head.then(|| lines.map(line).collect::<Option<BTreeMap<_, _>>>()).flatten();
    rounds.ok_or_else(|| {
        Fault::new(
            Exit::Malformed,
            format!("{} is not what a mix wrote", path.display()),
            "remove it if this mix has been stopped for a day, or make a new key",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixnet::key::ServerKey;
    use mezza_host::process::rng::OsRng;

    #[test]
    fn mix_15_the_highest_round_of_each_service_survives() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("m.key");
        ServerKey::make(&key, &mut OsRng).unwrap();
        let mut signed = Signed::open_beside(&key).unwrap();
        let id = |service, round| RoundId { service, round };
        for id in [
            id(Service::Conversation, 7),
            id(Service::Call, u64::MAX),
            id(Service::Conversation, 9),
            id(Service::Conversation, 8),
        ] {
            signed.store_round(id).unwrap();
        }
        assert_eq!(Signed::open_beside(&key).unwrap_err().code, Exit::Busy);
        drop(signed);
        let again = Signed::open_beside(&key).unwrap();
        let expected = [(Service::Conversation, 9), (Service::Call, u64::MAX)];
        assert_eq!(again.rounds(), &BTreeMap::from(expected));
        drop(again);
        private::replace(&folder.path().join("m.key.signed"), b"mezza-mix-signed-1\n1 7").unwrap();
        assert_eq!(Signed::open_beside(&key).unwrap_err().code, Exit::Malformed);
    }
}
