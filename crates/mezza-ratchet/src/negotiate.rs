//! Suite lists. The order of ids is fixed, so both sides compute the same choice from two lists.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{DecodeError, Reader, Suite, SuiteId, Writer, snapshot};

use crate::suite::{B2c20, B2c20Pq, is_container};

/// Most suites in a list.
pub const SUITES_MAX: usize = 4;

/// A list of 1 to 4 suites of the range 0x01xx, strictly descending: the best suite first.
///
/// Unknown ids of this range are kept, and ignored when a suite is chosen. Wire form: `count u8 |
/// ids u16`, 3 to 9 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SuiteList {
    ids: [SuiteId; SUITES_MAX],
    count: u8,
}

snapshot!(struct SuiteList { ids, count });

impl SuiteList {
    /// Returns the suites that this version of the crate offers and accepts.
    pub fn our_suites() -> Self {
        Self { ids: [B2c20Pq::ID, B2c20::ID, SuiteId(0), SuiteId(0)], count: 2 }
    }

    /// Returns the suites of an initiator whose first messages have no room for a KEM ciphertext.
    pub fn without_kem() -> Self {
        Self { ids: [B2c20::ID, SuiteId(0), SuiteId(0), SuiteId(0)], count: 1 }
    }

    /// Creates a list of these ids, best first. Returns an error if the ids are unsorted, out of
    /// range, none or more than 4.
    pub fn new(suites: &[SuiteId]) -> Result<Self, DecodeError> {
        let descending = suites.windows(2).all(|pair| pair[0] > pair[1]);
        let in_range = suites.iter().all(|id| is_container(*id));
        if suites.is_empty() || suites.len() > SUITES_MAX || !descending || !in_range {
            return Err(DecodeError::Value);
        }
        let mut ids = [SuiteId(0); SUITES_MAX];
        ids[..suites.len()].copy_from_slice(suites);
        Ok(Self { ids, count: suites.len() as u8 })
    }

    /// Decodes a list. Returns an error if bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// Reads a list from the front of `reader`.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = usize::from(reader.read_u8()?);
        if count > SUITES_MAX {
            return Err(DecodeError::Value);
        }
        let mut ids = [SuiteId(0); SUITES_MAX];
        for id in &mut ids[..count] {
            *id = SuiteId(reader.read_u16()?);
        }
        Self::new(&ids[..count])
    }

    /// Appends the wire form to `writer`.
    pub fn write_to(&self, writer: &mut Writer) {
        writer.put_u8(self.count);
        for id in self.ids() {
            writer.put_u16(id.0);
        }
    }

    /// Returns the wire form, 3 to 9 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(1 + 2 * SUITES_MAX);
        self.write_to(&mut writer);
        writer.finish()
    }

    /// Returns the ids, best first.
    pub fn ids(&self) -> &[SuiteId] {
        &self.ids[..usize::from(self.count)]
    }

    /// Returns true if the list contains `suite`.
    pub fn has_suite(&self, suite: SuiteId) -> bool {
        self.ids().contains(&suite)
    }

    /// Returns true if this list contains every suite of `floor`.
    pub fn covers_floor(&self, floor: &Self) -> bool {
        floor.ids().iter().all(|id| self.has_suite(*id))
    }

    /// Returns the highest id that both lists contain.
    pub fn best_common(&self, other: &Self) -> Option<SuiteId> {
        self.ids().iter().copied().find(|id| other.has_suite(*id))
    }
}

impl fmt::Debug for SuiteList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl fmt::Display for SuiteList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, id) in self.ids().iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{id}")?;
        }
        Ok(())
    }
}
