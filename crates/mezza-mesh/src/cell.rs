//! A cell, the unit that the mesh floods: a sealed payload of one of four sizes, with its size
//! class, its life (lifetime class) and its tick, and nothing else.
//!
//! ```text
//! 0     version 1 (high nibble) | class (low nibble)
//! 1     life: 0 to 3
//! 2     tick of sealing, u32
//! 6     payload: an envelope whose first byte has the class in its low nibble, and whose second one is
//!       the tick modulo 256
//! ```

use alloc::vec::Vec;
use mezza_core::labelled_hash;

use crate::epoch::CellLife;
use crate::table::CellFacts;

/// Bytes before the payload.
pub const HEAD_BYTES: usize = 6;
/// The version of cells.
const VERSION: u8 = 1;

/// The sizes of cells, bytes, by class.
pub const CELL_BYTES: [usize; 4] = [512, 1_024, 2_048, 4_096];

/// The id of a cell, which is never sent: 16 bytes of BLAKE2b over the whole cell.
pub type CellId = [u8; 16];

/// The reason why bytes are not a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// The length is not one of the four sizes, or is not that of the named class.
    #[error("a cell has 512, 1,024, 2,048 or 4,096 bytes, as its class says")]
    Size,
    /// The version or the life (lifetime class) is unknown.
    #[error("a version or a life that is not known")]
    Head,
    /// The payload's first two bytes contradict the header.
    #[error("the payload does not agree with the head of its cell")]
    Payload,
}

/// A cell whose form was checked: size, version, life, and the two bytes of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshCell(Vec<u8>);

impl MeshCell {
    /// Makes the cell of a payload that was sealed at `tick`.
    ///
    /// # Errors
    /// If the payload has none of the four sizes, or does not name its class and tick.
    pub fn new(life: CellLife, tick: u32, payload: &[u8]) -> Result<Self, CellError> {
        let bytes = payload.len() + HEAD_BYTES;
        let class = CELL_BYTES.iter().position(|size| *size == bytes).ok_or(CellError::Size)?;
        let mut cell = Vec::with_capacity(bytes);
        cell.extend_from_slice(&[VERSION << 4 | class as u8, life.number()]);
        cell.extend_from_slice(&tick.to_be_bytes());
        cell.extend_from_slice(payload);
        // The payload comes from the caller, so it passes the same check as a cell from the
        // network.
        Self::decode(&cell)
    }

    /// Checks the bytes of a cell, cheap checks first; nothing is hashed.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, CellError> {
        check_form(bytes)?;
        Ok(Self(bytes.to_vec()))
    }

    /// Returns the bytes of the whole cell.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the payload of the messenger.
    pub fn payload(&self) -> &[u8] {
        &self.0[HEAD_BYTES..]
    }

    /// Returns the id of the cell.
    pub fn id(&self) -> CellId {
        labelled_hash("mezza/mesh cell", &[&self.0])
    }

    /// Returns the facts in the header.
    pub fn facts(&self) -> CellFacts {
        read_facts(&self.0, 0)
    }
}

/// Checks the form of a cell.
fn check_form(bytes: &[u8]) -> Result<(), CellError> {
    let [head, life, a, b, c, d, kind, tick, ..] = *bytes else { return Err(CellError::Size) };
    let class = head & 0x0f;
    // Sizes first: all checks are free of hashing, so that junk costs a comparison only (MESH-1).
    if CELL_BYTES.get(usize::from(class)) != Some(&bytes.len()) {
        return Err(CellError::Size);
    }
    if head >> 4 != VERSION || CellLife::from_number(life).is_none() {
        return Err(CellError::Head);
    }
    // The tick appears twice, in the header and in the envelope. A relabelled header disagrees
    // (MESH-1).
    if kind & 0x0f != class || tick != u32::from_be_bytes([a, b, c, d]) as u8 {
        return Err(CellError::Payload);
    }
    Ok(())
}

/// Reads the header of checked bytes.
fn read_facts(bytes: &[u8], sum: u32) -> CellFacts {
    let tick = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    // The bytes were checked before, so the fallback is never used.
    let life = CellLife::from_number(bytes[1]).unwrap_or_default();
    CellFacts { tick, life, class: bytes[0] & 0x0f, sum }
}

/// Returns the short id of a cell: the first eight bytes of the id, which name it in frames.
pub fn short_id(id: &CellId) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *id;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the four bytes of an id that go into the checksum of a beacon, an XOR over all live
/// cells.
pub fn sum_part(id: &CellId) -> u32 {
    u32::from_be_bytes([id[8], id[9], id[10], id[11]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(class: u8, tick: u32) -> Vec<u8> {
        let mut payload = alloc::vec![7; CELL_BYTES[usize::from(class)] - HEAD_BYTES];
        (payload[0], payload[1]) = (0x10 | class, tick as u8);
        payload
    }

    #[test]
    fn mesh_1_four_sizes_and_fields_that_agree() {
        for class in 0..4_u8 {
            let cell = MeshCell::new(CellLife::HalfHour, 0x0102_0304, &payload(class, 4)).unwrap();
            assert_eq!(MeshCell::decode(cell.bytes()).as_ref(), Ok(&cell));
            let facts = CellFacts { tick: 0x0102_0304, life: CellLife::HalfHour, class, sum: 0 };
            assert_eq!((cell.facts(), cell.payload()), (facts, &*payload(class, 4)));
        }
        let cell = MeshCell::new(CellLife::Minute, 9, &payload(1, 9)).unwrap();
        for (at, value, error) in [
            (0, 0x10, CellError::Size),
            (0, 0x21, CellError::Head),
            (1, 4, CellError::Head),
            (5, 8, CellError::Payload),
            (6, 0x12, CellError::Payload),
            (7, 8, CellError::Payload),
        ] {
            let mut bytes = cell.bytes().to_vec();
            bytes[at] = value;
            assert_eq!(MeshCell::decode(&bytes), Err(error), "byte {at}");
        }
        for cut in [0, 5, 511, 1_023] {
            assert_eq!(MeshCell::decode(&cell.bytes()[..cut]), Err(CellError::Size));
        }
    }

    #[test]
    fn mesh_3_the_id_covers_every_byte() {
        let cell = MeshCell::new(CellLife::Minute, 9, &payload(0, 9)).unwrap();
        let mut other = cell.clone();
        other.0[511] ^= 1;
        assert_ne!(cell.id(), other.id());
        let relabelled = MeshCell::new(CellLife::FiveMinutes, 9, &payload(0, 9)).unwrap();
        assert_ne!(short_id(&cell.id()), short_id(&relabelled.id()));
    }
}
