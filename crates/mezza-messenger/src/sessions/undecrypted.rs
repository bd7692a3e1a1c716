//! Messages that did not open yet; they are stored for a day.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer, snapshot};
use mezza_ratchet::Opened;
use mezza_ratchet::wire::OUTER_BYTES_MAX;

use super::Sessions;
use crate::evidence;
use crate::io::{By, CarrierId, ContactId, Ctx, Due, Effects, Incoming, RecordKind, key64};

/// Milliseconds for which a message that did not open is stored.
const KEPT_MS: u64 = Time::DAY_MS;

/// Most stored messages that did not open, in all and per contact.
const UNDECRYPTED_MAX: usize = 32;
const UNDECRYPTED_EACH_MAX: usize = 8;
/// Most stored messages that are tried again after a new session.
const RETRIED_MAX: usize = 4;
/// The highest protection level.
const LEVEL_MAX: u8 = 4;
/// Milliseconds between two sessions that we begin for one contact because of messages that do not
/// open (MSG-31).
const RESET_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// A message that no session opens.
pub(crate) struct Undecrypted {
    pub contact: ContactId,
    pub at: Time,
    /// Carrier and level of the message; `None` in rows of an earlier version.
    pub by: Option<By>,
    pub bytes: Vec<u8>,
    /// Outer binding of the message.
    pub outer: Vec<u8>,
}

snapshot!(struct Undecrypted { contact, at, by, bytes, outer });

impl Undecrypted {
    /// Returns the time at which the message is dropped.
    pub fn due(&self) -> Time {
        self.at.plus_ms(KEPT_MS)
    }

    /// Encodes the stored form: `contact u32 | at u64 | len u16 | bytes | carrier u8 | level u8`,
    /// and `len u8 | outer` if there is an outer binding.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(16 + self.bytes.len());
        w.put_u32(self.contact.0).put_u64(self.at.as_ms()).put_var16(&self.bytes);
        if let Some(by) = self.by {
            w.put_u8(by.carrier.number()).put_u8(by.level);
            if !self.outer.is_empty() {
                w.put_var8(&self.outer);
            }
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form. Rows of an earlier version have no carrier and level; items caused by
    /// such a message leave at the highest level only.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let contact = ContactId(r.read_u32()?);
            let at = Time::from_ms(r.read_u64()?);
            let bytes = r.read_var16()?.to_vec();
            let by = if r.is_empty() {
                None
            } else {
                let carrier = CarrierId::from_number(r.read_u8()?).ok_or(DecodeError::Value)?;
                Some(By { carrier, level: evidence::read_level(r)? })
            };
            let outer = if r.is_empty() { Vec::new() } else { read_outer(r)? };
            Ok(Self { contact, at, by, bytes, outer })
        })
    }
}

/// Reads the outer binding of a message, 1 to 64 bytes.
fn read_outer(r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let outer = r.read_var8()?;
    let fits = (1..=OUTER_BYTES_MAX).contains(&outer.len());
    if fits { Ok(outer.to_vec()) } else { Err(DecodeError::Value) }
}

impl<B: Backend> Sessions<B> {
    /// Tries stored messages again after a new session. Only the newest few are tried, because each
    /// may cost thousands of chain steps. `by` is carrier and level of the message that began the
    /// session. A message stored by an earlier version gets the same carrier and the highest level.
    pub fn retry_undecrypted(
        &mut self,
        id: ContactId,
        by: By,
        ctx: &mut Ctx<'_>,
    ) -> Vec<(Opened, By)> {
        let kept = self.undecrypted.iter().rev().filter(|(_, kept)| kept.contact == id);
        // The newest four are tried: older ones are less likely to open, and each attempt is
        // expensive (MSG-35).
        let mut kept: Vec<u64> = kept.map(|(key, _)| *key).take(RETRIED_MAX).collect();
        kept.reverse();
        let mut all = Vec::new();
        for key in kept {
            let (Some(kept), Some(peer)) = (self.undecrypted.get(&key), self.peers.get_mut(&id))
            else {
                continue;
            };
            let identity = &self.identity;
            let prekeys = &mut self.prekeys;
            let message = Incoming { bytes: &kept.bytes, outer: &kept.outer };
            let opened = peer.open(message, identity, prekeys, ctx.now);
            let by = kept.by.unwrap_or(By { level: LEVEL_MAX, ..by });
            if let Ok(mut opened) = opened {
                self.drop_undecrypted(key, ctx.effects);
                self.apply_changes(id, &mut opened, ctx);
                all.push((opened, by));
            }
        }
        if self.undecrypted.values().all(|kept| kept.contact != id) {
            self.end_wait_for_reset(id, ctx.effects);
        }
        all
    }

    /// Marks that a new session must begin once the rate limit allows it.
    fn wait_for_reset(&mut self, id: ContactId, effects: &mut Effects) {
        self.set_renewal(id, effects, |renewal| renewal.waits = true);
    }

    /// Clears the mark that a new session must begin.
    pub(super) fn end_wait_for_reset(&mut self, id: ContactId, effects: &mut Effects) {
        self.set_renewal(id, effects, |renewal| renewal.waits = false);
    }

    /// Sets or clears the timer of a waiting new session.
    pub(super) fn time_reset(&self, id: ContactId, effects: &mut Effects) {
        let renewal = self.peers.get(&id).map(|peer| peer.renewal).filter(|renewal| renewal.waits);
        let due = renewal.map(|renewal| renewal.last_reset.plus_ms(RESET_EVERY_MS));
        effects.set_timer(Due::Reset(id), due);
    }

    /// Handles the end of the rate limit for a contact. Returns true if a session must begin now,
    /// because a message that did not open still waits (MSG-127).
    pub fn reset_in_turn(&mut self, id: ContactId, ctx: &mut Ctx<'_>) -> bool {
        let waits = self.peers.get(&id).is_some_and(|peer| peer.renewal.waits);
        self.end_wait_for_reset(id, ctx.effects);
        if waits {
            self.reset_now(id, ctx);
        }
        waits
    }

    fn reset_now(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        self.set_renewal(id, ctx.effects, |renewal| {
            (renewal.renew, renewal.last_reset) = (true, now);
        });
    }

    /// Stores a message that no session opened for a day, if there is room for it. Returns true if
    /// a new session must begin because of it.
    pub fn keep(
        &mut self,
        id: ContactId,
        message: Incoming<'_>,
        by: By,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        // A time in the future comes from a clock that was ahead, and delays nothing.
        let rests = self.peers.get(&id).is_none_or(|peer| {
            let last = peer.renewal.last_reset;
            ctx.now >= last && ctx.now.since_ms(last) < RESET_EVERY_MS
        });
        if !rests {
            self.reset_now(id, ctx);
        }
        if rests {
            // The writer sends the message once, so a message that comes too early for a new
            // session is remembered.
            self.wait_for_reset(id, ctx.effects);
        } else {
            self.end_wait_for_reset(id, ctx.effects);
        }
        let own = self.undecrypted.values().filter(|kept| kept.contact == id).count();
        // A message with an outer binding above 64 bytes opens nothing, and its row would not load.
        let fits = message.outer.len() <= OUTER_BYTES_MAX;
        // At most 8 of one contact and 32 in all are kept (MSG-35).
        if fits && own < UNDECRYPTED_EACH_MAX && self.undecrypted.len() < UNDECRYPTED_MAX {
            self.last_undecrypted += 1;
            let bytes = message.bytes.to_vec();
            let outer = message.outer.to_vec();
            let key = self.last_undecrypted;
            let kept = Undecrypted { contact: id, at: ctx.now, by: Some(by), bytes, outer };
            ctx.effects.put(RecordKind::Held, key64(key), kept.write());
            ctx.effects.set_timer(Due::Undecrypted(key), Some(kept.due()));
            self.undecrypted.insert(key, kept);
        }
        !rests
    }

    /// Drops a message that did not open.
    pub fn drop_undecrypted(&mut self, key: u64, effects: &mut Effects) {
        if self.undecrypted.remove(&key).is_some() {
            effects.drop_row(RecordKind::Held, key64(key));
            effects.set_timer(Due::Undecrypted(key), None);
        }
    }

    /// Loads a stored message.
    pub fn load_undecrypted(&mut self, key: u64, kept: Undecrypted, effects: &mut Effects) {
        effects.set_timer(Due::Undecrypted(key), Some(kept.due()));
        self.skip_undecrypted(key);
        self.undecrypted.insert(key, kept);
    }

    /// Skips message numbers up to and including `key`.
    pub fn skip_undecrypted(&mut self, key: u64) {
        self.last_undecrypted = self.last_undecrypted.max(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_102_what_a_message_is_bound_to_is_kept_with_it() {
        let by = Some(By { carrier: CarrierId::with_number(3), level: 3 });
        for outer in [&b""[..], b"a", &[7; OUTER_BYTES_MAX]] {
            let contact = ContactId(1);
            let at = Time::from_ms(9);
            let kept =
                Undecrypted { contact, at, by, bytes: b"message".into(), outer: outer.into() };
            let row = kept.write();
            let again = Undecrypted::read(&row).expect("written here");
            assert!(again.outer == outer && again.by == by && again.write()[..] == row[..]);
            if !outer.is_empty() {
                let cut = row.len() - 1 - outer.len();
                // Wrong forms of the outer binding: an empty one, a wrong length, too many bytes.
                for wrong in [&[][..], &[0], &[2, 7], &[65; 66]] {
                    let row = [&row[..cut], wrong].concat();
                    assert_eq!(Undecrypted::read(&row).is_ok(), wrong.is_empty(), "{wrong:?}");
                }
            }
        }
    }
}
