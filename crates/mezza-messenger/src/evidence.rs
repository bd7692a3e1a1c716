//! Evidence and states. No code sets a state: facts are stored, and the state is a function of
//! them (MSG-10), so it cannot lie.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer};

use crate::carrier::Carrier;

/// What is known to have happened to a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The carrier said that it took it (relay: DONE 0).
    Handed,
    /// So many others announce it (mesh).
    Carried(u16),
    /// The other device said under the ratchet that it has it on disk.
    Delivered,
    /// The other person has seen it, and lets us know.
    Read,
}

/// One fact: what, by which carrier, when our clock said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What happened.
    pub what: What,
    /// By which carrier it became known.
    pub carrier: Carrier,
    /// When.
    pub at: Time,
}

/// Why a note still waits here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// On its way to the carrier, no answer yet.
    Sending,
    /// No carrier of the list is up.
    NoCarrier,
    /// What is up protects less than the pin demands.
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
    /// The carrier asked us to slow down.
    Slow,
}

/// The state of a note, as a person reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It came from the contact.
    Received,
    /// It waits here.
    Queued(Why),
    /// A carrier took it.
    Handed(Carrier),
    /// So many others announce it.
    Carried(u16),
    /// Its time is over and nothing proves that it arrived; it may have.
    Expired,
    /// It is on their device.
    Delivered,
    /// They read it.
    Read,
}

/// The state of an own note: the strongest of its facts, highest first (messenger 4.3).
pub fn state(facts: &[Fact], due: Option<Time>, why: Why, now: Time) -> State {
    let has = |what| facts.iter().any(|fact| fact.what == what);
    if has(What::Read) {
        return State::Read;
    }
    if has(What::Delivered) {
        return State::Delivered;
    }
    if due.is_some_and(|due| now >= due) {
        return State::Expired;
    }
    let carried = facts.iter().filter_map(|fact| match fact.what {
        What::Carried(k) => Some(k),
        _ => None,
    });
    if let Some(k) = carried.max() {
        return State::Carried(k);
    }
    let handed = facts.iter().rev().find(|fact| fact.what == What::Handed);
    handed.map_or(State::Queued(why), |fact| State::Handed(fact.carrier))
}

/// Adds a fact unless the same one is there already; facts are never taken back (MSG-13).
pub fn add(facts: &mut Vec<Fact>, fact: Fact) -> bool {
    let known = facts.iter().any(|f| f.what == fact.what && f.carrier == fact.carrier);
    if !known {
        facts.push(fact);
    }
    !known
}

pub(crate) fn write(facts: &[Fact], w: &mut Writer) {
    w.u8(facts.len() as u8);
    for fact in facts {
        let (what, k) = match fact.what {
            What::Handed => (1, 0),
            What::Carried(k) => (2, k),
            What::Delivered => (3, 0),
            What::Read => (4, 0),
        };
        w.u8(what).u16(k).u8(fact.carrier as u8).u64(fact.at.ms());
    }
}

pub(crate) fn read(r: &mut Reader<'_>) -> Result<Vec<Fact>, DecodeError> {
    let mut facts = Vec::new();
    for _ in 0..r.u8()? {
        let what = match (r.u8()?, r.u16()?) {
            (1, 0) => What::Handed,
            (2, k) => What::Carried(k),
            (3, 0) => What::Delivered,
            (4, 0) => What::Read,
            _ => return Err(DecodeError::Value),
        };
        let carrier = Carrier::from_number(r.u8()?).ok_or(DecodeError::Value)?;
        facts.push(Fact { what, carrier, at: Time::from_ms(r.u64()?) });
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let whats = [What::Handed, What::Carried(3), What::Delivered, What::Read];
        let fact = |(i, what)| {
            let at = Time::from_ms(1_792_000_000_000 + i as u64);
            Fact { what, carrier: Carrier::ALL[i], at }
        };
        let facts: Vec<Fact> = whats.into_iter().enumerate().map(fact).collect();
        let mut w = Writer::new();
        write(&facts, &mut w);
        let bytes = w.finish();
        assert_eq!(Reader::all(&bytes, read), Ok(facts));
        for (at, wrong) in [(1, 0), (1, 5), (4, 9)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert_eq!(Reader::all(&bytes, read), Err(DecodeError::Value), "{at}");
        }
    }
}
