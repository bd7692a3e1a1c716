//! Evidence and states. No code sets a state: facts are stored, and the state is a function of
//! them (MSG-10), so it cannot lie.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use crate::io::CarrierId;

/// Known events of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    /// The carrier said that it took it (relay: DONE 0).
    Handed,
    /// So many others announce it (mesh).
    Carried(u16),
    /// The other device said under the ratchet that it has it on disk.
    Delivered,
    /// The other person has seen it, and lets us know.
    Read,
}

snapshot!(enum FactKind [Handed, Carried(a), Delivered, Read]);

/// One fact: what, by which carrier, when our clock said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The event.
    pub what: FactKind,
    /// By which carrier it became known.
    pub carrier: CarrierId,
    /// The level at which that carrier hid it then, 1 to 4; 0: a version before did not note it.
    pub level: u8,
    /// When.
    pub at: Time,
}

snapshot!(struct Fact { what, carrier, level, at });

/// Why a note still waits here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// On its way to the carrier, no answer yet.
    Sending,
    /// No carrier of the list is up.
    NoCarrier,
    /// The carriers that are up protect less than the pin demands.
    BelowPin,
    /// Too big for the carriers that may take it.
    TooBig,
    /// The contact's keys are not here yet.
    Keys,
    /// The contact's keys came and were refused.
    Bundle,
    /// Eight notes went out and nothing came back yet.
    Answer,
    /// The contact's mailbox does not exist any more.
    BoxGone,
    /// The contact's mailbox is full.
    BoxFull,
    /// The privacy budget of the carrier is spent.
    Budget,
    /// The carrier would have to call the contact, and its budget of calls is spent.
    CallBudget,
    /// The carrier asked us to slow down.
    Slow,
    /// It comes from a backup without a number, and may have been sent since: the user decides.
    Restored,
}

snapshot!(enum WaitReason [
    Sending, NoCarrier, BelowPin, TooBig, Keys, Bundle, Answer, BoxGone, BoxFull, Budget,
    CallBudget, Slow, Restored,
]);

/// The state of a note, as a person reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteState {
    /// It came from the contact.
    Received,
    /// It waits here.
    Queued(WaitReason),
    /// A carrier took it.
    Handed(CarrierId),
    /// So many others announce it.
    Carried(u16),
    /// Its time is over and nothing proves that it arrived; it may have.
    Expired,
    /// It is on their device.
    Delivered,
    /// They read it.
    Read,
}

/// The state of an own note: the strongest of its facts, highest first (messenger 5.2).
pub fn compute_state(facts: &[Fact], due: Option<Time>, why: WaitReason, now: Time) -> NoteState {
    let has = |what| facts.iter().any(|fact| fact.what == what);
    // The strongest evidence comes first: a receipt after the end still counts (5.2).
    if has(FactKind::Read) {
        return NoteState::Read;
    }
    if has(FactKind::Delivered) {
        return NoteState::Delivered;
    }
    if due.is_some_and(|due| now >= due) {
        return NoteState::Expired;
    }
    let carried = facts.iter().filter_map(|fact| match fact.what {
        FactKind::Carried(k) => Some(k),
        _ => None,
    });
    // Announcements are stronger than a handover, since other devices have the parcel.
    if let Some(k) = carried.max() {
        return NoteState::Carried(k);
    }
    let handed = facts.iter().rev().find(|fact| fact.what == FactKind::Handed);
    handed.map_or(NoteState::Queued(why), |fact| NoteState::Handed(fact.carrier))
}

/// Adds a fact unless the same one is there already; facts are never taken back (MSG-13). Of how many
/// announce a note, the most by one carrier is one fact.
pub fn add_fact(facts: &mut Vec<Fact>, fact: Fact) -> bool {
    if let FactKind::Carried(others) = fact.what {
        let by = |f: &Fact| match f.what {
            FactKind::Carried(k) if f.carrier == fact.carrier => Some(k),
            _ => None,
        };
        // A lower count must not weaken the fact (MSG-13).
        if facts.iter().filter_map(by).any(|k| k >= others) {
            return false;
        }
        facts.retain(|f| by(f).is_none());
    }
    let known = facts.iter().any(|f| f.what == fact.what && f.carrier == fact.carrier);
    if !known {
        facts.push(fact);
    }
    !known
}

pub(crate) fn write_facts(facts: &[Fact], w: &mut Writer) {
    w.put_u8(facts.len() as u8);
    for fact in facts {
        let (what, k) = match fact.what {
            FactKind::Handed => (1, 0),
            FactKind::Carried(k) => (2, k),
            FactKind::Delivered => (3, 0),
            FactKind::Read => (4, 0),
        };
        w.put_u8(what)
            .put_u16(k)
            .put_u8(fact.carrier.number())
            .put_u8(fact.level)
            .put_u64(fact.at.as_ms());
    }
}

/// Reads facts; those of a version before have no `levels`.
pub(crate) fn read_facts(r: &mut Reader<'_>, levels: bool) -> Result<Vec<Fact>, DecodeError> {
    let mut facts = Vec::new();
    for _ in 0..r.read_u8()? {
        let what = match (r.read_u8()?, r.read_u16()?) {
            (1, 0) => FactKind::Handed,
            (2, k) => FactKind::Carried(k),
            (3, 0) => FactKind::Delivered,
            (4, 0) => FactKind::Read,
            _ => return Err(DecodeError::Value),
        };
        let carrier = CarrierId::from_number(r.read_u8()?).ok_or(DecodeError::Value)?;
        let level = if levels { read_level(r)? } else { 0 };
        facts.push(Fact { what, carrier, level, at: Time::from_ms(r.read_u64()?) });
    }
    Ok(facts)
}

/// A level of a stored form, 0 to 4.
pub(crate) fn read_level(r: &mut Reader<'_>) -> Result<u8, DecodeError> {
    let level = r.read_u8()?;
    if level <= 4 { Ok(level) } else { Err(DecodeError::Value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let whats = [FactKind::Handed, FactKind::Carried(3), FactKind::Delivered, FactKind::Read];
        let fact = |(i, what)| {
            let at = Time::from_ms(1_792_000_000_000 + i as u64);
            Fact { what, carrier: CarrierId::ALL[i], level: i as u8 + 1, at }
        };
        let facts: Vec<Fact> = whats.into_iter().enumerate().map(fact).collect();
        let mut w = Writer::new();
        write_facts(&facts, &mut w);
        let bytes = w.finish();
        assert_eq!(Reader::decode_exact(&bytes, |r| read_facts(r, true)), Ok(facts));
        for (at, wrong) in [(1, 0), (1, 5), (4, 0), (5, 5)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            let read = Reader::decode_exact(&bytes, |r| read_facts(r, true));
            assert_eq!(read, Err(DecodeError::Value), "{at}");
        }
    }
}
