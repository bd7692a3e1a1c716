//! Sent frames: slots translated into ids, and bytes.

use alloc::vec::Vec;
use mezza_core::CryptoRng;

use super::{LinkNumber, Node, Output};
use crate::cell::CellId;
use crate::frame::{MeshFrame, Name};
use crate::limits::CAST_BYTES_MAX;
use crate::set::{Set, Slot};
use crate::table::in_turn;
use crate::wire::filter::{self, SyncFilter};
use crate::wire::{SYNC_HEAD_BYTES, WireFrame};

/// One slice of a set, encoded.
struct SyncPart {
    slice: u8,
    n: u16,
    bits: Vec<u8>,
}

/// Encodes cells in this number of slices.
fn cut_slices(nonce: u64, ids: &[CellId], slices: u8) -> Vec<SyncPart> {
    let part = |slice| {
        let of_slice = ids.iter().filter(|id| filter::slice_of(nonce, id, slices) == slice);
        let ids: Vec<CellId> = of_slice.copied().collect();
        // A count above 16 bits fails the caller's bound check, so the slice is left out.
        let n = u16::try_from(ids.len()).unwrap_or(u16::MAX);
        SyncPart { slice, n, bits: filter::encode(nonce, filter::P, &ids) }
    };
    (0..slices).map(part).collect()
}

impl Node {
    /// Returns true if the node may send now.
    pub(super) fn may_speak(&self) -> bool {
        self.running && !self.leaving
    }

    /// Sends due frames while the links have room.
    pub(super) fn send_due(&mut self, now: u64, rng: &mut dyn CryptoRng) {
        let numbers: Vec<LinkNumber> = self.links.keys().copied().collect();
        for number in numbers {
            while let Some(link) = self.links.get(&number)
                && link.room > 0
                && self.engine.link_due(link.engine) <= now
            {
                // Without a frame nothing is due any more, so that the loop ends.
                if let Some(frame) = self.engine.next_frame(link.engine, now, &mut self.ids, rng) {
                    self.send_frame(number, &frame, rng);
                }
            }
        }
    }

    fn send_frame(&mut self, link: LinkNumber, frame: &MeshFrame, rng: &mut dyn CryptoRng) {
        let name = self.engine.name();
        match frame {
            MeshFrame::Beacon(beacon) => {
                let net = self.network.net();
                self.put_out(link, &WireFrame::Beacon { net, name, beacon: *beacon });
            }
            MeshFrame::Have(set) => {
                // The receiver requests in this order (MESH-78).
                let slots = in_turn(set.slots().collect(), &self.ids);
                let shorts: Vec<_> =
                    slots.into_iter().filter_map(|slot| self.ids.short(slot)).collect();
                // Cells of the set may have left the table, and an empty frame is malformed.
                if !shorts.is_empty() {
                    self.put_out(link, &WireFrame::Have { name, shorts });
                }
            }
            MeshFrame::Want { to, again, set } => {
                let shorts = self.shorts_of(set);
                if !shorts.is_empty() {
                    self.put_out(link, &WireFrame::Want { name, to: *to, again: *again, shorts });
                }
            }
            MeshFrame::Data(set) => {
                for slot in set.slots() {
                    // The cell may have left the store after the engine chose it.
                    if let Some(cell) = self.ids.cell(slot).map(|cell| cell.bytes().to_vec()) {
                        self.own.record_given(slot);
                        self.put_out(link, &WireFrame::Data { name, cell: &cell });
                    }
                }
            }
            MeshFrame::Sync(sync) => self.send_sync(link, sync.to, &sync.held, rng),
            MeshFrame::Busy { to, wait_ms } => {
                self.put_out(link, &WireFrame::Busy { name, to: *to, wait_ms: *wait_ms });
            }
            MeshFrame::Bye => self.put_out(link, &WireFrame::Bye { name }),
        }
    }

    /// Sends our set in as many slices as the frame size of this link requires.
    fn send_sync(&mut self, link: LinkNumber, to: Name, held: &Set, rng: &mut dyn CryptoRng) {
        let Some(up) = self.links.get(&link) else { return };
        // A SYNC has at most 1,200 bytes on every link (section Frames).
        let most = up.frame_bytes_max.min(CAST_BYTES_MAX) - self.network.mac_bytes();
        let classes = up.kind.classes();
        let here = |slot: &Slot| {
            self.ids.cell(*slot).is_some_and(|cell| classes >> cell.facts().class & 1 == 1)
        };
        let ids: Vec<_> =
            held.slots().filter(here).filter_map(|slot| self.ids.id(slot)).copied().collect();
        // The nonce is new each time, so that cells that fall into one slice cannot be prepared
        // (MESH-64).
        let nonce = rng.next_u64();
        let name = self.engine.name();
        let engine_link = up.engine;
        let is_frame = |part: &SyncPart| {
            SYNC_HEAD_BYTES + part.bits.len() <= most && usize::from(part.n) <= filter::N_MAX
        };
        let mut slices = 1;
        let mut parts = cut_slices(nonce, &ids, slices);
        // Slices double until each fits into a frame.
        while slices < filter::SLICES_MAX && !parts.iter().all(is_frame) {
            slices *= 2;
            parts = cut_slices(nonce, &ids, slices);
        }
        // A slice that does not fit even then is left out, and not the comparison: the next nonce
        // cuts it differently.
        parts.retain(is_frame);
        for SyncPart { slice, n, bits } in &parts {
            let filter = SyncFilter { nonce, slice: *slice, slices, p: filter::P, n: *n, bits };
            self.put_out(link, &WireFrame::Sync { name, to, filter });
        }
        // The number of cells accepted unasked follows the number of frames sent.
        self.engine.grant_answers(engine_link, to, parts.len() as u32);
    }

    /// Sends a farewell on every link.
    pub(super) fn say_bye(&mut self) {
        if !self.running {
            return;
        }
        let name = self.engine.name();
        let numbers: Vec<LinkNumber> = self.links.keys().copied().collect();
        for link in numbers {
            self.put_out(link, &WireFrame::Bye { name });
        }
    }

    fn shorts_of(&self, set: &Set) -> Vec<u64> {
        set.slots().filter_map(|slot| self.ids.short(slot)).collect()
    }

    fn put_out(&mut self, number: LinkNumber, frame: &WireFrame<'_>) {
        let mut bytes = frame.encode();
        self.network.append_mac(&mut bytes);
        // A frame that does not fit the link is dropped: the receiver could not read it.
        let Some(link) = self.links.get_mut(&number).filter(|l| bytes.len() <= l.frame_bytes_max)
        else {
            return;
        };
        link.room = link.room.saturating_sub(1);
        self.bytes.1 += bytes.len() as u64;
        self.outputs.push_back(Output::Send { link: number, frame: bytes });
    }
}
