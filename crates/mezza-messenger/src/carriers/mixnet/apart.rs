//! Contacts that have other chains than we have, as after a vault was put back: what waits in the mixnet for
//! one of them reaches nobody (MSG-129).
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
use crate::io::{At, CarrierId, ContactId, DateStep, Event, News};

/// How long a parcel waits for a meeting before its contact counts as one that has other chains.
const IN_VAIN_MS: u64 = 10 * Time::MINUTE_MS;
/// The same where the contact is heard by another carrier: it is not away.
const HEARD_ELSEWHERE_MS: u64 = 2 * Time::MINUTE_MS;

/// Meetings with a contact. Not stored: a start trusts the chains that it finds.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    /// Since when a parcel waits and nobody was met.
    pub waits_since: Option<Time>,
    /// Set while other carriers come first.
    pub apart: bool,
    /// Set once a parcel waited for too long.
    in_vain: bool,
}

snapshot!(struct Meetings { waits_since, apart, in_vain });

impl Meetings {
    /// The date was corrected.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.waits_since = self.waits_since.map(|since| date.shift_running(since));
    }
}

impl<B: Backend> Mixnet<B> {
    /// The client has a parcel for a contact.
    pub(super) fn on_handed_over(&mut self, id: ContactId, at: &mut At<'_>) {
        let meetings = &mut self.peers.entry(id).or_default().meetings;
        // A second parcel does not begin the wait anew, or a person who writes often would wait for ever.
        if meetings.waits_since.is_none() {
            self.wait_from_now(id, at);
        }
    }

    fn wait_from_now(&mut self, id: ContactId, at: &mut At<'_>) {
        let since = self.has_out(id).then_some(at.now);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.meetings.waits_since = since;
        }
        let due = since.map(|since| since.plus_ms(IN_VAIN_MS));
        at.step.set_timer(timer(APART | u64::from(id.0)), due);
    }

    /// A contact was there in a round: its chains are ours.
    pub(super) fn on_meeting(&mut self, id: ContactId, at: &mut At<'_>) {
        if self.peers.contains_key(&id) {
            let was_in_vain = self.waits_in_vain(id);
            self.trust_chains(id);
            self.wait_from_now(id, at);
            if was_in_vain {
                at.step.show(Event::Contact(id));
            }
        }
    }

    fn has_out(&self, id: ContactId) -> bool {
        self.out.values().any(|out| out.contact == id && out.times.is_none())
    }

    /// Returns true if a parcel has waited for a contact for too long, and still does.
    pub(super) fn waits_in_vain(&self, id: ContactId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.meetings.in_vain) && self.has_out(id)
    }

    /// A contact has our chains, or will have them.
    pub(super) fn trust_chains(&mut self, id: ContactId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            (peer.meetings.apart, peer.meetings.in_vain) = (false, false);
        }
    }

    /// A parcel has waited for so long, or waited no longer when its time was set.
    pub(super) fn wait_in_vain(&mut self, id: ContactId, at: &mut At<'_>) {
        let since = self.peers.get(&id).and_then(|peer| peer.meetings.waits_since);
        // The timer of a parcel that was taken back meanwhile says nothing of the next one.
        let is_over = since.is_some_and(|since| since.plus_ms(IN_VAIN_MS) <= at.now);
        if is_over && self.has_out(id) {
            self.mark_apart(id, at);
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.meetings.in_vain = true;
            }
            at.step.show(Event::Contact(id));
        }
        self.wait_from_now(id, at);
    }

    /// A contact was heard by another carrier. `is_anew`: in a session that it began there, or that is not
    /// known here, or where it answers an invitation of ours.
    pub(super) fn doubt_chains(&mut self, id: ContactId, is_anew: bool, at: &mut At<'_>) {
        let Some(net) = self.network.as_ref().filter(|net| net.client.has_contact(id.0)) else {
            return;
        };
        // While no round comes back other carriers are taken anyway, and nobody can be met.
        let Some(peer) = self.peers.get(&id).filter(|_| net.is_up(at.now)) else { return };
        let since = peer.meetings.waits_since.filter(|_| self.has_out(id));
        let waits = since.is_some_and(|since| since.plus_ms(HEARD_ELSEWHERE_MS) <= at.now);
        // One message by another carrier proves nothing: a contact may use two. A new session does, and so
        // does a parcel that waited through many rounds.
        if !peer.meetings.apart && (is_anew || waits) {
            self.mark_apart(id, at);
        }
    }

    fn mark_apart(&mut self, id: ContactId, at: &mut At<'_>) {
        let now = at.now;
        self.update_peer(id, at.step, |peer| {
            peer.meetings.apart = true;
            // Whoever began the session says a fresh root, at the pace of MSG-53.
            peer.on_stream_broken(now);
        });
        self.news.push_back(News::Apart(CarrierId::MIXNET, id));
        at.step.touch(id);
    }
}
