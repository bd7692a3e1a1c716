//! Contacts whose chains differ from ours, for example after an old vault was restored. Parcels in
//! the mixnet do not reach such a contact (MSG-129).
//!
//! ```text
//! a parcel waits for 10 min and the contact is not met     -+
//! one waits for 2 min, and the contact is heard elsewhere  -+-> doubt: the other carriers come first, and
//! the contact begins a session by another carrier, answers -+   who began the session says a fresh root
//!   our invitation there, or is in a session not known here |
//! the contact is met, calls, or says a root                ---> trust
//! ```

use mezza_core::{Backend, Time, snapshot};

use super::{APART, Mixnet, timer};
use crate::io::{CarrierId, ContactId, Ctx, DateStep, Event, News};

/// Milliseconds that a parcel waits for a meeting before its contact counts as one with different
/// chains.
const IN_VAIN_MS: u64 = 10 * Time::MINUTE_MS;
/// The shorter limit in milliseconds for a contact that uses another carrier meanwhile, and so is
/// not away.
const HEARD_ELSEWHERE_MS: u64 = 2 * Time::MINUTE_MS;

/// Meetings with a contact. Not stored: after a start the loaded chains are trusted.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    /// Start of the wait of a parcel since the last meeting; `None` if no parcel waits.
    pub waits_since: Option<Time>,
    /// True while other carriers are preferred.
    pub apart: bool,
    /// True after a parcel waited for too long.
    in_vain: bool,
}

snapshot!(struct Meetings { waits_since, apart, in_vain });

impl Meetings {
    /// Moves the stored time after a correction of the date.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.waits_since = self.waits_since.map(|since| date.shift_running(since));
    }
}

impl<B: Backend> Mixnet<B> {
    /// Starts the wait of a parcel that the client accepted.
    pub(super) fn on_handed_over(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let meetings = &mut self.peers.entry(id).or_default().meetings;
        // A second parcel does not restart the wait. Otherwise frequent notes would postpone its
        // end for ever.
        if meetings.waits_since.is_none() {
            self.wait_from_now(id, ctx);
        }
    }

    fn wait_from_now(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let since = self.has_out(id).then_some(ctx.now);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.meetings.waits_since = since;
        }
        let due = since.map(|since| since.plus_ms(IN_VAIN_MS));
        ctx.effects.set_timer(timer(APART | u64::from(id.0)), due);
    }

    /// Handles a round in which a contact was met, which proves that its chains equal ours.
    pub(super) fn on_meeting(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        if self.peers.contains_key(&id) {
            let was_in_vain = self.waits_in_vain(id);
            self.trust_chains(id);
            self.wait_from_now(id, ctx);
            if was_in_vain {
                ctx.effects.show(Event::Contact(id));
            }
        }
    }

    fn has_out(&self, id: ContactId) -> bool {
        self.out.values().any(|out| out.contact == id && out.times.is_none())
    }

    /// Returns true if a parcel has waited too long for a contact and still waits.
    pub(super) fn waits_in_vain(&self, id: ContactId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.meetings.in_vain) && self.has_out(id)
    }

    /// Clears all doubt about the chains of a contact.
    pub(super) fn trust_chains(&mut self, id: ContactId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            (peer.meetings.apart, peer.meetings.in_vain) = (false, false);
        }
    }

    /// Handles the timer of a waiting parcel: doubts the chains if the whole time has passed, else
    /// ignores the timer.
    pub(super) fn wait_in_vain(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let since = self.peers.get(&id).and_then(|peer| peer.meetings.waits_since);
        // The timer may be from an earlier parcel that was withdrawn, so the time is checked again.
        let is_over = since.is_some_and(|since| since.plus_ms(IN_VAIN_MS) <= ctx.now);
        if is_over && self.has_out(id) {
            self.mark_apart(id, ctx);
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.meetings.in_vain = true;
            }
            ctx.effects.show(Event::Contact(id));
        }
        self.wait_from_now(id, ctx);
    }

    /// Handles a message of a contact by another carrier. `is_anew` is true if the message began a
    /// session, is in an unknown session, or answers our invitation.
    pub(super) fn doubt_chains(&mut self, id: ContactId, is_anew: bool, ctx: &mut Ctx<'_>) {
        let Some(net) = self.network.as_ref().filter(|net| net.client.has_contact(id.0)) else {
            return;
        };
        // While no round returns, other carriers are selected anyway and no contact can be met.
        let Some(peer) = self.peers.get(&id).filter(|_| net.is_up(ctx.now)) else { return };
        let since = peer.meetings.waits_since.filter(|_| self.has_out(id));
        let waits = since.is_some_and(|since| since.plus_ms(HEARD_ELSEWHERE_MS) <= ctx.now);
        // One message by another carrier proves nothing, because a contact may use two carriers. A
        // new session proves lost chains, and so does a parcel that waited through many rounds.
        if !peer.meetings.apart && (is_anew || waits) {
            self.mark_apart(id, ctx);
        }
    }

    fn mark_apart(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        self.update_peer(id, ctx.effects, |peer| {
            peer.meetings.apart = true;
            // The initiator of the session sends a fresh root, at the pace of MSG-53.
            peer.on_stream_broken(now);
        });
        self.news.push_back(News::Apart(CarrierId::MIXNET, id));
        ctx.effects.touch(id);
    }
}
