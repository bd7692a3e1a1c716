//! Call and invitation rounds: one bucket per round is fetched and read.

use alloc::vec::Vec;

use mezza_core::{Backend, Time, snapshot};

use super::rounds::{RoundState, SlotContents};
use super::{Client, ClientError, Output};
use crate::client::contacts::PartnerId;
use crate::client::job::{ClientJob, OpenJob};
use crate::client::{ScheduledFrame, SendTime};
use crate::contact::{self, Intent};
use crate::sign::Signature;
use crate::wire::filter::Filter;
use crate::wire::{Frame, FrameBody, Manifest};
use crate::{RoundId, Service};

/// A bucket that is being fetched.
pub(super) struct Fetch {
    bucket: u32,
    /// The tokens by which contacts would call us.
    expected: Vec<(PartnerId, Intent, [u8; 16])>,
    manifest: Option<Manifest>,
    object: Vec<u8>,
}

snapshot!(struct Fetch { bucket, expected, manifest, object });

impl Fetch {
    /// Forgets the tokens by which contacts would call us.
    pub fn forget_expected(&mut self) {
        self.expected.clear();
    }
}

impl<B: Backend> Client<B> {
    /// Schedules the request for our bucket after RETURN, regardless of expected calls (MIX-21).
    pub(super) fn schedule_fetch(&mut self, id: RoundId) {
        let Some(round) = self.rounds.get(&id).filter(|_| !id.service.has_replies()) else {
            return;
        };
        // The bucket depends on our own key only, so the GET is equal with or without an expected
        // call.
        let bucket = self.own_bucket(round.policy.buckets);
        let when = SendTime::AfterReturn(round.fetch_ms());
        let frame = Frame::Round(id, FrameBody::Fetch { bucket });
        self.outputs.push_back(Output::Frame(ScheduledFrame { when, frame }));
    }

    fn own_bucket(&self, buckets: u32) -> u32 {
        contact::assign_bucket(&self.bucket_key, &self.network(), buckets)
    }

    /// Handles RETURN of a call or invitation round: waits for our bucket, which the line requests.
    pub(super) fn await_bucket(&mut self, id: RoundId, now: Time) {
        let Some(buckets) = self.rounds.get(&id).map(|round| round.policy.buckets) else { return };
        let bucket = self.own_bucket(buckets);
        let Some(round) = self.rounds.get_mut(&id) else { return };
        // The download starts only after the drawn delay, and needs time of its own beyond the
        // round.
        round.wait_for_bucket(now);
        let mut fetch = Fetch { bucket, expected: Vec::new(), manifest: None, object: Vec::new() };
        match core::mem::replace(&mut round.stage, RoundState::Armed) {
            RoundState::Sent { content: SlotContents::Call(_, expected), .. } => {
                fetch.expected = expected;
            }
            RoundState::Sent { content: SlotContents::Invite(Some(waiting)), .. } => {
                // The round returned, so the invitation is in its bucket.
                let ticket = waiting.invite.map(|invite| invite.ticket);
                self.outputs.extend(ticket.map(Output::Handed));
            }
            _ => {}
        }
        round.stage = RoundState::Fetching(fetch);
    }

    /// Handles OBJECT: checks the manifest of the buckets, which the last mix signed.
    pub(super) fn on_object(
        &mut self,
        id: RoundId,
        found: Option<(Manifest, Signature)>,
    ) -> Result<(), ClientError> {
        let round = self.rounds.get_mut(&id).ok_or(ClientError::UnknownRound)?;
        let RoundState::Fetching(fetch) = &mut round.stage else {
            return Err(ClientError::Unexpected);
        };
        // A second manifest could replace the signed lengths while chunks are on their way.
        if fetch.manifest.is_some() {
            return Err(ClientError::Unexpected);
        }
        // The store lost the bucket. Callers repeat their calls, so nothing must be requested
        // again.
        let Some((manifest, signature)) = found else {
            self.rounds.remove(&id);
            return Ok(());
        };
        let config = &round.checked.settings().config;
        let signed = |key| manifest.signed_by(key, config, &signature);
        // Only the last mix knows the bucket, so entry server and store cannot invent one.
        if !round.mixes.last().is_some_and(signed) {
            return Err(ClientError::Signature);
        }
        // An entry server and a last mix that cooperate must not fill the memory of a client, so
        // the size is bounded by users and noise (MIX-65).
        let of = self.chain.as_ref().and_then(|chain| chain.of_round(id));
        let allowed = of.is_some_and(|config| config.allows_manifest(&manifest, config.users_max));
        if manifest.id != id || !allowed {
            return Err(ClientError::Malformed);
        }
        fetch.manifest = Some(manifest);
        Ok(())
    }

    /// Handles CHUNK: appends the next bytes of our bucket.
    pub(super) fn on_chunk(
        &mut self,
        id: RoundId,
        bucket: u32,
        offset: u32,
        bytes: &[u8],
        now: Time,
    ) -> Result<(), ClientError> {
        let round = self.rounds.get_mut(&id).ok_or(ClientError::UnknownRound)?;
        let RoundState::Fetching(fetch) = &mut round.stage else {
            return Err(ClientError::Unexpected);
        };
        let manifest = fetch.manifest.as_ref().ok_or(ClientError::Unexpected)?;
        // The signed length bounds the buffer before a byte is appended (MIX-12).
        let due = manifest.entries.get(fetch.bucket as usize - 1).map_or(0, |entry| entry.len);
        let end = fetch.object.len() + bytes.len();
        let next = bucket == fetch.bucket && offset as usize == fetch.object.len();
        if !next || bytes.is_empty() || end > due as usize {
            return Err(ClientError::Malformed);
        }
        fetch.object.extend_from_slice(bytes);
        if end < due as usize {
            return Ok(());
        }
        let Some(RoundState::Fetching(fetch)) = self.rounds.remove(&id).map(|round| round.stage)
        else {
            return Ok(());
        };
        // The hash is checked once all bytes are there, and before any of them is parsed.
        let honest =
            fetch.manifest.is_some_and(|manifest| manifest.holds_object(bucket, &fetch.object));
        match id.service {
            // A bucket that the entry server changed is ignored.
            _ if !honest => {}
            // Conversation rounds have no buckets.
            Service::Conversation => {}
            Service::Call => {
                self.activate_callers(&fetch.expected, &fetch.object, now);
                // Calls are read first: a caller found here needs no greeting afterwards (MIX-80).
                self.on_calls_heard(id, now);
            }
            // The key of invitations is in the locked vault (MIX-78). Inviters repeat them.
            Service::Invitation if self.idles => {}
            Service::Invitation => {
                let own = self.setup.dialling.duplicate();
                let job = ClientJob::Open(OpenJob { id, own, object: fetch.object });
                self.outputs.push_back(Output::Job(job));
            }
        }
        Ok(())
    }

    /// Starts serving each caller.
    pub(super) fn activate_callers(
        &mut self,
        expected: &[(PartnerId, Intent, [u8; 16])],
        object: &[u8],
        now: Time,
    ) {
        // The last mix signed a malformed object. Its tokens are lost, and callers repeat their
        // calls.
        let Ok(filter) = Filter::decode(object) else { return };
        for (contact, intent, token) in expected {
            let contact_of = self.contacts.all.get(contact);
            // Calls of suspended partners are ignored (MIX-66), and those of muted ones as well.
            let heeded = contact_of.is_some_and(|of| !of.muted && !of.suspended);
            if heeded && filter.may_hold(token) {
                self.contacts.activate_contact(*contact, now);
                self.outputs.push_back(Output::Called(*contact, *intent));
            }
        }
    }
}
