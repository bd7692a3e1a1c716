//! The folder of a guard.
//!
//! ```text
//! DIR/                   0700
//!   guard.toml     0600  settings of the owner
//!   peers.toml     0600  clients and destinations, written by the commands
//!   coin.key       0600  32 bytes, from which all coins derive
//!   clients/ID.key 0600  32 bytes, the pairing key of a client
//!   ledger         0600  slots, points, counters, refusals (GUARD-37)
//!   lock                 one process at a time
//!   guard.sock           control socket of the running guard
//! ```

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Secret};
use mezza_guard::coin::CoinKey;
use mezza_guard::keys::{GuardClientId, PairingKey};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::lock::Lock;
use zeroize::Zeroize as _;

use super::ledger;
use super::peers::PeerList;
use super::settings::{GuardConfig, SETTINGS_TEXT};

/// Bytes of a key file.
const KEY_BYTES: usize = 32;

/// The paths of a guard's files.
#[derive(Clone, Debug)]
pub struct GuardFolder(PathBuf);

impl GuardFolder {
    /// Names a folder. Nothing is read or made.
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the settings.
    pub fn settings_path(&self) -> PathBuf {
        self.0.join("guard.toml")
    }

    /// Returns the path of the lists of clients and destinations.
    pub(crate) fn peers_path(&self) -> PathBuf {
        self.0.join("peers.toml")
    }

    /// Returns the path of the ledger.
    pub fn ledger_path(&self) -> PathBuf {
        self.0.join("ledger")
    }

    /// Returns the path of the control socket.
    pub fn socket_path(&self) -> PathBuf {
        self.0.join("guard.sock")
    }

    fn coin_path(&self) -> PathBuf {
        self.0.join("coin.key")
    }

    fn client_path(&self, client: GuardClientId) -> PathBuf {
        self.0.join("clients").join(format!("{}.key", HEXLOWER.encode(&client.0)))
    }

    /// Makes the missing files: settings, lists, coin key, empty ledger. Existing files stay.
    /// Returns false if no file was missing.
    ///
    /// # Errors
    /// Exit code 73 if a file cannot be written, 77 for wrong modes.
    pub fn make_files(&self, rng: &mut dyn CryptoRng) -> Result<bool, Fault> {
        private::make_folder(&self.0)?;
        private::make_folder(&self.0.join("clients"))?;
        let _lock = self.lock_files()?;
        let key: Secret<KEY_BYTES> = Secret::random(rng);
        let mut is_new = private::create(&self.coin_path(), key.expose())?;
        is_new |= private::create(&self.ledger_path(), &[])?;
        is_new |= private::create(&self.settings_path(), SETTINGS_TEXT.as_bytes())?;
        is_new |= private::create(&self.peers_path(), PeerList::default().to_text()?.as_bytes())?;
        Ok(is_new)
    }

    /// Takes the lock that one process holds: the running guard, or a command while it changes the
    /// ledger.
    ///
    /// # Errors
    /// Exit code 75 if another process holds it, 66 if there is no guard in the folder.
    pub fn lock(&self) -> Result<Lock, Fault> {
        self.require()?;
        Lock::take_of(&self.0.join("lock"), "the guard", "stop that process, or name another --dir")
    }

    /// Takes the lock of the lists, which a running guard does not hold.
    fn lock_files(&self) -> Result<Lock, Fault> {
        Lock::take_of(&self.0.join("files.lock"), "the guard's lists", "run the command again")
    }

    fn require(&self) -> Result<(), Fault> {
        if self.coin_path().exists() {
            return Ok(());
        }
        let text = format!("there is no guard in {}", self.0.display());
        Err(Fault::new(Exit::NotFound, text, "make it with `mezza guard init`"))
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// Exit code 78 for an unknown key or an invalid value, 66 if there is no guard.
    pub fn read_settings(&self) -> Result<GuardConfig, Fault> {
        self.require()?;
        GuardConfig::load(&self.settings_path())
    }

    /// Reads the lists of clients and destinations.
    ///
    /// # Errors
    /// Exit code 78 for a malformed file, 66 if there is no guard.
    pub fn read_peers(&self) -> Result<PeerList, Fault> {
        self.require()?;
        PeerList::load(&self.peers_path())
    }

    /// Changes the lists, durably.
    ///
    /// # Errors
    /// The fault of `change`, or exit code 73.
    pub fn change_peers<T>(
        &self,
        change: impl FnOnce(&mut PeerList) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.require()?;
        let _lock = self.lock_files()?;
        let mut peers = self.read_peers()?;
        let done = change(&mut peers)?;
        private::replace(&self.peers_path(), peers.to_text()?.as_bytes())?;
        Ok(done)
    }

    /// Reads the coin key.
    ///
    /// # Errors
    /// Exit code 65 for a file of another size, 77 for a wrong mode.
    pub(crate) fn read_coin_key(&self) -> Result<CoinKey, Fault> {
        read_key(&self.coin_path()).map(CoinKey::from_secret)
    }

    /// Reads the pairing key of a client. The id must be that of the key.
    ///
    /// # Errors
    /// Exit code 65 for a file that does not hold the key of this client.
    pub(crate) fn read_pairing(&self, client: GuardClientId) -> Result<PairingKey, Fault> {
        let path = self.client_path(client);
        let key = PairingKey::from_secret(read_key(&path)?);
        // A mixed-up file would give one client the slots of another one.
        if key.client_id() == client {
            return Ok(key);
        }
        let text = format!("{} holds the key of another client", path.display());
        Err(Fault::new(Exit::Malformed, text, "restore the file, or pair the client again"))
    }

    /// Stores the pairing key of a new client.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written.
    pub fn store_pairing(&self, key: &Secret<KEY_BYTES>) -> Result<PairingKey, Fault> {
        self.require()?;
        let pairing = PairingKey::from_secret(key.duplicate());
        private::make_folder(&self.0.join("clients"))?;
        private::create(&self.client_path(pairing.client_id()), key.expose())?;
        Ok(pairing)
    }

    /// Loads the ledger without changing it, for audit and status.
    ///
    /// # Errors
    /// Exit code 65 for a damaged ledger, 66 for a missing one.
    pub fn load_ledger(&self) -> Result<mezza_guard::ledger::SlotLedger, Fault> {
        self.require()?;
        ledger::load_ledger(&self.ledger_path())
    }
}

fn read_key(path: &Path) -> Result<Secret<KEY_BYTES>, Fault> {
    let mut bytes = private::read(path, KEY_BYTES + 1)?;
    let key = <&[u8; KEY_BYTES]>::try_from(bytes.as_slice()).ok().map(Secret::copy_from);
    bytes.zeroize();
    key.ok_or_else(|| {
        let text = format!("{} does not have {KEY_BYTES} bytes", path.display());
        Fault::new(Exit::Malformed, text, "restore the file from a copy")
    })
}
