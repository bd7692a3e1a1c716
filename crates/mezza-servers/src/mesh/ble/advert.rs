//! The advertisement of a device: network, name, and PSM of its L2CAP channel.
//!
//! Service data of the 16-bit UUID 0xFFF7: `net[4] | name[6] | psm u16`, big-endian, 12 bytes. An
//! advertisement has no beacon: its stamp would be up to a second old, too old for a vote on the
//! clock.

use mezza_core::{DecodeError, Reader, Writer};
use mezza_mesh::frame::Name;
use trouble_host::advertise::AdStructure;

/// The 16-bit UUID of the service, little-endian as on the air. An experimental number: none is
/// assigned yet.
const SERVICE: [u8; 2] = 0xfff7_u16.to_le_bytes();
/// The L2CAP channel of every device. A constant identifies no device.
pub(super) const PSM: u16 = 0x00f7;
/// Bytes of an advertisement.
const ADVERT_BYTES: usize = 31;

/// The fields that a device advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub net: [u8; 4],
    pub name: Name,
    pub psm: u16,
}

impl Advert {
    /// Returns the advertisement, at most 31 bytes.
    pub(super) fn encode(self) -> Vec<u8> {
        use trouble_host::advertise::{BR_EDR_NOT_SUPPORTED, LE_GENERAL_DISCOVERABLE};
        let mut data = Writer::new();
        data.put_bytes(&self.net).put_u48(self.name).put_u16(self.psm);
        let data = data.finish();
        let parts = [
            AdStructure::Flags(LE_GENERAL_DISCOVERABLE | BR_EDR_NOT_SUPPORTED),
            AdStructure::ServiceData16 { uuid: SERVICE, data: &data },
        ];
        let mut bytes = vec![0; ADVERT_BYTES];
        let size = AdStructure::encode_slice(&parts, &mut bytes).unwrap_or(0);
        bytes.truncate(size);
        bytes
    }

    /// Decodes an advertisement. Returns `None` if it has no valid service data of Mezzavoce.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let parts = AdStructure::decode(bytes).filter_map(Result::ok);
        let data = parts.into_iter().find_map(|part| match part {
            AdStructure::ServiceData16 { uuid: SERVICE, data } => Some(data),
            _ => None,
        })?;
        let read = Reader::decode_exact(data, |r| {
            Ok::<_, DecodeError>(Self {
                net: r.read_array()?,
                name: r.read_u48()?,
                psm: r.read_u16()?,
            })
        });
        read.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertisement_is_read_again_and_others_are_not_ours() {
        let advert = Advert { net: *b"net!", name: 0xa1a2_a3a4_a5a6, psm: PSM };
        let bytes = advert.encode();
        assert_eq!((bytes.len(), Advert::decode(&bytes)), (19, Some(advert)));
        for bad in [&bytes[..18], &[], &[2, 1, 6], &[0xff; 31], &[3, 0x16, 0xf7, 0xff]] {
            assert_eq!(Advert::decode(bad), None, "{bad:?}");
        }
    }
}
