//! The ledger of a guard: slots with their points, counters, refusals. It is the only state that
//! survives a restart (GUARD-37).
//!
//! ```text
//! record = len u8 | kind u8 | fields | SHA-256("guard1 ledger" | all before)[..4]
//! 1 era  era[32]                       2 point     slot Z[32] era[32]      3 advanced  slot counter u32 has u8
//! 4 refused  client dest at u64        5 unblocked client dest             6 reset     slot
//! 7 totals  resets u32 handshakes u32 refused u32
//! 8 learned  client dest name[6] own[6] peer[6] link u16                  9 ever  client refused u32
//! slot = client[16] purpose u8 dest u16 index u64
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{DecodeError, Reader, Snapshot, Time, Writer};

use crate::coin::{CoinEra, CoinPurpose, SlotIndex, SlotName};
use crate::keys::{GuardClientId, sha256};
use crate::rule::Pins;

/// Number of refusals in a day that raises an alarm.
pub const REFUSALS_ALARM: usize = 3;
/// Number of refusals in a day that blocks the destination.
pub const REFUSALS_BLOCK: usize = 20;
/// Number of refusals of a client over the life of a ledger that raises an alarm, and each multiple
/// of it. Refusals transport 128 bits each and add up over days and restarts.
pub const REFUSALS_EVER: u32 = 20;
/// A day of boot time in ms, for which a refusal counts.
pub const DAY_MS: u64 = 86_400_000;
/// Bytes of the checksum after a record.
const CHECK_BYTES: usize = 4;

/// Totals over the life of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardTotals {
    /// Number of slots that were reset.
    pub resets: u32,
    /// Number of sent handshakes.
    pub handshakes: u32,
    /// Number of refused handshakes; each may have transported 128 bits.
    pub refused: u32,
}

/// The peer whose names are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LearnedName {
    /// The client.
    pub client: GuardClientId,
    /// The destination; all lanes of inbound handshakes share one number.
    pub dest: u16,
    /// The name of the caller of an inbound handshake; zeros otherwise.
    pub caller: [u8; 6],
}

/// One entry, which is appended durably before the output that depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LedgerRecord {
    /// A start of the guard: slots without a point use coins of this era from now on.
    Era(CoinEra),
    /// A client has fixed its point for a slot; the coin belongs to this era.
    Point(SlotIndex, [u8; 32], CoinEra),
    /// The point X of a slot was sent; the number is the counter in that frame.
    Advanced(SlotIndex, Option<u32>),
    /// A handshake with a destination was refused at this boot time.
    Refused(GuardClientId, u16, Time),
    /// The owner unblocked a destination.
    Unblocked(GuardClientId, u16),
    /// The owner reset a slot; its number is never offered again.
    Reset(SlotIndex),
    /// The totals so far, in a compacted ledger.
    Totals(GuardTotals),
    /// Names and link number of a first handshake, which all later ones must contain.
    Learned(LearnedName, Pins),
    /// The refused handshakes of a client so far, in a compacted ledger.
    Ever(GuardClientId, u32),
}

impl fmt::Debug for LedgerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Era(_) => "Era",
            Self::Point(..) => "Point",
            Self::Advanced(..) => "Advanced",
            Self::Refused(..) => "Refused",
            Self::Unblocked(..) => "Unblocked",
            Self::Reset(_) => "Reset",
            Self::Totals(_) => "Totals",
            Self::Learned(..) => "Learned",
            Self::Ever(..) => "Ever",
        })
    }
}

/// A ledger that cannot be read; the guard does not start, and never resets it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger is damaged at byte {0}; restore its newest copy, or move it away and run `mezza guard init`"
)]
pub struct LedgerError(pub usize);

impl LedgerRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let named = |w: &mut Writer, kind: u8, client: &GuardClientId, dest: u16| {
            w.put_u8(kind).put_bytes(&client.0).put_u16(dest);
        };
        let slot = |w: &mut Writer, kind: u8, slot: &SlotIndex| {
            let SlotIndex { name: SlotName { client, purpose, dest }, index } = slot;
            w.put_u8(kind)
                .put_bytes(&client.0)
                .put_u8(purpose.wire_byte())
                .put_u16(*dest)
                .put_u64(*index);
        };
        match self {
            Self::Era(era) => {
                w.put_u8(1).put_bytes(&era.0);
            }
            Self::Point(at, z, era) => {
                slot(&mut w, 2, at);
                w.put_bytes(z).put_bytes(&era.0);
            }
            Self::Advanced(at, counter) => {
                slot(&mut w, 3, at);
                w.put_u32(counter.unwrap_or(0)).put_u8(u8::from(counter.is_some()));
            }
            Self::Refused(client, dest, at) => {
                named(&mut w, 4, client, *dest);
                w.put_u64(at.as_ms());
            }
            Self::Unblocked(client, dest) => named(&mut w, 5, client, *dest),
            Self::Reset(at) => slot(&mut w, 6, at),
            Self::Totals(GuardTotals { resets, handshakes, refused }) => {
                w.put_u8(7).put_u32(*resets).put_u32(*handshakes).put_u32(*refused);
            }
            Self::Learned(name, pins) => {
                named(&mut w, 8, &name.client, name.dest);
                w.put_bytes(&name.caller)
                    .put_bytes(&pins.own)
                    .put_bytes(&pins.peer)
                    .put_u16(pins.link);
            }
            Self::Ever(client, refused) => {
                w.put_u8(9).put_bytes(&client.0).put_u32(*refused);
            }
        }
        let body = w.finish();
        let mut record = alloc::vec![body.len() as u8];
        record.extend_from_slice(&body);
        let check = sha256(&[b"guard1 ledger", &record]);
        record.extend_from_slice(&check[..CHECK_BYTES]);
        record
    }

    fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(body, |r| {
            let kind = r.read_u8()?;
            let slot = |r: &mut Reader<'_>| -> Result<SlotIndex, DecodeError> {
                let client = GuardClientId(r.read_array()?);
                let purpose = CoinPurpose::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
                Ok(SlotIndex {
                    name: SlotName { client, purpose, dest: r.read_u16()? },
                    index: r.read_u64()?,
                })
            };
            Ok(match kind {
                1 => Self::Era(CoinEra(r.read_array()?)),
                2 => Self::Point(slot(r)?, r.read_array()?, CoinEra(r.read_array()?)),
                3 => {
                    let slot = slot(r)?;
                    let counter = r.read_u32()?;
                    match r.read_u8()? {
                        // A frame without a counter has only one form.
                        0 if counter == 0 => Self::Advanced(slot, None),
                        1 => Self::Advanced(slot, Some(counter)),
                        _ => return Err(DecodeError::Value),
                    }
                }
                4 => Self::Refused(
                    GuardClientId(r.read_array()?),
                    r.read_u16()?,
                    Time::from_ms(r.read_u64()?),
                ),
                5 => Self::Unblocked(GuardClientId(r.read_array()?), r.read_u16()?),
                6 => Self::Reset(slot(r)?),
                7 => Self::Totals(GuardTotals {
                    resets: r.read_u32()?,
                    handshakes: r.read_u32()?,
                    refused: r.read_u32()?,
                }),
                8 => {
                    let client = GuardClientId(r.read_array()?);
                    let dest = r.read_u16()?;
                    let name = LearnedName { client, dest, caller: r.read_array()? };
                    let pins =
                        Pins { own: r.read_array()?, peer: r.read_array()?, link: r.read_u16()? };
                    Self::Learned(name, pins)
                }
                9 => Self::Ever(GuardClientId(r.read_array()?), r.read_u32()?),
                _ => return Err(DecodeError::Value),
            })
        })
    }

    /// Bytes of the body of each kind, 1 to 9. Another length means damage, not a truncated record.
    const BODY_BYTES: [usize; 9] = [33, 92, 33, 27, 19, 28, 13, 39, 21];

    /// Reads the next record. Returns `None` if the rest is incomplete: truncated, or zeros because
    /// the file grew before its data was written.
    fn read_next(bytes: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        let Some((len, rest)) = bytes.split_first() else { return Ok(None) };
        // The file grew before its data was written, so the rest is not a record (GUARD-37).
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let len = usize::from(*len);
        let is_known = match rest.first() {
            Some(kind) => {
                let place = usize::from(*kind).checked_sub(1);
                place.and_then(|place| Self::BODY_BYTES.get(place)) == Some(&len)
            }
            None => Self::BODY_BYTES.contains(&len),
        };
        // A length of no kind means damage. A truncated record has the length of its kind
        // (GUARD-37).
        if !is_known {
            return Err(DecodeError::Value);
        }
        // The power failed while this record was written. Its output was never carried out.
        if rest.len() < len + CHECK_BYTES {
            return Ok(None);
        }
        let check = sha256(&[b"guard1 ledger", &bytes[..=len]]);
        // A damaged record could contain a used slot, so the guard does not start (GUARD-37).
        if rest[len..len + CHECK_BYTES] != check[..CHECK_BYTES] {
            return Err(DecodeError::Value);
        }
        Ok(Some((Self::decode(&rest[..len])?, 1 + len + CHECK_BYTES)))
    }
}

/// The state of a slot in the ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotState {
    pub(crate) index: u64,
    /// The point, and the era of its coin.
    pub(crate) point: Option<([u8; 32], CoinEra)>,
}

/// The content of a ledger.
#[derive(Clone, Default)]
pub struct SlotLedger {
    era: Option<CoinEra>,
    slots: BTreeMap<SlotName, SlotState>,
    counters: BTreeMap<(GuardClientId, u16), u32>,
    /// Times of refused handshakes; at most [`REFUSALS_BLOCK`] are stored.
    refusals: BTreeMap<(GuardClientId, u16), VecDeque<Time>>,
    /// Number of all refused handshakes of a client.
    ever: BTreeMap<GuardClientId, u32>,
    learned: BTreeMap<LearnedName, Pins>,
    totals: GuardTotals,
}

impl SlotLedger {
    /// Loads a ledger. Returns it with the number of bytes of complete records. Bytes after these
    /// are a record that was being written at a power failure. The caller removes them durably
    /// before it appends.
    ///
    /// # Errors
    /// [`LedgerError`] with the offset of a damaged or unknown record.
    pub fn load(bytes: &[u8]) -> Result<(Self, usize), LedgerError> {
        let mut ledger = Self::default();
        let mut at = 0;
        while let Some((record, len)) =
            LedgerRecord::read_next(&bytes[at..]).map_err(|_| LedgerError(at))?
        {
            ledger.apply_record(&record);
            at += len;
        }
        Ok((ledger, at))
    }

    /// Returns a shorter list of records that gives the same ledger.
    pub fn compact_records(&self) -> Vec<LedgerRecord> {
        let era = self.era.map(LedgerRecord::Era);
        let slots = self.slots.iter().flat_map(|(name, state)| {
            let at = |index| SlotIndex { name: *name, index };
            let counter = self.counters.get(&(name.client, name.dest)).copied();
            let before =
                // The last advance has index and counter, so older ones are not needed.
                state.index.checked_sub(1).map(|index| LedgerRecord::Advanced(at(index), counter));
            let point = state.point.map(|(z, era)| LedgerRecord::Point(at(state.index), z, era));
            before.into_iter().chain(point)
        });
        let refusals = self.refusals.iter().flat_map(|((client, dest), times)| {
            times.iter().map(|at| LedgerRecord::Refused(*client, *dest, *at))
        });
        let learned = self.learned.iter().map(|(name, pins)| LedgerRecord::Learned(*name, *pins));
        // Last, because the records before it also change the totals.
        let ever = self.ever.iter().map(|(client, refused)| LedgerRecord::Ever(*client, *refused));
        let totals = LedgerRecord::Totals(self.totals);
        let records = era.into_iter().chain(slots).chain(refusals).chain(learned);
        records.chain(ever).chain([totals]).collect()
    }

    /// Applies a record.
    pub fn apply_record(&mut self, record: &LedgerRecord) {
        match *record {
            LedgerRecord::Era(era) => self.era = Some(era),
            LedgerRecord::Point(SlotIndex { name, index }, z, era) => {
                self.slots.insert(name, SlotState { index, point: Some((z, era)) });
            }
            LedgerRecord::Advanced(SlotIndex { name, index }, counter) => {
                self.slots.insert(name, SlotState { index: index.saturating_add(1), point: None });
                self.totals.handshakes = self.totals.handshakes.saturating_add(1);
                if let Some(counter) = counter {
                    self.counters.insert((name.client, name.dest), counter);
                }
            }
            LedgerRecord::Refused(client, dest, at) => {
                self.totals.refused = self.totals.refused.saturating_add(1);
                let ever = self.ever.entry(client).or_default();
                *ever = ever.saturating_add(1);
                let times = self.refusals.entry((client, dest)).or_default();
                times.push_back(at);
                // More than [`REFUSALS_BLOCK`] times would change nothing.
                if times.len() > REFUSALS_BLOCK {
                    times.pop_front();
                }
            }
            // Only the day's refusals are forgotten; those of the ledger's life stay (GUARD-45).
            LedgerRecord::Unblocked(client, dest) => {
                self.refusals.remove(&(client, dest));
            }
            LedgerRecord::Totals(totals) => self.totals = totals,
            LedgerRecord::Ever(client, refused) => {
                self.ever.insert(client, refused);
            }
            LedgerRecord::Learned(name, pins) => {
                self.learned.insert(name, pins);
            }
            LedgerRecord::Reset(SlotIndex { name, index }) => {
                // The next number is used, because the client may have revealed the point of this
                // one.
                self.slots.insert(name, SlotState { index: index.saturating_add(1), point: None });
                // A client that lost its state restarts its counter. The audit charges the free
                // counter.
                self.counters.remove(&(name.client, name.dest));
                // A client that lost its state pairs again, under another name and number.
                let is_of = |learned: &LearnedName| {
                    (learned.client, learned.dest) == (name.client, name.dest)
                };
                self.learned.retain(|learned, _| !is_of(learned));
                self.totals.resets = self.totals.resets.saturating_add(1);
            }
        }
    }

    /// Returns the present number of a slot and its point; new slots begin at 0.
    pub(crate) fn find_slot(&self, name: SlotName) -> (SlotIndex, Option<([u8; 32], CoinEra)>) {
        let state = self.slots.get(&name).copied();
        let SlotState { index, point } = state.unwrap_or(SlotState { index: 0, point: None });
        (SlotIndex { name, index }, point)
    }

    /// Returns the last counter of a client and a destination.
    pub(crate) fn last_counter(&self, client: GuardClientId, dest: u16) -> Option<u32> {
        self.counters.get(&(client, dest)).copied()
    }

    /// Returns the names and the link number that the first handshake contained, or `None` before a
    /// handshake.
    pub(crate) fn learned_pins(&self, name: &LearnedName) -> Option<&Pins> {
        self.learned.get(name)
    }

    /// Returns the number of callers whose names were learned from inbound handshakes of a client.
    pub(crate) fn learned_callers(&self, client: GuardClientId, dest: u16) -> usize {
        let is_of = |name: &&LearnedName| (name.client, name.dest) == (client, dest);
        self.learned.keys().filter(is_of).count()
    }

    /// Adjusts refusals after a restart of the machine, which restarts boot time. Refusals that
    /// seem to be in the future happened before, and end within a day from now.
    pub(crate) fn clamp_refusals(&mut self, now: Time) {
        for at in self.refusals.values_mut().flatten() {
            *at = (*at).min(now);
        }
    }

    /// Returns the number of refusals in the last 24 hours of boot time; one that seems to be in
    /// the future counts.
    pub fn count_refusals(&self, client: GuardClientId, dest: u16, now: Time) -> usize {
        let times = self.refusals.get(&(client, dest));
        let recent = |at: &&Time| at.as_ms() > now.as_ms() || now.as_ms() - at.as_ms() < DAY_MS;
        times.map_or(0, |times| times.iter().filter(recent).count())
    }

    /// Returns the number of refused handshakes of a client over the life of the ledger, regardless
    /// of unblocking and resets.
    pub fn refused_ever(&self, client: GuardClientId) -> u32 {
        self.ever.get(&client).copied().unwrap_or(0)
    }

    /// Returns the slots whose point is stored and whose X was not sent yet, for the owner.
    pub fn open_slots(&self) -> impl Iterator<Item = SlotIndex> {
        let is_open = |(_, state): &(&SlotName, &SlotState)| state.point.is_some();
        let slots = self.slots.iter().filter(is_open);
        slots.map(|(name, state)| SlotIndex { name: *name, index: state.index })
    }

    /// Returns the totals over the life of the ledger.
    pub const fn totals(&self) -> GuardTotals {
        self.totals
    }
}

impl Snapshot for SlotLedger {
    fn snapshot_into(&self, w: &mut Writer) {
        for record in self.compact_records() {
            w.put_bytes(&record.encode());
        }
    }
}

impl fmt::Debug for SlotLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotLedger of {} slots", self.slots.len())
    }
}
