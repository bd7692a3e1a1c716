//! What is stored of the mixnet carrier.

use alloc::vec::Vec;

use mezza_core::{Backend, Wiping, Writer};

use super::network::JoinedNetwork;
use super::{INVITER, Inviter, Membership, Mixnet, MixnetPeer, timer};
use crate::io::{At, ContactId, RecordChange, RecordKind, Retention, Step, key32, key64};

impl<B: Backend> Mixnet<B> {
    /// What was stored of a contact.
    pub fn load_peer(&mut self, id: ContactId, peer: MixnetPeer) {
        self.peers.insert(id, peer);
    }

    /// Somebody who invites and was stored.
    pub fn load_inviter(&mut self, id: ContactId, inviter: Inviter, step: &mut Step) {
        step.timer(timer(INVITER | u64::from(id.0)), Some(inviter.deadline()));
        self.inviters.insert(id, inviter);
    }

    /// The network that was stored, with the rows of its client, ascending; the keys of those that
    /// it goes on without. `None`: it does not load.
    pub fn load_network(
        &mut self,
        member: Membership,
        rows: &[(u64, Wiping<Vec<u8>>)],
        at: &mut At<'_>,
    ) -> Option<Vec<Vec<u8>>> {
        let net = JoinedNetwork::restore(member, self.kernel, rows, at.now, at.rng).ok()?;
        let aside = net.client.aside().iter().map(|row| key64(row.seq)).collect();
        self.network = Some(net);
        Some(aside)
    }

    /// What is stored of a network does not load.
    pub fn set_aside(&mut self) {
        self.set_aside = true;
    }

    /// Its rows, without those of the client.
    pub fn records(&self, out: &mut Vec<RecordChange>) {
        let mut put = |kind, key, bucket, value| {
            out.push(RecordChange::Put { kind, key, bucket, value });
        };
        if let Some(net) = &self.network {
            put(RecordKind::Network, Vec::new(), Retention::Permanent, net.member.write());
        }
        for (id, inviter) in &self.inviters {
            put(RecordKind::Guest, key32(id.0), Retention::Rolling, inviter.write());
        }
        for (id, peer) in &self.peers {
            if let Some(value) = peer.stored() {
                put(RecordKind::MixnetPeer, key32(id.0), Retention::Permanent, value);
            }
        }
    }

    /// What is not in its rows.
    pub fn snapshot(&self, w: &mut Writer) {
        if let Some(net) = &self.network {
            net.snapshot(w);
        }
        for (id, peer) in &self.peers {
            w.u32(id.0);
            peer.snapshot(w);
        }
        for (ticket, (parcel, times)) in &self.out {
            w.u64(*ticket).u64(parcel.0).u8(times.map_or(u8::MAX, |times| times));
        }
        for inviter in self.inviters.values() {
            w.u8(inviter.times);
        }
        w.u64(self.next_ticket).u64(self.unopened);
        w.u64(self.news.len() as u64).u64(self.outputs.len() as u64);
    }
}
