//! Frames from and to clients.

use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use super::round::RoundState;
use super::{ConnectionId, Coordinator, CoordinatorError, Output};
use crate::RoundId;
use crate::wire::frame::VERSION;
use crate::wire::{Frame, FrameBody, MissedReason};

/// Maximum number of config requests per connection until a newer config appears.
const CONFIG_ASKS: u8 = 2;
/// Most negative answers (MISSED, or a bucket that does not exist) on one connection before it
/// takes part in a round again. A client that is late or refused in every round reconnects by then.
const VAIN_MAX: u8 = 32;

/// State of one connection, which limits the number of its requests.
#[derive(Default)]
pub(super) struct ClientState {
    /// Time of its WELCOME.
    pub since: Option<Time>,
    /// Number of the newest config, and number of requests for configs since that was the newest.
    asked: (u64, u8),
    /// Rounds whose buckets the client fetched and that are still stored.
    fetched: Vec<RoundId>,
    /// Number of negative answers since the client last took part.
    vain: u8,
}

snapshot!(struct ClientState { since, asked, fetched, vain });

impl core::fmt::Debug for ClientState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ClientState({}, {:?}, {})", self.since.is_some(), self.asked, self.fetched.len())
    }
}

impl Coordinator {
    pub(super) fn client_says(
        &mut self,
        from: ConnectionId,
        frame: Frame,
        now: Time,
    ) -> Result<(), CoordinatorError> {
        match frame {
            Frame::Hello { version, .. } => self.welcome_client(from, version, now),
            Frame::FetchConfig { from: known } => self.send_configs(from, &known),
            Frame::Round(id, FrameBody::Submit(onions)) => self.on_submit(from, id, &onions, now),
            Frame::Round(id, FrameBody::Fetch { bucket }) => self.hand_out(from, id, bucket),
            _ => Err(CoordinatorError::Unexpected),
        }
    }

    fn known(&self, client: ConnectionId) -> Result<Time, CoordinatorError> {
        self.clients.get(&client).and_then(|c| c.since).ok_or(CoordinatorError::Stranger)
    }

    /// Handles HELLO, once per connection. From now on the client takes part in every round that is
    /// not open yet.
    fn welcome_client(
        &mut self,
        client: ConnectionId,
        version: u16,
        now: Time,
    ) -> Result<(), CoordinatorError> {
        // A client of another version could misread every later frame.
        if version != VERSION {
            self.outputs.push_back(Output::Close(client));
            return Ok(());
        }
        let since = &mut self.clients.entry(client).or_default().since;
        // A second HELLO would move the time from which the client takes part.
        if since.is_some() {
            return Err(CoordinatorError::TooOften);
        }
        *since = Some(now);
        self.newest_since = self.newest_since.max(now);
        let welcome = Frame::Welcome { head: self.chain.head_hash(), now };
        self.outputs.push_back(Output::ToClient(client, welcome));
        // A round that is open already would refuse this client's SUBMIT (MIX-28).
        for round in self.rounds.values().filter(|round| now < round.open) {
            if let RoundState::Announced(announcement, _) = &round.stage {
                let closes_in_ms = round.close.since_ms(now) as u32;
                let told = crate::wire::SignedSettings { closes_in_ms, ..announcement.clone() };
                let settings = Frame::Round(round.id, FrameBody::Settings(told));
                self.outputs.push_back(Output::ToClient(client, settings));
            }
        }
        Ok(())
    }

    /// Handles `GET_CONFIG`: sends the configs after the client's last one; none if that is unknown.
    fn send_configs(
        &mut self,
        client: ConnectionId,
        known: &[u8; 32],
    ) -> Result<(), CoordinatorError> {
        let head = self.chain.head_config().seq;
        let asked = &mut self.clients.entry(client).or_default().asked;
        // Two requests suffice for each new config. Answers to more would fill the queue of the
        // link.
        if *asked == (head, CONFIG_ASKS) {
            return Err(CoordinatorError::TooOften);
        }
        *asked = (head, if asked.0 == head { asked.1 + 1 } else { 1 });
        let frames = self.archive.frames_after(known).into_iter();
        self.outputs.extend(frames.map(|bytes| Output::Bytes(client, bytes)));
        Ok(())
    }

    /// Handles GET, once per round: sends manifest and object, or that there is none.
    fn hand_out(
        &mut self,
        client: ConnectionId,
        id: RoundId,
        bucket: u32,
    ) -> Result<(), CoordinatorError> {
        self.known(client)?;
        let Some(answer) = self.shelves.find_answer(id, bucket) else {
            return self.say_no(client, id, FrameBody::Object(None));
        };
        let fetched = &mut self.clients.entry(client).or_default().fetched;
        // A bucket has megabytes. Repeated fetches would load the entry server for one frame each.
        if fetched.contains(&id) {
            return Err(CoordinatorError::TooOften);
        }
        // Entries are dropped with their buckets, so that the list stays as short as the cache.
        fetched.retain(|id| self.shelves.has_round(*id));
        fetched.push(id);
        self.outputs.push_back(Output::Bytes(client, answer));
        Ok(())
    }

    /// Handles SUBMIT: accepts it once, complete and in time, or answers with the reason (MIX-28).
    fn on_submit(
        &mut self,
        client: ConnectionId,
        id: RoundId,
        onions: &[u8],
        now: Time,
    ) -> Result<(), CoordinatorError> {
        let since = self.known(client)?;
        match self.accept_onions(client, since, id, onions, now) {
            // Taking part proves a real client, and its count of refusals restarts (MIX-64).
            Ok(()) => self.clients.entry(client).or_default().vain = 0,
            Err(reason) => return self.say_no(client, id, FrameBody::Missed(reason)),
        }
        Ok(())
    }

    /// Sends a negative answer, a limited number of times.
    fn say_no(
        &mut self,
        client: ConnectionId,
        id: RoundId,
        body: FrameBody,
    ) -> Result<(), CoordinatorError> {
        let vain = &mut self.clients.entry(client).or_default().vain;
        // Answers to useless requests cost the entry server more than the client (MIX-64).
        if *vain >= VAIN_MAX {
            return Err(CoordinatorError::TooOften);
        }
        *vain += 1;
        self.outputs.push_back(Output::ToClient(client, Frame::Round(id, body)));
        Ok(())
    }

    fn accept_onions(
        &mut self,
        client: ConnectionId,
        since: Time,
        id: RoundId,
        onions: &[u8],
        now: Time,
    ) -> Result<(), MissedReason> {
        let round = self.rounds.get_mut(&id).ok_or(MissedReason::Late)?;
        let bytes = round.submit_bytes();
        let full = round.users_max as usize;
        let close = round.close;
        let open = round.open;
        let RoundState::Announced(_, batch) = &mut round.stage else {
            return Err(MissedReason::Late);
        };
        // The deadline of the round may not have been handled yet, so the clock decides here.
        if now >= close {
            return Err(MissedReason::Late);
        }
        // Only clients that were welcomed before the opening take part (MIX-28).
        if since >= open {
            return Err(MissedReason::Joined);
        }
        // Another size or a second SUBMIT would shift the slots of all clients after it.
        if onions.len() != bytes || batch.submitted.contains(&client) {
            return Err(MissedReason::Malformed);
        }
        if batch.owners.len() >= full {
            return Err(MissedReason::Full);
        }
        batch.submitted.insert(client);
        // Owners and onions grow together, because replies are assigned by position.
        batch.owners.push(client);
        batch.onions.extend_from_slice(onions);
        Ok(())
    }
}
