//! The own card: what it may say, and that it says what the carriers do.

use alloc::string::String;

use mezza_core::{CryptoRng, Time};

use super::Parts;
use crate::card::{Card, CardError, RelayEntry};
use crate::carriers::{CardPlan, Port};
use crate::error::{DeviceError, PersonError};
use crate::io::{At, Event};
use crate::name::looks_like_number;
use crate::outbox::Owe;

/// Checks that this name may stand on our card.
pub(super) fn name(name: &str) -> Result<(), DeviceError> {
    // A name like `#2` would look like the number of a contact.
    if looks_like_number(name) { Err(DeviceError::Person(PersonError::BadName)) } else { Ok(()) }
}

/// A card with another name or other relays, and what it needs.
pub(super) fn publish<P: Port>(
    parts: &Parts<P>,
    name: &str,
    relays: &[RelayEntry],
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(Card, CardPlan), DeviceError> {
    let plan = parts.carriers.plan(relays, now, rng)?;
    let card_parts = parts.carriers.card_parts(&plan, now);
    let card = parts.profile.issue(name, card_parts, now, rng).map_err(refused)?;
    Ok((card, plan))
}

/// A card that we tried to issue ourselves.
pub(super) fn refused(error: CardError) -> DeviceError {
    if error == CardError::Name {
        DeviceError::Person(PersonError::BadName)
    } else {
        DeviceError::Person(PersonError::TooManyRelays)
    }
}

/// The own card with what the carriers say now: the same name and relays as before.
pub(super) fn reissue<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let card = parts.profile.card();
    let name = String::from(card.name());
    let relays = card.relays().to_vec();
    if let Ok((card, plan)) = publish(parts, &name, &relays, at.now, at.rng) {
        adopt(parts, card, plan, at);
    }
}

/// Another card of our own: told to everybody with whom we talk.
pub(super) fn adopt<P: Port>(parts: &mut Parts<P>, card: Card, plan: CardPlan, at: &mut At<'_>) {
    parts.profile.adopt(card, at.step);
    parts.carriers.adopt(plan, at);
    for (id, contact) in parts.contacts.iter() {
        // Only contacts that answered learn the new card. Others get it with the first note.
        if contact.is_ours() && contact.is_open() {
            parts.outbox.owe(id, Owe::Card, at.step);
        }
    }
    at.step.touch_all();
    at.step.show(Event::Card);
}

/// Puts the part of each carrier onto our card as soon as it is known. Removes it with the carrier.
pub(super) fn follow_carriers<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let card = parts.profile.card();
    let Ok(plan) = parts.carriers.plan(card.relays(), at.now, at.rng) else { return };
    let further = parts.carriers.card_parts(&plan, at.now).further;
    let known = card.further().eq(further.iter().map(|(kind, part)| (*kind, part.as_slice())));
    // An unchanged card must not get a new serial: it would be sent to all contacts.
    if !known {
        reissue(parts, at);
    }
}
