//! The notes of one era of the reader that the writer has on its disk (BACKUP-20).

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use super::Era;
use crate::receipt::{SeqRange, Window};

/// Bytes of a range on the wire.
const RANGE_BYTES: usize = 8;

/// The notes of one era of the reader that the writer of this item has stored. It is no receipt,
/// and a later inventory may name fewer notes.
///
/// Wire form: `era[4] | floor u32 | n u8 | n * (from u32 | to u32) | m u8 | bits[m]`, n <= 64, m <= 128.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The era of the reader's notes.
    pub era: Era,
    /// The writer has every number up to here, except the gaps.
    pub floor: u32,
    /// Numbers up to the floor that the writer does not have, ascending.
    pub gaps: Vec<SeqRange>,
    /// Bit i, lowest first, stands for number floor + 1 + i. The last byte is not zero.
    pub bits: Vec<u8>,
}

snapshot!(struct Inventory { era, floor, gaps, bits });
snapshot!(struct SeqRange { from, to });

impl Inventory {
    /// Most gaps of an inventory; of more the oldest are left out.
    pub const GAPS_MAX: usize = 64;
    /// Most bytes of bits: as many as a receive window has.
    pub const BITS_BYTES_MAX: usize = 128;

    /// Returns the inventory of a receive window. Notes that the user deleted, or whose timer
    /// ended, count as held: deletions stay private.
    pub fn of_window(arrived: &Window) -> Self {
        let ranges = arrived.to_ranges();
        let surplus = ranges.passed.len().saturating_sub(Self::GAPS_MAX);
        let mut bits = Vec::new();
        for range in &ranges.arrived {
            for seq in range.from..=range.to {
                let i = (seq - ranges.floor - 1) as usize;
                if bits.len() <= i / 8 {
                    bits.resize(i / 8 + 1, 0);
                }
                bits[i / 8] |= 1 << (i % 8);
            }
        }
        let gaps = ranges.passed[surplus..].to_vec();
        Self { era: arrived.era(), floor: ranges.floor, gaps, bits }
    }

    /// Returns true if the writer has the note with this number.
    pub fn holds(&self, seq: u32) -> bool {
        if seq <= self.floor {
            return seq > 0 && !self.gaps.iter().any(|gap| (gap.from..=gap.to).contains(&seq));
        }
        let i = (seq - self.floor - 1) as usize;
        self.bits.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
    }

    /// Returns the highest number that the writer has, or 0.
    pub fn highest(&self) -> u32 {
        let last = self.bits.last().map_or(0, |byte| 8 - byte.leading_zeros());
        let above = (self.bits.len() as u32 * 8).saturating_sub(8) + last;
        self.floor.saturating_add(if self.bits.is_empty() { 0 } else { above })
    }

    /// Bytes of the wire form.
    pub fn wire_bytes(&self) -> usize {
        10 + RANGE_BYTES * self.gaps.len() + self.bits.len()
    }

    /// Appends the wire form.
    pub(crate) fn write(&self, w: &mut Writer) {
        w.put_bytes(&self.era.0).put_u32(self.floor).put_u8(self.gaps.len() as u8);
        for gap in &self.gaps {
            w.put_u32(gap.from).put_u32(gap.to);
        }
        w.put_var8(&self.bits);
    }

    /// Reads the wire form from the front.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let era = Era::read(r)?;
        let floor = r.read_u32()?;
        let mut gaps: Vec<SeqRange> = Vec::new();
        for _ in 0..r.read_u8()? {
            let gap = SeqRange { from: r.read_u32()?, to: r.read_u32()? };
            // Gaps must ascend and must not touch, so that each content has one encoding.
            let after = gaps.last().is_none_or(|last| gap.from > last.to.saturating_add(1));
            if gap.from == 0 || gap.from > gap.to || gap.to > floor || !after {
                return Err(DecodeError::Value);
            }
            gaps.push(gap);
        }
        let bits = r.read_var8()?;
        let is_shortest = bits.last().is_none_or(|last| *last != 0);
        if gaps.len() > Self::GAPS_MAX || bits.len() > Self::BITS_BYTES_MAX || !is_shortest {
            return Err(DecodeError::Value);
        }
        let inventory = Self { era, floor, gaps, bits: bits.to_vec() };
        // A number beyond the last one stands for nothing.
        let reach = u64::from(floor) + 8 * inventory.bits.len() as u64;
        if reach > u64::from(u32::MAX) { Err(DecodeError::Value) } else { Ok(inventory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(seqs: impl IntoIterator<Item = u32>) -> Window {
        let mut window = Window::new(Era([9; 4]));
        for seq in seqs {
            let _ = window.insert(seq);
        }
        window
    }

    #[test]
    fn backup_20_an_inventory_holds_what_has_arrived_and_nothing_else() {
        let mut arrived = window((1..=10).chain([13, 20, 21]));
        assert!(arrived.void_range(11, 12));
        assert!(arrived.void_range(15, 15));
        let inventory = Inventory::of_window(&arrived);
        let held: Vec<u32> = (0..2_000).filter(|seq| inventory.holds(*seq)).collect();
        assert_eq!(held, (1..=10).chain([13, 20, 21]).collect::<Vec<_>>());
        assert_eq!(inventory.highest(), 21);
        assert_eq!(Inventory::of_window(&window([])).highest(), 0);
        assert_eq!(Inventory::of_window(&window(1..=7)).highest(), 7);
    }

    #[test]
    fn backup_20_an_inventory_is_read_as_it_was_written() {
        let mut arrived = window((1..=10).chain([1_000]));
        assert!(arrived.void_range(11, 30));
        let inventory = Inventory::of_window(&arrived);
        let mut w = Writer::new();
        inventory.write(&mut w);
        let bytes = w.finish();
        assert_eq!(bytes.len(), inventory.wire_bytes());
        assert_eq!(Reader::decode_exact(&bytes, Inventory::read), Ok(inventory));
        for cut in 0..bytes.len() {
            assert!(Reader::decode_exact(&bytes[..cut], Inventory::read).is_err(), "{cut}");
        }
    }

    #[test]
    fn backup_20_a_malformed_inventory_is_refused() {
        let refuses = |floor: u32, gaps: &[(u32, u32)], bits: &[u8]| {
            let mut w = Writer::new();
            w.put_bytes(&[1; 4]).put_u32(floor).put_u8(gaps.len() as u8);
            for (from, to) in gaps {
                w.put_u32(*from).put_u32(*to);
            }
            w.put_var8(bits);
            Reader::decode_exact(&w.finish(), Inventory::read).is_err()
        };
        assert!(!refuses(10, &[(2, 3), (5, 10)], &[2]));
        assert!(refuses(10, &[(0, 3)], &[]));
        assert!(refuses(10, &[(3, 2)], &[]));
        assert!(refuses(10, &[(5, 11)], &[]));
        assert!(refuses(10, &[(2, 3), (4, 5)], &[]), "two ranges that are one");
        assert!(refuses(10, &[(5, 6), (2, 3)], &[]));
        assert!(refuses(10, &[], &[1, 0]));
        assert!(refuses(u32::MAX - 7, &[], &[1]));
        assert!(refuses(0, &[], &[1; 129]));
        let many: Vec<(u32, u32)> = (0..65).map(|n| (2 * n + 1, 2 * n + 1)).collect();
        assert!(refuses(200, &many, &[]) && !refuses(200, &many[1..], &[]));
    }
}
