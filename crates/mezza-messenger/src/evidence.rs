//! Evidence and states. Facts are stored, and the state of a note is computed from them (MSG-10).
//! No code sets a state, so a state always has evidence.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use crate::io::CarrierId;

/// Kinds of evidence about a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    /// The carrier confirmed that it took the note (relay: DONE 0).
    Handed,
    /// This number of other devices announces the note (mesh).
    Carried(u16),
    /// The contact's device confirmed in the session that the note is on its disk.
    Delivered,
    /// The contact has seen the note and allows read receipts.
    Read,
}

snapshot!(enum FactKind [Handed, Carried(a), Delivered, Read]);

/// One fact: kind, carrier, level, and time by our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The kind of evidence.
    pub what: FactKind,
    /// The carrier that brought the evidence.
    pub carrier: CarrierId,
    /// Protection level of the carrier at that time, 1 to 4; 0 in rows of earlier versions, which
    /// did not store it.
    pub level: u8,
    /// The time by our clock.
    pub at: Time,
}

snapshot!(struct Fact { what, carrier, level, at });

/// The reason why a note still waits on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The note was handed to the carrier, which has not answered yet.
    Sending,
    /// No listed carrier is up.
    NoCarrier,
    /// The carriers that are up protect at a lower level than the note requires.
    BelowPin,
    /// The note is too big for the allowed carriers.
    TooBig,
    /// The contact's keys have not arrived yet.
    Keys,
    /// The contact's card names no address of the carrier, so only a newer card helps.
    NewCard,
    /// The contact's keys were refused.
    Bundle,
    /// Eight notes were sent and the contact has not answered yet.
    Answer,
    /// The contact's mailbox no longer exists.
    BoxGone,
    /// The contact's mailbox is full.
    BoxFull,
    /// The privacy budget of the carrier is exhausted.
    Budget,
    /// The carrier must call the contact first, and its budget of calls is exhausted.
    CallBudget,
    /// We have no keys for the mesh, so the contact could not answer.
    OwnKeys,
    /// The carrier asked for slower sending.
    Slow,
    /// The note comes from a backup without a number, and the lost device may have sent it. The
    /// user decides whether it is sent again.
    Restored,
    /// The node of the mesh receives no neighbour.
    NoNeighbours,
    /// The guard on the way to the contact's device is not reached, or refuses.
    Guard,
}

snapshot!(enum WaitReason [
    Sending, NoCarrier, BelowPin, TooBig, Keys, NewCard, Bundle, Answer, BoxGone, BoxFull,
    Budget, CallBudget, OwnKeys, Slow, Restored, NoNeighbours, Guard,
]);

/// The state of a note, as shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteState {
    /// The note came from the contact.
    Received,
    /// The note waits on this device.
    Queued(WaitReason),
    /// A carrier took the note.
    Handed(CarrierId),
    /// This number of other devices announces the note.
    Carried(u16),
    /// The lifetime of the note is over without proof of arrival; it may have arrived.
    Expired,
    /// The note is on the contact's device.
    Delivered,
    /// The contact has read the note.
    Read,
}

/// Returns the state of a note of ours: that of its strongest fact (messenger 5.2).
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
    // An announcement proves more than a handover: other devices have the parcel.
    if let Some(k) = carried.max() {
        return NoteState::Carried(k);
    }
    let handed = facts.iter().rev().find(|fact| fact.what == FactKind::Handed);
    handed.map_or(NoteState::Queued(why), |fact| NoteState::Handed(fact.carrier))
}

/// Adds a fact unless it is already known; facts are never removed (MSG-13). Of the numbers of
/// announcing devices, only the highest per carrier is stored. Returns true if the fact was added.
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

/// Reads facts. Facts of earlier versions have no level, so `levels` is false for them.
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

/// Reads a level of a stored form, 0 to 4.
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
