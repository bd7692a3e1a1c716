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
//! The next step follows from the files alone, so that a crash between two steps is the same as
//! a pause: the next opening goes on from there. At no step does a row lie under a key that the
//! keyring does not have, save one that does not open: it stays as it is, and its key goes with that
//! of the others (MSG-66). The day of live state never goes back, even when the clock does.

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
    /// Takes one step of the list above, the next one that is due at `now`; `false` if none is.
    ///
    /// [`Vault::tick`] takes them all; a test stops in between and opens a copy of the folder.
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

    /// Step 2: afterwards no row needs the keys of `stale`.
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

    /// Step 5.
    fn remember_generation(&mut self) -> Result<(), Fault> {
        let today = self.today_bucket()?;
        let ring = &self.ring;
        self.rows.transaction(|writing| put_memory(writing, ring, today))?;
        self.remembered = self.ring.generation();
        Ok(())
    }
}

/// Seals one row of live state under today's key, if it opens. Its kind does not matter.
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
