//! What the person asks for. Everything is checked before anything changes (MSG-36).

mod contacts;
mod notes;

use alloc::string::String;
use alloc::vec::Vec;

use mezza_ratchet::prekeys;

use super::{
    Backend, CryptoRng, Device, DeviceError, Event, Machine, Mailbox, NoteId, RecordKind, Time,
    card_refused, key_recent, key_seen, key32, key64,
};
use crate::card::RelayEntry;
use crate::contact::ContactPhase;
use crate::identity::RELAYS_MAX;
use crate::io::{Command, ContactId};

impl<B: Backend> Device<B> {
    pub(super) fn command(
        &mut self,
        command: Command,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        match command {
            Command::Add { card, petname, in_person } => {
                self.add(card, petname, in_person, now, rng)
            }
            Command::Send { contact, client, text } => self.send(contact, client, text, now),
            Command::Cancel { note } => self.cancel(note, now),
            Command::Forget { note } => self.forget(note),
            Command::Seen { contact, note } => self.seen(contact, note),
            Command::Accept { contact } => self.accept(contact),
            Command::Refuse { contact } => self.refuse(contact, now, rng),
            Command::Rename { contact, name } => self.rename(contact, name),
            Command::Verify { contact, equal } => self.verify(contact, equal, now),
            Command::Policy { contact, policy } => self.policy(contact, policy, now, rng),
            Command::Block { contact, blocked } => self.block(contact, blocked),
            Command::Delete { contact } => self.delete(contact, now, rng),
            Command::Publish { name, relays } => self.reissue(name, &relays, now, rng),
            Command::Reset { contact } => self.reset(contact),
            Command::Rotate => {
                self.renew(prekeys::Input::Rotate, now, rng);
                Ok(())
            }
            Command::Refill => {
                let left = u32::from(self.stock.unwrap_or(0)) + self.stock_under_way();
                self.renew(prekeys::Input::Refill(left), now, rng);
                Ok(())
            }
        }
    }

    /// Fresh prekeys, because the person wants them.
    fn renew(&mut self, wish: prekeys::Input, now: Time, rng: &mut dyn CryptoRng) {
        // A wish is never refused.
        let _ = self.prekeys.handle(wish, now, rng);
        self.drain_prekeys(now, rng);
    }

    /// Another name or other relays: a new card with a higher serial, told to every contact.
    pub(super) fn reissue(
        &mut self,
        name: String,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if relays.len() > RELAYS_MAX {
            return Err(DeviceError::TooManyRelays);
        }
        let mut fresh = Vec::new();
        let mut entries = Vec::new();
        for relay in relays {
            let kept = self.profile.relays.iter().find(|own| own.key == relay.key);
            let mailbox = Mailbox::draw::<B>(None, relay, now, rng);
            let address = kept.map_or(mailbox.relay.address, |own| own.address);
            entries.push(RelayEntry { address, ..relay.clone() });
            if kept.is_none() {
                fresh.push(mailbox);
            }
        }
        let card = self.profile.reissue(&self.identity, &name, &entries, now, rng);
        let card = card.map_err(card_refused)?;
        for slot in self.slots.values_mut().filter(|slot| slot.contact.is_none()) {
            if !entries.iter().any(|entry| entry.address == slot.relay.address) {
                slot.retired.get_or_insert(now);
            }
        }
        (self.profile.card, self.profile.name, self.profile.relays) = (card, name, entries);
        self.move_mailboxes(now);
        for slot in fresh {
            self.dial(&slot.relay.clone(), now);
            self.add_mailbox(slot);
            self.offer_again();
        }
        self.store_profile();
        self.tell_all();
        self.show(Event::Card);
        Ok(())
    }

    /// Mailboxes at a relay of ours that is reached by another host or port now are opened there,
    /// and their contacts are told.
    fn move_mailboxes(&mut self, now: Time) {
        for relay in self.profile.relays.clone() {
            let there =
                |slot: &Mailbox| slot.relay.key == relay.key && !slot.relay.shares_line(&relay);
            let moved = self.slots.iter().filter(|(_, slot)| there(slot));
            for id in moved.map(|(id, _)| *id).collect::<Vec<_>>() {
                let Some(slot) = self.slots.get_mut(&id) else { continue };
                let to = RelayEntry { address: slot.relay.address, ..relay.clone() };
                let (contact, before) = (slot.contact, core::mem::replace(&mut slot.relay, to));
                self.dial(&relay, now);
                self.leave(&before);
                self.ask_mailbox(id);
                if let Some(contact) = contact {
                    self.greet(contact, id);
                }
            }
        }
    }

    /// The new card goes to everybody with whom we talk.
    fn tell_all(&mut self) {
        let open: Vec<ContactId> = self
            .contacts
            .values_mut()
            .filter_map(|contact| {
                let tells = contact.is_ours() && contact.stage == ContactPhase::Open;
                contact.owed.card |= tells;
                tells.then_some(contact.id)
            })
            .collect();
        for id in open {
            self.store_contact(id);
        }
        let slots: Vec<_> = self.slots.keys().copied().collect();
        for slot in slots {
            self.store_slot(slot);
        }
    }
}
