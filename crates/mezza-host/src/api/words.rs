//! Texts for users. Each refusal ends with the next step.

use mezza_core::Time;
use mezza_messenger::evidence::{Fact, FactKind, NoteState, WaitReason};
use mezza_messenger::io::{CarrierHides, ResetCause};
use mezza_messenger::view::{ConnectionView, NetworkTrouble};
use mezza_messenger::{CarrierCaps, CarrierId, LoadError};

mod aside;
pub mod link;
pub mod mesh;
pub mod mixnet;
mod refusals;
pub mod relay;
mod restored;
mod trouble;

pub use aside::aside_line;
pub use refusals::too_long;
pub use relay::{key_digits, stock_line};
pub use restored::{restore_mark, restored};
pub use trouble::trouble_words;

use crate::api::json::{Hides, NoteStateJson};
use crate::api::{Exit, Fault};

/// Facts that the health of a carrier depends on, apart from its adapter.
pub struct CarrierFacts {
    /// Open connections of the carrier.
    pub connections: Vec<ConnectionView>,
    /// The date that the node uses.
    pub date: Time,
    /// Number of conversations that may use only this carrier; counted while a connection is down.
    pub alone: usize,
    /// True if the vault may be a restored old copy, and the user has not decided about it yet.
    pub doubted: bool,
    /// Why no round of the mixnet returns; set for the facts of every carrier.
    pub network: Option<NetworkTrouble>,
}

/// Returns the word of a wait reason for programs, and its text.
pub(crate) fn describe_reason(why: WaitReason) -> (&'static str, &'static str) {
    match why {
        WaitReason::Sending => ("sending", "waiting: on its way to the carrier"),
        WaitReason::NoCarrier => ("no_carrier", "waiting: no carrier is up"),
        WaitReason::BelowPin => {
            ("below_pin", "waiting: no carrier that is up reaches this conversation's lowest level")
        }
        WaitReason::TooBig => ("too_big", "waiting: too big for the carriers that may take it"),
        WaitReason::Keys => ("keys", "waiting for their keys"),
        WaitReason::NewCard => (
            "new_card",
            "waiting: their card has no address there; ask for their new card, and add it",
        ),
        WaitReason::Bundle => ("bundle", relay::BUNDLE_REFUSED),
        WaitReason::Answer => ("answer", "waiting for an answer"),
        WaitReason::BoxGone => ("box_gone", relay::BOX_GONE),
        WaitReason::BoxFull => ("box_full", relay::BOX_FULL),
        WaitReason::Budget => ("budget", mixnet::BUDGET_SPENT),
        WaitReason::CallBudget => ("call_budget", mixnet::CALLS_SPENT),
        WaitReason::OwnKeys => ("own_keys", mesh::NO_OWN_KEYS),
        WaitReason::NoNeighbours => {
            ("no_neighbours", "waiting: no neighbour of the mesh is received")
        }
        WaitReason::Guard => ("guard", link::GUARD_CLOSED),
        WaitReason::Slow => ("slow", relay::SLOW),
        WaitReason::Restored => {
            ("restored", "it comes from a backup and may have been sent since: you decide")
        }
    }
}

/// Returns the name of a state in the interface, and its text next to a note.
pub(crate) fn describe_state(state: NoteState) -> (NoteStateJson, String) {
    let expired = "not confirmed before it expired; it may have arrived";
    match state {
        NoteState::Received => (NoteStateJson::Received, "received".into()),
        NoteState::Queued(reason) => (NoteStateJson::Queued, describe_reason(reason).1.into()),
        NoteState::Handed(carrier) => (NoteStateJson::Handed, handed_words(carrier).into()),
        NoteState::Carried(k) => {
            let neighbours = format_count(k.into(), "neighbour", "neighbours");
            (NoteStateJson::Carried, format!("announced by {neighbours}"))
        }
        NoteState::Expired => (NoteStateJson::Expired, expired.into()),
        NoteState::Delivered => (NoteStateJson::Delivered, "on their device".into()),
        NoteState::Read => (NoteStateJson::Read, "read".into()),
    }
}

/// Describes the place of a note that a carrier has accepted.
fn handed_words(carrier: CarrierId) -> &'static str {
    match carrier {
        CarrierId::RELAY => relay::HANDED,
        CarrierId::MIXNET => mixnet::HANDED,
        CarrierId::LINK => link::HANDED,
        _ => "on its way",
    }
}

/// Returns name and text of a fact.
pub(crate) fn fact_words(fact: &Fact) -> (NoteStateJson, String) {
    match fact.what {
        FactKind::Handed => describe_state(NoteState::Handed(fact.carrier)),
        FactKind::Carried(k) => describe_state(NoteState::Carried(k)),
        FactKind::Delivered => (NoteStateJson::Delivered, "their device has it on disk".into()),
        FactKind::Read => (NoteStateJson::Read, "they have seen it".into()),
    }
}

/// Describes why a session was restarted.
pub fn cause_words(cause: ResetCause) -> &'static str {
    match cause {
        ResetCause::Restored => "started anew: they restored a backup",
        ResetCause::Lost => "started anew: one side had lost its state",
        ResetCause::Person => "started anew: because one of you wanted it",
    }
}

/// Returns the table of what a carrier hides from each observer.
pub(crate) fn list_hidden(caps: &CarrierCaps) -> Vec<Hides> {
    let hides = if caps.demo { CarrierHides::NOTHING } else { caps.hides };
    let line =
        |from: &str, what: &str, hidden| Hides { from: from.into(), what: what.into(), hidden };
    vec![
        line("your provider", "what you write", true),
        line("your provider", "that you use Mezzavoce", false),
        line("your provider", "who writes to whom", hides.partners_from_provider),
        line("the relay", "what you write", true),
        line("the relay", "who writes to whom", hides.partners_from_operator),
        line("an observer of all traffic", "whether you converse at all", hides.talk_from_observer),
        line("a thief", "what is on a locked device", true),
    ]
}

/// Describes the cost of sending this number of pieces.
pub(crate) fn cost_words(caps: &CarrierCaps, pieces: usize, up: bool) -> String {
    let time = match caps.delay_ms {
        ms @ 0..1_000 => format!("about {ms} ms"),
        ms => format!("about {} s", ms / 1_000),
    };
    let what = format_count(pieces as u64, "piece", "pieces");
    if up { format!("{what}, {time}") } else { format!("{what}, when it is up again") }
}

/// Returns the fault for a vault that opens but holds no identity.
pub fn load_fault(error: LoadError) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("the vault opens, but {error}"),
        "install the newest version; if that does not help, put the vault folder back from a copy",
    )
}

/// Formats a number with digits in groups of three.
pub fn group_digits(n: usize) -> String {
    match n {
        0..1_000 => n.to_string(),
        _ => format!("{},{:03}", group_digits(n / 1_000), n % 1_000),
    }
}

/// Formats a number with its noun in the singular or plural.
pub fn format_count(n: u64, one: &str, several: &str) -> String {
    let grouped = usize::try_from(n).map_or_else(|_| n.to_string(), group_digits);
    format!("{grouped} {}", if n == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_text_for_each_reason_to_wait() {
        use WaitReason as Why;
        let all = [
            Why::Sending,
            Why::NoCarrier,
            Why::BelowPin,
            Why::TooBig,
            Why::Keys,
            Why::NewCard,
            Why::Bundle,
            Why::Answer,
            Why::BoxGone,
            Why::BoxFull,
            Why::Budget,
            Why::CallBudget,
            Why::OwnKeys,
            Why::Slow,
            Why::Restored,
            Why::NoNeighbours,
            Why::Guard,
        ];
        let page = include_str!("../../../../ui/src/words.ts");
        for why in all {
            let (word, _) = describe_reason(why);
            assert!(page.contains(&format!("  {word}: () => t('why-")), "{word}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        let cases =
            [(0, "0"), (999, "999"), (1_000, "1,000"), (9_120, "9,120"), (1_234_567, "1,234,567")];
        for (n, text) in cases {
            assert_eq!(group_digits(n), text);
        }
    }

    #[test]
    fn one_is_counted_as_one() {
        let days = [0, 1, 2, 1_000].map(|n| format_count(n, "day", "days"));
        assert_eq!(days, ["0 days", "1 day", "2 days", "1,000 days"]);
        assert_eq!(describe_state(NoteState::Carried(1)).1, "announced by 1 neighbour");
        assert_eq!(describe_state(NoteState::Carried(2)).1, "announced by 2 neighbours");
    }

    #[test]
    fn demo_carriers_hide_as_little_as_level_one() {
        let relay = mezza_messenger::carriers::relay::CAPS;
        let all = CarrierHides {
            partners_from_provider: true,
            partners_from_operator: true,
            talk_from_observer: true,
        };
        let caps = CarrierCaps { level: 4, hides: all, ..relay };
        assert_ne!(list_hidden(&caps), list_hidden(&relay));
        assert_eq!(list_hidden(&CarrierCaps { demo: true, ..caps }), list_hidden(&relay));
    }
}
