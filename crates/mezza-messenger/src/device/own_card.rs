//! Our card: its limits, and its agreement with the carriers.

use alloc::string::String;

use mezza_core::{CryptoRng, Time};

use super::{Components, Turn};
use crate::card::{Card, CardError, RelayEntry};
use crate::carriers::{CardPlan, Port};
use crate::contacts::ContactPhase;
use crate::error::{DeviceError, PersonError};
use crate::io::{CardParts, Event};
use crate::name::looks_like_number;
use crate::outbox::Owe;

/// Checks that this name may be on our card.
///
/// # Errors
/// [`PersonError::BadName`] if not.
pub(super) fn check_name(name: &str) -> Result<(), DeviceError> {
    // A name like `#2` would look like the number of a contact.
    if looks_like_number(name) { Err(DeviceError::Person(PersonError::BadName)) } else { Ok(()) }
}

/// Returns the change of our card that these relays would cause.
///
/// # Errors
/// A carrier refuses one of the relays.
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
pub(super) fn collect_card_parts(carriers: &impl Port, plan: &CardPlan, now: Time) -> CardParts {
    let further = carriers.collect_all(|one| one.card_part(now));
    CardParts { relays: plan.relays().to_vec(), further }
}

impl<P: Port> Components<P> {
    /// Issues a card with this name and these relays. Returns the card with its plan, without
    /// adopting it.
    ///
    /// # Errors
    /// A carrier refuses the relays, or the name or the relays do not fit on a card.
    pub(super) fn draft_card(
        &self,
        name: &str,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Card, CardPlan), DeviceError> {
        let plan = plan_card(&self.carriers, relays, now, rng)?;
        let parts = collect_card_parts(&self.carriers, &plan, now);
        let card = self.profile.issue_card(name, parts, now, rng).map_err(map_card_error)?;
        Ok((card, plan))
    }
}

/// Converts the error of a card that we tried to issue.
pub(super) fn map_card_error(error: CardError) -> DeviceError {
    if error == CardError::Name {
        DeviceError::Person(PersonError::BadName)
    } else {
        DeviceError::Person(PersonError::TooManyRelays)
    }
}

impl<P: Port> Turn<'_, P> {
    /// Issues our card again with the present parts of the carriers, and the same name and relays.
    pub(super) fn reissue_card(&mut self) {
        let card = self.device.profile.card();
        let name = String::from(card.name());
        let relays = card.relays().to_vec();
        let drafted = self.device.draft_card(&name, &relays, self.ctx.now, self.ctx.rng);
        if let Ok((card, plan)) = drafted {
            self.adopt_card(card, plan);
        }
    }

    /// Adopts a new card of our own, and owes it to every contact that was written to.
    pub(super) fn adopt_card(&mut self, card: Card, mut plan: CardPlan) {
        self.device.profile.adopt_card(card, self.ctx.effects);
        self.notify_carriers(|one, ctx| one.adopt_plan(&mut plan, ctx));
        for (id, contact) in self.device.contacts.iter() {
            // A contact that was written to has the former card, whether it answered or not
            // (MSG-155). Others get this one with the first note.
            if contact.is_ours() && contact.phase != ContactPhase::Held {
                self.device.outbox.owe(id, Owe::Card, self.ctx.effects);
            }
        }
        self.ctx.effects.touch_all();
        self.ctx.effects.show(Event::Card);
    }

    /// Adds the part of each carrier to our card as soon as it is known, and removes it with the
    /// carrier.
    pub(super) fn follow_carriers(&mut self) {
        let card = self.device.profile.card();
        let relays = card.relays();
        let plan = plan_card(&self.device.carriers, relays, self.ctx.now, self.ctx.rng);
        let Ok(plan) = plan else { return };
        let further = collect_card_parts(&self.device.carriers, &plan, self.ctx.now).further;
        let known =
            card.further_parts().eq(further.iter().map(|(kind, part)| (*kind, part.as_slice())));
        // An unchanged card must not get a new serial: it would be sent to all contacts.
        if !known {
            self.reissue_card();
        }
    }
}
