//! The change of day, and the end of expiry buckets.
//!
//! ```text
//! 1  a key for the new day                    keyring written
//! 2  live rows sealed under it, rows of ended buckets deleted, generation remembered
//!                                             one transaction
//! 3  log moved into the database and cut      checkpoint
//! 4  keys of old days and ended buckets gone  keyring written
//! 5  generation remembered                    one transaction
//! ```
//!
//! The files alone determine the next step, so a crash between two steps acts like a pause: the
//! next opening continues. At each step the keyring has the keys of all rows, except of rows that
//! do not open. Those stay unchanged, and their key is erased with the others of its bucket
//! (MSG-66). The day of live state never goes back, even if the clock does.

use mezza_core::Time;

use super::bucket::RetentionCode;
use super::commit::{put_memory, put_record};
use super::keyring::Keyring;
use super::record::{self, RecordHeader};
use super::rows::Writing;
use super::{MEMORY_ID, Vault};
use crate::api::Fault;
use crate::process::rng::OsRng;

impl Vault {
    /// Takes the next step of the list above that is due at `now`. Returns false if none is due.
    ///
    /// [`Vault::tick`] takes all steps; a test stops in between and opens a copy of the folder.
    pub fn step(&mut self, now: Time) -> Result<bool, Fault> {
        if self.ring.is_doubtful() {
            self.ring.write(&mut OsRng)?;
            return Ok(true);
        }
        let newest = self.ring.newest_day().map_or(now.as_days(), |day| day.max(now.as_days()));
        if self.ring.newest_day() != Some(newest) {
            self.ring.add_keys(&[RetentionCode::rolling(newest)], &mut OsRng)?;
            return Ok(true);
        }
        let stale = self.ring.stale_buckets(now);
        if !stale.is_empty() {
            if self.swept {
                self.rows.checkpoint()?;
                self.swept = false;
                self.ring.forget_keys(&stale, &mut OsRng)?;
            } else {
                self.reseal_stale(&stale)?;
            }
            return Ok(true);
        }
        if self.remembered == self.ring.generation() {
            return Ok(false);
        }
        self.remember_generation()?;
        Ok(true)
    }

    /// Runs step 2: seals rows again, so that afterwards no row needs the keys of `stale`.
    fn reseal_stale(&mut self, stale: &[RetentionCode]) -> Result<(), Fault> {
        let today = self.today_bucket()?;
        let old = self.rows.find_in_buckets(stale)?;
        let ring = &self.ring;
        self.rows.transaction(|writing| {
            for place in old.iter().filter(|place| place.id != MEMORY_ID) {
                if place.bucket.rolling_day().is_some() {
                    reseal_row(writing, ring, *place, today)?;
                } else {
                    writing.delete(place.id)?;
                }
            }
            put_memory(writing, ring, today)
        })?;
        for row in self.index.values_mut() {
            if stale.contains(&row.bucket) && row.bucket.rolling_day().is_some() {
                row.bucket = today;
            }
        }
        self.index.retain(|_, row| !stale.contains(&row.bucket));
        self.remembered = self.ring.generation();
        self.swept = true;
        Ok(())
    }

    /// Runs step 5: stores the generation of the keyring in the database.
    fn remember_generation(&mut self) -> Result<(), Fault> {
        let today = self.today_bucket()?;
        let ring = &self.ring;
        self.rows.transaction(|writing| put_memory(writing, ring, today))?;
        self.remembered = self.ring.generation();
        Ok(())
    }
}

/// Seals one row of live state under today's key, if it opens; for all kinds.
fn reseal_row(
    writing: &Writing<'_>,
    ring: &Keyring,
    place: RecordHeader,
    today: RetentionCode,
) -> Result<(), Fault> {
    let body = writing.read_body(place.id)?;
    let content = ring.key(place.bucket).and_then(|key| record::open(key, place, &body));
    let Some(content) = content else { return Ok(()) };
    put_record(writing, ring, RecordHeader { bucket: today, ..place }, &content.key, &content.value)
}

#[cfg(test)]
mod tests;
