//! Invitations that wait for a round.
//!
//! ```text
//! push -> waits -- take --> in a round -- RETURN --> over
//!           ^                  |
//!           +-- 2, 4, 8 .. ----+ MISSED, or the connection is lost
//!               rounds later
//! ```
//!
//! Only the entry reports a missed round, and each try is charged: a repeated invitation waits
//! twice as long each time (MIX-42), also if it is given anew after the connection was lost.

use alloc::collections::VecDeque;

use super::Invite;
use mezza_core::{PublicKey, snapshot};

use crate::client::contacts::retry_round;

/// Invitations that may wait.
const INVITES_MAX: usize = 16;

/// One invitation.
pub(super) struct Waiting {
    to: PublicKey,
    /// `None`: the connection was lost, and it was not given anew.
    pub invite: Option<Invite>,
    /// The round from which on it may go.
    from: u64,
    /// Rounds in which it went for nothing.
    times: u8,
}

snapshot!(struct Waiting { to, invite, from, times });

/// All that wait, the next one first.
#[derive(Default)]
pub(super) struct Invites(VecDeque<Waiting>);

snapshot!(struct Invites(inner));

impl Invites {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes one that waits from now on; `false` if too many do. Who was invited for nothing before
    /// waits for the same round as before.
    pub fn push(&mut self, invite: Invite) -> bool {
        let is_given_anew =
            |waiting: &&mut Waiting| waiting.invite.is_none() && waiting.to == invite.to;
        if let Some(waiting) = self.0.iter_mut().find(is_given_anew) {
            // The wait of the earlier tries goes on: a new connection must not make repeats cheaper
            // (MIX-42).
            waiting.invite = Some(invite);
            return true;
        }
        if self.0.len() >= INVITES_MAX {
            // Entries without an invitation only remember a wait, so they give way first.
            let Some(gone) = self.0.iter().position(|waiting| waiting.invite.is_none()) else {
                return false;
            };
            self.0.remove(gone);
        }
        self.0.push_back(Waiting { to: invite.to, invite: Some(invite), from: 0, times: 0 });
        true
    }

    /// An invitation with this body need not go.
    pub fn retract(&mut self, body: &[u8]) {
        self.0.retain(|waiting| {
            waiting.invite.as_ref().is_none_or(|invite| invite.body.as_slice() != body)
        });
    }

    /// The first one that may go in this round; `repeat`: also one that went before.
    pub fn take_next(&mut self, round: u64, repeat: bool) -> Option<Waiting> {
        let may = |waiting: &Waiting| waiting.from <= round && (waiting.times == 0 || repeat);
        let at = self.0.iter().position(|waiting| waiting.invite.is_some() && may(waiting))?;
        self.0.remove(at)
    }

    /// It went in this round for nothing.
    pub fn put_off(&mut self, waiting: Waiting, round: u64) {
        let from = retry_round(round, waiting.times);
        let times = waiting.times.saturating_add(1);
        self.0.push_back(Waiting { from, times, ..waiting });
    }

    /// Nobody waits for news any longer. When one that went for nothing may go again is kept.
    pub fn detach_tickets(&mut self) {
        // The wait is kept for those that were tried: the entry may drop the connection on purpose
        // (MIX-42).
        self.0.retain(|waiting| waiting.times > 0);
        self.0.iter_mut().for_each(|waiting| waiting.invite = None);
    }
}
