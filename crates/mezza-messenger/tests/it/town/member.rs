//! One person of the town: a device, its disk, and what was seen of it.

use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, Time, Wiping};
use mezza_messenger::{Device, Event, Input, RecordChange, RecordKind};
use mezza_mixnet::client::record::RoundRecord;
use mezza_mixnet::client::{ClientJob, FrameSchedule, to_bucket};
use mezza_mixnet::contact::assign_bucket;
use mezza_mixnet::wire::Frame;
use mezza_mixnet::wire::invitation::Invitation;
use mezza_mixnet::{RoundId, Service};

use super::air::Ear;
use super::wire::Plug;
use super::{Doom, Lies, config};
use crate::model::Ask;
use crate::stage::{Disk, write};
use crate::world::hosts::{Link, sealed};

/// One device with its disk.
pub struct Member {
    pub device: Device<PortableBackend>,
    pub disk: Disk,
    pub shown: Vec<Event>,
    /// Requests to the relay, newest last.
    pub asked: Vec<Ask>,
    /// The view of an entry: kinds and sizes.
    pub frames: Vec<(u8, usize)>,
    /// Which roots were served in rounds, newest last.
    pub lines: Vec<u32>,
    /// For each batch whether there was more in it than rows of the mixnet's client.
    pub batches: Vec<bool>,
    pub doom: Option<Doom>,
    /// True if the relay, and the entry of the network, can be reached.
    pub relay: bool,
    pub net: bool,
    /// An invitation of ours that goes in its place, to the holder of this dialling key.
    pub post: Option<(PublicKey, [u8; 208])>,
    /// The bucket of each call and each invitation that was wrapped: 0 is nobody's.
    pub calls: Vec<u32>,
    pub invitations: Vec<u32>,
    /// How far its clock is ahead of the network's.
    pub skew_ms: i64,
    /// Its part in the mesh.
    pub ear: Ear,
    /// Its part at the cable.
    pub plug: Plug,
    /// The lies of its entry.
    pub entry: Lies,
    /// Inputs that came since its process stopped.
    pub(super) stalled: Option<Vec<Input>>,
    pub(super) connection: Option<u64>,
    /// The dial that waits for its time: its hello, and whether the key is checked.
    pub(super) dial: Option<(Time, Frame, bool)>,
    pub(super) line: FrameSchedule,
    pub(super) heard: usize,
    chains: BTreeMap<Link, Vec<u8>>,
    /// The newest round of each service that was sealed.
    rounds: BTreeMap<Service, u64>,
}

impl Member {
    pub(super) fn new(device: Device<PortableBackend>) -> Self {
        Self {
            device,
            disk: Disk::new(),
            shown: Vec::new(),
            asked: Vec::new(),
            frames: Vec::new(),
            lines: Vec::new(),
            batches: Vec::new(),
            doom: None,
            relay: true,
            net: true,
            post: None,
            calls: Vec::new(),
            invitations: Vec::new(),
            skew_ms: 0,
            ear: Ear::default(),
            plug: Plug::default(),
            entry: Lies::default(),
            stalled: None,
            connection: None,
            dial: None,
            line: FrameSchedule::default(),
            heard: 0,
            chains: BTreeMap::new(),
            rounds: BTreeMap::new(),
        }
    }

    /// Checks the wrapped onion; `post` replaces an invitation.
    pub(super) fn wraps(&mut self, job: &mut ClientJob) {
        let ClientJob::Wrap(wrap) = job else { return };
        let bytes = wrap.inner.first_chunk().copied().expect("something stands in front");
        let whose = u32::from_be_bytes(bytes);
        match wrap.id.service {
            Service::Call => self.calls.push(whose),
            Service::Invitation => self.invitations.push(whose),
            Service::Conversation => {}
        }
        if wrap.id.service == Service::Invitation
            && let Some((to, body)) = self.post.take()
        {
            let own =
                EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(77)));
            let invitation = Invitation { bucket: 1, body: Wiping::new(body) };
            let sealed =
                invitation.seal::<PortableBackend>(own, &to, wrap.id.round).expect("a sound key");
            let buckets = config().find_policy(Service::Invitation).map_or(1, |(_, p)| p.buckets);
            let bucket = assign_bucket(&to, &config().network, buckets);
            wrap.inner = Wiping::new(to_bucket(bucket, &sealed));
        }
    }

    /// A batch becomes durable.
    pub(super) fn store(&mut self, changes: Vec<RecordChange>) {
        let mut more = false;
        for change in &changes {
            match change {
                RecordChange::Put { kind: RecordKind::NetworkRow, value, .. } => {
                    let record = RoundRecord::decode(value).ok();
                    if let Some(RoundId { service, round }) = record.as_ref().map(|r| r.id) {
                        let last = self.rounds.insert(service, round);
                        assert!(last < Some(round), "{service:?}: {round} behind {last:?}");
                    }
                    let sealed = record.into_iter().flat_map(|record| record.sealed);
                    self.lines.extend(sealed.map(|slot| slot.line));
                }
                RecordChange::Drop { kind: RecordKind::NetworkRow, .. } => {}
                _ => more = true,
            }
        }
        write(&mut self.disk, changes);
        self.batches.push(more);
        // P5: no chain key seals two texts.
        for (link, message) in sealed(&self.disk) {
            let old = self.chains.insert(link, message.clone());
            assert!(old.is_none_or(|old| old == message), "a chain key was used twice");
        }
    }

    /// The ratchets of this member are put back: what its chains sealed until now may differ.
    pub fn forget_chains(&mut self) {
        self.chains.clear();
    }

    /// An older disk is put back: chains and rounds of the life before may come again.
    pub fn forget_life(&mut self) {
        self.forget_chains();
        self.rounds.clear();
    }

    /// Returns true if it dies now.
    pub(super) fn is_doomed(&self, late: bool) -> bool {
        self.doom == Some(Doom(self.batches.len() as u32, late))
    }
}
