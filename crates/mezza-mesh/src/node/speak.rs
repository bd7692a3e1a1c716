//! Sent frames: slots translated into ids, and bytes.

use alloc::vec::Vec;
use mezza_core::CryptoRng;

use super::{LinkNumber, Node, Output};
use crate::frame::MeshFrame;
use crate::set::Set;
use crate::table::in_turn;
use crate::wire::WireFrame;

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
                    self.send_frame(number, &frame, now, rng);
                }
            }
        }
    }

    fn send_frame(
        &mut self,
        link: LinkNumber,
        frame: &MeshFrame,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) {
        let name = self.engine.name();
        match frame {
            MeshFrame::Beacon(beacon) => {
                let net = self.network.net();
                self.put_out(link, &WireFrame::Beacon { net, name, beacon: *beacon });
            }
            MeshFrame::Have(set) => {
                // The order of ids matters: the receiver requests the cells in this order
                // (MESH-78).
                let slots = in_turn(set.slots().collect(), &self.ids);
                let shorts: Vec<_> =
                    slots.into_iter().filter_map(|slot| self.ids.short(slot)).collect();
                // All cells of the set may have left the table by now. A frame without cells would
                // be malformed.
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
            MeshFrame::Sync(sync) => self.send_sync(link, sync.to, &sync.held, now, rng),
            MeshFrame::Busy { to, wait_ms } => {
                self.put_out(link, &WireFrame::Busy { name, to: *to, wait_ms: *wait_ms });
            }
            MeshFrame::Bye => self.put_out(link, &WireFrame::Bye { name }),
        }
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

    pub(super) fn put_out(&mut self, number: LinkNumber, frame: &WireFrame<'_>) {
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
