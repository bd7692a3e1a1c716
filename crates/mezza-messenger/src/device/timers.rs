//! What is due: ends of notes, mailboxes, prekeys, sessions, what was kept for a while.

use alloc::vec::Vec;

use super::{Backend, CryptoRng, Device, Event, Machine, MailboxId, NoteId, Time};
use crate::carriers::relay::SLOT_LIFE_MS;
use crate::contact::Contact;
use crate::guest::IncomingInvitation;
use crate::io::ContactId;

/// A parcel that nothing opens is kept for a day.
const HELD_MS: u64 = Time::DAY_MS;

impl<B: Backend> Device<B> {
    pub(super) fn timers(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.prekeys.wake(now, rng);
        self.drain_prekeys(now, rng);
        self.sweep_sessions(now);
        self.end_notes(now);
        self.turn_mailboxes(now, rng);
        let old = self.held.iter().filter(|(_, held)| now.since_ms(held.at) >= HELD_MS);
        let old: Vec<u64> = old.map(|(key, _)| *key).collect();
        for key in old {
            self.drop_held(key);
        }
        self.turn_guests(now, rng);
        self.drop_late_parcels(now, rng);
        self.answer_retries(now);
        self.turn_years(now, rng);
        self.hang_up(now);
        self.retry(now);
        self.wake_net(now, rng);
    }

    /// The earliest of everything that [`timers`](Self::timers) looks at.
    pub(super) fn next_timer(&self) -> Option<Time> {
        let sessions = self.contacts.values().filter_map(|c| c.conversation.deadline());
        let ends = self.ends.first().map(|(end, _)| *end);
        let held = self.held.values().map(|held| held.at.plus_ms(HELD_MS));
        let parcels = self.parcels.values().filter_map(|parcel| parcel.way.until());
        let mailboxes = self.slots.values().filter(|slot| slot.contact.is_some());
        let mailboxes = mailboxes.map(|slot| slot.retired.unwrap_or(slot.made));
        let mailboxes = mailboxes.map(|at| at.plus_ms(SLOT_LIFE_MS));
        let retry = (self.retry_at > Time::default()).then_some(self.retry_at);
        let net = self.net.as_ref().and_then(|net| net.client.deadline());
        let single = ends
            .into_iter()
            .chain(net)
            .chain(retry)
            .chain(self.pump_at)
            .chain(self.next_idle_line())
            .chain(self.next_year())
            .chain(self.prekeys.deadline());
        let guests = self.guests.values().map(IncomingInvitation::deadline);
        let again = self.contacts.values().filter_map(|c| c.share.again_due());
        let many = guests.chain(again).chain(sessions).chain(held).chain(parcels).chain(mailboxes);
        single.chain(many).min()
    }

    /// Contacts that asked for everything again too early get it now.
    fn answer_retries(&mut self, now: Time) {
        let due = |contact: &&Contact<B>| contact.share.again_due().is_some_and(|at| at <= now);
        let due: Vec<ContactId> =
            self.contacts.values().filter(due).map(|contact| contact.id).collect();
        for id in due {
            self.wants_again(id, now);
            self.store_contact(id);
        }
    }

    fn sweep_sessions(&mut self, now: Time) {
        let due = self.contacts.values().filter(|contact| {
            contact.conversation.deadline().is_some_and(|deadline| deadline <= now)
        });
        let due: Vec<ContactId> = due.map(|contact| contact.id).collect();
        for id in due {
            if let Some(contact) = self.contacts.get_mut(&id) {
                let changes = contact.conversation.sweep(now);
                self.store_ratchet(id, changes);
            }
        }
    }

    /// Notes whose timer ran out go; own notes that no carrier can deliver any more are void.
    fn end_notes(&mut self, now: Time) {
        while let Some((end, note)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, note));
            let Some(entry) = self.notes.get(&note) else { continue };
            let (contact, gone) = (entry.contact, entry.ends().is_some_and(|end| end <= now));
            let undelivered = !entry.incoming && !entry.is_delivered();
            if undelivered {
                self.give_up(note);
                self.show(Event::State(contact, note));
            }
            if gone {
                self.remove_note(note);
            }
        }
    }

    /// Every mailbox of a contact is replaced after 30 days and closed 30 days later.
    fn turn_mailboxes(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let old =
            self.slots.iter().filter(|(_, slot)| slot.contact.is_some() || slot.retired.is_some());
        let old =
            old.filter(|(_, slot)| now.since_ms(slot.retired.unwrap_or(slot.made)) >= SLOT_LIFE_MS);
        let old: Vec<(MailboxId, Option<ContactId>, bool)> =
            old.map(|(id, slot)| (*id, slot.contact, slot.retired.is_some())).collect();
        for (id, contact, retired) in old {
            if retired {
                self.close(id);
                continue;
            }
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.retired = Some(now);
                self.store_slot(id);
            }
            let Some(contact) = contact else { continue };
            let fresh = self.mailbox_for(contact, now, rng);
            if let Some(contact) = self.contacts.get_mut(&contact) {
                contact.our_mailbox = fresh.or(contact.our_mailbox);
                let id = contact.id;
                self.store_contact(id);
            }
        }
    }

    /// A parcel that the other side could not open any more need not leave.
    fn drop_late_parcels(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let late = self
            .parcels
            .iter()
            .filter(|(_, parcel)| parcel.way.until().is_some_and(|until| until <= now));
        let late: Vec<(u64, Option<NoteId>)> = late.map(|(id, p)| (*id, p.note)).collect();
        for (id, note) in late {
            let parcel = self.drop_parcel(id);
            if let Some(parcel) = parcel.as_ref().filter(|parcel| parcel.way.is_invitation()) {
                self.invitation_ended(parcel.contact, now, rng);
            }
            // What a person wrote waits for a new session instead.
            if let (Some(note), Some(parcel)) = (note, parcel)
                && let Some(entry) = self.notes.get_mut(&note)
            {
                entry.again = true;
                self.waiting.insert((parcel.contact, note));
                self.store_note(note);
            }
        }
    }
}
