//! Live cells in a file, for a memory stick: `"MZB1" | n u32 | n * (len u16, cell)`, sorted by id.

use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer};

use crate::cell::MeshCell;

const MAGIC: &[u8; 4] = b"MZB1";

/// Maximum number of cells in a bundle.
pub const CELLS_MAX: u32 = 16_384;

/// Encodes these cells as a bundle.
pub fn encode<'a>(cells: impl IntoIterator<Item = &'a MeshCell>) -> Vec<u8> {
    let mut cells: Vec<_> = cells.into_iter().map(|cell| (cell.id(), cell)).collect();
    // Sorted by id, so that a file does not show the order in which cells arrived.
    cells.sort_unstable_by_key(|(id, _)| *id);
    cells.truncate(CELLS_MAX as usize);
    let mut w = Writer::new();
    w.put_bytes(MAGIC).put_u32(cells.len() as u32);
    for (_, cell) in cells {
        w.put_var16(cell.bytes());
    }
    w.finish()
}

/// Decodes the cells of a bundle one by one. If the file is truncated, its complete cells are
/// returned.
///
/// # Errors
/// If the bytes are not a bundle, or the number of cells exceeds [`CELLS_MAX`].
pub fn decode(bytes: &[u8]) -> Result<Vec<MeshCell>, DecodeError> {
    let mut r = Reader::new(bytes);
    if r.read_bytes(4)? != MAGIC {
        return Err(DecodeError::Value);
    }
    let n = r.read_u32()?;
    // The number is compared with its bound before anything is read (MESH-41).
    if n > CELLS_MAX {
        return Err(DecodeError::Value);
    }
    let mut cells = Vec::new();
    for _ in 0..n {
        // A stick that was pulled early truncates the file. The complete cells before the cut are
        // valid.
        let Ok(cell) = r.read_var16() else { break };
        // A malformed cell, or one of a later version, is left out; the other cells are still read.
        cells.extend(MeshCell::decode(cell).ok());
    }
    Ok(cells)
}
