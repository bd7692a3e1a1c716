//! Keys that recognise the envelopes of a card and open none: lent to a gateway that filters for a
//! sleeping device.
//!
//! Over the whole tree these values are the public delegation parameters of the non-anonymous HIBKEM
//! of BKP14. Who holds one is trusted for the anonymity of the receiver in those epochs, for ever if
//! the key is kept; it sees size and time, neither content nor sender.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer};

use crate::bkp::{HEADER_POINTS, USER_POINTS};
use crate::curve::gt::Gt;
use crate::curve::{G2, G2_BYTES, G2Affine, silent};
use crate::lives::{Branch, TreeCalendar};
use crate::pairing::PairingEngine;
use crate::shape::{Epoch, Shape, Tick, TreeProfile};
use crate::system::System;
use crate::wire::card::CardBlock;
use crate::wire::envelope::Fields;
use crate::wire::{join_nibbles, low_of_suite};

/// Bytes in front of the points.
const HEAD_BYTES: usize = 12;
const VERSION: u8 = 1;
/// Epochs that a key may cover without being asked for by name (HIBE-61).
pub const LENT_EPOCHS_MAX: u32 = 2_081;

/// Recognises the envelopes of one subtree: 396, 588, 780 or 972 bytes for 1, 65, 2,081 or 66,593
/// epochs.
pub struct DetectKey {
    calendar: TreeCalendar,
    /// The branch of its subtree.
    branch: Branch,
    /// The root of the subtree.
    start: Epoch,
    /// T0 T1 uh V, then D and E of each level below.
    points: Vec<G2>,
}

silent!(DetectKey);

/// The fact that a gateway learns about an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// It is for the card of the key, in this tick.
    Match(Tick),
    /// It is not.
    Other,
    /// The key does not cover its tick.
    NoKey,
    /// It is no envelope.
    Malformed,
}

impl DetectKey {
    pub(crate) fn new(card: &CardBlock, start: Epoch, points: Vec<G2>) -> Self {
        let calendar = *card.calendar();
        let branch = calendar.find_branch_with(start);
        let branch = branch.unwrap_or_else(|| calendar.shortest_branch());
        Self { calendar, branch, start, points }
    }

    /// Reads one that is alone.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// Reads the next one. Every point must lie in the subgroup (HIBE-2).
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.read_u8()?;
        let tree = r.read_u8()?;
        let k = r.read_u8()?;
        let depth = usize::from(r.read_u8()?);
        let shape = low_of_suite(tree).and_then(Shape::from_nibble).ok_or(DecodeError::Value)?;
        let profile = TreeProfile::from_byte(k).ok_or(DecodeError::Value)?;
        let origin = Tick(r.read_u32()?);
        let start = Epoch(r.read_u32()?);
        let calendar = TreeCalendar { shape, profile, origin };
        // The root of a tree of lives belongs to no branch, and no key is lent of it.
        let branch = calendar.find_branch_with(start).ok_or(DecodeError::Value)?;
        if version != VERSION || shape.path_to(start).depth() != depth {
            return Err(DecodeError::Value);
        }
        let points = (0..USER_POINTS + 2 * (shape.depth() - depth)).map(|_| {
            let point = G2Affine::uncompress(r.read_array_ref()?)?;
            if point.in_subgroup() { Ok(point.to_point()) } else { Err(DecodeError::Value) }
        });
        let points = points.collect::<Result<_, _>>()?;
        Ok(Self { calendar, branch, start, points })
    }

    /// Its bytes: a secret, which tells who receives what.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(HEAD_BYTES + G2_BYTES * self.points.len());
        let TreeCalendar { shape, profile, origin } = self.calendar;
        w.put_u8(VERSION).put_u8(join_nibbles(shape.nibble())).put_u8(profile.byte());
        w.put_u8(shape.path_to(self.start).depth() as u8).put_u32(origin.0).put_u32(self.start.0);
        w.put_bytes(&G2::compress_each(self.points.iter()));
        Wiping::new(w.finish())
    }

    /// The first tick that it covers, and the first one behind.
    pub fn ticks(&self) -> (Tick, Tick) {
        let first = |epoch| self.calendar.first_tick(&self.branch, epoch);
        (first(self.start), first(self.start.plus(self.epoch_count())))
    }

    /// Number of epochs that it covers.
    pub fn epoch_count(&self) -> u32 {
        let shape = self.calendar.shape;
        shape.subtree_epochs(shape.path_to(self.start).depth())
    }

    /// The points that the four of a header are paired with, for an epoch below: V, uh, -T0, -T1.
    fn pairing_points(&self, epoch: Epoch) -> [G2Affine; HEADER_POINTS] {
        let shape = self.calendar.shape;
        let depth = shape.path_to(self.start).depth();
        let path = shape.path_to(epoch);
        let [t0, t1, uh, v] = [0, 1, 2, 3].map(|i| self.points[i].add(&G2::infinity()));
        let levels = self.points[USER_POINTS..].chunks_exact(2).zip(&path.components()[depth..]);
        let (uh, v) = levels.fold((uh, v), |(uh, v), (level, m)| {
            (uh.add(&level[0].small_mul(*m)), v.add(&level[1].small_mul(*m)))
        });
        [v.to_affine(), uh.to_affine(), t0.neg().to_affine(), t1.neg().to_affine()]
    }

    /// The epoch of the tick next to `near` with this low byte, if the key covers it.
    fn find_epoch(&self, low: u8, near: Tick) -> Option<(Epoch, Tick)> {
        let ahead = u32::from(low.wrapping_sub(near.0 as u8));
        let tick = near.0.checked_add(ahead)?;
        let tick = Tick(if ahead < 128 { tick } else { tick.checked_sub(256)? });
        let (from, to) = self.ticks();
        let epoch = self.calendar.find_epoch(self.branch.life, tick).ok()?;
        (from <= tick && tick < to).then_some((epoch, tick))
    }
}

/// Recognises envelopes of the ticks around `near`, each with its outcome, in their order.
pub fn detect_envelopes(
    system: &System,
    key: &DetectKey,
    envelopes: &[&[u8]],
    near: Tick,
) -> Vec<Detected> {
    let one = Gt::one().to_bytes();
    let mut prepared = None;
    let each = envelopes.iter().map(|envelope| {
        let Some(fields) = Fields::split_envelope(envelope) else { return Detected::Malformed };
        let Some((epoch, tick)) = key.find_epoch(fields.tick_low, near) else {
            return Detected::NoKey;
        };
        if prepared.as_ref().is_none_or(|(held, _)| *held != epoch) {
            prepared = Some((epoch, system.pairing().prepare_points(&key.pairing_points(epoch))));
        }
        let Some((_, lines)) = &prepared else { return Detected::NoKey };
        match system.pairing().multi_pair(lines, &[fields.header]).pop() {
            Some(Ok(product)) if product == one => Detected::Match(tick),
            _ => Detected::Other,
        }
    });
    each.collect()
}
