//! The head of a card, which is the signed part.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, labelled_hash};
use mezza_ratchet::{IdentityKey, SuiteList};

use super::CardError;
use crate::name;

const VERSION: u8 = 1;
/// Most parts of a card.
const PARTS_MAX: usize = 6;
/// The sum of version, reserved byte, serial, issued, IK, all length fields, the longest suite
/// list, the longest name and six part entries.
const HEAD_BYTES_MAX: usize = 42 + 9 + 1 + name::NAME_BYTES_MAX + 1 + 19 * PARTS_MAX;

/// The decoded head.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CardHead {
    pub serial: u32,
    pub issued_days: u32,
    pub ik: IdentityKey,
    pub suites: SuiteList,
    pub name: String,
    pub entries: Vec<PartDigest>,
}

/// A listed part: kind, length in bytes, hash.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PartDigest {
    pub kind: u8,
    pub len: u16,
    pub hash: [u8; 16],
}

impl CardHead {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(HEAD_BYTES_MAX);
        w.put_u8(VERSION)
            .put_u8(0)
            .put_u32(self.serial)
            .put_u32(self.issued_days)
            .put_bytes(self.ik.as_bytes());
        self.suites.write_to(&mut w);
        w.put_var8(self.name.as_bytes()).put_u8(self.entries.len() as u8);
        for entry in &self.entries {
            w.put_u8(entry.kind).put_u16(entry.len).put_bytes(&entry.hash);
        }
        w.finish()
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self, CardError> {
        match (r.read_u8()?, r.read_u8()?) {
            (VERSION, 0) => {}
            // The reserved byte is 0 in this version. Another value would be a second encoding
            // (MSG-2).
            (VERSION, _) => return Err(DecodeError::Value.into()),
            (version, _) => return Err(CardError::Version(version)),
        }
        let serial = r.read_u32()?;
        let issued_days = r.read_u32()?;
        // A key of low order or in another form would let third parties compute the X3DH secret.
        let ik = IdentityKey::decode(r.read_array_ref()?).map_err(|_| CardError::Key)?;
        let suites = SuiteList::read_from(r)?;
        let name = core::str::from_utf8(r.read_var8()?).map_err(|_| CardError::Name)?.into();
        let mut entries = Vec::new();
        for _ in 0..r.read_u8()? {
            entries.push(PartDigest {
                kind: r.read_u8()?,
                len: r.read_u16()?,
                hash: r.read_array()?,
            });
        }
        let head = Self { serial, issued_days, ik, suites, name, entries };
        head.check_limits()?;
        Ok(head)
    }

    /// Checks the limits that apply to both writing and reading.
    pub fn check_limits(&self) -> Result<(), CardError> {
        // Control and format characters could hide or reorder text on the screen (section 3.2).
        if !name::is_clean(&self.name) {
            return Err(CardError::Name);
        }
        // Ascending kinds give each card one encoding (MSG-2).
        let ascending = self.entries.windows(2).all(|pair| pair[0].kind < pair[1].kind);
        let filled = self.entries.iter().all(|entry| entry.len > 0);
        if self.entries.len() > PARTS_MAX || !ascending || !filled {
            return Err(CardError::Parts);
        }
        Ok(())
    }
}

impl PartDigest {
    pub fn from_part(kind: u8, part: &[u8]) -> Result<Self, CardError> {
        let len = u16::try_from(part.len()).map_err(|_| CardError::Parts)?;
        Ok(Self { kind, len, hash: hash_part(kind, part) })
    }

    /// Reads the part if the next bytes match its hash. Otherwise returns `None` and leaves the
    /// reader where it is.
    pub fn take_part(&self, r: &mut Reader<'_>) -> Option<Vec<u8>> {
        let mut ahead = r.clone();
        let part = ahead.read_bytes(self.len.into()).ok()?;
        // An omitted part: the next bytes belong to a later entry of the list.
        if hash_part(self.kind, part) != self.hash {
            return None;
        }
        *r = ahead;
        Some(part.to_vec())
    }
}

fn hash_part(kind: u8, part: &[u8]) -> [u8; 16] {
    labelled_hash("mezza/part", &[&[kind], part])
}
