//! Received frames: checked, translated into slots, and passed to the engine.

use alloc::vec::Vec;
use mezza_core::CryptoRng;

use super::compare::{MoreIn, SymbolsIn};
use super::{Bringer, Error, LinkKind, LinkNumber, Node, NodeLink, Output, Source, places};
use crate::cell::{CellId, MeshCell, short_id};
use crate::engine::{EngineCtx, NeighbourId};
use crate::epoch::Age;
use crate::frame::{Beacon, MeshFrame, Name};
use crate::limits::SECOND;
use crate::set::{Set, Slot};
use crate::table::Announced;
use crate::table::ids::{Ids, Origin, StoreClaim};
use crate::wire::WireFrame;

/// The properties of a link that the engine and the node need.
pub(super) struct LinkShape {
    pub frame_bytes_max: usize,
    /// The usual age of a frame when it arrives, microseconds.
    pub delay_us: u64,
    /// Frames that the link takes at once.
    pub room: usize,
}

/// A beacon, with the name and the address that it comes from.
struct BeaconIn {
    link: LinkNumber,
    name: Name,
    source: Source,
    beacon: Beacon,
}

impl Node {
    pub(super) fn link_up(
        &mut self,
        link: LinkNumber,
        kind: LinkKind,
        shape: &LinkShape,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let LinkShape { frame_bytes_max, delay_us, room } = *shape;
        // Each kind of link has its own slots, so that many network interfaces leave slots for
        // streams (MESH-70).
        let of_kind = self.links.values().filter(|other| other.kind == kind).count();
        if self.links.contains_key(&link) || of_kind >= kind.places_max() {
            return Err(Error::NoLink);
        }
        // Links that come up together send their first beacons at random times, so that they do not
        // collide.
        let at = self.silent_until.max(now) + rng.next_u64() % SECOND;
        let engine = self.engine.link_up(kind.classes(), delay_us, at);
        if kind == LinkKind::Stream {
            // Stamps on streams would give the device that opened the stream a vote under every
            // name (MESH-59).
            self.engine.ignore_stamps(engine);
        }
        let names = alloc::collections::BTreeMap::new();
        let up =
            NodeLink { engine, kind, frame_bytes_max, room, names, replace_at: 0, idle_since: now };
        self.links.insert(link, up);
        Ok(())
    }

    pub(super) fn handle_frame(
        &mut self,
        link: LinkNumber,
        source: Source,
        bytes: &[u8],
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        // Without a plausible time no frame can be checked.
        if !self.running {
            return Err(Error::NoTime);
        }
        let mesh = self.engine.clock().mesh_time(now);
        let known = self.links.get(&link).ok_or(Error::NoLink)?;
        // A beacon of another date is reported, and any other frame refused (MESH-69).
        let Some(body) = self.network.check_mac(bytes, mesh) else {
            return self.dates.record_frame(&self.network, bytes, now);
        };
        let frame = WireFrame::decode(body)?;
        let name = frame.name();
        // The frame came back over a looped link: under its own name, this node would become its
        // own neighbour.
        if name == self.engine.name() || Some(name) == self.former {
            return Err(Error::Own);
        }
        if let WireFrame::Beacon { net, beacon, .. } = frame {
            // The beacon is of another network, or of this one on another date.
            if !self.network.is_ours(net, mesh) {
                return self.dates.record_frame(&self.network, bytes, now);
            }
            self.hear_beacon(&BeaconIn { link, name, source, beacon }, now, rng)?;
            self.bytes.0 += bytes.len() as u64;
            return Ok(());
        }
        // Frames under names without a beacon are refused: the first beacon binds the name to its
        // address.
        let (from, bound) = known.names.get(&name).copied().ok_or(Error::Stranger)?;
        // A name is bound to the source of its first beacon, so frames from elsewhere are refused.
        if bound != source || self.engine.neighbour(from).is_none_or(|n| n.name != name) {
            return Err(Error::Stranger);
        }
        match frame {
            WireFrame::Data { cell, .. } => self.hear_cell(from, source, cell, now, rng)?,
            // A comparison of two other devices is irrelevant here.
            WireFrame::Sync { to, .. } | WireFrame::More { to, .. } if to != self.engine.name() => {
            }
            WireFrame::Sync { key, from: first, symbols, .. } => {
                let first = usize::from(first);
                self.hear_symbols(SymbolsIn { link, from, name, key, first, symbols }, now)?;
            }
            WireFrame::More { nonce, from: first, n, .. } => {
                let first = usize::from(first);
                let count = usize::from(n);
                self.hear_more(&MoreIn { link, from, name, nonce, first, count }, now)?;
            }
            other => self.hear_other(from, other, now, rng),
        }
        self.bytes.0 += bytes.len() as u64;
        Ok(())
    }

    fn hear_other(
        &mut self,
        from: NeighbourId,
        frame: WireFrame<'_>,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) {
        let frame = match frame {
            WireFrame::Have { name, shorts } => {
                // Ids get slots only if this neighbour has room (MESH-62).
                let set = self.assign_slots(from, shorts, now, now);
                self.note_holder(name, &set);
                MeshFrame::Have(set)
            }
            WireFrame::Want { name, to, again, shorts } => {
                // Unknown ids of a request are ignored: this node cannot send them.
                let named = shorts.into_iter().flat_map(|short| self.ids.slots_named(short));
                let set: Set = named.collect();
                // Only requests to this node are evidence that the neighbour lacked the cell
                // (MESH-44).
                if to == self.engine.name() {
                    self.own.record_asked(name, &set);
                }
                MeshFrame::Want { to, again, set }
            }
            WireFrame::Busy { to, wait_ms, .. } => MeshFrame::Busy { to, wait_ms },
            _ => MeshFrame::Bye,
        };
        let ctx = EngineCtx { now, table: &mut self.ids, rng };
        self.engine.handle_frame(from, &frame, ctx, |_| ());
    }

    /// Returns the slots of announced ids. Unknown ids get slots up to the neighbour's limit; its
    /// oldest unrequested announcements make room. If ids are left out, the sets are compared soon,
    /// so that the ids are not lost.
    pub(super) fn assign_slots(
        &mut self,
        from: NeighbourId,
        shorts: Vec<u64>,
        announced_at: u64,
        now: u64,
    ) -> Set {
        let mut room = self.engine.room_for_announced(from, now, &self.ids);
        let unknown =
            shorts.iter().filter(|short| self.ids.slots_named(**short).next().is_none()).count();
        let lacking = unknown.saturating_sub(room as usize);
        let mut left_out = false;
        if lacking > 0 {
            // Old announcements make room for new ones: they will not be requested in time
            // (MESH-78).
            for slot in self.engine.take_outdated(from, lacking, now, &self.ids) {
                self.release_slot(slot);
                (room, left_out) = (room + 1, true);
            }
        }
        let mut slots = Vec::with_capacity(shorts.len());
        for (nth, short) in shorts.into_iter().enumerate() {
            let known = self.ids.slots_named(short).next();
            let announced = Announced::new(announced_at, nth);
            // Without room the id is left out and found by the next comparison.
            let expect =
                |ids: &mut Ids| if room > 0 { ids.expect_id(short, announced) } else { None };
            let slot = known.or_else(|| expect(&mut self.ids));
            room -= u32::from(known.is_none() && slot.is_some());
            left_out |= slot.is_none();
            slots.extend(slot);
        }
        if left_out {
            self.engine.compare_soon(from, now);
        }
        slots.into_iter().collect()
    }

    /// Handles a beacon, which binds a name to its address.
    fn hear_beacon(
        &mut self,
        input: &BeaconIn,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let BeaconIn { link, name, source, beacon } = *input;
        let kind = self.links.get(&link).ok_or(Error::NoLink)?.kind;
        if kind == LinkKind::Stream && !self.is_cast_name(name, source) {
            // On a stream a device may only use the name that its address has on a cast link
            // (MESH-59).
            return Err(Error::Stranger);
        }
        let Self { links, engine, ids, .. } = self;
        let link = links.get_mut(&link).ok_or(Error::NoLink)?;
        // Drop names whose neighbour is gone from the engine.
        let is_there = |name: &Name, id: NeighbourId| {
            engine.neighbour(id).is_some_and(|neighbour| neighbour.name == *name)
        };
        let known = link.names.get(&name).copied().filter(|(id, _)| is_there(&name, *id));
        let from = match known {
            // A name is bound to the address of its first beacon, so a beacon from elsewhere is
            // refused (Comparison).
            Some((_, bound)) if bound != source => return Err(Error::Stranger),
            Some((from, _)) => from,
            None => {
                // A frame that is refused changes nothing (MESH-42).
                let seats = places::list_seats(link, engine);
                let leaves = places::select_leaver(&seats, source, link.replace_at, now, rng)?;
                link.names.retain(|name, (id, _)| is_there(name, *id));
                if let Some(leaver) = leaves {
                    link.replace_at = leaver.replace_at.unwrap_or(link.replace_at);
                    if let Some((id, _)) = link.names.remove(&leaver.name) {
                        // The columns of the removed neighbour are cleared before the newcomer gets
                        // them.
                        engine.remove_neighbour(id, ids);
                    }
                }
                let from = engine.add_neighbour(link.engine, name, now, ids);
                link.names.insert(name, (from, source));
                from
            }
        };
        let ctx = EngineCtx { now, table: ids, rng };
        engine.handle_frame(from, &MeshFrame::Beacon(beacon), ctx, |_| ());
        // Only beacons of cast links open streams, since those addresses are on the link (MESH-67).
        if kind == LinkKind::Cast {
            self.dial_neighbour(name, source, beacon, now);
        }
        Ok(())
    }

    /// Returns true if a name is received on a cast link from this address.
    fn is_cast_name(&self, name: Name, source: Source) -> bool {
        let mut casts = self.links.values().filter(|link| link.kind == LinkKind::Cast);
        casts.any(|link| {
            link.names.get(&name).is_some_and(|(id, bound)| {
                *bound == source && self.engine.neighbour(*id).is_some_and(|n| n.name == name)
            })
        })
    }

    /// Handles a cell: checks form, time, id, request, share and store, in this order.
    fn hear_cell(
        &mut self,
        from: NeighbourId,
        source: Source,
        cell: &[u8],
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let cell = MeshCell::decode(cell)?;
        let facts = cell.facts();
        let live = facts.life.judge_tick(facts.tick, self.engine.current_tick()) == Age::Live;
        // Cells of a life that this network does not carry are refused before anything is hashed.
        if self.settings.life.is_some_and(|life| life != facts.life) {
            return Err(Error::Time);
        }
        let id = cell.id();
        // Without a free slot the cell is refused, not stored elsewhere.
        let slot = self.ids.find_slot(&id).ok_or(Error::Share)?;
        let frame = MeshFrame::Data(Set::from_slot(slot));
        if self.ids.id(slot) == Some(&id) {
            // The cell is here already, so only the engine learns that the sender has it.
            let ctx = EngineCtx { now, table: &mut self.ids, rng };
            self.engine.handle_frame(from, &frame, ctx, |_| ());
            return Ok(());
        }
        // Cells that were not requested are dropped before the store is touched (MESH-10).
        if !self.engine.expects_cell(from, slot, now, &self.ids) {
            return Err(Error::Unasked);
        }
        // The share of the store is checked for live cells only. Other cells are not stored.
        let claim = self.claim_room(Origin::Neighbour(source), &cell);
        if live && self.ids.is_over(&claim) {
            return Err(Error::Share);
        }
        // A cell that is not live is not stored: only its id is remembered.
        if live {
            self.make_room(&claim);
        }
        // Making room may have freed another slot, so the slot for this id is looked up again.
        let slot = self.ids.find_slot(&id).unwrap_or(slot);
        let frame = MeshFrame::Data(Set::from_slot(slot));
        let out = cell_out(&cell);
        let stored = self.kept_out(&id, &cell, claim.from);
        // The engine judges by the facts that the table has for the slot.
        self.ids.put_cell(slot, id, cell, Origin::Neighbour(source));
        let mut taken = false;
        let ctx = EngineCtx { now, table: &mut self.ids, rng };
        self.engine.handle_frame(from, &frame, ctx, |_| taken = true);
        if taken {
            self.outputs.extend(stored);
            self.outputs.push_back(out);
        } else {
            // The engine refused the cell: its tick was stale or ahead, or nobody requested it. Its
            // id stays known.
            self.ids.bury_cell(slot);
        }
        Ok(())
    }

    /// Makes room in the store.
    pub(super) fn make_room(&mut self, claim: &StoreClaim) {
        // Ids of expired cells make room first.
        let past = if self.ids.has_room() { None } else { self.ids.past_slots().next() };
        if let Some(slot) = past {
            self.release_slot(slot);
        }
        // The address that brought most bytes loses the cells of its oldest tick first. Cells of
        // this device go last (MESH-40).
        while let Some(slot) = self.ids.select_victim(claim) {
            if let Some(ticket) = self.own.expire(slot) {
                self.outputs.push_back(Output::Expired { ticket });
            }
            if self.ids.has_room() {
                // The id of the evicted cell stays known. Otherwise another neighbour would deliver
                // the cell again, and it would count against that neighbour's share, so that a
                // flood would displace what that neighbour brought (MESH-81).
                self.engine.evict_slot(slot, &mut self.ids);
                self.ids.bury_cell(slot);
            } else {
                self.release_slot(slot);
            }
        }
    }

    /// Returns the claim on the store for a cell that this address brought.
    pub(super) fn claim_room(&self, from: Origin, cell: &MeshCell) -> StoreClaim {
        let facts = cell.facts();
        StoreClaim { from, facts, bytes: cell.bytes().len(), cur: self.engine.current_tick() }
    }

    /// Returns the output that makes the driver store a long-lived cell on disk (MESH-82). The
    /// output comes before every frame that names the cell.
    pub(super) fn kept_out(&self, id: &CellId, cell: &MeshCell, from: Origin) -> Option<Output> {
        let bringer = match from {
            Origin::Neighbour(source) => Bringer::Neighbour(source),
            Origin::Kept(number) => Bringer::Kept(number),
            // Copies on disk must not show which cells were made here.
            Origin::Own | Origin::Bundle => Bringer::Unnamed,
        };
        let keep = || Output::Keep { id: *id, bringer, bytes: cell.bytes().to_vec() };
        self.ids.is_carried(cell.facts()).then(keep)
    }

    /// Returns all live cells, for a file or for a program that begins to listen.
    pub fn live_cells(&self) -> Vec<&MeshCell> {
        let live =
            |(slot, cell): (Slot, _)| self.engine.holds_slot(slot, &self.ids).then_some(cell);
        self.ids.held_cells().filter_map(live).collect()
    }

    /// Returns the first eight bytes of the ids of all live cells.
    pub fn live_shorts(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.live_cells().iter().map(|cell| short_id(&cell.id())).collect();
        all.sort_unstable();
        all
    }
}

/// Returns the output for components that try to open cells.
pub(super) fn cell_out(cell: &MeshCell) -> Output {
    let facts = cell.facts();
    Output::Cell { payload: cell.payload().to_vec(), tick: facts.tick, life: facts.life }
}
