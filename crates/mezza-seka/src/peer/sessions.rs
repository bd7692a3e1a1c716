//! The open sessions, the one that seals frames, and the end of each.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use crate::limits::{RETIRE_MS, SESSION_MS, SESSIONS_MAX};

/// An open session, by its attempt.
#[derive(Debug)]
struct OpenSession {
    attempt: u32,
    since: Time,
    ends: Time,
}

/// The open sessions, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: VecDeque<OpenSession>,
    /// The attempt of the session that seals frames.
    sending: Option<u32>,
}

impl Sessions {
    /// Adds a session. Returns the session that must end to make room (SEKA-44).
    pub(super) fn install_session(&mut self, attempt: u32, now: Time) -> Option<u32> {
        // A fourth session would need a fourth set of keys in every data thread (SEKA-44).
        let gone = (self.open.len() >= SESSIONS_MAX).then(|| self.make_room()).flatten();
        self.open.push_back(OpenSession { attempt, since: now, ends: now.plus_ms(SESSION_MS) });
        gone
    }

    /// Removes the oldest session except the one that seals frames.
    fn make_room(&mut self) -> Option<u32> {
        // The session that seals frames stays, or traffic would stop until the next exchange.
        let at = self.open.iter().position(|open| Some(open.attempt) != self.sending)?;
        self.open.remove(at).map(|open| open.attempt)
    }

    /// Seals frames under this session from now on; older sessions end soon.
    pub(super) fn switch_to(&mut self, attempt: u32, now: Time) {
        self.sending = Some(attempt);
        let soon = now.plus_ms(RETIRE_MS);
        let older = self.open.iter_mut().take_while(|open| open.attempt != attempt);
        // Frames under way can still be opened for 3 s (SEKA-44).
        older.for_each(|open| open.ends = open.ends.min(soon));
    }

    /// Removes expired sessions. Returns their attempts.
    pub(super) fn remove_expired(&mut self, now: Time) -> Vec<u32> {
        let over = |open: &OpenSession| open.ends <= now;
        let gone: Vec<u32> =
            self.open.iter().filter(|open| over(open)).map(|open| open.attempt).collect();
        self.open.retain(|open| !over(open));
        // Without this a thread would seal under a session whose keys are wiped.
        self.sending = self.sending.filter(|sending| !gone.contains(sending));
        gone
    }

    /// Removes all sessions. Returns their attempts.
    pub(super) fn clear(&mut self) -> Vec<u32> {
        self.sending = None;
        self.open.drain(..).map(|open| open.attempt).collect()
    }

    /// Returns the time when the next session ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.open.iter().map(|open| open.ends).min()
    }

    /// Returns true if this session is open.
    pub(super) fn is_open(&self, attempt: u32) -> bool {
        self.open.iter().any(|open| open.attempt == attempt)
    }

    /// Returns the session that seals frames, and the time it began.
    pub(super) fn sending(&self) -> Option<(u32, Time)> {
        let sending = self.sending?;
        let open = self.open.iter().find(|open| open.attempt == sending)?;
        Some((sending, open.since))
    }
}

snapshot!(struct OpenSession { attempt, since, ends });
snapshot!(struct Sessions { open, sending });
