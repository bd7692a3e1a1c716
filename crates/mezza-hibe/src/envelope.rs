//! Sealing for a card, and trial opening with the stored keys.
//!
//! ```text
//! sender      New --seal--> used up          New --end of its epoch--> refused, then wiped
//! receiver    bytes --trial--> Opened | NotForMe | NoKey | Malformed
//! ```
//!
//! The coins r are in the encrypted body, so the receiver encapsulates again and compares. Any
//! change to an envelope makes it unreadable (the idea of Fujisaki and Okamoto, but with
//! transmitted coins instead of hashed ones).

use alloc::sync::Arc;
use alloc::vec::Vec;

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use mezza_core::{CryptoRng, Wiping, blake2b, labelled_hash};
use subtle::ConstantTimeEq;

use crate::bkp::{self, UserKey};
use crate::curve::gt::{Gt, GtBytes};
use crate::curve::{Fr, G1, SCALAR_BYTES, silent};
use crate::error::EncapsulateError;
use crate::lives::{Branch, Life};
use crate::pairing::{HEADER_BYTES, PairingEngine, PreparedKey};
use crate::shape::{Epoch, Tick};
use crate::system::System;
use crate::wire::card::{CardBlock, CardBlockHash};
use crate::wire::envelope::{BODY_AT, Bucket, Fields, KIND_BYTES, PAYLOAD_AT, TAG_BYTES};

/// Most envelopes in one [`TrialJob`].
pub const BATCH_MAX: usize = 64;

/// The hash `H_32("fshibe/v1/bind`", pkh | tick u32 | C). The inner layer authenticates this hash
/// with its payload, so that a receiver cannot pass a message on as if it had been sent to another
/// person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeBinding(pub [u8; 32]);

/// A 16-byte BLAKE2b hash of a whole envelope, to detect duplicates (HIBE-52).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvelopeId(pub [u8; 16]);

impl EnvelopeId {
    /// Returns the first 16 bytes of `H_32("fshibe/v1/id`", envelope).
    pub fn from_envelope(envelope: &[u8]) -> Self {
        let hash = labelled_hash::<32>("fshibe/v1/id", &[envelope]);
        Self(core::array::from_fn(|i| hash[i]))
    }
}

/// One encrypted message on the wire: 506, 1018, 2042 or 4090 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope(Vec<u8>);

impl Envelope {
    /// Returns the bytes of the envelope.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes of the envelope.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The ticks of one epoch of one card.
#[derive(Clone, Copy)]
struct Ticks {
    first: Tick,
    /// The number of ticks, k.
    count: u32,
}

impl Ticks {
    fn from_epoch(card: &CardBlock, epoch: Epoch) -> Self {
        let branch = branch_of(card, epoch);
        Self { first: card.calendar().first_tick(&branch, epoch), count: branch.epoch_ticks }
    }

    fn has_tick(self, tick: Tick) -> bool {
        tick.0.checked_sub(self.first.0).is_some_and(|since| since < self.count)
    }

    /// Returns the first of these ticks that equals `low` modulo 256. If the epoch has fewer than
    /// 256 ticks, no other tick does.
    fn with_low(self, low: u8) -> Option<Tick> {
        let since = u32::from(low.wrapping_sub(self.first.0 as u8));
        (since < self.count).then(|| Tick(self.first.0 + since))
    }
}

/// The public key that seals for one epoch of a card: Z(id) and e(z', P2).
pub struct SealKey {
    card: CardBlockHash,
    ticks: Ticks,
    identity: [G1; 2],
    base: Gt,
}

silent!(SealKey EnvelopeKey EpochKey);

impl SealKey {
    pub(crate) fn new(card: &CardBlock, epoch: Epoch) -> Self {
        let identity = card.parameters().identity_points(&card.shape().path_to(epoch));
        let ticks = Ticks::from_epoch(card, epoch);
        Self { card: *card.hash(), ticks, identity, base: card.base().duplicate() }
    }

    fn check_tick(&self, tick: Tick) -> Result<(), EncapsulateError> {
        match self.ticks.has_tick(tick) {
            true => Ok(()),
            false if tick < self.ticks.first => Err(EncapsulateError::NotYet),
            false => Err(EncapsulateError::Over),
        }
    }
}

/// The keys ke and km of one envelope, 32 bytes each.
type BodyKeys = Wiping<[u8; 64]>;

/// Returns `H_64("fshibe/v1/kdf`", pkh | tick u32 | C | GtBytes(K)) (HIBE-42).
fn body_keys(card: &CardBlockHash, tick: Tick, c: &[u8; HEADER_BYTES], k: &GtBytes) -> BodyKeys {
    let tick = tick.0.to_be_bytes();
    Wiping::new(labelled_hash("fshibe/v1/kdf", &[&card.0, &tick, c, k.as_slice()]))
}

fn build_binding(card: &CardBlockHash, tick: Tick, c: &[u8; HEADER_BYTES]) -> EnvelopeBinding {
    let tick = tick.0.to_be_bytes();
    EnvelopeBinding(labelled_hash("fshibe/v1/bind", &[&card.0, &tick, c]))
}

fn crypt_body(keys: &BodyKeys, body: &mut [u8]) {
    let mut key = Wiping::new([0; 32]);
    key.copy_from_slice(&keys[..32]);
    ChaCha20::new(&(*key).into(), &[0; 12].into()).apply_keystream(body);
}

fn compute_tag(keys: &BodyKeys, tagged: &[u8]) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    blake2b(&mut tag, &keys[32..], "", &[tagged]);
    tag
}

/// Encodes a header C, 192 bytes.
fn header_bytes(points: &[G1; bkp::HEADER_POINTS]) -> [u8; HEADER_BYTES] {
    let bytes = G1::compress_each(points.iter());
    core::array::from_fn(|i| bytes[i])
}

/// The key for one new envelope: r, C and the derived keys. [`seal`](Self::seal) consumes the key,
/// and returns an error after its epoch (HIBE-47).
pub struct EnvelopeKey {
    r: Fr,
    ticks: Ticks,
    tick: Tick,
    c: [u8; HEADER_BYTES],
    keys: BodyKeys,
    binding: EnvelopeBinding,
}

impl EnvelopeKey {
    /// Draws r and encapsulates for `tick`. Error: `tick` is not in the epoch of `key`.
    pub fn new(
        system: &System,
        key: &SealKey,
        tick: Tick,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, EncapsulateError> {
        Self::with_scalar(system, key, tick, Fr::random(rng))
    }

    /// Encapsulates for `tick` with r = `coins` modulo q (HIBE-90). `coins` are 64 bytes that are
    /// uniform, secret, and used for one payload only.
    ///
    /// # Errors
    /// `tick` is not in the epoch of `key`.
    pub fn from_coins(
        system: &System,
        key: &SealKey,
        tick: Tick,
        coins: &Wiping<[u8; 64]>,
    ) -> Result<Self, EncapsulateError> {
        Self::with_scalar(system, key, tick, Fr::from_wide(coins))
    }

    fn with_scalar(
        system: &System,
        key: &SealKey,
        tick: Tick,
        r: Fr,
    ) -> Result<Self, EncapsulateError> {
        key.check_tick(tick)?;
        let c = header_bytes(&bkp::compute_header(system, &key.identity, &r));
        let keys = body_keys(&key.card, tick, &c, &key.base.pow(&r).to_bytes());
        let binding = build_binding(&key.card, tick, &c);
        Ok(Self { r, ticks: key.ticks, tick, c, keys, binding })
    }

    /// Returns the binding that the payload's inner layer must authenticate.
    pub fn binding(&self) -> &EnvelopeBinding {
        &self.binding
    }

    /// Seals a payload of at most 3,830 bytes in the smallest bucket that has room and is at least
    /// `bucket_min`. Error: the payload is too long, or the epoch of the key is over at `now`.
    pub fn seal(
        self,
        payload: &[u8],
        bucket_min: Bucket,
        now: Tick,
    ) -> Result<Envelope, EncapsulateError> {
        let bucket = bucket_min.fit_payload(payload.len()).ok_or(EncapsulateError::TooLong)?;
        if now >= self.ticks.first && !self.ticks.has_tick(now) {
            return Err(EncapsulateError::Over);
        }
        let mut bytes = Vec::with_capacity(bucket.total_bytes());
        bytes.extend_from_slice(&[bucket.kind(), self.tick.0 as u8]);
        bytes.extend_from_slice(&self.c);
        bytes.extend_from_slice(self.r.as_bytes());
        bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bucket.total_bytes() - TAG_BYTES, 0);
        crypt_body(&self.keys, &mut bytes[BODY_AT..]);
        let tag = compute_tag(&self.keys, &bytes);
        bytes.extend_from_slice(&tag);
        Ok(Envelope(bytes))
    }
}

/// The key that opens the envelopes of one epoch. The 52 kB of line functions are wiped on drop.
pub struct EpochKey {
    card: CardBlockHash,
    epoch: Epoch,
    life: Life,
    /// True if this is a key of the card's shortest life, whose tick is known from byte 1 of an
    /// envelope alone.
    is_shortest: bool,
    ticks: Ticks,
    prepared: PreparedKey,
    identity: [G1; 2],
}

impl EpochKey {
    pub(crate) fn new(system: &System, card: &CardBlock, epoch: Epoch, key: &UserKey) -> Self {
        let life = branch_of(card, epoch).life;
        Self {
            card: *card.hash(),
            epoch,
            life,
            is_shortest: life == card.shortest_life(),
            ticks: Ticks::from_epoch(card, epoch),
            prepared: system.pairing().prepare_points(&key.pairing_points()),
            identity: card.parameters().identity_points(&card.shape().path_to(epoch)),
        }
    }

    /// Returns the epoch of the key.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the life of the key.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Does steps 4 to 6 of a trial; `k` is the key K of step 4.
    fn open_payload(
        &self,
        system: &System,
        tick: Tick,
        fields: &Fields<'_>,
        k: &GtBytes,
    ) -> Option<Payload> {
        let keys = body_keys(&self.card, tick, fields.header, k);
        if !bool::from(compute_tag(&keys, fields.tagged).ct_eq(fields.tag)) {
            return None;
        }
        let mut body = Wiping::new(fields.body.to_vec());
        crypt_body(&keys, &mut body);
        let (r, rest) = body.split_first_chunk::<SCALAR_BYTES>()?;
        let again = bkp::compute_header(system, &self.identity, &Fr::from_bytes(r)?);
        if header_bytes(&again) != *fields.header {
            return None;
        }
        let (length, text) = rest.split_first_chunk()?;
        let (payload, padding) = text.split_at_checked(u16::from_be_bytes(*length).into())?;
        padding.iter().all(|byte| *byte == 0).then(|| Wiping::new(payload.to_vec()))
    }
}

/// A decrypted payload, wiped on drop.
pub type Payload = Wiping<Vec<u8>>;

/// Returns the branch of an epoch. An epoch without a branch counts as one of the shortest life.
fn branch_of(card: &CardBlock, epoch: Epoch) -> Branch {
    let calendar = card.calendar();
    calendar.find_branch_with(epoch).unwrap_or_else(|| calendar.shortest_branch())
}

/// The decoded keys of one card: for each life those of the epoch before, the current one and the
/// next (smooth rollover, section 6.4 of the paper). Clones share the keys.
#[derive(Clone, Debug, Default)]
pub struct HeldKeys(Vec<Arc<EpochKey>>);

impl HeldKeys {
    /// Most epochs of one life with keys. The ticks of three epochs of the shortest life are unique
    /// modulo 256.
    pub const EPOCHS_MAX: u32 = 3;

    /// Creates an empty list of keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key and replaces the key of the same epoch. Keys of other cards are dropped, and keys
    /// of the same life that are [`Self::EPOCHS_MAX`] epochs or more away.
    pub fn insert(&mut self, key: EpochKey) {
        let EpochKey { card, epoch, life, .. } = key;
        let near = |held: &EpochKey| held.epoch.0.abs_diff(epoch.0) < Self::EPOCHS_MAX;
        let stays = |held: &EpochKey| held.life != life || (held.epoch != epoch && near(held));
        self.0.retain(|held| held.card == card && stays(held));
        self.0.push(Arc::new(key));
    }

    /// Drops and wipes the keys of a life for all epochs below `floor`.
    pub fn drop_below(&mut self, life: Life, floor: Epoch) {
        self.0.retain(|held| held.life != life || held.epoch >= floor);
    }

    /// Returns the epochs of all keys.
    pub fn held_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.0.iter().map(|held| held.epoch)
    }

    /// Returns true if there is a key of this epoch.
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.held_epochs().any(|held| held == epoch)
    }

    /// Returns the ticks of a life that have a key and equal `low` modulo 256: one tick for a short
    /// life, up to 17 for half a day. Needed for an envelope without a carrier, because no header
    /// names its tick.
    pub fn find_ticks(&self, life: Life, low: u8) -> Vec<Tick> {
        let of_life = self.0.iter().filter(|held| held.life == life);
        let ticks = of_life.flat_map(|held| {
            let first = held.ticks.with_low(low).into_iter();
            let ticks = held.ticks;
            first.flat_map(move |first| {
                (first.0..ticks.first.0 + ticks.count).step_by(256).map(Tick)
            })
        });
        ticks.collect()
    }

    /// Returns the index of the key for the life and tick that a carrier names.
    fn find_key(&self, time: EnvelopeTime) -> Option<usize> {
        let fits = |held: &Arc<EpochKey>| held.life == time.life && held.ticks.has_tick(time.tick);
        self.0.iter().position(fits)
    }

    /// Returns index and tick of the key for an envelope without a carrier, from byte 1 of the
    /// envelope. All epochs of the shortest life with keys span at most 180 ticks, so the byte is
    /// unique.
    fn find_shortest(&self, low: u8) -> Option<(usize, Tick)> {
        let mut keys = self.0.iter().enumerate().filter(|(_, held)| held.is_shortest);
        keys.find_map(|(i, held)| Some((i, held.ticks.with_low(low)?)))
    }
}

/// The life and the tick of an envelope, as the header of its carrier names both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeTime {
    /// The life of the envelope.
    pub life: Life,
    /// The tick of the envelope.
    pub tick: Tick,
}

/// An envelope with the life and tick that its carrier names.
#[derive(Clone, Copy, Debug)]
pub struct CarriedEnvelope<'a> {
    /// The bytes of the whole envelope.
    pub envelope: &'a [u8],
    /// Life and tick from the carrier. `None` without a carrier; the envelope is then one of the
    /// shortest life.
    pub time: Option<EnvelopeTime>,
}

/// An envelope that was opened, because it was sealed for this card.
#[derive(Debug)]
pub struct OpenedEnvelope {
    /// The decrypted payload.
    pub payload: Payload,
    /// The life of the key that opened the envelope.
    pub life: Life,
    /// The tick for which the envelope was sealed.
    pub tick: Tick,
    /// The hash that the payload's inner layer must authenticate.
    pub binding: EnvelopeBinding,
    /// The hash of the envelope, to detect duplicates.
    pub id: EnvelopeId,
}

/// The result of a trial.
#[derive(Debug)]
pub enum Trial {
    /// The envelope was sealed for this card.
    Opened(OpenedEnvelope),
    /// The envelope was sealed for another card or was changed; the two cases cannot be
    /// distinguished.
    NotForMe,
    /// There is no key for the tick of the envelope.
    NoKey,
    /// The length does not agree with the kind byte, or the suite is unknown.
    Malformed,
}

/// Tries to open one envelope.
pub fn trial_open(system: &System, keys: &HeldKeys, envelope: &[u8]) -> Trial {
    trial_open_batch(system, keys, &[envelope]).pop().unwrap_or(Trial::Malformed)
}

/// Tries to open many envelopes. Returns the result of [`trial_open`] for each, in the same order
/// (HIBE-50).
pub fn trial_open_batch(system: &System, keys: &HeldKeys, envelopes: &[&[u8]]) -> Vec<Trial> {
    let carried = envelopes.iter().map(|envelope| CarriedEnvelope { envelope, time: None });
    trial_open_carried(system, keys, &carried.collect::<Vec<_>>())
}

/// Tries to open many envelopes, each only with the key of the life and tick that its carrier names
/// (HIBE-85). The results are in the order of the envelopes.
pub fn trial_open_carried(
    system: &System,
    keys: &HeldKeys,
    envelopes: &[CarriedEnvelope<'_>],
) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::with_capacity(envelopes.len());
    let mut groups: Vec<Vec<(usize, Tick, Fields<'_>)>> =
        keys.0.iter().map(|_| Vec::new()).collect();
    for (index, CarriedEnvelope { envelope, time }) in envelopes.iter().enumerate() {
        let fields = Fields::split_envelope(envelope);
        // Byte 1 is the sender's tick modulo 256. If the carrier names another tick, the envelope
        // is malformed.
        let agrees = |f: &Fields<'_>| time.is_none_or(|time| time.tick.0 as u8 == f.tick_low);
        let Some(fields) = fields.filter(agrees) else {
            trials.push(Trial::Malformed);
            continue;
        };
        trials.push(Trial::NoKey);
        let found = match time {
            Some(time) => keys.find_key(*time).map(|key| (key, time.tick)),
            None => keys.find_shortest(fields.tick_low),
        };
        if let Some((key, tick)) = found {
            groups[key].push((index, tick, fields));
        }
    }
    for (key, group) in keys.0.iter().zip(groups) {
        let headers: Vec<_> = group.iter().map(|(.., fields)| fields.header).collect();
        let products = system.pairing().multi_pair(&key.prepared, &headers);
        for ((index, tick, fields), k) in group.into_iter().zip(products) {
            let payload = k.ok().and_then(|k| key.open_payload(system, tick, &fields, &k));
            trials[index] = payload.map_or(Trial::NotForMe, |payload| {
                let binding = build_binding(&key.card, tick, fields.header);
                let id = EnvelopeId::from_envelope(envelopes[index].envelope);
                Trial::Opened(OpenedEnvelope { payload, life: key.life, tick, binding, id })
            });
        }
    }
    trials
}

/// A batch of trials that another thread can run; about 50 ms.
#[derive(Debug)]
pub struct TrialJob {
    keys: HeldKeys,
    envelopes: Vec<Vec<u8>>,
}

impl TrialJob {
    /// Splits envelopes into jobs of at most [`BATCH_MAX`], each with the current keys.
    pub fn split_jobs(keys: &HeldKeys, envelopes: Vec<Vec<u8>>) -> Vec<Self> {
        let mut envelopes = envelopes.into_iter().peekable();
        let mut jobs = Vec::new();
        while envelopes.peek().is_some() {
            let envelopes = envelopes.by_ref().take(BATCH_MAX).collect();
            jobs.push(Self { keys: keys.clone(), envelopes });
        }
        jobs
    }

    /// Returns the result for each envelope, in the same order.
    pub fn run(&self, system: &System) -> Vec<Trial> {
        let envelopes: Vec<&[u8]> = self.envelopes.iter().map(Vec::as_slice).collect();
        trial_open_batch(system, &self.keys, &envelopes)
    }
}

const _: () = assert!(BODY_AT == KIND_BYTES + HEADER_BYTES && PAYLOAD_AT == SCALAR_BYTES + 2);
