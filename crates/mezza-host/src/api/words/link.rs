//! Texts about links to the devices of contacts.

use mezza_guard::wire::control::RefusalCode;
use mezza_messenger::PersonError;
use mezza_messenger::carriers::link::GuardTrouble;

use super::{CarrierFacts, format_count};
use crate::api::json::HealthLine;
use crate::api::{Exit, Fault, Refused};

/// The text for a note that a paired device has stored.
pub(super) const HANDED: &str = "on the paired device";

/// The text for a note that waits for the guard.
pub(super) const GUARD_CLOSED: &str =
    "waiting: the guard on the way is not reached, or refuses; nothing goes around it";

/// Returns the refusal for an error of a pairing, or of the address of a paired device.
pub(super) fn describe_refusal(error: PersonError) -> Refused {
    let refused = |word, code, text, next| Refused::new(word, Fault::new(code, text, next));
    match error {
        PersonError::NotPaired => refused(
            "not_paired",
            Exit::No,
            "the device of this contact is not paired",
            "`mezza link pair-contact NAME` pairs with it",
        ),
        PersonError::NeverDialled => refused(
            "never_dialled",
            Exit::No,
            "the device of this contact connects to this one, and needs no address here",
            "set the new address of this device over there",
        ),
        PersonError::BadDeviceAddress => refused(
            "bad_device_address",
            Exit::Usage,
            "the address of the device is empty or longer than 255 bytes",
            "write it as HOST or HOST:PORT",
        ),
        PersonError::PairingBusy => refused(
            "pairing_busy",
            Exit::Busy,
            "another pairing is in progress, and only one is possible at a time",
            "wait until it ends; it takes at most 3 minutes",
        ),
        PersonError::NoDigits => refused(
            "no_digits",
            Exit::No,
            "no digits wait for your answer",
            "run `mezza link pair-contact NAME` again on both devices",
        ),
        PersonError::NoGuard => refused(
            "no_guard",
            Exit::No,
            "this device has joined no guard",
            "`mezza guard join HOST` joins one, with the code that `mezza guard pair` printed there",
        ),
        PersonError::Guarded => refused(
            "guarded",
            Exit::No,
            "the device of this contact is reached through a guard, and a pairing goes around it",
            "`mezza set NAME --guard-dest none` ends that, if this is what you want",
        ),
        PersonError::BadGuardAddress => refused(
            "bad_guard_address",
            Exit::Usage,
            "the address of the guard is empty or longer than 255 bytes",
            "write it as HOST or HOST:PORT",
        ),
        PersonError::BadGuardDest => refused(
            "bad_guard_dest",
            Exit::Usage,
            "this is no number of a destination",
            "use the number that `mezza guard dest add` printed on the guard, 1 to 65519",
        ),
        other => Fault::bug(other.to_string()).into(),
    }
}

/// Returns the health line of the links, or `None` without a pairing and without a listener that
/// has trouble. `trouble` is the reason why this device accepts no connection, `guard` the reason why
/// the guard does not lead to a contact's device.
pub fn describe_health(
    trouble: Option<&str>,
    guard: Option<GuardTrouble>,
    facts: &CarrierFacts,
) -> Option<HealthLine> {
    let bad = |text: &str, next: &str| HealthLine::bad("link", text, next);
    if let Some(trouble) = trouble {
        return Some(bad(trouble, "look at `link_listen` in config.toml, or plug the cable in"));
    }
    if let Some(guard) = guard {
        let (text, next) = describe_guard(guard);
        return Some(bad(text, next));
    }
    let link = facts.connections.first()?;
    Some(if link.up {
        HealthLine::good(
            "link",
            &format!("a paired device is connected, at level {}", link.caps.level),
        )
    } else if facts.alone == 0 {
        HealthLine::good(
            "link",
            "no paired device is connected, and no conversation goes by it alone",
        )
    } else {
        let go = format_count(facts.alone as u64, "conversation goes", "conversations go");
        bad(
            &format!("no paired device is connected, and by it alone {go}"),
            "check the cable, and the address with `mezza link pair-contact NAME --address HOST`",
        )
    })
}

/// Returns the reason why a guard does not lead to a device, and the next step.
fn describe_guard(trouble: GuardTrouble) -> (&'static str, &'static str) {
    let status = "look at `mezza guard status` on the guard";
    match trouble {
        GuardTrouble::Unreachable => (
            "the guard is not reached, and nothing goes around it",
            "start it with `mezza guard run`, or set its address with `mezza guard join HOST`",
        ),
        GuardTrouble::Closed => (
            "the guard closed the connection or gave no answer, and nothing goes around it",
            "pair again: `mezza guard pair` on the guard, `mezza guard join HOST` here",
        ),
        GuardTrouble::Unanswered => {
            ("the guard let the handshake not pass, or the device behind it did not answer", status)
        }
        GuardTrouble::Refused(code) => match code {
            RefusalCode::UnknownDestination => (
                "the guard refuses: the destination is not on its list",
                "add it there with `mezza guard dest add`, and use the number that it prints",
            ),
            RefusalCode::Blocked => ("the guard refuses: the destination is blocked", status),
            RefusalCode::SlotTaken => (
                "the guard refuses: another key was promised to it before",
                "if this device lost its state, run `mezza guard reset-slot` on the guard",
            ),
            RefusalCode::OutOfOrder => (
                "the guard refuses: a frame was out of order",
                "update device and guard to one version",
            ),
            RefusalCode::Unreachable => {
                ("the guard does not reach the device behind it, or connected too often", status)
            }
            RefusalCode::Busy => ("the guard refuses: too many handshakes are in progress", status),
        },
    }
}

#[cfg(test)]
mod tests {
    use mezza_core::Time;
    use mezza_messenger::CarrierId;
    use mezza_messenger::carriers::link::CAPS;
    use mezza_messenger::io::Places;
    use mezza_messenger::view::ConnectionView;

    use super::*;

    #[test]
    fn the_line_of_the_link_follows_its_connections() {
        let facts = |up: Option<bool>, alone| CarrierFacts {
            connections: up
                .map(|up| ConnectionView {
                    carrier: CarrierId::LINK,
                    relay: None,
                    own: true,
                    up,
                    places: Places::default(),
                    left: None,
                    caps: CAPS,
                })
                .into_iter()
                .collect(),
            date: Time::default(),
            alone,
            doubted: false,
            network: None,
        };
        let line = |trouble, up, alone| {
            describe_health(trouble, None, &facts(up, alone)).map(|line| (line.ok, line.text))
        };
        assert_eq!(line(None, None, 0), None);
        assert!(
            line(Some("the interface eth0 has no address"), None, 0).is_some_and(|line| !line.0)
        );
        assert!(line(None, Some(true), 1).is_some_and(|line| line.0));
        let refused = GuardTrouble::Refused(RefusalCode::SlotTaken);
        let closed = describe_health(None, Some(refused), &facts(Some(false), 1));
        assert!(closed.is_some_and(|line| !line.ok && line.text.contains("refuses")));
        assert!(line(None, Some(false), 0).is_some_and(|line| line.0));
        assert!(line(None, Some(false), 1).is_some_and(|line| !line.0));
    }
}
