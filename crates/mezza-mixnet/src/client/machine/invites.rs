//! Invitations that wait for a round.
//!
//! ```text
//! push -> waits -- take --> in a round -- RETURN --> over
//!           ^                  |
//!           +-- 2, 4, 8 .. ----+ MISSED, or the connection is lost
//!               rounds later
//! ```
//!
//! Only the entry server reports a missed round, and each attempt is charged. A repeated invitation
//! therefore waits twice as long each time (MIX-42), also if it is queued again after the
//! connection was lost.

use alloc::collections::VecDeque;

use super::Invite;
use mezza_core::{PublicKey, snapshot};

use crate::client::contacts::retry_round;

/// Most invitations that may wait.
const INVITES_MAX: usize = 16;

/// One waiting invitation.
pub(super) struct Waiting {
    to: PublicKey,
    /// The invitation; `None` if the connection was lost and the invitation was not queued again.
    pub invite: Option<Invite>,
    /// The first round in which the invitation may be sent.
    from: u64,
    /// Number of unsuccessful rounds.
    times: u8,
}

snapshot!(struct Waiting { to, invite, from, times });

/// All waiting invitations, the next one first.
#[derive(Default)]
pub(super) struct Invites(VecDeque<Waiting>);

snapshot!(struct Invites(inner));

impl Invites {
    /// Returns the number of waiting invitations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Queues an invitation. Returns false if too many wait. A recipient that was invited before
    /// without success waits for the same round as before.
    pub fn push(&mut self, invite: Invite) -> bool {
        let is_given_anew =
            |waiting: &&mut Waiting| waiting.invite.is_none() && waiting.to == invite.to;
        if let Some(waiting) = self.0.iter_mut().find(is_given_anew) {
            // The wait of earlier attempts continues, because a new connection must not make
            // repetitions cheaper (MIX-42).
            waiting.invite = Some(invite);
            return true;
        }
        if self.0.len() >= INVITES_MAX {
            // Entries without an invitation only store a wait, so they are dropped first.
            let Some(gone) = self.0.iter().position(|waiting| waiting.invite.is_none()) else {
                return false;
            };
            self.0.remove(gone);
        }
        self.0.push_back(Waiting { to: invite.to, invite: Some(invite), from: 0, times: 0 });
        true
    }

    /// Withdraws invitations with this body.
    pub fn retract(&mut self, body: &[u8]) {
        self.0.retain(|waiting| {
            waiting.invite.as_ref().is_none_or(|invite| invite.body.as_slice() != body)
        });
    }

    /// Removes and returns the first invitation that may be sent in this round. With `repeat` it
    /// may have been sent before.
    pub fn take_next(&mut self, round: u64, repeat: bool) -> Option<Waiting> {
        let may = |waiting: &Waiting| waiting.from <= round && (waiting.times == 0 || repeat);
        let at = self.0.iter().position(|waiting| waiting.invite.is_some() && may(waiting))?;
        self.0.remove(at)
    }

    /// Queues an invitation again that was unsuccessful in `round`.
    pub fn put_off(&mut self, waiting: Waiting, round: u64) {
        let from = retry_round(round, waiting.times);
        let times = waiting.times.saturating_add(1);
        self.0.push_back(Waiting { from, times, ..waiting });
    }

    /// Removes the invitations and their tickets after the connection was lost. The waits of
    /// unsuccessful invitations are kept.
    pub fn detach_tickets(&mut self) {
        // The waits of earlier attempts are kept, because the entry server may drop the connection
        // on purpose (MIX-42).
        self.0.retain(|waiting| waiting.times > 0);
        self.0.iter_mut().for_each(|waiting| waiting.invite = None);
    }
}
