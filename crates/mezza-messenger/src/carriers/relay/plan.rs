//! Changes of our card: the relays on it, and their intro mailboxes.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Time};

use super::{OwnMailbox, Relay};
use crate::card::RelayEntry;
use crate::error::{DeviceError, PersonError};
use crate::io::Ctx;

/// Most relays on a card that this version issues.
const RELAYS_MAX: usize = 1;

/// The relays of a planned card, and the mailboxes that the card needs.
#[derive(Default)]
pub struct CardPlan {
    entries: Vec<RelayEntry>,
    fresh: Vec<OwnMailbox>,
}

impl CardPlan {
    /// Returns the relays, with the addresses of the intro mailboxes.
    pub fn relays(&self) -> &[RelayEntry] {
        &self.entries
    }
}

impl<B: Backend> Relay<B> {
    /// Plans the intro mailboxes for a card with these relays. The `address` fields of `relays` are
    /// not used.
    pub(super) fn plan_card(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<CardPlan, DeviceError> {
        if relays.len() > RELAYS_MAX {
            return Err(DeviceError::Person(PersonError::TooManyRelays));
        }
        let mut plan = CardPlan { entries: Vec::new(), fresh: Vec::new() };
        for relay in relays {
            let intros = self.mailboxes.values().filter(|own| own.is_intro());
            // The same relay key is the same relay, so its mailbox stays on the card.
            let kept = intros.map(|own| &own.relay).find(|own| own.key == relay.key);
            let mailbox = OwnMailbox::draw::<B>(None, relay, now, rng);
            let address = kept.map_or(mailbox.relay.address, |own| own.address);
            plan.entries.push(RelayEntry { address, ..relay.clone() });
            if kept.is_none() {
                plan.fresh.push(mailbox);
            }
        }
        Ok(plan)
    }

    /// Adopts a card with these relays: intro mailboxes that are not on it retire, new ones are
    /// opened.
    pub(super) fn adopt_card(&mut self, plan: &mut CardPlan, ctx: &mut Ctx<'_>) {
        let old = self.mailboxes.iter_mut().filter(|(_, own)| {
            own.is_intro() && !plan.entries.iter().any(|entry| entry.address == own.relay.address)
        });
        let old: Vec<_> = old.map(|(id, own)| (*id, own.retired = Some(ctx.now)).0).collect();
        for id in old {
            self.store_mailbox(id, ctx.effects);
        }
        for relay in &plan.entries {
            self.move_mailboxes(relay, ctx);
        }
        for mailbox in core::mem::take(&mut plan.fresh) {
            self.connect_relay(&mailbox.relay.clone(), None, ctx);
            self.add_mailbox(mailbox, ctx.effects);
            // A fresh intro mailbox has no bundle yet.
            self.report_unpublished();
        }
        self.leave_relays(&plan.entries, ctx);
    }

    /// Replaces each contact's mailbox at a relay that is no longer on the card by one at our
    /// current relay (MSG-124). The old mailbox is read for 30 more days.
    fn leave_relays(&mut self, card: &[RelayEntry], ctx: &mut Ctx<'_>) {
        // Without a relay of ours no new mailbox can be created.
        if self.own_relay().is_none() {
            return;
        }
        let left = |own: &OwnMailbox| {
            own.contact.is_some()
                && own.retired.is_none()
                && !card.iter().any(|entry| entry.key == own.relay.key)
        };
        let left = self.mailboxes.iter().filter(|(_, own)| left(own)).map(|(id, _)| *id);
        for id in left.collect::<Vec<_>>() {
            self.replace_mailbox(id, ctx);
        }
    }

    /// Moves the mailboxes of a relay that changed its host or port: they are opened at the new
    /// address, and their contacts are notified.
    fn move_mailboxes(&mut self, relay: &RelayEntry, ctx: &mut Ctx<'_>) {
        let there =
            |own: &OwnMailbox| own.relay.key == relay.key && !own.relay.shares_connection(relay);
        let moved = self.mailboxes.iter().filter(|(_, own)| there(own)).map(|(id, _)| *id);
        for id in moved.collect::<Vec<_>>() {
            let Some(own) = self.mailboxes.get_mut(&id) else { continue };
            let to = RelayEntry { address: own.relay.address, ..relay.clone() };
            let contact = own.contact;
            let before = core::mem::replace(&mut own.relay, to);
            self.store_mailbox(id, ctx.effects);
            self.connect_relay(relay, None, ctx);
            self.leave_relay(&before);
            self.ask_mailbox(id);
            if let Some(contact) = contact {
                // The contact must learn the new address, or it writes to the old one.
                self.announce_mailbox(contact, id);
            }
        }
    }
}
