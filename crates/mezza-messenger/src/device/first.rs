//! The start of a session: from a contact's bundle, or with an invitation.

use alloc::vec::Vec;

use mezza_core::{Time, Wiping};
use mezza_ratchet::prekeys::BUNDLE_VALID_D;
use mezza_ratchet::{BundleError, CheckedBundle, OneTimePrekey, Padding, SuiteList};

use super::{Parts, contact};
use crate::carriers::Port;
use crate::evidence::WaitReason;
use crate::io::{
    At, CarrierId, ContactId, DeliveryProblem, Event, FirstTerms, Forget, ResetCause, Route,
};
use crate::note::Note;
use crate::outbox::{Owe, Parcel};
use crate::sessions::{HeldBundle, Sessions};

/// Longest remaining lifetime of a fresh bundle in milliseconds, if the issuer's clock is a day
/// ahead.
const BUNDLE_MS_MAX: u64 = (BUNDLE_VALID_D + 1) * Time::DAY_MS;

/// Handles the fetched bundle of a contact: checks it against the card and begins a session.
pub(super) fn begin_session<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    bundle: &[u8],
    one_time: Option<OneTimePrekey>,
    at: &mut At<'_>,
) {
    let Some(contact) = parts.contacts.get(id) else { return };
    // A bundle from the relay is accepted only if the identity key of the card signed it (MSG-8).
    let checked = Sessions::<P::Backend>::check_bundle(
        &contact.card,
        bundle,
        &SuiteList::our_suites(),
        at.now,
    );
    if let Err(error) = checked.and_then(|checked| begin_from(parts, id, checked, one_time, at)) {
        parts.contacts.report_trouble(id, DeliveryProblem::Bundle(error), at.step);
    }
    at.step.touch(id);
}

/// Begins a session and returns its exporter.
fn begin_from<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    bundle: CheckedBundle,
    one_time: Option<OneTimePrekey>,
    at: &mut At<'_>,
) -> Result<mezza_ratchet::Exporter, BundleError> {
    let spk = *bundle.spk();
    let not_after = bundle.not_after();
    let begun = parts.sessions.begin_session(id, bundle, one_time, at)?;
    parts.carriers.notify_all(|one| one.on_session_begun(id, spk, not_after, at));
    parts.outbox.owe(id, Owe::Hello, at.step);
    parts.contacts.clear_trouble(id, |_| true, at.step);
    // Notes sealed in the old session may not have arrived.
    if begun.again {
        contact::requeue_notes(parts, id, at);
    }
    Ok(begun.exporter)
}

/// Handles a bundle that an invitation waits for.
pub(super) fn hold_bundle<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    bytes: &[u8],
    one_time: Option<OneTimePrekey>,
    at: &mut At<'_>,
) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let suites = SuiteList::without_kem();
    // Checked on arrival, so that an unusable bundle does not wait for days (MSG-8).
    let held = HeldBundle::new(bytes, one_time).and_then(|held| {
        Sessions::<P::Backend>::check_bundle(&contact.card, &held.bytes, &suites, at.now)
            .map(|_| held)
    });
    match held {
        Ok(held) => parts.sessions.hold_bundle(id, held, at.step),
        Err(error) => parts.contacts.report_trouble(id, DeliveryProblem::Bundle(error), at.step),
    }
}

/// Handles a bundle that a contact sent (MSG-100). An upgrade to the better suite of a fetched
/// bundle is tried first.
pub(super) fn on_bundle_received<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    bytes: &[u8],
    at: &mut At<'_>,
) {
    upgrade_suite(parts, id, at);
    let Some(contact) = parts.contacts.get(id).filter(|contact| contact.is_ours()) else { return };
    let suites = SuiteList::our_suites();
    let held = parts.sessions.held_bundle(id);
    let check = |bytes| Sessions::<P::Backend>::check_bundle(&contact.card, bytes, &suites, at.now);
    // The bundle is repeated after each session, so an equal one needs no check.
    if held.is_some_and(|held| held.bytes == bytes) {
        return;
    }
    // A malformed bundle is counted and dropped (MSG-100).
    let Ok(new) = check(bytes) else { return parts.threads.count_malformed() };
    let old = held.filter(|held| held.told).and_then(|held| check(&held.bytes).ok());
    // A bundle that ends too late is from a clock that is ahead, or our clock is behind. It is
    // kept, because the contact sends it only once, but every other bundle is preferred (MSG-110).
    let latest = at.now.plus_ms(BUNDLE_MS_MAX);
    let end = |bundle: &CheckedBundle| Some(bundle.not_after()).filter(|end| *end <= latest);
    // Notes may arrive out of order, so the bundle that ends later is kept.
    if old.as_ref().and_then(end) <= end(&new) {
        parts.sessions.hold_bundle(id, HeldBundle::from_contact(bytes), at.step);
    }
}

/// Begins a session from the bundle that a contact sent, if no carrier of the conversation can
/// fetch one at this pin (MSG-100).
pub(super) fn begin_from_told<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    pin: u8,
    at: &mut At<'_>,
) {
    let Some(held) = parts.sessions.held_bundle(id).filter(|held| held.told) else {
        return stay_in_session(parts, id, pin, at);
    };
    let Some(contact) = parts.contacts.get(id) else { return };
    // A fetched bundle has a one-time key and is preferred (MSG-100).
    if parts.sessions.session_facts(id).is_usable() || is_bundle_fetched(parts, id, pin) {
        return;
    }
    let card = &contact.card;
    let ours = SuiteList::our_suites();
    let checked = Sessions::<P::Backend>::check_bundle(card, &held.bytes, &ours, at.now);
    if checked.and_then(|checked| begin_from(parts, id, checked, None, at)).is_err() {
        // The bundle has expired, or the card has changed: the note waits for keys.
        parts.sessions.drop_held(id, at.step);
    }
}

/// Keeps the present session when a message did not open and no bundle for another session can be
/// had. The request for lost messages is sent in it: the contact may still have the session, and
/// sends its bundle with the answer.
fn stay_in_session<P: Port>(parts: &mut Parts<P>, id: ContactId, pin: u8, at: &mut At<'_>) {
    let facts = parts.sessions.session_facts(id);
    // Only a loss can be repaired inside the session. A restored vault needs new keys.
    let lost = parts.outbox.owed(id).and_then(|owed| owed.anew) == Some(ResetCause::Lost as u8);
    // Any other cause, such as a restored vault, needs keys that no other copy has, so it waits for
    // a bundle.
    if lost && facts.renew && facts.id.is_some() && !is_bundle_fetched(parts, id, pin) {
        parts.sessions.keep_session(id, at.step);
    }
}

/// Returns true if a carrier of the conversation fetches the contact's bundle at this pin.
fn is_bundle_fetched<P: Port>(parts: &Parts<P>, id: ContactId, pin: u8) -> bool {
    let (Some(to), Some(contact)) = (parts.contact_facts(id), parts.contacts.get(id)) else {
        return false;
    };
    let candidates = contact.policy.candidates().iter();
    candidates
        .filter_map(|by| parts.carriers.carrier(*by))
        .any(|one| one.can_fetch_bundle(&to, pin))
}

/// Returns our bundle if it must be sent to a contact over this carrier: the carrier cannot fetch
/// bundles, or the contact sent its own one (MSG-100).
pub(super) fn to_tell<P: Port>(
    parts: &Parts<P>,
    id: ContactId,
    carrier: CarrierId,
    pin: u8,
) -> Option<Vec<u8>> {
    let contact = parts.contacts.get(id).filter(|contact| contact.is_open())?;
    let to = parts.contact_facts(id)?;
    let told = parts.sessions.held_bundle(id).is_some_and(|held| held.told);
    let listed = contact.policy.candidates().contains(&carrier);
    let carrier = parts.carriers.carrier(carrier);
    let is_fetched = carrier.is_some_and(|one| one.can_fetch_bundle(&to, pin));
    // A contact that can fetch our bundle does not need it in a note (MSG-100).
    (listed && (told || !is_fetched)).then(|| parts.sessions.to_tell(id))?
}

/// Handles a session reset by the user for a contact that is not met in the mixnet. If only the
/// mixnet serves the conversation, another session in the same chains would not reach the contact
/// either. The contact is invited again, from the bundle that it sent (MSG-130).
pub(super) fn leave_lost_chains<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let trouble = parts.carriers.all_carriers().find_map(|one| one.trouble(id));
    let is_lost = trouble == Some(DeliveryProblem::Absent);
    let is_told = parts.sessions.held_bundle(id).is_some_and(|held| held.told);
    if is_lost && is_told && !is_bundle_fetched(parts, id, contact.policy.level_min) {
        parts.carriers.notify_all(|one| one.forget_contact(id, Forget::Chains, at));
        contact::requeue_notes(parts, id, at);
    }
}

/// Begins a session with the suites that fit into an invitation, and seals the invitation. Returns
/// the reason why later notes wait.
pub(super) fn begin_invitation<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    carrier: CarrierId,
    terms: &FirstTerms,
    at: &mut At<'_>,
) -> WaitReason {
    let (Some(held), Some(contact)) = (parts.sessions.held_bundle(id), parts.contacts.get(id))
    else {
        return WaitReason::Keys;
    };
    if contact.is_open() && is_bundle_fetched(parts, id, contact.policy.level_min) {
        // Another carrier of the conversation begins the session, with a one-time key (MSG-100).
        return WaitReason::Keys;
    }
    let checked =
        Sessions::<P::Backend>::check_bundle(&contact.card, &held.bytes, &terms.suites, at.now);
    // An expired bundle is dropped, so that the next fetch replaces it.
    if checked.as_ref().is_err_and(|error| *error == BundleError::Expired) {
        parts.sessions.drop_held(id, at.step);
        return WaitReason::Keys;
    }
    match checked.and_then(|checked| {
        let until = checked.not_after().plus_ms(terms.beyond_ms);
        let one_time = parts.sessions.take_one_time(id, at.step);
        Ok((until, begin_from(parts, id, checked, one_time, at)?))
    }) {
        Ok((until, exporter)) => {
            let route = Route { carrier, until: Some(until), invitation: true, address: [].into() };
            // The message does not have the exact size of an invitation, so the notes wait for
            // other keys.
            if !send_invitation(parts, id, terms, route, at) {
                return WaitReason::Keys;
            }
            // The better suite is negotiated later from the same bundle, fetched or sent by the
            // contact.
            parts.sessions.hold_for_upgrade(id, at.step);
            if let Some((to, carriers)) = parts.facts_for_carriers(id) {
                let mut exporter = Some(exporter);
                carriers.notify_all(|one| one.on_items_sent(&to, &terms.items, &mut exporter, at));
            }
            WaitReason::Answer
        }
        Err(error) => {
            parts.contacts.report_trouble(id, DeliveryProblem::Bundle(error), at.step);
            WaitReason::Bundle
        }
    }
}

/// Seals an invitation. Returns true if it has the right size.
fn send_invitation<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    terms: &FirstTerms,
    route: Route,
    at: &mut At<'_>,
) -> bool {
    let era = contact::own_era(parts, id);
    let items = terms.items.clone();
    // The note has no number, because nothing confirms that an invitation was read.
    let note = Note { era, seq: 0, sent: at.now, timer_s: 0, items };
    let body: Wiping<_> = note.encode();
    let padding = [Padding::To(terms.bytes)];
    match parts.sessions.seal_message(id, &body, &padding, &[], at) {
        // Another length would show that this is no invitation.
        Ok(message) if message.len() == terms.bytes => {
            parts.outbox.add_parcel(Parcel::new(id, None, route, message), at.now, at.step);
            true
        }
        _ => false,
    }
}

/// Replaces the session of an invitation by one of a better suite, after the contact has answered
/// and if both support it. The initiator of the active session begins the better one. If both sides
/// invited, and each continues in the session of the other, no side does.
pub(super) fn upgrade_suite<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id).filter(|contact| contact.is_open()) else { return };
    let Some(held) = parts.sessions.held_bundle(id).filter(|held| !held.told) else { return };
    let checked = Sessions::<P::Backend>::check_bundle(
        &contact.card,
        &held.bytes,
        &SuiteList::our_suites(),
        at.now,
    );
    // Tried once: a bundle that is unusable now stays unusable.
    parts.sessions.drop_held(id, at.step);
    let (Ok(checked), Some(active)) = (checked, parts.sessions.summary(id)) else { return };
    // Only a better suite is worth another session, and only one side begins it.
    if checked.suite() <= active.suite || !active.initiator {
        return;
    }
    if begin_from(parts, id, checked, None, at).is_ok() {
        at.step.show(Event::Contact(id));
    }
}
