//! Joining and leaving a network, and contacts that join or leave (MSG-97).

use alloc::vec::Vec;

use mezza_core::{Backend, StaticKey};

use super::network::JoinedNetwork;
use super::{CLIENT, Membership, Mixnet, MixnetOutput, NetworkAddress, YEAR, timer};
use crate::backup::BackupNetwork;
use crate::carriers::Exchange;
use crate::error::{DeviceError, PersonError};
use crate::io::{CarrierId, ContactFacts, ContactId, Ctx, Event, Forget, News, RecordKind, key64};

impl<B: Backend> Mixnet<B> {
    /// Joins a network under a fresh dialling key. A network that was left before continues with
    /// its stored state.
    pub(super) fn join_network(
        &mut self,
        link: NetworkAddress,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        // The quarantined row contains a ledger of spent privacy budget, which another network must
        // not replace (MSG-97).
        if self.set_aside {
            return Err(DeviceError::Person(PersonError::SetAside));
        }
        // The row stores the length of the address in one byte.
        if u8::try_from(link.address.len()).is_err() {
            return Err(DeviceError::Person(PersonError::BadAddress));
        }
        // Two networks at once would need two dialling keys on one card.
        if self.network.is_some() {
            return Err(DeviceError::Person(PersonError::Joined));
        }
        let pin = link.pin;
        // A network that was left continues with its old ledger (MSG-97).
        let left = self.left.find_left(&pin)?;
        let member = Membership { link, dialling: StaticKey::random::<B>(ctx.rng) };
        let row = member.write();
        let net = match left {
            Some(left) => {
                JoinedNetwork::rejoin(member, self.kernel, &left.remembered, ctx.now, ctx.rng)
                    .map_err(|_| DeviceError::Person(PersonError::SetAside))?
            }
            None => JoinedNetwork::new(member, self.kernel, ctx.now),
        };
        self.left.taken_up(&pin, ctx.effects);
        // Network row and removal of the ledger row are one commit, so a crash loses neither.
        ctx.effects.put(RecordKind::Network, Vec::new(), row);
        self.network = Some(net);
        self.news.push_back(News::CardPart);
        self.wake_client(ctx);
        Ok(())
    }

    /// Leaves the network. Deletes chains, invitations and the dialling key, but keeps the spent
    /// budget.
    pub(super) fn leave_network(&mut self, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        if self.set_aside {
            return Err(DeviceError::Person(PersonError::SetAside));
        }
        let net = self.network.take().ok_or(DeviceError::Person(PersonError::NoNetwork))?;
        ctx.effects.drop_row(RecordKind::Network, Vec::new());
        for row in &net.rows {
            ctx.effects.drop_row(RecordKind::NetworkRow, key64(*row));
        }
        // The ledger outlives the chains, or leaving and joining again would reset the budget
        // (MSG-97).
        if let Some(remembered) = net.client.encode_remembered() {
            self.left.remember_network(net.member.link, remembered, ctx.effects);
        }
        ctx.effects.set_timer(timer(CLIENT), None);
        self.outputs.push_back(MixnetOutput::Leave);
        self.return_all();
        // An inviter without a card can be reached in this network only (MSG-97).
        for id in self.inviters.keys().copied().collect::<Vec<_>>() {
            self.forget_contact(id, Forget::All, ctx);
            self.news.push_back(News::InviterGone(id));
            ctx.effects.show(Event::Request(id));
        }
        let met = self.forget_chains(ctx);
        self.news.push_back(News::Left(CarrierId::MIXNET, met));
        self.news.push_back(News::CardPart);
        ctx.effects.touch_all();
        ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
        Ok(())
    }

    /// Returns the charges of the network that was joined and of those that were left, for a backup. Of a
    /// network without a config nothing was charged.
    pub(crate) fn charges(&self) -> impl Iterator<Item = BackupNetwork> {
        let joined = self.network.iter().filter_map(|net| {
            let NetworkAddress { pin, address } = net.member.link.clone();
            let remembered = net.client.encode_remembered()?;
            Some(BackupNetwork { pin, address, remembered, joined: true })
        });
        joined.chain(self.left.charges())
    }

    /// Forgets all chains. Returns the contacts that had some.
    fn forget_chains(&mut self, ctx: &mut Ctx<'_>) -> Vec<ContactId> {
        let met = self.peers.iter().filter(|(_, peer)| peer.root_for.is_some() || peer.has_called);
        let met: Vec<ContactId> = met.map(|(id, _)| *id).collect();
        for id in &met {
            self.update_peer(*id, ctx.effects, |peer| {
                (peer.root_for, peer.dialling, peer.has_called) = (None, None, false);
            });
        }
        for (id, peer) in &mut self.peers {
            // A share counts rounds of this network, so muting ends with it.
            if core::mem::take(&mut peer.muted) {
                ctx.effects.set_timer(timer(YEAR | u64::from(id.0)), None);
                ctx.effects.show(Event::Contact(*id));
            }
        }
        met
    }

    /// Handles a new card of a contact. A changed dialling key means that the contact left and came
    /// back without its chains, so the pair needs another root. Returns true if the contact has
    /// chains here but has left this network.
    pub(super) fn has_left(&mut self, to: &ContactFacts<'_>, ctx: &mut Ctx<'_>) -> bool {
        let Some(net) = self.network.as_ref().filter(|net| net.client.has_contact(to.id.0)) else {
            return false;
        };
        let gone = net.is_elsewhere(to.card, ctx.now);
        let now = ctx.now;
        let dialling = to.card.mixnet().map(|entry| entry.dialling);
        let before = self.peers.get(&to.id).and_then(|peer| peer.dialling);
        let another = before.zip(dialling).is_some_and(|(before, now)| before != now);
        // Another dialling key shows that the contact left and came back without its chains
        // (MSG-97).
        if gone || another {
            self.update_peer(to.id, ctx.effects, |peer| peer.on_stream_broken(now));
        }
        gone
    }
}
