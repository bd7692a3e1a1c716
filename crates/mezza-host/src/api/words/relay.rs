//! Texts about relays.

use mezza_core::Time;
use mezza_messenger::MailboxId;
use mezza_messenger::card::RelayKey;
use mezza_messenger::io::Places;
use mezza_messenger::view::ConnectionView;
use mezza_ratchet::{BundleError, SuiteList};

use super::aside::PartWords;
use super::format_count;
use crate::api::json::HealthLine;
use crate::api::{Exit, Fault};

/// The text for a note that a relay has accepted.
pub(super) const HANDED: &str = "the relay took it";

/// The text for a note that waits because the contact's keys were refused.
pub(super) const BUNDLE_REFUSED: &str = "waiting: their keys at the relay were refused";
/// The text for a note that waits because the contact's mailbox is gone.
pub(super) const BOX_GONE: &str = "waiting: their mailbox is gone, ask them for a new card";
/// The text for a note that waits because the contact's mailbox is full.
pub(super) const BOX_FULL: &str = "waiting: their mailbox is full";
/// The text for a note that waits because the relay limits the rate.
pub(super) const SLOW: &str = "waiting: the relay asks for patience";

/// Returns the health line of relays.
pub fn describe_health(trouble: Option<&str>, connections: &[ConnectionView]) -> HealthLine {
    let bad = |text, next| HealthLine::bad("relay", text, next);
    if let Some(trouble) = trouble {
        // The text of this trouble already ends with the next step.
        let (text, next) = trouble.rsplit_once("; ").unwrap_or((trouble, "try again later"));
        return bad(text, next);
    }
    // A replaced relay has its own line.
    let in_use: Vec<_> = connections.iter().filter(|relay| relay.left.is_none()).collect();
    match (in_use.iter().filter(|relay| relay.up).count(), in_use.len()) {
        (_, 0) => bad(
            "your card names none, so notes come over the mesh alone",
            "choose one: `mezza card renew --relay`",
        ),
        (0, _) => bad("not reachable", "check the network; notes wait until then"),
        (up, all) => HealthLine::good("relay", &format!("{up} of {all} up")),
    }
}

/// Returns the line of a replaced relay that is not reachable (MSG-133). This is no failure of this
/// home: new cards name another relay, and the old mailboxes expire by themselves.
pub fn left_line(connection: &ConnectionView, date: Time) -> Option<HealthLine> {
    let relay = connection.relay.as_ref()?;
    let left = connection.left?;
    if connection.up {
        return None;
    }
    let days = format_count(left.until.since_ms(date).div_ceil(Time::DAY_MS), "day", "days");
    let host = &relay.host;
    let port = relay.port;
    let rest = if left.read > 0 {
        let mailboxes = format_count(left.read.into(), "mailbox", "mailboxes");
        format!(
            "only contacts that do not know your newest card write there: {mailboxes}, read for {days}"
        )
    } else {
        let mailboxes = format_count(left.closing.into(), "mailbox", "mailboxes");
        format!("nothing is read there; it is asked to close {mailboxes} for {days}")
    };
    let text = format!("{host}:{port}, which your card named before, is not reachable; {rest}");
    Some(HealthLine::good("old relay", &text))
}

/// Returns the line of our mailboxes, as reported by their relay. `confirmed` is true if the relays
/// have confirmed the requests that open mailboxes and publish keys.
pub fn mailbox_line(connections: &[ConnectionView], confirmed: bool) -> Option<HealthLine> {
    let bad = |text: &str, next| HealthLine::bad("mailbox", text, next);
    let own = connections.iter().find(|relay| relay.up && relay.own)?;
    let Places { all, here, elsewhere } = own.places;
    let of_all = format_count(all.into(), "mailbox", "mailboxes");
    Some(if elsewhere > 0 {
        bad(
            &format!("another device reads {elsewhere} of your {of_all}: notes go there"),
            "stop the other copy of this vault; they come here again once it is gone",
        )
    } else if here < all {
        bad(
            &format!("the relay brings the mail of {here} of your {of_all}"),
            "it is asked again within a minute; then restart the relay",
        )
    } else if confirmed {
        let text = format!("{here} of {all} open at the relay; new contacts can reach you");
        HealthLine::good("mailbox", &text)
    } else {
        bad("not confirmed by the relay yet", "look again in a moment")
    })
}

/// Returns the line of the one-time keys that are left for others.
pub fn stock_line(stock: u16) -> HealthLine {
    let text = match stock {
        0 => "no one-time keys at the relay yet; first notes to you go without one".into(),
        n => format_count(n.into(), "one-time key", "one-time keys") + " left at the relay",
    };
    HealthLine::good("keys", &text)
}

/// Returns the first eight digits of a key, as users compare them: `5F3A-91C0`.
pub fn key_digits(key: &RelayKey) -> String {
    let hex = data_encoding::HEXUPPER.encode(&key.0[..4]);
    format!("{}-{}", &hex[..4], &hex[4..])
}

/// Returns the fault for the address of a relay in the place of a card.
pub(in crate::api) fn no_card() -> Fault {
    let text = "this is the address of a relay, not a card";
    let next = "give it to `mezza init --relay` or, later, to `mezza card renew --relay`; or ask for a card";
    Fault::new(Exit::Malformed, text, next)
}

/// Returns the fault for a card without a relay in the place of a relay's address.
pub(in crate::api) fn no_relay_on_card() -> Fault {
    let text = "this card names no relay that you could share";
    let next = "ask its owner for the address of a relay, or run one: `mezza relay init`";
    Fault::new(Exit::Malformed, text, next)
}

/// Describes that the mailbox of a contact is gone.
pub(super) fn box_gone(name: &str) -> String {
    format!("the mailbox of {name} does not exist any more; ask them for a new card")
}

/// Describes a fault in the keys of a contact.
pub(super) fn bundle_words(error: BundleError, name: &str) -> String {
    match error {
        BundleError::SuiteDowngrade { offered, pinned } => format!(
            "the card of {name} lists {pinned}, the keys at the relay only {offered}: somebody may \
             be trying to weaken this conversation. Nothing was sent; ask {name} for the card again"
        ),
        BundleError::NoCommonSuite { offered, ours } => format!(
            "{name} offers only {offered}, this program knows {ours}. Nothing was sent; {}",
            who_updates(&offered, &ours, name)
        ),
        BundleError::Expired => format!(
            "the keys of {name} at the relay have expired: their device was off for weeks. Nothing \
             was sent; the note waits until they are online again"
        ),
        BundleError::BadSignature => format!(
            "the keys at the relay are not signed by {name}: do not go on over this relay. Nothing \
             was sent; ask {name} over another way, and compare numbers"
        ),
        BundleError::BadKey | BundleError::BadId(_) => format!(
            "the relay gave keys for {name} that no honest device makes. Nothing was sent; ask \
             {name} over another way"
        ),
        BundleError::Malformed | BundleError::NoKem => format!(
            "the relay gave keys for {name} that cannot be read. Nothing was sent; it is tried \
             again, and if it stays, ask the operator of the relay"
        ),
    }
}

/// Names the side that must update its program. A higher suite number is newer (section "Parties
/// and keys" of the ratchet's document).
fn who_updates(offered: &SuiteList, ours: &SuiteList, name: &str) -> String {
    if offered.ids().first() > ours.ids().first() {
        "update Mezzavoce here, then write again".into()
    } else {
        format!("ask {name} to update Mezzavoce")
    }
}

/// Describes a mailbox of ours that did not load.
pub(super) fn mailbox_aside(id: MailboxId) -> PartWords {
    let next = "install the newest version; another mailbox stands in for it";
    (format!("mailbox {}", id.0), "an own mailbox".into(), next)
}

pub(super) fn too_many() -> Fault {
    Fault::new(Exit::Usage, "a card holds one relay", "leave out the others")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::CarrierId;
    use mezza_messenger::card::RelayEntry;
    use mezza_messenger::carriers::relay::CAPS;
    use mezza_messenger::io::LeftRelay;
    use mezza_messenger::relay_wire::MailboxAddress;

    fn relay(own: bool, up: bool, places: [u32; 3]) -> ConnectionView {
        let [all, here, elsewhere] = places;
        let places = Places { all, here, elsewhere };
        let carrier = CarrierId::RELAY;
        let relay = None;
        let left = None;
        ConnectionView { carrier, relay, own, up, places, left, caps: CAPS }
    }

    #[test]
    fn msg_133_a_replaced_relay_that_is_off_is_no_failure() {
        let date = Time::from_ms(1_000 * Time::DAY_MS);
        let entry = RelayEntry {
            key: RelayKey([7; 32]),
            address: MailboxAddress([0; 16]),
            host: "old.example".into(),
            port: 7101,
        };
        let old = |read, closing, up| {
            let left = LeftRelay { read, closing, until: date.plus_ms(29 * Time::DAY_MS + 1) };
            let left = Some(left);
            let relay = Some(entry.clone());
            ConnectionView { left, relay, ..super::tests::relay(false, up, [0; 3]) }
        };
        let line = left_line(&old(2, 1, false), date).unwrap();
        assert!(line.ok && line.text.ends_with("write there: 2 mailboxes, read for 30 days"));
        let line = left_line(&old(0, 1, false), date).unwrap();
        assert!(line.ok && line.text.ends_with("to close 1 mailbox for 30 days"), "{}", line.text);
        assert!(left_line(&old(2, 0, true), date).is_none(), "all is well there");
        assert!(left_line(&relay(true, false, [0; 3]), date).is_none(), "it is in use");
        let said = super::describe_health(None, &[relay(true, true, [0; 3]), old(2, 0, false)]);
        assert_eq!((said.ok, said.text.as_str()), (true, "1 of 1 up"));
    }

    #[test]
    fn the_relays_of_a_card_are_counted() {
        let said = |trouble, relays: &[ConnectionView]| {
            let line = describe_health(trouble, relays);
            (line.ok, line.text, line.next)
        };
        let [up, down] = [true, false].map(|up| relay(true, up, [0; 3]));
        assert!(said(None, &[]).1.starts_with("your card names none"));
        assert_eq!(said(None, std::slice::from_ref(&down)).1, "not reachable");
        assert_eq!(said(None, &[up.clone(), down]), (true, "1 of 2 up".into(), None));
        let trouble = said(Some("no; name; look there"), &[up]);
        assert_eq!(trouble, (false, "no; name".into(), Some("look there".into())));
    }

    #[test]
    fn own_mailboxes_are_here_or_elsewhere_or_not_confirmed() {
        let said = |relays: &[ConnectionView], confirmed| {
            mailbox_line(relays, confirmed).map(|line| (line.ok, line.text))
        };
        let stranger = relay(false, true, [0; 3]);
        assert_eq!(said(&[stranger.clone(), relay(true, false, [2; 3])], true), None);
        for (places, confirmed, ok, text) in [
            ([2, 1, 1], true, false, "another device reads 1 of your 2 mailboxes: notes go there"),
            ([2, 1, 0], true, false, "the relay brings the mail of 1 of your 2 mailboxes"),
            ([2, 2, 0], false, false, "not confirmed by the relay yet"),
            ([2, 2, 0], true, true, "2 of 2 open at the relay; new contacts can reach you"),
        ] {
            let relays = [stranger.clone(), relay(true, true, places)];
            assert_eq!(said(&relays, confirmed), Some((ok, text.into())));
        }
    }
}
