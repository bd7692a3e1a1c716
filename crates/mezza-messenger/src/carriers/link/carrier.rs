//! The link as a [`Carrier`].

use alloc::vec::Vec;

use mezza_core::{DecodeError, Time};

use super::peer::{BUNDLE_BYTES_MAX, LinkPeer, OwnLink};
use super::{CAPS, Link, guard};
use crate::carriers::{Bundles, Carrier, Exchange, Invitations, Routing, Storage};
use crate::evidence::WaitReason;
use crate::io::{
    CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, Ctx, Dropped, Effects,
    FetchPurpose, Forget, Handover, Leaving, Missing, News, PersonRows, Places, Publication,
    Receiving, RecordKind, Route, RouteTerms, StoredRows, Unloaded, fits_vault, key32, loads_again,
};
use crate::view::Part;

impl Link {
    /// Returns the paired device of a contact, if it is bound to the identity keys of both cards.
    fn paired(&self, to: &ContactFacts<'_>) -> Option<&LinkPeer> {
        let peer = self.peers.get(&to.id)?;
        let keys = &peer.keys;
        let is_bound = keys.peer == *to.card.ik().as_bytes() && keys.own == *to.own.ik().as_bytes();
        is_bound.then_some(peer)
    }
}

impl Carrier for Link {
    fn id(&self) -> CarrierId {
        CarrierId::LINK
    }

    fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

impl Routing for Link {
    fn state(&self, to: Option<&ContactFacts<'_>>, _: Time) -> Option<CarrierState> {
        // A device without a pairing has no link.
        if self.peers.is_empty() {
            return None;
        }
        let (reached, is_up) = match to {
            Some(to) => {
                let peer = self.paired(to);
                (peer.is_some(), peer.is_some_and(|peer| peer.up.is_some()))
            }
            None => (false, self.peers.values().any(|peer| peer.up.is_some())),
        };
        let reason = match to {
            Some(to) => self.wait_reason(to.id),
            None => WaitReason::NoCarrier,
        };
        let up = if is_up { Ok(()) } else { Err(reason) };
        Some(CarrierState { reached, up, caps: CAPS })
    }

    fn connections(&self, now: Time) -> Vec<CarrierConnection> {
        let connection = |state: CarrierState| CarrierConnection {
            relay: None,
            own: true,
            up: state.up.is_ok(),
            places: Places::default(),
            left: None,
            caps: state.caps,
        };
        self.state(None, now).map(connection).into_iter().collect()
    }

    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        _: Time,
    ) -> Result<Route, Missing> {
        // No parcel leaves below the lowest level (MSG-20).
        if CAPS.level < terms.pin {
            return Err(Missing::Wait(WaitReason::BelowPin));
        }
        if self.paired(to).is_none_or(|peer| peer.up.is_none()) {
            return Err(Missing::Wait(self.wait_reason(to.id)));
        }
        if !to.session.is_usable() {
            return Err(Missing::Session);
        }
        let carrier = CarrierId::LINK;
        Ok(Route { carrier, until: None, invitation: false, address: Vec::new() })
    }

    fn waits_for_place(&self) -> bool {
        false
    }

    fn hand_over(&mut self, parcel: &Leaving<'_>, _: &mut Ctx<'_>) -> Handover {
        if CAPS.level < parcel.pin {
            return Handover::Waits;
        }
        self.send_parcel(parcel)
    }

    /// A parcel that left cannot be called back. It is not sent again.
    fn retract_parcels(&mut self, parcels: &[Dropped], _: &mut Ctx<'_>) {
        let sessions = self.lines.values_mut().filter_map(|line| line.session.as_mut());
        for session in sessions {
            session.out.retain(|_, out| parcels.iter().all(|dropped| dropped.id != *out));
        }
    }

    fn set_level_min(&mut self, contact: ContactId, level_min: Option<u8>, ctx: &mut Ctx<'_>) {
        self.levels.insert(contact, level_min);
        if level_min.is_none() {
            // A blocked contact keeps its pairing, and no connection (MSG-26).
            self.end_pairing_with(contact, ctx);
            self.close_lines_of(contact, None, ctx);
            // This device has closed them, not the guard.
            self.set_guard_trouble(contact, None, ctx);
        }
        // A contact that is served again is dialled.
        self.schedule_wake();
    }

    fn acknowledge_arrival(&mut self, ack: Receiving) {
        self.acknowledge(ack);
    }

    fn count_rejected(&mut self) {
        self.rejected += 1;
    }

    fn rejected_count(&self) -> u64 {
        self.rejected
    }
}

impl Exchange for Link {
    fn forget_contact(&mut self, contact: ContactId, what: Forget, ctx: &mut Ctx<'_>) {
        if what == Forget::Chains {
            return;
        }
        self.end_pairing_with(contact, ctx);
        self.close_lines_of(contact, None, ctx);
        self.set_guard_trouble(contact, None, ctx);
        self.levels.remove(&contact);
        if self.peers.remove(&contact).is_some() {
            ctx.effects.drop_row(RecordKind::LinkPeer, key32(contact.0));
        }
        self.schedule_wake();
    }
}

impl Bundles for Link {
    /// Each session brings the bundle of the contact's device.
    fn can_fetch_bundle(&self, of: &ContactFacts<'_>, pin: u8) -> bool {
        CAPS.level >= pin && self.paired(of).is_some()
    }

    fn fetch_bundle(
        &mut self,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        _: &mut Ctx<'_>,
    ) -> Option<Time> {
        if !self.can_fetch_bundle(of, pin) {
            return None;
        }
        // A bundle is used once: if it was refused, the next session brings another one.
        let bytes = self.peers.get_mut(&of.id)?.bundle.take()?;
        let contact = of.id;
        self.news.push_back(News::Bundle { contact, purpose, bytes, one_time: None });
        None
    }

    fn publish_prekeys(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {
        // A bundle that no receiver accepts is not sent.
        if publication.bundle.len() > BUNDLE_BYTES_MAX || self.own.bundle == publication.bundle {
            return;
        }
        self.own.bundle.clone_from(&publication.bundle);
        self.store_own(ctx);
        self.send_bundle();
    }

    fn publish_again(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {
        self.publish_prekeys(publication, ctx);
    }
}

impl Invitations for Link {}

impl Storage for Link {
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        person.single_row(RecordKind::LinkPeer).map_or(Ok(()), |row| LinkPeer::read(row).map(drop))
    }

    fn load_person(&mut self, person: &PersonRows, _: &StoredRows<'_>, _: &mut Ctx<'_>) -> bool {
        let row = person.single_row(RecordKind::LinkPeer);
        if let Some(Ok(peer)) = row.map(LinkPeer::read) {
            self.peers.insert(person.id, peer);
        }
        false
    }

    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        _: &dyn Fn(ContactId) -> bool,
        _: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        let mut refused = self.load_guard(stored.take_kind(RecordKind::Guard));
        let Some(row) = stored.take_one(RecordKind::LinkOwn, &[]) else { return refused };
        match OwnLink::read(&row) {
            Ok(own) => self.own = own,
            // Each pairing has its own copy of the name. The next pairing draws another one.
            Err(_) => {
                refused.push(Unloaded::new(Part::Other, RecordKind::LinkOwn, Vec::new(), &row));
            }
        }
        refused
    }

    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        let again = match kind {
            RecordKind::LinkPeer => LinkPeer::read(value).map(|peer| Some(peer.stored_form())),
            RecordKind::LinkOwn => OwnLink::read(value).map(|own| own.stored_form()),
            RecordKind::Guard => guard::read_again(key, value).map(Some),
            _ => return fits_vault(value),
        };
        loads_again(value, again)
    }

    fn put_records(&self, effects: &mut Effects) {
        for (contact, peer) in &self.peers {
            effects.put(RecordKind::LinkPeer, key32(contact.0), peer.stored_form());
        }
        if let Some(row) = self.own.stored_form() {
            effects.put(RecordKind::LinkOwn, Vec::new(), row);
        }
        self.put_guard(effects);
    }
}
