//! Comparisons with neighbours: our sketches, and theirs while they arrive.
//!
//! ```text
//! A: SYNC, first symbols  ->  B: subtracts its own   both differences found: done
//! A  <- MORE                  B: too few             at most 1,696 symbols of a sketch
//! A: SYNC, further symbols ->
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use mezza_core::CryptoRng;

use super::{Error, LinkNumber, Node};
use crate::cell::{CellId, short_id};
use crate::engine::{EngineCtx, NeighbourId};
use crate::frame::{MeshFrame, Name, SyncFrame};
use crate::limits::{
    COMPARES_AT_ONCE, COMPARES_MAX, MORE_DEFER, MORE_PATIENCE, MORE_ROW, NEVER, OPEN_FIRST,
    PROMISE, SHORTS_PER_FRAME, SKETCH_FRESH, SKETCH_LIFE, SKETCHES_MAX, SYMBOLS_FIRST,
    SYMBOLS_SHARED, SYNC_NEWS,
};
use crate::set::{Set, Slot};
use crate::wire::WireFrame;
use crate::wire::sketch::{
    Difference, SYMBOLS_MAX, SYMBOLS_PER_FRAME, SketchKey, SketchSymbol, estimate_symbols,
    find_difference, make_symbols,
};

/// A sketch of our cells, for all neighbours that are compared with about the same time.
#[derive(Debug)]
struct OwnSketch {
    key: SketchKey,
    /// The classes of cells that it describes, one bit each.
    classes: u8,
    made_at: u64,
    /// The cells at that time: later symbols must describe the same set as the first ones.
    ids: Vec<CellId>,
    symbols: Vec<SketchSymbol>,
    /// Number of symbols that were sent on request, by neighbour.
    served: BTreeMap<Name, usize>,
}

impl OwnSketch {
    /// Returns the symbols `from..end`, at most [`SYMBOLS_MAX`].
    fn extend_to(&mut self, end: usize) -> &[SketchSymbol] {
        let have = self.symbols.len();
        let end = end.min(SYMBOLS_MAX);
        if have < end {
            self.symbols.extend(make_symbols(self.key, &self.ids, have, end));
        }
        &self.symbols
    }
}

/// The sketch of a neighbour, as far as it arrived.
#[derive(Debug)]
struct TheirSketch {
    from: NeighbourId,
    key: SketchKey,
    symbols: Vec<Option<SketchSymbol>>,
    /// The first symbol of the last request.
    asked_from: usize,
    /// True if symbols arrived since the last attempt.
    is_new: bool,
    /// When the difference is searched, or symbols are requested again.
    act_at: u64,
    /// Requests without an answer.
    idle: u8,
    /// True if the other device may request symbols first.
    deferred: bool,
}

/// The link, the neighbour and the slice of a comparison.
type Place = (LinkNumber, Name, u8);

/// All comparisons of a node.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    own: Vec<OwnSketch>,
    theirs: BTreeMap<Place, TheirSketch>,
    /// Until then the work of earlier comparisons counts as not done (MESH-88).
    free_at: u64,
}

impl Comparisons {
    /// Returns when the next comparison has work.
    pub(super) fn due(&self) -> u64 {
        self.theirs.values().map(|sketch| sketch.act_at).min().unwrap_or(NEVER)
    }

    /// Drops all comparisons: a new name must not continue those of the old one (MESH-30).
    pub(super) fn clear(&mut self) {
        self.own.clear();
        self.theirs.clear();
    }

    /// Counts a search over `cells` cells: a microsecond for each keeps the share of the processor
    /// at about a tenth, however many neighbours compare.
    fn count_work(&mut self, cells: usize, now: u64) {
        self.free_at = self.free_at.max(now) + cells as u64;
    }

    /// Returns true if a comparison under `place` can be stored.
    fn has_room(&self, place: Place) -> bool {
        self.theirs.len() < COMPARES_MAX
            || self.theirs.contains_key(&place)
            || self.theirs.values().any(|sketch| sketch.idle > 0)
    }

    /// Stores a new comparison, if need be in place of one that gets no answers.
    fn insert(&mut self, place: Place, sketch: TheirSketch) {
        if self.theirs.len() >= COMPARES_MAX && !self.theirs.contains_key(&place) {
            let stuck = self.theirs.iter().find(|(_, sketch)| sketch.idle > 0);
            if let Some(stuck) = stuck.map(|(at, _)| *at) {
                self.theirs.remove(&stuck);
            }
        }
        self.theirs.insert(place, sketch);
    }

    /// Stores a sketch of ours in place of the oldest one. Returns its index.
    fn insert_own(&mut self, own: OwnSketch) -> usize {
        self.forget_old(own.made_at);
        if self.own.len() >= SKETCHES_MAX {
            self.own.remove(0);
        }
        self.own.push(own);
        self.own.len() - 1
    }

    /// Drops sketches whose further symbols nobody may request any more.
    pub(super) fn forget_old(&mut self, now: u64) {
        self.own.retain(|own| now <= own.made_at + SKETCH_LIFE);
    }
}

/// Returns how many symbols show a set of a few cells, or 0 if it has more.
fn count_of_few(cells: usize) -> usize {
    let count = 4 + 2 * cells;
    if count < SYMBOLS_PER_FRAME { count } else { 0 }
}

/// Returns the difference to our cells if the symbols are enough for the whole set of the neighbour.
fn find_all(
    key: SketchKey,
    theirs: &[Option<SketchSymbol>],
    ours: &[CellId],
) -> Option<Difference> {
    let none = alloc::vec![SketchSymbol::default(); theirs.len()];
    let all: BTreeSet<CellId> = find_difference(key, theirs, &none)?.theirs.into_iter().collect();
    let known: BTreeSet<CellId> = ours.iter().copied().collect();
    let theirs = all.difference(&known).copied().collect();
    Some(Difference { theirs, ours: known.difference(&all).copied().collect() })
}

/// A received part of a sketch.
pub(super) struct SymbolsIn {
    pub link: LinkNumber,
    pub from: NeighbourId,
    pub name: Name,
    pub key: SketchKey,
    /// The number of the first symbol.
    pub first: usize,
    pub symbols: Vec<SketchSymbol>,
}

/// A received request for symbols.
pub(super) struct MoreIn {
    pub link: LinkNumber,
    pub from: NeighbourId,
    pub name: Name,
    pub nonce: u64,
    /// The number of the first symbol.
    pub first: usize,
    /// The number of symbols.
    pub count: usize,
}

impl Node {
    /// Sends the first symbols of our set.
    pub(super) fn send_sync(
        &mut self,
        link: LinkNumber,
        to: Name,
        held: &Set,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) {
        let Some(up) = self.links.get(&link) else { return };
        let classes = up.kind.classes();
        let engine_link = up.engine;
        let plan = self.engine.plan_comparison(engine_link, to);
        // Equal sums are hardly ever chance, and few cells need few symbols.
        let few = if plan.equal { 0 } else { 2 * plan.cells as usize };
        let count = (2 + few).min(SYMBOLS_FIRST);
        // A large difference is compared in several slices: each shows cells of every bringer.
        let first = (rng.next_u32() % u32::from(plan.slices)) as u8;
        let together = plan.slices.min(COMPARES_AT_ONCE as u8);
        for nth in 0..together {
            let slice = first.wrapping_add(nth) & (plan.slices - 1);
            let here = |own: &OwnSketch| {
                own.classes == classes
                    && (own.key.slice, own.key.slices) == (slice, plan.slices)
                    && now <= own.made_at + SKETCH_FRESH
            };
            let at = self.compares.own.iter().position(here).unwrap_or_else(|| {
                // The nonce is drawn after the cells are known, so that cells cannot be prepared for
                // it (MESH-87).
                let key = SketchKey { nonce: rng.next_u64(), slice, slices: plan.slices };
                let ids = self.ids_within(held, classes, key);
                self.compares.insert_own(OwnSketch {
                    key,
                    classes,
                    made_at: now,
                    ids,
                    symbols: Vec::new(),
                    served: BTreeMap::new(),
                })
            });
            let Some(own) = self.compares.own.get_mut(at) else { return };
            let key = own.key;
            // A set of a few cells is sent as a whole, whatever the neighbour holds.
            let count = if plan.equal { count } else { count.max(count_of_few(own.ids.len())) };
            let symbols = own.extend_to(count).iter().take(count).copied().collect();
            let name = self.engine.name();
            self.put_out(link, &WireFrame::Sync { name, to, key, from: 0, symbols });
        }
        // One frame allows the cells of one answer.
        self.engine.grant_answers(engine_link, to, together.into());
    }

    fn ids_within(&self, held: &Set, classes: u8, key: SketchKey) -> Vec<CellId> {
        let here = |slot: &Slot| {
            self.ids.cell(*slot).is_some_and(|cell| classes >> cell.facts().class & 1 == 1)
        };
        let ids = held.slots().filter(here).filter_map(|slot| self.ids.id(slot)).copied();
        ids.filter(|id| key.covers(id)).collect()
    }

    /// Sends further symbols of one of our sketches.
    pub(super) fn hear_more(&mut self, more: &MoreIn, now: u64) -> Result<(), Error> {
        let MoreIn { link, from, name, nonce, first, count } = *more;
        let own = self.compares.own.iter_mut().find(|own| own.key.nonce == nonce);
        let own = own.filter(|own| now <= own.made_at + SKETCH_LIFE).ok_or(Error::Compared)?;
        if count == 0 && first >= SYMBOLS_MAX {
            // The whole sketch was too short.
            self.engine.divide_comparison(from, now);
            return Ok(());
        }
        let end = (first + count).min(SYMBOLS_MAX);
        let served = own.served.get(&name).copied().unwrap_or(0);
        // Twice the sketch covers losses. More would be an amplification attack (MESH-88).
        if first >= end || served + (end - first) > 2 * SYMBOLS_MAX {
            return Err(Error::Compared);
        }
        own.served.insert(name, served + (end - first));
        let key = own.key;
        let symbols = own.extend_to(end).get(first..end).unwrap_or_default().to_vec();
        // The neighbour searches for both halves of a small difference, so our own search ends.
        if end <= SYMBOLS_SHARED {
            self.compares.theirs.remove(&(link, name, key.slice));
        }
        let to = name;
        let name = self.engine.name();
        for (nth, part) in symbols.chunks(SYMBOLS_PER_FRAME).enumerate() {
            let from = (first + nth * SYMBOLS_PER_FRAME) as u16;
            self.put_out(link, &WireFrame::Sync { name, to, key, from, symbols: part.to_vec() });
        }
        Ok(())
    }

    /// Takes symbols of a neighbour's sketch.
    pub(super) fn hear_symbols(&mut self, input: SymbolsIn, now: u64) -> Result<(), Error> {
        let SymbolsIn { link, from, name, key, first, symbols } = input;
        let place = (link, name, key.slice);
        let current = self.compares.theirs.get(&place).is_some_and(|sketch| sketch.key == key);
        if !current {
            // Symbols of a comparison that ended here, or never began.
            if first > 0 {
                return Err(Error::Compared);
            }
            if !self.compares.has_room(place) || !self.engine.may_compare(from, key.slice, now) {
                return Err(Error::Compared);
            }
            let sketch = TheirSketch {
                from,
                key,
                symbols: alloc::vec![None; symbols.len()],
                asked_from: 0,
                is_new: false,
                act_at: now,
                idle: 0,
                deferred: false,
            };
            self.compares.insert(place, sketch);
        }
        let free_at = self.compares.free_at;
        let sketch = self.compares.theirs.get_mut(&place).ok_or(Error::Compared)?;
        let end = first + symbols.len();
        // Symbols that were not requested would make a neighbour fill our memory.
        let Some(room) = sketch.symbols.get_mut(first..end) else { return Err(Error::Compared) };
        for (room, symbol) in room.iter_mut().zip(symbols) {
            *room = Some(symbol);
        }
        (sketch.is_new, sketch.idle) = (true, 0);
        let complete = sketch.symbols.iter().skip(sketch.asked_from).all(Option::is_some);
        // The last frame of an answer may be lost, so what came is used after a short while.
        let at = if complete { now } else { now + MORE_PATIENCE };
        sketch.act_at = at.max(free_at);
        Ok(())
    }

    /// Searches for the differences whose symbols arrived, and requests further symbols.
    pub(super) fn act_on_comparisons(&mut self, now: u64, rng: &mut dyn CryptoRng) {
        let due = self.compares.theirs.iter().filter(|(_, sketch)| sketch.act_at <= now);
        let due: Vec<_> = due.map(|(place, _)| *place).collect();
        for place in due {
            let Some(mut sketch) = self.compares.theirs.remove(&place) else { continue };
            // The neighbour may have left.
            if self.engine.neighbour(sketch.from).is_none_or(|n| n.name != place.1) {
                continue;
            }
            if sketch.is_new && self.compares.free_at > now {
                // The work of other comparisons goes first (MESH-88).
                sketch.act_at = self.compares.free_at;
                self.compares.theirs.insert(place, sketch);
                continue;
            }
            if self.act_on(place, &mut sketch, now, rng) {
                self.compares.theirs.insert(place, sketch);
            }
        }
    }

    /// Continues one comparison. Returns true if it waits for further symbols.
    fn act_on(
        &mut self,
        place: Place,
        sketch: &mut TheirSketch,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> bool {
        let (link, name, _) = place;
        if !core::mem::take(&mut sketch.is_new) {
            sketch.idle += u8::from(!core::mem::take(&mut sketch.deferred));
            // The next beacon with another sum begins a new comparison.
            return sketch.idle <= MORE_ROW && self.ask_more(place, sketch, now);
        }
        let within = self.slots_within(link, sketch.key);
        let ids: Vec<CellId> =
            within.slots().filter_map(|slot| self.ids.id(slot)).copied().collect();
        self.compares.count_work(ids.len(), now);
        let ours = make_symbols(sketch.key, &ids, 0, sketch.symbols.len());
        let found = find_difference(sketch.key, &sketch.symbols, &ours)
            .or_else(|| find_all(sketch.key, &sketch.symbols, &ids));
        if let Some(found) = found {
            self.apply_difference(sketch, &within, found, now, rng);
            return false;
        }
        let none = alloc::vec![SketchSymbol::default(); ours.len()];
        let sent: Vec<Option<SketchSymbol>> = ours.iter().copied().map(Some).collect();
        let differ = estimate_symbols(&sketch.symbols, &ours);
        let end = differ.min(estimate_symbols(&sketch.symbols, &none));
        // Fewer symbols show our whole set to the neighbour, so that one searches.
        if estimate_symbols(&sent, &none) < end {
            self.engine.compare_soon(sketch.from, now);
            return false;
        }
        let synced = self.engine.neighbour(sketch.from).map_or(0, |n| n.synced_at);
        // One device searches for a small difference: that with the lower name, if both sent a
        // sketch. A large one is searched by both, since each announces its own cells in turns.
        let defers =
            sketch.asked_from == 0 && self.engine.name() > name && synced + SYNC_NEWS > now;
        sketch.asked_from = sketch.symbols.len();
        sketch.symbols.resize(end, None);
        if defers && end == differ && end <= SYMBOLS_SHARED {
            (sketch.deferred, sketch.act_at) = (true, now + MORE_DEFER);
            return true;
        }
        self.ask_more(place, sketch, now)
    }

    /// Requests the symbols that are missing from the last part. Returns false if the sketch ends.
    fn ask_more(&mut self, place: Place, sketch: &mut TheirSketch, now: u64) -> bool {
        let (link, to, _) = place;
        let name = self.engine.name();
        let from = sketch.asked_from as u16;
        let n = (sketch.symbols.len() - sketch.asked_from) as u16;
        let nonce = sketch.key.nonce;
        self.put_out(link, &WireFrame::More { name, to, nonce, from, n });
        sketch.act_at = now + 4 * MORE_PATIENCE;
        n > 0
    }

    /// Returns our cells that a sketch on this link describes.
    fn slots_within(&self, link: LinkNumber, key: SketchKey) -> Set {
        let classes = self.links.get(&link).map_or(0, |link| link.kind.classes());
        let within = self.ids.held_cells().filter(|(slot, cell)| {
            // Only cells of classes that travel on this link are compared.
            classes >> cell.facts().class & 1 == 1
                && self.engine.holds_slot(*slot, &self.ids)
                && self.ids.id(*slot).is_some_and(|id| key.covers(id))
        });
        let mut set = Set::default();
        within.for_each(|(slot, _)| set.insert(slot));
        set
    }

    /// Sends or announces what the neighbour lacks, and requests what it has beyond our cells.
    fn apply_difference(
        &mut self,
        sketch: &TheirSketch,
        within: &Set,
        found: Difference,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) {
        let Some(name) = self.engine.neighbour(sketch.from).map(|n| n.name) else { return };
        let lacking: BTreeSet<CellId> = found.ours.into_iter().collect();
        let lacks = |slot: &Slot| self.ids.id(*slot).is_some_and(|id| lacking.contains(id));
        let (lacked, held): (Vec<Slot>, Vec<Slot>) = within.slots().partition(lacks);
        let lacked: Set = lacked.into_iter().collect();
        let held: Set = held.into_iter().collect();
        self.note_holder(name, &held);
        // A comparison acts as a request for the lacking cells.
        self.own.record_asked(name, &lacked);
        // The neighbour sends a cell whose short id is that of one of ours, as an answer to our own
        // sketch: it cannot be requested by that id (MESH-14).
        let is_held = |id: &CellId| {
            let mut slots = self.ids.slots_named(short_id(id));
            slots.any(|slot| self.ids.id(slot).is_some_and(|held| held != id))
        };
        // The neighbour knows who brought its cells, and announces many of them in turns (MESH-77).
        let many = found.theirs.len() > OPEN_FIRST as usize;
        let more = many || found.theirs.iter().any(is_held);
        let frame = MeshFrame::Sync(Box::new(SyncFrame {
            to: self.engine.name(),
            held,
            within: Some(within.clone()),
            more,
        }));
        let ctx = EngineCtx { now, table: &mut self.ids, rng };
        self.engine.handle_frame(sketch.from, &frame, ctx, |_| ());
        let few = found.theirs.get(..OPEN_FIRST as usize).unwrap_or(&found.theirs);
        for ids in few.chunks(SHORTS_PER_FRAME) {
            // Ids get slots only if this neighbour has room (MESH-62). A sketch is as old as 20 s,
            // so its cells are requested after announced ones, and may be gone (MESH-78).
            let shorts = ids.iter().map(short_id).collect();
            let announced_at = now.saturating_sub(PROMISE);
            let set = self.assign_slots(sketch.from, shorts, announced_at, now);
            self.note_holder(name, &set);
            let ctx = EngineCtx { now, table: &mut self.ids, rng };
            self.engine.handle_frame(sketch.from, &MeshFrame::Have(set), ctx, |_| ());
        }
    }
}
