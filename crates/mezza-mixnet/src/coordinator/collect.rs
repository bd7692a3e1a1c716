//! Progress of a round: keys, signatures, the batch, replies, buckets.

use alloc::vec;
use alloc::vec::Vec;

use mezza_core::Time;

use super::round::{Round, RoundState, Submissions};
use super::shelf::BucketDownload;
use super::{AbortCause, Coordinator, CoordinatorError, Ending, Output};
use crate::service::{RoundId, reply_bytes};
use crate::sign::{self, Purpose, Signature};
use crate::wire::frame::{abort_bytes, alarm_bytes};
use crate::wire::{AbortReason, Frame, FrameBody, Items, SignedSettings};

impl Coordinator {
    pub(super) fn mix_says(
        &mut self,
        id: RoundId,
        at: u8,
        body: FrameBody,
    ) -> Result<(), CoordinatorError> {
        if let FrameBody::Alarm { position, signature } = body {
            return self.on_alarm(id, position, signature);
        }
        let round = self.rounds.get_mut(&id).ok_or(CoordinatorError::UnknownRound)?;
        match body {
            FrameBody::RoundKey(key) => self.on_key(id, at, key),
            FrameBody::Signature(signature) => self.on_signature(id, at, signature),
            FrameBody::Replies(items) if at == 0 => {
                if let Err(reason) = append_replies(round, &items) {
                    self.abort_round(id, reason, AbortCause::Replies);
                }
                Ok(())
            }
            FrameBody::RepliesEnd { count } if at == 0 => {
                match replies_end(round, count) {
                    Ok(()) if id.service.has_replies() => self.finish_round(id),
                    Ok(()) => self.fetch_buckets(id),
                    Err(reason) => self.abort_round(id, reason, AbortCause::Replies),
                }
                Ok(())
            }
            FrameBody::Abort { position, reason, signature } => {
                let key = round.mixes.get(usize::from(position));
                let bytes = abort_bytes(&round.config, id, position, reason);
                let valid = |key| sign::verify(key, Purpose::Abort, &[&bytes], &signature);
                // The abort counts only with the signature of the server that it names (MIX-29).
                if !key.is_some_and(valid) {
                    return Err(CoordinatorError::Signature);
                }
                self.abort_round(id, reason, AbortCause::Reported(position));
                Ok(())
            }
            _ => Err(CoordinatorError::Unexpected),
        }
    }

    fn on_key(&mut self, id: RoundId, at: u8, key: [u8; 32]) -> Result<(), CoordinatorError> {
        let round = self.rounds.get_mut(&id).ok_or(CoordinatorError::UnknownRound)?;
        let RoundState::Asking(keys) = &mut round.stage else {
            return Err(CoordinatorError::Unexpected);
        };
        // A second key would invalidate settings that other mixes may sign already.
        let place = keys.get_mut(usize::from(at)).filter(|place| place.is_none());
        *place.ok_or(CoordinatorError::Unexpected)? = Some(key);
        let Some(keys) = keys.iter().copied().collect::<Option<Vec<_>>>() else { return Ok(()) };
        let settings = round.build_settings(keys);
        let mixes = round.mixes.len();
        round.stage = RoundState::Signing(settings.clone(), vec![None; mixes]);
        self.tell_mixes(mixes, &Frame::Round(id, FrameBody::Sign(settings)));
        Ok(())
    }

    fn on_signature(
        &mut self,
        id: RoundId,
        at: u8,
        own: Signature,
    ) -> Result<(), CoordinatorError> {
        let round = self.rounds.get_mut(&id).ok_or(CoordinatorError::UnknownRound)?;
        let RoundState::Signing(settings, signatures) = &mut round.stage else {
            return Err(CoordinatorError::Unexpected);
        };
        let key = round.mixes.get(usize::from(at)).ok_or(CoordinatorError::Unexpected)?;
        // Checked here, so that a wrong signature does not fail later at every client (MIX-5).
        if !settings.signed_by(key, &own) {
            return Err(CoordinatorError::Signature);
        }
        let place = signatures.get_mut(usize::from(at)).filter(|place| place.is_none());
        *place.ok_or(CoordinatorError::Unexpected)? = Some(own);
        if let Some(signatures) = signatures.iter().copied().collect::<Option<Vec<_>>>() {
            let settings = settings.clone();
            round.stage =
                RoundState::Agreed(SignedSettings { settings, signatures, closes_in_ms: 0 });
        }
        Ok(())
    }

    /// Handles the deadline of a round's stage.
    pub(super) fn move_on(&mut self, id: RoundId, now: Time) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        match &mut round.stage {
            RoundState::Agreed(announcement) if now < round.open => {
                announcement.closes_in_ms = round.close.since_ms(now) as u32;
                let told = announcement.clone();
                round.stage = RoundState::Announced(told.clone(), Submissions::default());
                let settings = Frame::Round(id, FrameBody::Settings(told));
                self.outputs.push_back(Output::ToAll(settings));
            }
            RoundState::Announced(_, batch) => {
                let batch = core::mem::take(batch);
                let size = id.service.onion_bytes(round.mixes.len());
                let count = (batch.onions.len() / size) as u32;
                let start = FrameBody::BatchStart { count, size: size as u16 };
                let items = Items::of_batch(&batch.onions, size).map(FrameBody::Onions);
                let bodies =
                    [start].into_iter().chain(items).chain([FrameBody::BatchEnd { count }]);
                let frames = bodies.map(|body| Output::ToMix(0, Frame::Round(id, body)));
                self.outputs.extend(frames);
                // The onions were sent, so only their owners are still needed.
                let batch = Submissions { onions: Vec::new(), ..batch };
                round.stage = RoundState::Mixing(batch, Vec::new());
            }
            // The mixes have done their part, and a late store must not cause a missed round.
            RoundState::Fetching(..) => self.finish_round(id),
            RoundState::Asking(_)
            | RoundState::Signing(..)
            | RoundState::Agreed(_)
            | RoundState::Mixing(..) => {
                let cause = AbortCause::of_deadline(round);
                self.abort_round(id, AbortReason::Deadline, cause);
            }
        }
    }

    /// Fetches the buckets before clients get RETURN, so that the buckets are available then.
    fn fetch_buckets(&mut self, id: RoundId) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let RoundState::Mixing(batch, _) = &mut round.stage else { return };
        let buckets = round.policy.buckets;
        round.stage = RoundState::Fetching(core::mem::take(batch), BucketDownload::new(buckets));
        let fetch = |bucket| Output::ToStore(Frame::Round(id, FrameBody::Fetch { bucket }));
        self.outputs.extend((1..=buckets).map(fetch));
    }

    /// Handles a frame of the store about the buckets of a round. If it is not the expected one,
    /// the round ends without buckets, so a store cannot delay the clients.
    pub(super) fn store_says(
        &mut self,
        id: RoundId,
        body: FrameBody,
    ) -> Result<(), CoordinatorError> {
        let round = self.rounds.get_mut(&id).ok_or(CoordinatorError::UnknownRound)?;
        let RoundState::Fetching(batch, shelf) = &mut round.stage else {
            return Err(CoordinatorError::Unexpected);
        };
        let taken = match body {
            FrameBody::Object(Some((manifest, signature))) if manifest.id == id => {
                let config = self.chain.of_round(id).filter(|its| its.hash() == round.config);
                let last = round.mixes.last();
                // The number of clients in this round bounds the buckets, instead of `users_max`
                // (MIX-65).
                let users = batch.owners.len() as u32;
                let keys = config.zip(last);
                keys.and_then(|(config, last)| {
                    shelf.add_manifest(config, users, last, manifest, signature)
                })
            }
            FrameBody::Chunk { bucket, offset, bytes } => shelf.add_chunk(bucket, offset, &bytes),
            _ => None,
        };
        // The first wrong frame ends the download, because waiting would delay every client of the
        // round.
        if taken.is_none() || shelf.is_full() {
            self.finish_round(id);
        }
        Ok(())
    }

    /// Ends all rounds that wait for the store; they have no buckets.
    pub(super) fn give_up_on_store(&mut self) {
        let waits = |round: &&Round| matches!(round.stage, RoundState::Fetching(..));
        let ids: Vec<RoundId> = self.rounds.values().filter(waits).map(|r| r.id).collect();
        for id in ids {
            self.finish_round(id);
        }
    }

    /// Sends RETURN to every client in the round.
    fn finish_round(&mut self, id: RoundId) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let (batch, replies, shelf) = match round.stage {
            RoundState::Mixing(batch, replies) => (batch, replies, None),
            RoundState::Fetching(batch, shelf) => (batch, Vec::new(), Some(shelf)),
            RoundState::Asking(_)
            | RoundState::Signing(..)
            | RoundState::Agreed(_)
            | RoundState::Announced(..) => return,
        };
        let users = batch.owners.len() as u32;
        let each = if replies.is_empty() { 0 } else { replies.len() / batch.owners.len() };
        for (i, owner) in batch.owners.iter().enumerate() {
            let replies = replies[i * each..(i + 1) * each].to_vec();
            // Clients of rounds without replies get RETURN too: it starts the delay of their GET.
            let back = Frame::Round(id, FrameBody::Return { users, replies });
            self.outputs.push_back(Output::ToClient(*owner, back));
        }
        // Incomplete buckets are dropped, because a client must not take a part for the whole.
        if let Some(shelf) = shelf.filter(BucketDownload::is_full) {
            self.shelves.put_download(id, shelf);
        }
        self.outputs.push_back(Output::Over(id, Ending::Returned(users)));
        self.past.put_round(id, round.config, round.mixes, round.alarmed);
    }

    /// Handles ALARM of a mix: it is forwarded to all clients once and does not stop the round
    /// (MIX-27). The round may be over.
    fn on_alarm(
        &mut self,
        id: RoundId,
        position: u8,
        signature: Signature,
    ) -> Result<(), CoordinatorError> {
        let (config, mixes, alarmed) = if let Some(round) = self.rounds.get_mut(&id) {
            (&round.config, &round.mixes, &mut round.alarmed)
        } else {
            let over = self.past.find_round(id).ok_or(CoordinatorError::UnknownRound)?;
            (&over.config, &over.mixes, &mut over.alarmed)
        };
        let bytes = alarm_bytes(config, id, position);
        let key = mixes.get(usize::from(position));
        let valid = |key| sign::verify(key, Purpose::Alarm, &[&bytes], &signature);
        if !key.is_some_and(valid) {
            return Err(CoordinatorError::Signature);
        }
        // A mix that repeats its alarm must not multiply frames to all clients (MIX-27).
        if !alarmed.insert(position) {
            return Err(CoordinatorError::Unexpected);
        }
        let alarm = FrameBody::Alarm { position, signature };
        self.outputs.push_back(Output::ToAll(Frame::Round(id, alarm)));
        Ok(())
    }
}

/// Handles the next REPLIES of the first mix.
fn append_replies(round: &mut Round, items: &Items) -> Result<(), AbortReason> {
    let size = reply_bytes(round.mixes.len());
    let slots = u32::from(round.policy.slots);
    let RoundState::Mixing(batch, replies) = &mut round.stage else {
        return Err(AbortReason::Malformed);
    };
    let received = (replies.len() / size) as u32;
    let due = batch.owners.len() as u32 * slots;
    // Replies out of order would go to other clients than their onions (MIX-10).
    if !round.id.service.has_replies() || !items.is_next(received, due, size) {
        return Err(AbortReason::Malformed);
    }
    replies.extend_from_slice(&items.bytes);
    Ok(())
}

/// Handles `REPLIES_END`: there must be as many replies as onions, and none in services without
/// replies.
fn replies_end(round: &Round, count: u32) -> Result<(), AbortReason> {
    let RoundState::Mixing(batch, replies) = &round.stage else {
        return Err(AbortReason::Malformed);
    };
    let slots = usize::from(round.policy.slots);
    let size = reply_bytes(round.mixes.len());
    let due = if round.id.service.has_replies() { batch.owners.len() * slots } else { 0 };
    let whole = count as usize == due && replies.len() == due * size;
    if whole { Ok(()) } else { Err(AbortReason::Count) }
}
