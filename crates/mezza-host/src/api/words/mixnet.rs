//! Texts about the mixnet.

use mezza_core::Time;
use mezza_messenger::io::NoiseGrade;
use mezza_messenger::view::NetworkTrouble;
use mezza_mixnet::Service;
use mezza_mixnet::client::ClientError;
use mezza_mixnet::config::Mode;

use super::aside::PartWords;
use super::{CarrierFacts, format_count};
use crate::api::json::HealthLine;
use crate::api::{Exit, Fault, Refused};

/// The text for a note that waits because the privacy budget is exhausted.
pub(super) const BUDGET_SPENT: &str = "waiting: the privacy budget is spent";
/// The text for a note that waits because the budget of calls is exhausted.
pub(super) const CALLS_SPENT: &str =
    "waiting: the budget of calls is spent, and the contact is not there without one";
/// The text for a note that the mixnet has accepted.
pub(super) const HANDED: &str = "in the mixnet";

/// Returns the health line of the mixnet.
pub fn describe_health(trouble: Option<&str>, facts: &CarrierFacts) -> Option<HealthLine> {
    let entry = facts.connections.first()?;
    let good = |text: &str| HealthLine::good("mixnet", text);
    let bad = |text: &str, next| HealthLine::bad("mixnet", text, next);
    Some(if let Some(text) = trouble {
        bad(text, "ask whoever runs your network where it is now")
    } else if facts.doubted {
        bad(
            "this vault is older than what this machine remembers, or came from another one: \
             its budget lacks the rounds since",
            "put a newer copy back, or go on with `mezza mixnet resume --after-restore`",
        )
    } else if let Some(known) = facts.network {
        let (text, next) = self::describe_trouble(known);
        bad(&text, next)
    } else if entry.up {
        let grade = entry.caps.noise.map_or("", describe_noise);
        good(&format!("rounds are taken part in, at level {}{grade}", entry.caps.level))
    } else if facts.alone == 0 {
        good("no round comes back, and no conversation goes by it alone")
    } else {
        let go = format_count(facts.alone as u64, "conversation goes", "conversations go");
        let next = "check the network, or let them take the relay with `mezza set NAME --carriers`";
        bad(&format!("no round comes back, and by it alone {go}"), next)
    })
}

/// Describes why no round returns, and the next step (MSG-123).
pub(crate) fn describe_trouble(trouble: NetworkTrouble) -> (String, &'static str) {
    match trouble {
        NetworkTrouble::Ended { ago_ms } => (
            format!("the config of the network ended {} ago", format_ago(ago_ms)),
            "ask whoever runs your network: its guardians have to sign another config",
        ),
        NetworkTrouble::Clock => (
            "this clock and the network's differ, and no round comes back".into(),
            "set the clock of this machine",
        ),
        NetworkTrouble::Foreign => (
            "the entry server announces rounds of another network, or of a config that it does not \
             give out, and no round comes back"
                .into(),
            "ask whoever runs your network whether it was replaced; a new network has a new link",
        ),
    }
}

fn format_ago(ms: u64) -> String {
    match ms / Time::HOUR_MS {
        0 => "less than an hour".into(),
        hours @ 1..48 => format_count(hours, "hour", "hours"),
        hours => format_count(hours / 24, "day", "days"),
    }
}

/// Returns the name of a noise grade in the interface.
pub(crate) const fn grade_name(grade: NoiseGrade) -> &'static str {
    match grade {
        NoiseGrade::Nothing => "nothing",
        NoiseGrade::Weak => "weak",
        NoiseGrade::Standard => "standard",
    }
}

/// Describes how much the noise of a network protects, as an addition to a line; empty at the
/// standard grade (MSG-122).
pub const fn describe_noise(grade: NoiseGrade) -> &'static str {
    match grade {
        NoiseGrade::Nothing => "; its noise promises nothing: count on no protection",
        NoiseGrade::Weak => "; its noise is below the standard level",
        NoiseGrade::Standard => "",
    }
}

/// Returns [`describe_noise`] for the name of a grade.
pub fn noise_by_name(name: Option<&str>) -> &'static str {
    let grades = [NoiseGrade::Nothing, NoiseGrade::Weak, NoiseGrade::Standard];
    let grade = grades.into_iter().find(|grade| name == Some(grade_name(*grade)));
    grade.map_or("", describe_noise)
}

/// Describes that the entry server has another key than the config.
pub fn other_key(address: &str) -> String {
    format!(
        "{address} shows another key than the config of the network names: it serves another \
         network, or somebody is in between"
    )
}

/// Returns the name of a noise law in the command line and the interface.
pub const fn law_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Gauss => "gauss",
        Mode::Paper => "paper",
    }
}

/// Returns the name of a service in the interface.
pub(crate) const fn service_name(service: Service) -> &'static str {
    match service {
        Service::Conversation => "conversation",
        Service::Call => "call",
        Service::Invitation => "invitation",
    }
}

/// Returns the fault that a mixnet was joined before.
pub(super) fn already_joined() -> Fault {
    let next = "`mezza mixnet status` shows it, `mezza mixnet leave` leaves it";
    Fault::new(Exit::No, "this home is in a mixnet already", next)
}

/// Refuses because no mixnet was joined.
pub fn not_joined() -> Refused {
    let next = "join one with `mezza mixnet join LINK`; its operator gives you the link";
    Refused::new("no_mixnet", Fault::new(Exit::NotFound, "this home is in no mixnet", next))
}

/// Returns the fault for a text that is not the address of a network.
pub(in crate::api) fn no_link() -> Fault {
    let text = "this is no link to a mixnet";
    Fault::new(Exit::Malformed, text, "write it like mezza-net:1:HASH@host:port")
}

pub(super) fn too_many_networks() -> Fault {
    let text = "this home has left 32 mixnets and remembers what was spent in each";
    let next = "join one of those again, or use another folder with `--home DIR`";
    Fault::new(Exit::No, text, next)
}

pub(super) fn set_aside() -> Fault {
    let text = "the stored data of a mixnet could not be read and is quarantined";
    let next = "install the newest version, and look at `mezza doctor`";
    Fault::new(Exit::Malformed, text, next)
}

pub(super) fn bad_address() -> Fault {
    let text = "the address of the network is longer than 255 bytes";
    let next = "ask whoever gave you the link for a shorter one";
    Fault::new(Exit::Usage, text, next)
}

/// Returns the fault for an error of the network's client.
pub(super) fn client_fault(error: ClientError) -> Fault {
    Fault::new(Exit::Unreachable, error.to_string(), "look at `mezza mixnet status`")
}

/// Describes that a contact has used up its part of the budget.
pub(super) fn talks_too_much(name: &str) -> String {
    format!(
        "{name} has talked in the mixnet for its whole part of this year's privacy budget, and \
         is heard there only while you write to them; write to {name}, or block {name}"
    )
}

/// Describes that a contact was not met while items wait for it.
pub(super) fn is_not_met(name: &str) -> String {
    format!(
        "{name} was not met in the mixnet for ten minutes while something waits for them. They may be \
         away: then it goes on when they are back. If they are there, one of the two vaults is an older \
         copy: begin anew with `mezza ratchet reset NAME`"
    )
}

/// Describes a network that did not load.
pub(super) fn network_aside(called: Option<&str>) -> PartWords {
    let next = "install the newest version; until then notes go by the relay where the \
                conversation allows it, and else wait";
    ("mixnet".into(), network_name(called), next)
}

/// Describes rows of the network's client that did not load.
pub(super) fn rows_aside(called: Option<&str>) -> PartWords {
    let next = "nothing is to be done, unless notes of a contact wait for hours: then begin \
                anew with `mezza ratchet reset NAME`";
    ("mixnet rows".into(), format!("a part of what happened in {}", network_name(called)), next)
}

/// Describes networks left earlier that did not load.
pub(super) fn left_aside(called: Option<&str>) -> PartWords {
    let what = called.map_or("a mixnet that was left".into(), |called| {
        format!("what was spent in the mixnet {called}, which was left,")
    });
    let next = "install the newest version; until then that mixnet is not joined again, as its \
                budget would begin anew";
    ("mixnets left".into(), what, next)
}

fn network_name(called: Option<&str>) -> String {
    called.map_or("the mixnet".into(), |called| format!("the mixnet {called}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::CarrierId;
    use mezza_messenger::io::Places;
    use mezza_messenger::view::ConnectionView;

    fn facts_of_nothing() -> CarrierFacts {
        let connections = Vec::new();
        let date = Time::default();
        CarrierFacts { connections, date, alone: 0, doubted: false, network: None }
    }

    /// Returns the health line of a joined network: true if all is well, and its text.
    fn line(trouble: Option<&str>, doubted: bool, up: bool, alone: usize) -> (bool, String) {
        let caps = mezza_messenger::carriers::relay::CAPS;
        let carrier = CarrierId::MIXNET;
        let places = Places::default();
        let entry =
            ConnectionView { carrier, relay: None, own: true, up, places, left: None, caps };
        let facts = CarrierFacts { connections: vec![entry], alone, doubted, ..facts_of_nothing() };
        describe_health(trouble, &facts).map(|line| (line.ok, line.text)).unwrap()
    }

    #[test]
    fn the_worst_is_said_first() {
        let facts = CarrierFacts { alone: 1, doubted: true, ..facts_of_nothing() };
        assert!(describe_health(None, &facts).is_none(), "no network was joined");
        assert_eq!(
            line(Some("it is another one"), true, true, 0),
            (false, "it is another one".into())
        );
        let (ok, text) = line(None, true, true, 0);
        assert!(!ok && text.starts_with("this vault is older"));
        let (ok, text) = line(None, false, true, 3);
        assert!(ok && text.starts_with("rounds are taken part in, at level "));
        let text = "no round comes back, and no conversation goes by it alone";
        assert_eq!(line(None, false, false, 0), (true, text.into()));
        let text = "no round comes back, and by it alone 1 conversation goes";
        assert_eq!(line(None, false, false, 1), (false, text.into()));
    }

    #[test]
    fn msg_123_a_network_without_rounds_is_no_good_health() {
        let caps = mezza_messenger::carriers::relay::CAPS;
        let carrier = CarrierId::MIXNET;
        let places = Places::default();
        let known = |network| {
            let up = ConnectionView {
                carrier,
                relay: None,
                own: true,
                up: true,
                places,
                left: None,
                caps,
            };
            let connections = vec![up];
            let facts = CarrierFacts { connections, network: Some(network), ..facts_of_nothing() };
            describe_health(None, &facts).map(|line| (line.ok, line.text)).unwrap()
        };
        let (ok, text) = known(NetworkTrouble::Foreign);
        assert!(!ok && text.contains("another network"), "{text}");
        let (ok, text) = known(NetworkTrouble::Clock);
        assert!(!ok && text.contains("differ"), "{text}");
        for (ago_ms, words) in [(1, "less than an hour ago"), (49 * Time::HOUR_MS, "2 days ago")] {
            let (ok, text) = known(NetworkTrouble::Ended { ago_ms });
            assert!(!ok && text.ends_with(words), "{text}");
        }
    }

    #[test]
    fn msg_122_each_grade_of_noise_has_one_text() {
        for grade in [NoiseGrade::Nothing, NoiseGrade::Weak, NoiseGrade::Standard] {
            assert_eq!(noise_by_name(Some(grade_name(grade))), describe_noise(grade));
        }
        assert!(describe_noise(NoiseGrade::Nothing).contains("no protection"));
        assert!(describe_noise(NoiseGrade::Weak).contains("below the standard level"));
        assert_eq!((describe_noise(NoiseGrade::Standard), noise_by_name(None)), ("", ""));
    }
}
