//! The stored form of a publication that the relay has not confirmed yet.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer};
use mezza_ratchet::OneTimePrekey;

use crate::io::Publication;

/// Version of the stored form.
const VERSION: u8 = 1;

impl Publication {
    /// Key of the publication's row among the prekey rows; no table of the ratchet has number 0.
    pub(crate) const KEY: [u8; 1] = [0];

    /// The stored form: `len u16 | bundle | count u16 | one-time keys of 36 bytes`.
    pub(crate) fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(8 + self.bundle.len() + 36 * self.one_time.len());
        w.put_u8(VERSION).put_var16(&self.bundle);
        w.put_u16(self.one_time.len() as u16);
        for one_time in &self.one_time {
            w.put_bytes(&one_time.encode());
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let bundle = r.read_var16()?.to_vec();
            let mut one_time = Vec::new();
            for _ in 0..r.read_u16()? {
                one_time.push(OneTimePrekey::decode(r.read_bytes(36)?)?);
            }
            Ok(Self { bundle, one_time, replace: false })
        })
    }
}
