//! Expired deadlines: each one goes to the component that registered it.

use mezza_core::Timers;

use super::{Components, Turn};
use crate::carriers::Port;
use crate::contacts::Contact;
use crate::io::{CarrierId, ContactId, Due, Event, Forget, NoteId, ParcelId, ResetCause};
use crate::outbox::{Owe, Owed, Parcel};

impl<P: Port> Turn<'_, P> {
    /// Runs all expired deadlines, including those that this turn has set.
    pub(super) fn fire_expired(&mut self, timers: &mut Timers<Due>) {
        self.ctx.effects.apply_timers(timers);
        // Timers were set by the earlier clock. After the clock went back, a carrier would wait too
        // long for them.
        if self.ctx.now < self.device.seen {
            self.notify_carriers(|one, ctx| one.recheck_timers(ctx));
        }
        self.device.seen = self.ctx.now;
        for due in timers.take_due(self.ctx.now) {
            self.fire_due(due);
        }
    }

    /// Runs one expired deadline.
    fn fire_due(&mut self, due: Due) {
        match due {
            // Prekeys are checked at every wake.
            Due::Prekeys => {}
            Due::Session(id) => self.device.sessions.wake(id, &mut self.ctx),
            Due::Note(id) => self.end_note(id),
            Due::Undecrypted(key) => self.device.sessions.drop_undecrypted(key, self.ctx.effects),
            Due::Parcel(id) => self.wake_parcel(id),
            Due::Reset(id) => self.reset_session(id),
            Due::Again(id) => {
                let begins_era = self.device.outbox.era_waits(id);
                let is_due = self.device.outbox.wants_again(id, self.ctx.now, self.ctx.effects);
                if is_due && begins_era {
                    // Notes under the same numbers would be refused again.
                    self.begin_era(id);
                } else if is_due {
                    self.requeue_notes(id);
                }
            }
            Due::Look(id) => self.ctx.effects.touch(id),
            Due::Carrier(id, number) => self.wake_carrier(id, number),
        }
    }

    /// Passes an expired timer to its carrier.
    fn wake_carrier(&mut self, id: CarrierId, number: u64) {
        let Components { contacts, sessions, outbox, carriers, .. } = &mut *self.device;
        let busy = |id: ContactId| {
            // Nothing waits for a blocked contact, so its connections may end (MSG-26).
            let Some(contact) = contacts.get(id).filter(|contact| !contact.blocked) else {
                return false;
            };
            !outbox.waiting_notes(id).is_empty()
                || contact.is_open() && outbox.owed(id).is_some_and(Owed::has_any)
                || sessions.session_facts(id).renew
                || outbox.parcels_of(id).next().is_some()
        };
        if let Some(one) = carriers.carrier_mut(id) {
            one.handle_timer(number, &busy, &mut self.ctx);
        }
    }

    /// Begins a new session for messages that no session opened and that came too soon after the
    /// last new one (MSG-127).
    fn reset_session(&mut self, id: ContactId) {
        let is_ours = self.device.contacts.get(id).is_some_and(Contact::is_ours);
        // A contact that was blocked or deleted meanwhile gets no session (MSG-26).
        if self.device.sessions.reset_in_turn(id, &mut self.ctx) && is_ours {
            self.device.outbox.owe(id, Owe::Reset(ResetCause::Lost), self.ctx.effects);
            self.ctx.effects.touch(id);
        }
    }

    /// Ends a note: a note whose timer expired is deleted, and a note of ours that no carrier can
    /// deliver any more is declared void.
    fn end_note(&mut self, id: NoteId) {
        let Some(note) = self.device.threads.get(id) else { return };
        let contact = note.contact;
        let gone = note.ends_at().is_some_and(|end| end <= self.ctx.now);
        if !note.incoming && !note.is_delivered() {
            self.give_up(id);
            self.ctx.effects.show(Event::State(contact, id));
        }
        if gone {
            self.remove_note(id);
        }
    }

    /// Drops a parcel that the recipient could not open any more.
    fn wake_parcel(&mut self, id: ParcelId) {
        let late = |until| until <= self.ctx.now;
        // The timer was set for an earlier end of this parcel.
        if !self.device.outbox.parcel(id).and_then(|parcel| parcel.route.until).is_some_and(late) {
            return self.device.outbox.look_again(id, self.ctx.now, self.ctx.effects);
        }
        let Some(parcel) = self.device.outbox.lose_parcel(id, self.ctx.effects) else { return };
        let Parcel { contact, confirmed, .. } = parcel;
        let invitation = parcel.route.invitation;
        // The user's note waits for a new session. A note with a receipt needs no other parcel.
        let note = parcel.note.filter(|_| !confirmed);
        self.retract_parcels(&[parcel.into_dropped(id)]);
        if invitation {
            // The prekey of an invitation has expired. The next invitation needs another bundle and
            // starts other chains.
            self.device.sessions.drop_held(contact, self.ctx.effects);
            self.notify_carriers(|one, ctx| one.forget_contact(contact, Forget::Chains, ctx));
            self.device.sessions.renew_session(contact, self.ctx.effects);
        }
        if let Some(note) = note {
            self.device.threads.mark_for_resealing(note, self.ctx.effects);
            self.device.outbox.queue_note(contact, note);
        }
    }
}
