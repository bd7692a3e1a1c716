//! A message that could not be opened yet; it is kept for a day.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

use mezza_ratchet::wire::OUTER_BYTES_MAX;

use crate::evidence;
use crate::io::{By, CarrierId, ContactId};

/// How long it is kept.
const KEPT_MS: u64 = Time::DAY_MS;

/// A message that nothing opens.
pub(crate) struct Undecrypted {
    pub contact: ContactId,
    pub at: Time,
    /// How it came; `None`: a version before did not note it.
    pub by: Option<By>,
    pub bytes: Vec<u8>,
    /// What it is bound to beside its session.
    pub outer: Vec<u8>,
}

snapshot!(struct Undecrypted { contact, at, by, bytes, outer });

impl Undecrypted {
    /// When it is forgotten.
    pub fn due(&self) -> Time {
        self.at.plus_ms(KEPT_MS)
    }

    /// The stored form: `contact u32 | at u64 | len u16 | bytes | carrier u8 | level u8`, and
    /// `len u8 | outer` if it is bound to something.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(16 + self.bytes.len());
        w.u32(self.contact.0).u64(self.at.ms()).var16(&self.bytes);
        if let Some(by) = self.by {
            w.u8(by.carrier.number()).u8(by.level);
            if !self.outer.is_empty() {
                w.var8(&self.outer);
            }
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form. A version before did not say how it came: then nothing it causes leaves
    /// below the highest level.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let contact = ContactId(r.u32()?);
            let at = Time::from_ms(r.u64()?);
            let bytes = r.var16()?.to_vec();
            let by = if r.is_empty() {
                None
            } else {
                let carrier = CarrierId::from_number(r.u8()?).ok_or(DecodeError::Value)?;
                Some(By { carrier, level: evidence::level(r)? })
            };
            let outer = if r.is_empty() { Vec::new() } else { read_outer(r)? };
            Ok(Self { contact, at, by, bytes, outer })
        })
    }
}

/// What a message is bound to, if it is: 1 to 64 bytes.
fn read_outer(r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let outer = r.var8()?;
    let fits = (1..=OUTER_BYTES_MAX).contains(&outer.len());
    if fits { Ok(outer.to_vec()) } else { Err(DecodeError::Value) }
}
