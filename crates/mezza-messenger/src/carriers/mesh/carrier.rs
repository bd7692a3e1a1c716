//! The mesh as a [`Carrier`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Time};
use mezza_ratchet::{Exporter, Padding};

use super::own_tree::OwnTree;
use super::peer::MeshPeer;
use super::{CAPS, Mesh, OUT_MAX, PARCEL_BYTES_MAX};
use crate::card::OFFLINE_PART;
use crate::carriers::{Bundles, Carrier, Exchange, Invitations, Routing, Storage};
use crate::evidence::WaitReason;
use crate::io::{
    CarrierCaps, CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, Ctx,
    DateStep, Dropped, Effects, Forget, Handover, Leaving, Missing, News, PersonRows, Places,
    RecordKind, Route, RouteTerms, StoredRows, Unloaded, fits_vault, key32, loads_again,
};
use crate::note::Item;
use crate::view::Part;

/// Bytes that each of the four envelope sizes leaves for a message, without tag and parcel kind. A
/// message is padded to fill its envelope, so that the length shows nothing.
static PADDINGS: [Padding; 4] = [
    Padding::To(246 - 8 - 1),
    Padding::To(758 - 8 - 1),
    Padding::To(1_782 - 8 - 1),
    Padding::To(PARCEL_BYTES_MAX - 1),
];

impl Carrier for Mesh {
    fn id(&self) -> CarrierId {
        CarrierId::MESH
    }

    /// A corrected date confirms nothing for the key tree, which erases by the rules of its own
    /// clock only (HIBE-74). Pauses between attempts are short, so their ends are not moved.
    fn apply_date_step(&mut self, _: &DateStep, ctx: &mut Ctx<'_>) {
        self.recheck_timers(ctx);
    }

    fn recheck_timers(&mut self, ctx: &mut Ctx<'_>) {
        self.peers.values_mut().for_each(MeshPeer::on_sign);
        ctx.effects.touch_all();
    }

    fn handle_timer(&mut self, number: u64, _: &dyn Fn(ContactId) -> bool, ctx: &mut Ctx<'_>) {
        ctx.effects.touch(ContactId(number as u32));
    }

    fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

impl Routing for Mesh {
    fn state(&self, to: Option<&ContactFacts<'_>>, _: Time) -> Option<CarrierState> {
        // A device without a node and without keys has no mesh.
        if self.clock.is_none() && self.tree.is_none() {
            return None;
        }
        let level = self.clock.map_or(CAPS.level, |clock| clock.level);
        Some(CarrierState {
            reached: to.is_some_and(|to| to.card.part(OFFLINE_PART).is_some()),
            up: self.check_up().map(drop),
            caps: CarrierCaps { level, ..CAPS },
        })
    }

    fn carried_until(&self, route: &Route) -> Option<Time> {
        let (time, _) = super::read_address(&route.address)?;
        let epoch = u64::from(time.tick.0 / time.life.epoch_ticks());
        // The epoch after the one of sealing is the last in which keys and cells are kept (MESH-2).
        Some(Time::from_ms((epoch + 2) * time.life.epoch_ms()))
    }

    fn connections(&self, now: Time) -> Vec<CarrierConnection> {
        let state = self.state(None, now);
        let connection = |state: CarrierState| CarrierConnection {
            relay: None,
            own: self.tree.is_some(),
            up: state.up.is_ok(),
            places: Places::default(),
            left: None,
            caps: state.caps,
        };
        state.map(connection).into_iter().collect()
    }

    fn prepare_route(&mut self, to: &ContactFacts<'_>, terms: RouteTerms, ctx: &mut Ctx<'_>) {
        self.draw_draft(to, terms, ctx);
    }

    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        now: Time,
    ) -> Result<Route, Missing> {
        let clock = self.check_up().map_err(Missing::Wait)?;
        let wait = |why| Err(Missing::Wait(why));
        // No parcel leaves below the lowest level (MSG-20).
        if clock.level < terms.pin {
            return wait(WaitReason::BelowPin);
        }
        // The contact could not answer over the mesh: its parcels are sealed for the offline part
        // of our card.
        if to.own.part(OFFLINE_PART).is_none() {
            return wait(WaitReason::OwnKeys);
        }
        let peer = self.peers.get(&to.id);
        if peer.is_some_and(|peer| peer.rests_until.is_some_and(|until| until > now)) {
            return wait(WaitReason::Answer);
        }
        // One contact must not use up the cells of all others (MSG-138).
        if self.out.values().filter(|out| out.contact == to.id).count() >= OUT_MAX {
            return wait(WaitReason::Answer);
        }
        let Some(draft) = self.drafts.get(&to.id) else {
            let lacking = self.block(to.id).is_none() && to.card.lacks_part(OFFLINE_PART);
            return wait(if lacking { WaitReason::NewCard } else { WaitReason::Keys });
        };
        let carrier = CarrierId::MESH;
        Ok(Route { carrier, until: None, invitation: false, address: draft.address() })
    }

    fn outer_binding(&self, to: &ContactFacts<'_>) -> Vec<u8> {
        self.drafts.get(&to.id).map_or_else(Vec::new, |draft| draft.binding.to_vec())
    }

    fn paddings(&self) -> &'static [Padding] {
        &PADDINGS
    }

    fn waits_for_place(&self) -> bool {
        false
    }

    fn needs_knock(&self, to: &ContactFacts<'_>) -> bool {
        self.needs_knock(to)
    }

    fn hand_over(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        self.send_parcel(parcel, ctx)
    }

    /// A cell that left cannot be called back. Its parcel is not sent again.
    fn retract_parcels(&mut self, parcels: &[Dropped], _: &mut Ctx<'_>) {
        self.out.retain(|_, out| parcels.iter().all(|dropped| dropped.id != out.parcel));
    }

    fn set_level_min(&mut self, contact: ContactId, level_min: Option<u8>, _: &mut Ctx<'_>) {
        self.peers.entry(contact).or_default().level_min = level_min;
    }

    fn count_rejected(&mut self) {
        self.rejected += 1;
    }

    fn rejected_count(&self) -> u64 {
        self.rejected
    }
}

impl Exchange for Mesh {
    /// Returns our tag for the contact, until the contact has used it.
    fn take_owed_item(&mut self, to: &ContactFacts<'_>, ctx: &mut Ctx<'_>) -> Option<Item> {
        let used = self.peers.get(&to.id).is_some_and(|peer| peer.is_used);
        // Only a contact with a mesh, and one that we can be reached by, needs the tag.
        if used || self.tree.is_none() || to.card.part(OFFLINE_PART).is_none() {
            return None;
        }
        let mut tag = None;
        let Ctx { effects, rng, .. } = ctx;
        self.update_peer(to.id, effects, |peer| tag = Some(peer.own_tag(*rng)));
        tag.map(Item::Tag)
    }

    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        _: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
        let tag = items.iter().rev().find_map(|item| match item {
            Item::Tag(tag) => Some(*tag),
            _ => None,
        });
        self.update_peer(from.id, ctx.effects, |peer| {
            peer.theirs = tag.or(peer.theirs);
            peer.on_sign();
        });
        self.end_greetings(from.id);
    }

    fn on_user_note(&mut self, contact: ContactId, _: Time) {
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.on_sign();
        }
    }

    fn forget_contact(&mut self, contact: ContactId, what: Forget, ctx: &mut Ctx<'_>) {
        if what == Forget::Chains {
            return;
        }
        self.blocks.remove(&contact);
        self.drafts.remove(&contact);
        self.out.retain(|_, out| out.contact != contact);
        if self.peers.remove(&contact).is_some_and(|peer| peer.stored_form().is_some()) {
            ctx.effects.drop_row(RecordKind::MeshPeer, key32(contact.0));
        }
        ctx.effects.set_timer(super::timer(contact), None);
    }
}

impl Bundles for Mesh {
    fn card_part(&self, _: Time) -> Option<(u8, Vec<u8>)> {
        // After a crash a tree that is not stored is gone, and envelopes to its card open nowhere (MSG-135).
        let tree = self.tree.as_ref().filter(|tree| tree.is_stored() && !tree.is_over())?;
        Some((OFFLINE_PART, tree.card_block().to_vec()))
    }
}

impl Invitations for Mesh {}

impl Storage for Mesh {
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        person.read_optional(RecordKind::MeshPeer, MeshPeer::read).map(drop)
    }

    fn load_person(&mut self, person: &PersonRows, _: &StoredRows<'_>, _: &mut Ctx<'_>) -> bool {
        let peer = person.read_optional(RecordKind::MeshPeer, MeshPeer::read);
        self.peers.insert(person.id, peer.unwrap_or_default());
        false
    }

    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        _: &dyn Fn(ContactId) -> bool,
        _: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        let rows = stored.take_kind(RecordKind::Tree);
        let keyring = stored.take_one(RecordKind::TreeRing, &[]);
        if rows.is_empty() && keyring.is_none() {
            return Vec::new();
        }
        if let Some(Ok(tree)) = keyring.as_ref().map(|ring| OwnTree::load(&rows, ring)) {
            self.tree = Some(tree);
            return Vec::new();
        }
        // Nothing is repaired by guessing: a tree with a gap would lack keys unnoticed (HIBE-93).
        self.lost = rows.keys().cloned().collect();
        let lost = |(key, row): (Vec<u8>, mezza_core::Wiping<Vec<u8>>)| {
            Unloaded::new(Part::KeyTree, RecordKind::Tree, key, &row)
        };
        let ring = keyring
            .map(|ring| Unloaded::new(Part::KeyTree, RecordKind::TreeRing, Vec::new(), &ring));
        rows.into_iter().map(lost).chain(ring).collect()
    }

    fn loads_again(&self, kind: RecordKind, _: &[u8], value: &[u8]) -> bool {
        match kind {
            RecordKind::MeshPeer => {
                loads_again(value, MeshPeer::read(value).map(|peer| peer.stored_form()))
            }
            _ => fits_vault(value),
        }
    }

    fn put_records(&self, effects: &mut Effects) {
        let rows = self.peers.iter().filter_map(|(id, peer)| Some((id, peer.stored_form()?)));
        for (id, row) in rows.collect::<BTreeMap<_, _>>() {
            effects.put(RecordKind::MeshPeer, key32(id.0), row);
        }
    }
}
