//! Our card: its limits, and its agreement with the carriers.

use alloc::string::String;

use mezza_core::{CryptoRng, Time};

use super::Parts;
use crate::card::{Card, CardError, RelayEntry};
use crate::carriers::{CardPlan, Port};
use crate::error::{DeviceError, PersonError};
use crate::io::{At, CardParts, Event};
use crate::name::looks_like_number;
use crate::outbox::Owe;

/// Checks that this name may be on our card.
pub(super) fn check_name(name: &str) -> Result<(), DeviceError> {
    // A name like `#2` would look like the number of a contact.
    if looks_like_number(name) { Err(DeviceError::Person(PersonError::BadName)) } else { Ok(()) }
}

/// Returns the change of our card that these relays would cause.
pub(super) fn plan_card(
    carriers: &impl Port,
    relays: &[RelayEntry],
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<CardPlan, DeviceError> {
    // Only one carrier of a set plans relays, so its plan is the whole plan.
    for one in carriers.all_carriers() {
        if let Some(plan) = one.plan_own_card(relays, now, rng)? {
            return Ok(plan);
        }
    }
    Ok(CardPlan::default())
}

/// Returns the parts of our card that the carriers provide after this plan.
pub(super) fn card_parts(carriers: &impl Port, plan: &CardPlan, now: Time) -> CardParts {
    let further = carriers.collect_all(|one| one.card_part(now));
    CardParts { relays: plan.relays().to_vec(), further }
}

/// Issues a card with this name and these relays. Returns it with its plan, without adopting it.
pub(super) fn draft_card<P: Port>(
    parts: &Parts<P>,
    name: &str,
    relays: &[RelayEntry],
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(Card, CardPlan), DeviceError> {
    let plan = plan_card(&parts.carriers, relays, now, rng)?;
    let card_parts = card_parts(&parts.carriers, &plan, now);
    let card = parts.profile.issue_card(name, card_parts, now, rng).map_err(map_card_error)?;
    Ok((card, plan))
}

/// Converts the error of a card that we tried to issue.
pub(super) fn map_card_error(error: CardError) -> DeviceError {
    if error == CardError::Name {
        DeviceError::Person(PersonError::BadName)
    } else {
        DeviceError::Person(PersonError::TooManyRelays)
    }
}

/// Issues our card again with the present parts of the carriers, and the same name and relays.
pub(super) fn reissue_card<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let card = parts.profile.card();
    let name = String::from(card.name());
    let relays = card.relays().to_vec();
    if let Ok((card, plan)) = draft_card(parts, &name, &relays, at.now, at.rng) {
        adopt_card(parts, card, plan, at);
    }
}

/// Adopts a new card of our own, and owes it to every contact in an open conversation.
pub(super) fn adopt_card<P: Port>(
    parts: &mut Parts<P>,
    card: Card,
    mut plan: CardPlan,
    at: &mut At<'_>,
) {
    parts.profile.adopt_card(card, at.step);
    parts.carriers.notify_all(|one| one.adopt_plan(&mut plan, at));
    for (id, contact) in parts.contacts.iter() {
        // Only contacts that answered learn the new card. Others get it with the first note.
        if contact.is_ours() && contact.is_open() {
            parts.outbox.owe(id, Owe::Card, at.step);
        }
    }
    at.step.touch_all();
    at.step.show(Event::Card);
}

/// Adds the part of each carrier to our card as soon as it is known, and removes it with the
/// carrier.
pub(super) fn follow_carriers<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let card = parts.profile.card();
    let Ok(plan) = plan_card(&parts.carriers, card.relays(), at.now, at.rng) else { return };
    let further = card_parts(&parts.carriers, &plan, at.now).further;
    let known =
        card.further_parts().eq(further.iter().map(|(kind, part)| (*kind, part.as_slice())));
    // An unchanged card must not get a new serial: it would be sent to all contacts.
    if !known {
        reissue_card(parts, at);
    }
}
