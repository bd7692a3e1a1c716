//! Incoming knocks: first notes that need no session (messenger 4.5).

use mezza_ratchet::SuiteList;

use super::{enter_request, has_room};
use crate::carriers::Port;
use crate::contacts::{Contact, ContactPhase};
use crate::device::knock::open_knock;
use crate::device::{Parts, apply, contact};
use crate::io::{At, By, ContactId, Incoming};
use crate::note::Item;
use crate::sessions::{HeldBundle, Sessions};

/// Requests of unknown senders that knocked, so that a flood without a server leaves room for
/// others (MSG-136).
const KNOCKERS_MAX: usize = 16;

/// Handles a knock. Its card must be of the identity that computed the MAC. A knock that proves
/// nothing is counted and dropped.
pub(super) fn receive_knock<P: Port>(
    parts: &mut Parts<P>,
    knock: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) {
    let Some((note, ik, card)) = open_knock(parts, knock) else {
        return count_rejected(parts, by);
    };
    let bundle = note.items.iter().rev().find_map(|item| match item {
        Item::Bundle(bundle) => Some(bundle.clone()),
        _ => None,
    });
    if let Some(id) = parts.contacts.by_identity(ik.as_bytes()) {
        if parts.contacts.get(id).is_none_or(|contact| contact.blocked) {
            // A blocked contact must cause no effect and no answer, or it learns that it is heard.
            return;
        }
        contact::on_message_arrived(parts, id, by.carrier, true, at);
        let session = parts.sessions.session_facts(id);
        // The contact knocks because it has no session. A confirmed one here is of no use then,
        // but a replayed or late knock must not end sessions at will (MSG-31).
        let is_lost = session.is_usable() && !session.pending;
        if is_lost && parts.outbox.wants_again(id, at.now, at.step) {
            parts.sessions.renew_session(id, at.step);
        }
        apply::apply_note(parts, id, &note, None, by, at);
        hold_bundle(parts, id, bundle.as_deref(), at);
        return;
    }
    let knockers = parts.contacts.iter().filter(|(_, of)| {
        of.phase == ContactPhase::Request && of.policy.carriers.first() == Some(&by.carrier)
    });
    if knockers.count() >= KNOCKERS_MAX || !has_room(parts, &ik, at.now) {
        return count_rejected(parts, by);
    }
    let id = parts.profile.contact_number(at.step);
    parts.sessions.add_contact(id, ik);
    let policy = contact::answered_by(Some((by.carrier, by.level)));
    let contact = Contact::new(card, ContactPhase::Request, policy);
    enter_request(parts, id, contact, &note, by, at);
    hold_bundle(parts, id, bundle.as_deref(), at);
}

fn count_rejected<P: Port>(parts: &mut Parts<P>, by: By) {
    if let Some(one) = parts.carriers.carrier_mut(by.carrier) {
        one.count_rejected();
    }
}

/// Keeps the bundle of a knock, from which the answer begins a session. The next better suite does
/// not use it up.
fn hold_bundle<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    bundle: Option<&[u8]>,
    at: &mut At<'_>,
) {
    let (Some(bundle), Some(contact)) = (bundle, parts.contacts.get(id)) else { return };
    let suites = SuiteList::our_suites();
    let checked = Sessions::<P::Backend>::check_bundle(&contact.card, bundle, &suites, at.now);
    if checked.is_ok() {
        parts.sessions.hold_bundle(id, HeldBundle::from_contact(bundle), at.step);
    }
    at.step.touch(id);
}
