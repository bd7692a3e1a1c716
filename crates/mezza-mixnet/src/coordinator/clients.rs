//! What clients say, and what they are told.

use mezza_core::Time;

use super::round::Stage;
use super::{Connection, Coordinator, CoordinatorError, Output};
use crate::RoundId;
use crate::wire::frame::VERSION;
use crate::wire::{Body, Frame, MissedReason};

impl Coordinator {
    pub(super) fn client_says(
        &mut self,
        from: Connection,
        frame: Frame,
        now: Time,
    ) -> Result<(), CoordinatorError> {
        match frame {
            Frame::Hello { version, .. } => {
                self.welcome(from, version, now);
                Ok(())
            }
            Frame::FetchConfig { from: known } => {
                self.configs(from, &known);
                Ok(())
            }
            Frame::Round(id, Body::Submit(onions)) => self.submit(from, id, &onions, now),
            Frame::Round(id, Body::Fetch { bucket }) => {
                self.known(from)?;
                self.hand_out(from, id, bucket);
                Ok(())
            }
            _ => Err(CoordinatorError::Unexpected),
        }
    }

    fn known(&self, client: Connection) -> Result<Time, CoordinatorError> {
        self.clients.get(&client).copied().ok_or(CoordinatorError::Stranger)
    }

    /// HELLO: from now on the client takes part in every round that is not open yet.
    fn welcome(&mut self, client: Connection, version: u16, now: Time) {
        if version != VERSION {
            self.outputs.push_back(Output::Close(client));
            return;
        }
        self.clients.entry(client).or_insert(now);
        let welcome = Frame::Welcome { head: self.chain.head_hash(), now };
        self.outputs.push_back(Output::ToClient(client, welcome));
        for round in self.rounds.values().filter(|round| now < round.open) {
            if let Stage::Announced(announcement, _) = &round.stage {
                let closes_in_ms = round.close.since_ms(now) as u32;
                let told = crate::wire::Announcement { closes_in_ms, ..announcement.clone() };
                let settings = Frame::Round(round.id, Body::Settings(told));
                self.outputs.push_back(Output::ToClient(client, settings));
            }
        }
    }

    /// `GET_CONFIG`: what follows the config that the client has; nothing if that is unknown.
    fn configs(&mut self, client: Connection, known: &[u8; 32]) {
        let behind = match known {
            [0, rest @ ..] if *rest == [0; 31] => 0,
            known => {
                let at = self.archive.iter().position(|c| c.config().hash() == *known);
                at.map_or(self.archive.len(), |at| at + 1)
            }
        };
        let following = &self.archive[behind.min(self.archive.len())..];
        let left = (0..following.len() as u16).rev();
        for (config, left) in following.iter().zip(left) {
            let frame = Frame::Config { left, config: config.encode() };
            self.outputs.push_back(Output::ToClient(client, frame));
        }
    }

    /// SUBMIT: taken once, whole and in time, or answered with the reason (MIX-28).
    fn submit(
        &mut self,
        client: Connection,
        id: RoundId,
        onions: &[u8],
        now: Time,
    ) -> Result<(), CoordinatorError> {
        let since = self.known(client)?;
        let outcome = self.taken(client, since, id, onions, now);
        if let Err(reason) = outcome {
            let missed = Frame::Round(id, Body::Missed(reason));
            self.outputs.push_back(Output::ToClient(client, missed));
        }
        Ok(())
    }

    fn taken(
        &mut self,
        client: Connection,
        since: Time,
        id: RoundId,
        onions: &[u8],
        now: Time,
    ) -> Result<(), MissedReason> {
        let round = self.rounds.get_mut(&id).ok_or(MissedReason::Late)?;
        let (bytes, full) = (round.submit_bytes(), round.users_max as usize);
        let (close, open) = (round.close, round.open);
        let Stage::Announced(_, batch) = &mut round.stage else {
            return Err(MissedReason::Late);
        };
        if now >= close {
            return Err(MissedReason::Late);
        }
        if since >= open {
            return Err(MissedReason::Joined);
        }
        if onions.len() != bytes || batch.submitted.contains(&client) {
            return Err(MissedReason::Malformed);
        }
        if batch.owners.len() >= full {
            return Err(MissedReason::Full);
        }
        batch.submitted.insert(client);
        batch.owners.push(client);
        batch.onions.extend_from_slice(onions);
        Ok(())
    }
}
