//! The stored state of the mixnet carrier.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, StaticKey};

use super::network::JoinedNetwork;
use super::{INVITER, Inviter, LeftNetwork, Membership, Mixnet, NetworkAddress, timer};
use crate::io::{
    ContactId, Ctx, Effects, RecordKind, RowsByKey, StoredRows, Unloaded, id64, key32, key64,
};
use crate::view::Part;

impl<B: Backend> Mixnet<B> {
    /// Loads a stored inviter.
    pub(super) fn load_inviter(&mut self, id: ContactId, inviter: Inviter, effects: &mut Effects) {
        effects.set_timer(timer(INVITER | u64::from(id.0)), Some(inviter.deadline()));
        self.inviters.insert(id, inviter);
    }

    /// Loads the network and its client, or neither. The client continues without a row that it
    /// cannot read. Returns the rows that do not load.
    pub(super) fn load_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        let kind = RecordKind::NetworkRow;
        let lost = stored.has_lost(RecordKind::NetworkRow);
        let networks = stored.take_kind(RecordKind::Network);
        let rows = stored.take_kind(kind);
        let names = networks.iter().map(|row| (RecordKind::Network, row));
        let names = names.chain(rows.iter().map(|row| (kind, row)));
        let mut left: Vec<_> = names
            .map(|(kind, (key, row))| Unloaded::new(Part::Network, kind, key.clone(), row))
            .collect();
        let member = networks.get(&[][..]).and_then(|row| Membership::read(row).ok());
        let name = member.as_ref().map(|member| member.link.address.clone());
        // Without all rows the client could reuse a round or a budget, so the network is
        // quarantined.
        let member = member.filter(|_| networks.len() == 1 && !lost);
        match member.and_then(|member| self.restore_network(member, rows, ctx)) {
            None => self.set_aside = !left.is_empty(),
            Some(unread) => {
                left.retain(|row| row.kind == kind && unread.contains(&row.key));
                for row in &mut left {
                    row.part = Part::NetworkRows;
                }
            }
        }
        for row in &mut left {
            row.name.clone_from(&name);
        }
        left.extend(self.load_left(stored, ctx));
        left
    }

    /// Loads the networks that were left. Each stored state is tried now with a temporary key,
    /// which shows whether a client could continue from it.
    fn load_left(&mut self, stored: &mut StoredRows<'_>, ctx: &mut Ctx<'_>) -> Vec<Unloaded> {
        let kind = RecordKind::LeftNetwork;
        let rows = stored.take_kind(kind);
        let lost = stored.has_lost(kind);
        // Without rows nothing can block joining, and no key needs to be drawn.
        if rows.is_empty() && !lost {
            return Vec::new();
        }
        let kernel = self.kernel;
        let now = ctx.now;
        let dialling = StaticKey::random::<B>(ctx.rng);
        let loads = |pin: &[u8; 32], left: &LeftNetwork| {
            let link = NetworkAddress { pin: *pin, address: left.address.clone() };
            let member = Membership { link, dialling: dialling.duplicate() };
            JoinedNetwork::<B>::can_rejoin(&member, kernel, &left.remembered, now)
        };
        self.left.load_rows(rows, lost, loads)
    }

    /// Restores the network. Returns the keys of unreadable client rows, or `None` if the network
    /// does not load.
    fn restore_network(
        &mut self,
        member: Membership,
        rows: RowsByKey,
        ctx: &mut Ctx<'_>,
    ) -> Option<Vec<Vec<u8>>> {
        let numbered = rows.into_iter().map(|(key, row)| Ok((id64(&key)?, row)));
        let rows = numbered.collect::<Result<Vec<_>, DecodeError>>().ok()?;
        let net = JoinedNetwork::restore(member, self.kernel, &rows, ctx.now, ctx.rng).ok()?;
        let unread = net.client.rows_aside().iter().map(|row| key64(row.seq)).collect();
        self.network = Some(net);
        Some(unread)
    }

    /// Writes the rows of the carrier, except those of the client.
    pub(super) fn put_rows(&self, effects: &mut Effects) {
        if let Some(net) = &self.network {
            effects.put(RecordKind::Network, Vec::new(), net.member.write());
        }
        for (pin, left) in self.left.all() {
            effects.put(RecordKind::LeftNetwork, pin.to_vec(), left.write());
        }
        self.inviters.keys().for_each(|id| self.store_inviter(*id, effects));
        for (id, peer) in &self.peers {
            if let Some(value) = peer.stored_form() {
                effects.put(RecordKind::MixnetPeer, key32(id.0), value);
            }
        }
    }
}
