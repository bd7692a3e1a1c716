//! Words that are of relays alone.

use mezza_messenger::io::Places;
use mezza_messenger::view::ConnectionView;

use super::counted;
use crate::api::json::HealthLine;
use crate::api::{Exit, Fault};

/// Where a note is that a relay took.
pub(super) const HANDED: &str = "the relay took it";

/// The carrier's line in the health of a node.
pub(crate) fn line(trouble: Option<&str>, connections: &[ConnectionView]) -> HealthLine {
    let bad = |text, next| HealthLine::bad("relay", text, next);
    if let Some(trouble) = trouble {
        // The text of the connection ends with the next step already.
        let (text, next) = trouble.rsplit_once("; ").unwrap_or((trouble, "try again later"));
        return bad(text, next);
    }
    match (connections.iter().filter(|relay| relay.up).count(), connections.len()) {
        (_, 0) => bad("your card names none", "`mezza relay uri` at a relay prints its address"),
        (0, _) => bad("not reachable", "check the network; notes wait until then"),
        (up, all) => HealthLine::good("relay", &format!("{up} of {all} up")),
    }
}

/// The line of the own mailboxes, by the answers of their relay. `confirmed`: relays have answered what
/// opens mailboxes and publishes keys.
pub(crate) fn mailbox_line(connections: &[ConnectionView], confirmed: bool) -> Option<HealthLine> {
    let bad = |text: &str, next| HealthLine::bad("mailbox", text, next);
    let own = connections.iter().find(|relay| relay.up && relay.own)?;
    let Places { all, here, elsewhere } = own.places;
    let of_all = counted(all.into(), "mailbox", "mailboxes");
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
        let text = format!("{here} of {all} watched at the relay, with keys for strangers");
        HealthLine::good("mailbox", &text)
    } else {
        bad("not confirmed by the relay yet", "look again in a moment")
    })
}

/// The line of the one-time keys that others can get.
pub(crate) fn stock_line(stock: u16) -> HealthLine {
    let text = match stock {
        0 => "no one-time keys at the relay yet; first notes to you go without one".into(),
        n => counted(n.into(), "one-time key", "one-time keys") + " left at the relay",
    };
    HealthLine::good("keys", &text)
}

pub(super) fn too_many() -> Fault {
    Fault::new(Exit::Usage, "a card holds one relay", "leave out the others")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::CarrierId;
    use mezza_messenger::carriers::relay::CAPS;

    fn relay(own: bool, up: bool, places: [u32; 3]) -> ConnectionView {
        let [all, here, elsewhere] = places;
        let places = Places { all, here, elsewhere };
        ConnectionView { carrier: CarrierId::RELAY, relay: None, own, up, places, caps: CAPS }
    }

    #[test]
    fn the_relays_of_a_card_are_counted() {
        let said = |trouble, relays: &[ConnectionView]| {
            let line = line(trouble, relays);
            (line.ok, line.text, line.next)
        };
        let [up, down] = [true, false].map(|up| relay(true, up, [0; 3]));
        assert_eq!(said(None, &[]).1, "your card names none");
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
            ([2, 2, 0], true, true, "2 of 2 watched at the relay, with keys for strangers"),
        ] {
            let relays = [stranger.clone(), relay(true, true, places)];
            assert_eq!(said(&relays, confirmed), Some((ok, text.into())));
        }
    }
}
