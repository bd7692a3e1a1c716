//! A stored bundle of a contact: fetched for an invitation together with a one-time key, or sent by
//! the contact in case a session is lost (MSG-100).

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer, snapshot};
use mezza_ratchet::{BundleError, OneTimePrekey};

/// A stored bundle.
pub(crate) struct HeldBundle {
    pub bytes: Vec<u8>,
    pub one_time: Option<OneTimePrekey>,
    /// True if the contact itself sent the bundle in a session.
    pub told: bool,
}

snapshot!(struct HeldBundle { bytes, one_time, told });

/// Stored instead of a one-time key before a bundle that the contact sent.
const TOLD: &[u8] = &[1];

impl HeldBundle {
    /// Decodes a bundle from a relay. The one-time key is not signed, so it must decode by the same
    /// rules as at its next load (MSG-43).
    pub fn new(bytes: &[u8], one_time: Option<OneTimePrekey>) -> Result<Self, BundleError> {
        if one_time.is_some_and(|one_time| OneTimePrekey::decode(&one_time.encode()).is_err()) {
            return Err(BundleError::BadKey);
        }
        Ok(Self { bytes: bytes.to_vec(), one_time, told: false })
    }

    /// Wraps a bundle that the contact sent.
    pub fn from_contact(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), one_time: None, told: true }
    }

    /// Encodes the stored form: `len u8 | one-time | bundle`; one-time is a key of 36 bytes, the
    /// byte 01 for a bundle that the contact sent, or empty.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(40 + self.bytes.len());
        match &self.one_time {
            Some(one_time) => w.put_var8(&one_time.encode()),
            None if self.told => w.put_var8(TOLD),
            None => w.put_u8(0),
        };
        w.put_var16(&self.bytes);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let (one_time, told) = match r.read_var8()? {
                [] => (None, false),
                TOLD => (None, true),
                bytes => (Some(OneTimePrekey::decode(bytes)?), false),
            };
            Ok(Self { one_time, told, bytes: r.read_var16()?.to_vec() })
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use mezza_core::{EphemeralKey, PortableBackend, Secret};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_held_is_read_again(
            bundle in vec(any::<u8>(), 0..3_000),
            (key, told) in any::<(Option<(u8, u16)>, bool)>(),
            (place, byte) in (any::<usize>(), any::<u8>()),
        ) {
            let one_time = key.map(|(n, id)| {
                let pair = EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n)));
                OneTimePrekey { id: 1 + u32::from(id), key: *pair.public_key() }
            });
            let told = told && one_time.is_none();
            let bytes = HeldBundle { bytes: bundle.clone(), one_time, told }.write();
            let again = HeldBundle::read(&bytes)
                .map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(&again.write()[..], &bytes[..]);
            prop_assert!(again.bytes == bundle && again.one_time == one_time && again.told == told);
            prop_assert!(HeldBundle::read(&bytes[..place % bytes.len()]).is_err());
            prop_assert!(HeldBundle::read(&[&bytes[..], &[0]].concat()).is_err());
            let mut other = bytes.to_vec();
            other[place % bytes.len()] = byte;
            if let Ok(held) = HeldBundle::read(&other) {
                prop_assert_eq!(&held.write()[..], &other[..]);
            }
        }
    }
}
