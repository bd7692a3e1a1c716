//! The relay: mailboxes of sealed mail on a server that its users need not trust.
//!
//! ```text
//!  client ==TLS==> connection task ---Job---> writer thread ---one transaction---> SQLite | PostgreSQL
//!  client <==TLS== connection task <--Event-- (group commit, at most 100 jobs)
//! ```
//!
//! One writer thread owns the store, the quotas and the list of watchers, so that a fetch and a
//! push cannot race. Inside a transaction it inserts the mail,
//! hands it to an online watcher, commits, and only then answers the sender with DONE 0.
//!
//! The relay stores for each mail: mailbox, hour of expiry, envelope. Neither the store nor the log
//! names the sender.

mod connection;
pub(crate) mod date;
mod error;
mod limits;
pub mod puts;
mod server;
pub mod store;
mod usage;
pub(crate) mod writer;

pub(crate) use date::ClockRecord;
pub use error::RelayError;
pub use limits::Limits;
pub use server::{RelayConfig, RelayHandle, start_relay};
pub use store::{StoreSpec, Totals};

use mezza_messenger::card::RelayKey;
use std::fs::{OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mezza_host::process::home::private;
use mezza_host::process::lock::Lock;
use mezza_host::tls::{IdentityError, TlsIdentity};

/// The file in a relay's folder that holds its address; it is valid while the lock is held.
const ADDRESS: &str = "address";
/// The file that a process holds while it serves the folder.
const LOCK: &str = "lock";

/// The contents of a relay's folder and store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The relay's public key, as cards carry it.
    pub key: RelayKey,
    /// Counts of what is stored.
    pub totals: Totals,
    /// The stored date of the relay's last run; `None`: the relay has not run yet.
    pub clock: Option<ClockRecord>,
}

/// Makes folder, key and an empty store if missing. Returns the relay's public key.
///
/// # Errors
/// [`RelayError::InUse`] while the relay runs; otherwise a folder, key or store that cannot be made
/// or opened.
pub async fn init(dir: &Path, spec: &StoreSpec) -> Result<RelayKey, RelayError> {
    let identity = TlsIdentity::load_or_make(dir)?;
    let _lock = lock_dir(dir)?;
    store::open(spec, dir).await?.close().await?;
    Ok(RelayKey(*identity.public()))
}

/// Reads the public key of the relay in `dir`; the store is not opened.
///
/// # Errors
/// [`RelayError`] if there is no relay in `dir`.
pub fn read_key(dir: &Path) -> Result<RelayKey, RelayError> {
    Ok(RelayKey(*load_identity(dir)?.public()))
}

/// Loads the key pair of an existing relay.
fn load_identity(dir: &Path) -> Result<TlsIdentity, RelayError> {
    TlsIdentity::load(dir).map_err(|error| match error {
        IdentityError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            RelayError::Missing { dir: dir.to_owned() }
        }
        error @ (IdentityError::Io { .. }
        | IdentityError::Modes { .. }
        | IdentityError::NotAKey { .. }) => error.into(),
    })
}

/// Returns the address of the relay in `dir` if the relay runs.
pub fn running_address(dir: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(dir.join(ADDRESS)).ok()?;
    Lock::is_held(&dir.join(LOCK)).then(|| text.parse().ok()).flatten()
}

/// Takes the lock that a relay holds while it serves the folder.
fn lock_dir(dir: &Path) -> Result<Lock, RelayError> {
    let io = |source| RelayError::Io { what: "its lock file", source };
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(dir.join(LOCK));
    Lock::from_file(file.map_err(io)?).map_err(|error| match error {
        TryLockError::WouldBlock => RelayError::InUse { dir: dir.to_owned() },
        TryLockError::Error(source) => io(source),
    })
}

/// Stores the address of the relay in `dir`. A failure is only logged, because mail is served
/// without the file too.
fn tell_address(dir: &Path, address: SocketAddr) {
    if let Err(fault) = private::replace(&dir.join(ADDRESS), address.to_string().as_bytes()) {
        tracing::warn!(%fault, "programs on this machine are not told where the relay listens");
    }
}

/// Counts the contents of the relay in `dir`, also while the relay runs.
///
/// # Errors
/// [`RelayError`] if there is no relay in `dir` or its store cannot be read.
pub async fn read_status(dir: &Path, spec: &StoreSpec) -> Result<Status, RelayError> {
    let identity = load_identity(dir)?;
    let totals = store::count_store(spec, dir).await?;
    Ok(Status { key: RelayKey(*identity.public()), totals, clock: ClockRecord::read(dir) })
}

/// Stores the operator's statement that the clock of this machine is right, also while the relay
/// runs.
///
/// # Errors
/// [`RelayError`] if there is no relay in `dir`, or its folder cannot be written to.
pub fn trust_clock(dir: &Path) -> Result<(), RelayError> {
    load_identity(dir)?;
    ClockRecord::agreed(mezza_host::clock::now()).write(dir).map_err(RelayError::Date)
}
