//! Makes a vault from records that are supplied one after another.

use std::collections::BTreeSet;
use std::path::Path;

use mezza_core::{CryptoRng, Time};
use mezza_messenger::{RecordChange, Retention};

use super::bucket::RetentionCode;
use super::commit::{put_memory, put_record};
use super::record::RecordHeader;
use super::{Argon2Params, HEAD, KEYRING, LOCK, Vault, remove_leftovers, tree_ring};
use crate::api::Fault;
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing;
use crate::process::home::private;
use crate::process::lock::Lock;

/// Receives the records of a new vault.
pub type RecordSink<'a> = dyn FnMut(RecordChange) -> Result<(), Fault> + 'a;

impl Vault {
    /// Makes a vault from records that need only the keys of every new vault; see
    /// [`Vault::create_filled_with`].
    ///
    /// # Errors
    /// The errors of [`Vault::create_with`] and of `fill`. There is no vault then.
    pub fn create_filled(
        dir: &Path,
        pass: &[u8],
        cost: Argon2Params,
        now: Time,
        rng: &mut dyn CryptoRng,
        fill: impl FnOnce(&mut dyn CryptoRng, &mut RecordSink<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        Self::create_filled_with(dir, pass, cost, &[], now, rng, fill)
    }

    /// Makes a vault as [`Vault::create_with`] does, from records that `fill` supplies one after
    /// another. `buckets` are the further keys that these records need. The records are one
    /// transaction, and memory does not grow with them. No record may occur twice. The vault is
    /// closed when this returns.
    ///
    /// # Errors
    /// The errors of [`Vault::create_with`] and of `fill`. There is no vault then.
    #[expect(clippy::too_many_arguments, reason = "a vault, and what it is made of")]
    pub fn create_filled_with(
        dir: &Path,
        pass: &[u8],
        cost: Argon2Params,
        buckets: &[Retention],
        now: Time,
        rng: &mut dyn CryptoRng,
        fill: impl FnOnce(&mut dyn CryptoRng, &mut RecordSink<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (mut vault, head) = Self::prepare(dir, pass, cost, now, rng)?;
        let day = vault.today_bucket()?.rolling_day().unwrap_or_default();
        let codes = buckets.iter().map(|bucket| RetentionCode::new(*bucket, day));
        let missing: BTreeSet<_> = codes.filter(|code| vault.ring.key(*code).is_none()).collect();
        if !missing.is_empty() {
            // The keys are durable before a record is sealed under them (MSG-60).
            vault.ring.add_keys(&missing.into_iter().collect::<Vec<_>>(), rng)?;
        }
        let ring = &vault.ring;
        let mut id = vault.last_id;
        vault.rows.transaction(|writing| {
            fill(rng, &mut |change| {
                let RecordChange::Put { kind, key, bucket, value } = change else {
                    return Err(Fault::bug("a new vault has nothing to delete"));
                };
                id += 1;
                let bucket = RetentionCode::new(bucket, day);
                put_record(
                    writing,
                    ring,
                    RecordHeader { kind: kind as u8, id, bucket },
                    &key,
                    &value,
                )
            })?;
            put_memory(writing, ring, RetentionCode::rolling(day))
        })?;
        // The log is moved into the database before the vault exists. The index is made when the
        // vault is opened.
        vault.close()?;
        Self::write_head(dir, &head)
    }

    /// Destroys the keys of a vault that was moved to another device, and deletes the rest. Missing
    /// files are no error.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses, 75 if the vault is in use.
    pub fn bury(dir: &Path) -> Result<(), Fault> {
        let _lock = Lock::take(&dir.join(LOCK))?;
        for name in [HEAD, KEYRING, tree_ring::FILE] {
            private::wipe(&dir.join(name))?;
            #[cfg(any(test, feature = "failing-writes"))]
            failing::pass_step();
        }
        remove_leftovers(dir)
    }
}
