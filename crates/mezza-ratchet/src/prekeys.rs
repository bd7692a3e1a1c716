//! The prekeys of this device: a state machine that rotates, refills, publishes and wipes prekeys.
//!
//! ```text
//! SPK  Current -7 d-> Retired -30 d after made-> wiped
//! OPK  Held -a first message opened with it, or 30 d after made-> wiped
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, DecodeError, Machine, StaticKey, SuiteId, Time, Wiping, snapshot};

use crate::bundle::{self, SignalBundle, SignedPrekeyEntry};
use crate::suite::is_container;
use crate::wire::FirstMessageHeader;
use crate::x3dh::ResponderKeys;
use crate::{
    Changes, IdentityKeyPair, OneTimePrekey, OpenError, PrekeysError, StoredRow, SuiteList, Table,
};

mod drain;
mod io;
mod rotation;
mod stored;
#[cfg(test)]
mod tests;

use drain::DrainDetector;
pub use io::{Input, Output};
use stored::{StoredOneTimePrekey, StoredSignedPrekey};

/// Days after which a signed prekey is replaced.
pub const ROTATE_D: u64 = 7;
/// Days for which a bundle is valid.
pub const BUNDLE_VALID_D: u64 = 14;
/// Days after which private prekeys are wiped.
pub const WIPE_D: u64 = 30;
/// Most signed prekeys stored for one suite.
pub const SPK_HELD_MAX: usize = 5;
/// The number of one-time keys that the server should have.
pub const OPK_STOCK: usize = 100;
/// New one-time keys are made when the server has fewer than this.
pub const OPK_REFILL: usize = 20;
/// Most one-time keys stored on this device. Above the limit the oldest keys are dropped.
pub const OPK_HELD_MAX: usize = 1_000;
/// Most base keys remembered under one signed prekey. At this number, first messages without a
/// one-time key are refused.
pub const SEEN_MAX: usize = 10_000;
/// A current signed prekey is replaced early when this many base keys are remembered under it.
pub const SEEN_ROTATE: usize = SEEN_MAX / 2;

/// The private prekeys of this device with their timers. The struct contains a copy of the identity
/// pair, which signs new prekeys.
pub struct Prekeys {
    identity: IdentityKeyPair,
    /// The suites of our bundles, best first.
    suites: Vec<SuiteId>,
    /// The signed prekeys, oldest first. The last prekey of each suite is the current one.
    spks: Vec<StoredSignedPrekey>,
    opks: BTreeMap<u32, StoredOneTimePrekey>,
    /// Digests of remembered base keys, 16 bytes each, by the id of the signed prekey.
    seen: BTreeMap<u32, BTreeSet<[u8; 16]>>,
    /// The numbers of signed and one-time keys in the last [`Output::Need`] that was not answered
    /// yet.
    asked: Option<(usize, usize)>,
    drain: DrainDetector,
    outputs: VecDeque<Output>,
}

snapshot!(struct Prekeys { identity, suites, spks, opks, seen, asked, drain, outputs });

impl Prekeys {
    /// Creates the machine without keys. The first [`wake`](Machine::wake) requests them.
    pub fn new(identity: IdentityKeyPair) -> Self {
        Self {
            identity,
            suites: SuiteList::our_suites().ids().to_vec(),
            spks: Vec::new(),
            opks: BTreeMap::new(),
            seen: BTreeMap::new(),
            asked: None,
            drain: DrainDetector::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Offers `suites`, best first, instead of [`SuiteList::our_suites`]. Only devices outside the
    /// product need this, such as a device of `signal-v3`. Call this function before any other,
    /// also after each load.
    #[must_use]
    pub fn offer_suites(mut self, suites: &[SuiteId]) -> Self {
        self.suites = suites.to_vec();
        self
    }

    /// Restores the prekeys from stored rows. Rows of tables other than `Spk`, `Opk` and `Seen` are
    /// an error. Call [`wake`](Machine::wake) before any other function.
    pub fn load<'a>(
        identity: IdentityKeyPair,
        records: impl IntoIterator<Item = StoredRow<'a>>,
    ) -> Result<Self, DecodeError> {
        let mut prekeys = Self::new(identity);
        for record in records {
            match record.table {
                Table::Spk => {
                    prekeys.spks.push(StoredSignedPrekey::decode(record.key, record.value)?);
                }
                Table::Opk => {
                    let opk = StoredOneTimePrekey::decode(record.key, record.value)?;
                    prekeys.opks.insert(opk.id, opk);
                }
                Table::Seen => {
                    let (spk_id, hash) = stored::decode_seen(record.key, record.value)?;
                    prekeys.seen.entry(spk_id).or_default().insert(hash);
                }
                _ => return Err(DecodeError::Value),
            }
        }
        prekeys.sort_by_age();
        let held = |id: &u32| prekeys.spks.iter().any(|spk| spk.id == *id);
        if prekeys.seen.keys().all(held) { Ok(prekeys) } else { Err(DecodeError::Value) }
    }

    /// Sorts the signed prekeys by age, oldest first. Prekeys of the same minute are sorted by id,
    /// so the order is the same after a restart.
    fn sort_by_age(&mut self) {
        self.spks.sort_by_key(|spk| (spk.made, spk.id));
    }

    /// Returns every stored signed prekey, newest first, as suite, id and pair. The pairs also open
    /// intro boxes.
    pub fn signed_prekeys(&self) -> impl Iterator<Item = (SuiteId, u32, &StaticKey)> {
        self.spks.iter().rev().map(|spk| (spk.suite, spk.id, &spk.pair))
    }

    /// Returns suite, creation time and wipe time of every stored signed prekey, newest first.
    pub fn signed_prekey_lifetimes(&self) -> impl Iterator<Item = (SuiteId, Time, Time)> {
        self.spks.iter().rev().map(|spk| (spk.suite, spk.made_at(), spk.wiped_at()))
    }

    /// Returns the number of sessions that contacts began on the day of `now`, and how many of
    /// these sessions used no one-time key. The counts are not stored, so a restart sets both to 0.
    pub fn sessions_of_day(&self, now: Time) -> (u32, u32) {
        self.drain.day_counts(now)
    }

    /// Returns the end of the current bundle; `None` before the first keys were made.
    pub fn current_not_after(&self) -> Option<Time> {
        self.current_prekeys().last().map(StoredSignedPrekey::not_after)
    }

    /// Returns the current bundle and all one-time keys made since, to be published again with
    /// `replace` set to false (a server ignores ids that it has or had).
    pub fn current_bundle(&self) -> Option<(Vec<u8>, Vec<OneTimePrekey>)> {
        let made = self.current_prekeys().last()?.made;
        let one_time = self
            .opks
            .values()
            .filter(|opk| opk.made >= made)
            .map(StoredOneTimePrekey::one_time)
            .collect();
        Some((self.encode_bundle(), one_time))
    }

    /// Returns the current prekeys of the best suite of Signal on offer, without a one-time key;
    /// `None` if no such suite is offered. `registration` is the number of this install, 1 to
    /// 16,380.
    pub fn signal_bundle(&self, registration: u32) -> Option<SignalBundle> {
        Some(self.current_prekeys().find(|spk| spk.list.is_none())?.signal_bundle(registration))
    }

    /// Returns true if first messages of `suite` may begin a session here.
    pub(crate) fn offers_suite(&self, suite: SuiteId) -> bool {
        self.suites.contains(&suite) || self.spks.iter().any(|spk| spk.suite == suite)
    }

    /// Returns the list of suites in our bundle; `None` if we offer no container suite.
    fn bundle_suites(&self) -> Option<SuiteList> {
        let ids: Vec<SuiteId> =
            self.suites.iter().copied().filter(|suite| is_container(*suite)).collect();
        SuiteList::new(&ids).ok()
    }

    /// Returns the number of one-time keys stored on this device.
    pub fn one_time_count(&self) -> usize {
        self.opks.len()
    }

    /// Returns every row of the prekeys as it should be stored now.
    pub fn all_rows(&self) -> Changes {
        let mut changes = Changes::new();
        for spk in &self.spks {
            spk.record_row(&mut changes);
        }
        for opk in self.opks.values() {
            opk.record_row(&mut changes);
        }
        for (spk_id, hashes) in &self.seen {
            for hash in hashes {
                stored::put_seen(*spk_id, hash, &mut changes);
            }
        }
        changes
    }

    /// Does the same as [`snapshot`](Machine::snapshot).
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        self.snapshot()
    }

    /// Returns the newest signed prekey of each offered suite, best suite first.
    fn current_prekeys(&self) -> impl Iterator<Item = &StoredSignedPrekey> {
        let newest = |id: &SuiteId| self.spks.iter().rev().find(|spk| spk.suite == *id);
        self.suites.iter().filter_map(newest)
    }

    /// Returns the wire form of the bundle; empty if we offer no container suite.
    fn encode_bundle(&self) -> Vec<u8> {
        let listed: Vec<&StoredSignedPrekey> =
            self.current_prekeys().filter(|spk| spk.list.is_some()).collect();
        let Some(list) = listed.last().and_then(|spk| spk.list) else { return Vec::new() };
        let entries: Vec<SignedPrekeyEntry> =
            listed.into_iter().map(StoredSignedPrekey::bundle_entry).collect();
        bundle::encode(&list, entries.iter())
    }

    fn rotation_due(&self, now: Time) -> bool {
        let fresh = |spk: &StoredSignedPrekey| {
            // A key with a creation time more than a day ahead was made while the clock was wrong.
            let future = spk.made_at() > now.plus_ms(Time::DAY_MS);
            !future
                && now < spk.made_at().plus_ms(ROTATE_D * Time::DAY_MS)
                && !self.is_crowded(spk.id)
        };
        self.current_prekeys().count() < self.suites.len() || !self.current_prekeys().all(fresh)
    }

    /// Returns true if the memory of base keys under this signed prekey is half full.
    fn is_crowded(&self, spk: u32) -> bool {
        self.seen.get(&spk).is_some_and(|seen| seen.len() >= SEEN_ROTATE)
    }

    fn is_rotating(&self) -> bool {
        self.asked.is_some_and(|(spk, _)| spk > 0)
    }

    fn request_keys(&mut self, spk: usize, opk: usize) {
        self.asked = Some((spk, opk));
        self.outputs.push_back(Output::Need { spk, opk });
    }

    fn accept_keys(
        &mut self,
        spk: Vec<StaticKey>,
        opk: Vec<StaticKey>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), PrekeysError> {
        let (spk_asked, opk_asked) = self.asked.ok_or(PrekeysError::Unasked)?;
        if spk.len() != spk_asked || opk.len() > opk_asked {
            return Err(PrekeysError::Unasked);
        }
        let mut changes = Changes::new();
        let replace = !spk.is_empty();
        if replace {
            self.rotate_signed(spk, now, rng, &mut changes);
        }
        let one_time = self.stock_one_time(opk, now, rng, &mut changes);
        self.asked = None;
        self.outputs.push_back(Output::Store(changes));
        self.outputs.push_back(Output::Publish { bundle: self.encode_bundle(), one_time, replace });
        Ok(())
    }

    /// Returns the private keys that a first message names. Error: the message may not begin a
    /// session.
    pub(crate) fn responder_keys(
        &self,
        first: &FirstMessageHeader,
        now: Time,
    ) -> Result<ResponderKeys<'_>, OpenError> {
        let unknown_spk = OpenError::UnknownPrekey(first.spk_id);
        let spk = self
            .spks
            .iter()
            .find(|spk| spk.id == first.spk_id && spk.suite == first.suite && now < spk.wiped_at())
            .ok_or(unknown_spk)?;
        let seen = self.seen.get(&spk.id);
        if seen.is_some_and(|seen| seen.contains(&stored::seen_hash(&first.base))) {
            return Err(OpenError::ReusedBaseKey);
        }
        let opk = match first.opk_id {
            0 if seen.is_some_and(|seen| seen.len() >= SEEN_MAX) => return Err(unknown_spk),
            0 => None,
            id => Some(self.opks.get(&id).ok_or(OpenError::UnknownPrekey(id))?),
        };
        if opk.is_some_and(|opk| now >= opk.wiped_at()) {
            return Err(OpenError::UnknownPrekey(first.opk_id));
        }
        let kem = match (&first.kem, &spk.kem) {
            (None, None) => None,
            (Some(theirs), Some(ours)) if theirs.id == ours.id => Some(&ours.seed),
            (theirs, _) => {
                return Err(OpenError::UnknownPrekey(theirs.as_ref().map_or(0, |kem| kem.id)));
            }
        };
        Ok(ResponderKeys { spk: &spk.pair, list: spk.list, opk: opk.map(|opk| &opk.pair), kem })
    }

    /// Drops the one-time key of a first message that began a session, and remembers the base key.
    pub(crate) fn consume_prekey(
        &mut self,
        first: &FirstMessageHeader,
        now: Time,
        changes: &mut Changes,
    ) {
        self.drop_opk(first.opk_id, changes);
        let seen = self.seen.entry(first.spk_id).or_default();
        let hash = stored::seen_hash(&first.base);
        if seen.len() < SEEN_MAX && seen.insert(hash) {
            stored::put_seen(first.spk_id, &hash, changes);
        }
        if self.drain.count_session(first.opk_id != 0, now) {
            self.outputs.push_back(Output::Low);
        }
        if self.rotation_due(now) && !self.is_rotating() {
            self.request_keys(self.suites.len(), OPK_STOCK);
        }
    }
}

impl Machine for Prekeys {
    type Input = Input;
    type Output = Output;
    type Error = PrekeysError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), PrekeysError> {
        match input {
            Input::Stock(left) => {
                let left = left as usize;
                if left < OPK_REFILL && self.asked.is_none() && !self.spks.is_empty() {
                    self.request_keys(0, OPK_STOCK - left);
                }
                Ok(())
            }
            Input::Rotate => {
                if !self.is_rotating() {
                    self.request_keys(self.suites.len(), OPK_STOCK);
                }
                Ok(())
            }
            Input::Refill(left) => {
                let missing = OPK_STOCK.saturating_sub(left as usize);
                if missing > 0 && self.asked.is_none() && !self.spks.is_empty() {
                    self.request_keys(0, missing);
                }
                Ok(())
            }
            Input::Fresh { spk, opk } => self.accept_keys(spk, opk, now, rng),
        }
    }

    fn wake(&mut self, now: Time, _rng: &mut dyn CryptoRng) {
        let mut changes = Changes::new();
        self.wipe_expired(now, &mut changes);
        if !changes.is_empty() {
            self.outputs.push_back(Output::Store(changes));
        }
        if self.rotation_due(now) && !self.is_rotating() {
            self.request_keys(self.suites.len(), OPK_STOCK);
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let wipe_spk = self.spks.iter().map(StoredSignedPrekey::wiped_at).min();
        let wipe_opk = self.opks.values().map(StoredOneTimePrekey::wiped_at).min();
        let rotate =
            self.current_prekeys().map(|spk| spk.made_at().plus_ms(ROTATE_D * Time::DAY_MS)).min();
        let rotate = if self.is_rotating() { None } else { rotate.or(Some(Time::from_ms(0))) };
        [wipe_spk, wipe_opk, rotate].into_iter().flatten().min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl fmt::Debug for Prekeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prekeys")
    }
}
