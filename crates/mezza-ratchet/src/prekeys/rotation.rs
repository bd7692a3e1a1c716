//! Adds fresh prekeys and wipes old ones.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, StaticKey, Time};

use super::stored::{self, StoredOneTimePrekey, StoredSignedPrekey};
use super::{OPK_HELD_MAX, Prekeys, SPK_HELD_MAX};
use crate::{Changes, OneTimePrekey, Table};

impl Prekeys {
    /// Makes one signed prekey for each suite from the fresh pairs.
    pub(super) fn rotate_signed(
        &mut self,
        pairs: Vec<StaticKey>,
        now: Time,
        rng: &mut dyn CryptoRng,
        changes: &mut Changes,
    ) {
        let made = now.as_minutes();
        // The newest prekey is the current one. If the clock was ahead, older prekeys have later
        // dates, so they are dated back.
        for spk in self.spks.iter_mut().filter(|spk| spk.made >= made) {
            spk.made = made.saturating_sub(1);
            spk.record_row(changes);
        }
        let list = self.bundle_suites();
        for (suite, pair) in self.suites.clone().into_iter().zip(pairs) {
            let id = draw_unused_id(rng, |id| self.spks.iter().any(|spk| spk.id == id));
            let list = list.filter(|list| list.has_suite(suite));
            let spk = StoredSignedPrekey::new(suite, id, pair, list, made);
            let spk = spk.sign(&self.identity, rng);
            spk.record_row(changes);
            self.spks.push(spk);
        }
        let held_max = SPK_HELD_MAX * self.suites.len();
        self.sort_by_age();
        while self.spks.len() > held_max {
            let oldest = self.spks.remove(0);
            self.drop_prekey_rows(&oldest, changes);
        }
    }

    /// Stores fresh one-time keys and returns their public parts.
    pub(super) fn stock_one_time(
        &mut self,
        pairs: Vec<StaticKey>,
        now: Time,
        rng: &mut dyn CryptoRng,
        changes: &mut Changes,
    ) -> Vec<OneTimePrekey> {
        let mut one_time = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let id = draw_unused_id(rng, |id| self.opks.contains_key(&id));
            let opk = StoredOneTimePrekey { id, made: now.as_minutes(), pair };
            opk.record_row(changes);
            one_time.push(opk.one_time());
            self.opks.insert(id, opk);
        }
        while self.opks.len() > OPK_HELD_MAX {
            let Some(id) = self.opks.values().min_by_key(|o| (o.made, o.id)).map(|o| o.id) else {
                break;
            };
            self.drop_opk(id, changes);
        }
        one_time
    }

    pub(super) fn wipe_expired(&mut self, now: Time, changes: &mut Changes) {
        let mut i = 0;
        while let Some(spk) = self.spks.get(i) {
            if now < spk.wiped_at() {
                i += 1;
                continue;
            }
            let spk = self.spks.remove(i);
            self.drop_prekey_rows(&spk, changes);
        }
        let old: Vec<u32> =
            self.opks.values().filter(|opk| now >= opk.wiped_at()).map(|opk| opk.id).collect();
        for id in old {
            self.drop_opk(id, changes);
        }
    }

    /// Drops the rows of a signed prekey that is no longer stored, with the rows of its base keys.
    fn drop_prekey_rows(&mut self, spk: &StoredSignedPrekey, changes: &mut Changes) {
        changes.drop_row(Table::Spk, stored::row_key(spk.id));
        for hash in self.seen.remove(&spk.id).unwrap_or_default() {
            changes.drop_row(Table::Seen, stored::seen_key(spk.id, &hash));
        }
    }

    pub(super) fn drop_opk(&mut self, id: u32, changes: &mut Changes) {
        if self.opks.remove(&id).is_some() {
            changes.drop_row(Table::Opk, stored::row_key(id));
        }
    }
}

/// Draws random ids until one is not in use.
fn draw_unused_id(rng: &mut dyn CryptoRng, used: impl Fn(u32) -> bool) -> u32 {
    loop {
        let id = stored::drawn_id(rng);
        if !used(id) {
            return id;
        }
    }
}
