//! Texts for people. Each refusal ends with the next step.

use mezza_messenger::card::RelayKey;
use mezza_messenger::evidence::{Fact, FactKind, NoteState, WaitReason};
use mezza_messenger::io::ResetCause;
use mezza_messenger::view::ConnectionView;
use mezza_messenger::{CarrierCaps, CarrierId, LoadError};

mod aside;
pub(crate) mod mixnet;
mod refusals;
pub(crate) mod relay;
mod trouble;

pub(crate) use aside::aside_line;
pub(crate) use refusals::too_long;
pub(crate) use relay::stock_line;
pub(crate) use trouble::trouble_words;

use crate::api::json::{Hides, NoteStateJson};
use crate::api::{Exit, Fault};

/// What the health of a carrier depends on beside its adapter.
pub(crate) struct CarrierFacts {
    /// What the carrier keeps open.
    pub connections: Vec<ConnectionView>,
    /// Conversations that may take this carrier and no other one, counted while a connection is down.
    pub alone: usize,
    /// Whether the vault was put back, and the person has not decided yet.
    pub doubted: bool,
}

/// The machine word of a reason to wait.
pub(crate) fn why_word(why: WaitReason) -> &'static str {
    match why {
        WaitReason::Sending => "sending",
        WaitReason::NoCarrier => "no_carrier",
        WaitReason::BelowPin => "below_pin",
        WaitReason::TooBig => "too_big",
        WaitReason::Keys => "keys",
        WaitReason::Bundle => "bundle",
        WaitReason::Answer => "answer",
        WaitReason::BoxGone => "box_gone",
        WaitReason::BoxFull => "box_full",
        WaitReason::Budget => "budget",
        WaitReason::Slow => "slow",
    }
}

fn why_words(why: WaitReason) -> &'static str {
    match why {
        WaitReason::Sending => "waiting: on its way to the carrier",
        WaitReason::NoCarrier => "waiting: no carrier is up",
        WaitReason::BelowPin => {
            "waiting: no carrier that is up reaches this conversation's lowest level"
        }
        WaitReason::TooBig => "waiting: too big for the carriers that may take it",
        WaitReason::Keys => "waiting for their keys",
        WaitReason::Bundle => "waiting: their keys at the relay were refused",
        WaitReason::Answer => "waiting for an answer",
        WaitReason::BoxGone => "waiting: their mailbox is gone, ask them for a new card",
        WaitReason::BoxFull => "waiting: their mailbox is full",
        WaitReason::Budget => "waiting: the privacy budget is spent",
        WaitReason::Slow => "waiting: the relay asks for patience",
    }
}

/// A state in the words that stand beside a note.
pub(crate) fn state_words(state: NoteState) -> String {
    match state {
        NoteState::Received => "received".into(),
        NoteState::Queued(why) => why_words(why).into(),
        NoteState::Handed(carrier) => handed_words(carrier).into(),
        NoteState::Carried(k) => {
            format!("announced by {}", counted(k.into(), "neighbour", "neighbours"))
        }
        NoteState::Expired => "not confirmed before it expired; it may have arrived".into(),
        NoteState::Delivered => "on their device".into(),
        NoteState::Read => "read".into(),
    }
}

fn handed_words(carrier: CarrierId) -> &'static str {
    match carrier {
        CarrierId::RELAY => relay::HANDED,
        CarrierId::MIXNET => mixnet::HANDED,
        _ => "on its way",
    }
}

/// A state as the interface names it.
pub(crate) fn state_name(state: NoteState) -> NoteStateJson {
    match state {
        NoteState::Received => NoteStateJson::Received,
        NoteState::Queued(_) => NoteStateJson::Queued,
        NoteState::Handed(_) => NoteStateJson::Handed,
        NoteState::Carried(_) => NoteStateJson::Carried,
        NoteState::Expired => NoteStateJson::Expired,
        NoteState::Delivered => NoteStateJson::Delivered,
        NoteState::Read => NoteStateJson::Read,
    }
}

/// A fact: its name and its words.
pub(crate) fn fact_words(fact: &Fact) -> (NoteStateJson, String) {
    match fact.what {
        FactKind::Handed => (NoteStateJson::Handed, handed_words(fact.carrier).into()),
        FactKind::Carried(k) => (NoteStateJson::Carried, state_words(NoteState::Carried(k))),
        FactKind::Delivered => (NoteStateJson::Delivered, "their device has it on disk".into()),
        FactKind::Read => (NoteStateJson::Read, "they have seen it".into()),
    }
}

/// Why a session began anew.
pub(crate) fn cause_words(cause: ResetCause) -> &'static str {
    match cause {
        ResetCause::Restored => "started anew: they restored a backup",
        ResetCause::Lost => "started anew: one side had lost its state",
        ResetCause::Person => "started anew: because one of you wanted it",
    }
}

/// The table that people see beside a carrier: the facts that its level hides, by observer.
pub(crate) fn hides(caps: &CarrierCaps) -> Vec<Hides> {
    let level = if caps.demo { 1 } else { caps.level };
    let line =
        |from: &str, what: &str, hidden| Hides { from: from.into(), what: what.into(), hidden };
    vec![
        line("your provider", "what you write", true),
        line("your provider", "that you use Mezzavoce", false),
        line("your provider", "who writes to whom", level >= 3),
        line("the relay", "what you write", true),
        line("the relay", "who writes to whom", level >= 2),
        line("an observer of all traffic", "whether you converse at all", level >= 4),
        line("a thief", "what is on a locked device", true),
    ]
}

/// The cost of sending so many pieces.
pub(crate) fn cost_words(caps: &CarrierCaps, pieces: usize, up: bool) -> String {
    let time = match caps.delay_ms {
        ms @ 0..1_000 => format!("about {ms} ms"),
        ms => format!("about {} s", ms / 1_000),
    };
    let what = counted(pieces as u64, "piece", "pieces");
    if up { format!("{what}, {time}") } else { format!("{what}, when it is up again") }
}

/// A vault that opens but holds no identity.
pub(crate) fn load_fault(error: LoadError) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("the vault opens, but {error}"),
        "install the newest version; if that does not help, put the vault folder back from a copy",
    )
}

/// Digits in groups of three.
pub(crate) fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun, of one or of several.
pub(crate) fn counted(n: u64, one: &str, several: &str) -> String {
    let grouped = usize::try_from(n).map_or_else(|_| n.to_string(), grouped);
    format!("{grouped} {}", if n == 1 { one } else { several })
}

/// The first eight digits of a key, as people compare them: `5F3A-91C0`.
pub(crate) fn key_digits(key: &RelayKey) -> String {
    let hex = data_encoding::HEXUPPER.encode(&key.0[..4]);
    format!("{}-{}", &hex[..4], &hex[4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let cases =
            [(0, "0"), (999, "999"), (1_000, "1,000"), (9_120, "9,120"), (1_234_567, "1,234,567")];
        for (n, text) in cases {
            assert_eq!(grouped(n), text);
        }
    }

    #[test]
    fn one_is_counted_as_one() {
        let days = [0, 1, 2, 1_000].map(|n| counted(n, "day", "days"));
        assert_eq!(days, ["0 days", "1 day", "2 days", "1,000 days"]);
        assert_eq!(state_words(NoteState::Carried(1)), "announced by 1 neighbour");
        assert_eq!(state_words(NoteState::Carried(2)), "announced by 2 neighbours");
    }

    #[test]
    fn demo_carriers_hide_as_little_as_level_one() {
        let caps = CarrierCaps { level: 4, demo: true, ..mezza_messenger::carriers::relay::CAPS };
        assert_eq!(hides(&caps), hides(&mezza_messenger::carriers::relay::CAPS));
    }
}
