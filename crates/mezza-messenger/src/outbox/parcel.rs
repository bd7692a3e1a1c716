//! A ratchet message that no carrier has taken yet.
//!
//! ```text
//! note: queued -route, Store-> parcel ready -Handover-> out -Handed-> (parcel dropped, a fact kept)
//!                                   ^------- Returned, Refused -----'
//! ```
//!
//! A parcel is stored before it leaves, and the same bytes are sent again after a crash. The
//! carrier wraps them anew each time (MSG-16, MSG-17).

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer, snapshot};

use super::Burden;
use crate::card::RelayEntry;
use crate::io::{CarrierId, ContactId, Dropped, NoteId, ParcelId, Route, read_flag};

/// Version of the stored form.
const VERSION: u8 = 4;
/// Version of the stored form without a burden, and of all parcels before version 4.
const PLAIN: u8 = 3;
/// An older version, which stored the carrier data in a separate form per carrier.
const OLDER: u8 = 2;
/// Most bytes of the carrier data of a parcel.
const ADDRESS_BYTES_MAX: usize = 64;

/// A sealed message with its route.
pub(crate) struct Parcel {
    pub contact: ContactId,
    /// The note of the user in the parcel, if there is one.
    pub note: Option<NoteId>,
    pub route: Route,
    /// Level of the message that caused the device-generated items in the parcel; it does not leave
    /// below this level. 0 if there is no such message.
    pub level: u8,
    /// Items that are owed again if the parcel is lost.
    pub says: Burden,
    /// The bytes `01 | ratchet message`.
    pub bytes: Vec<u8>,
    // Not stored: after a restart no parcel is with a carrier.
    pub out: bool,
    /// The lowest level at which a carrier held the parcel; 4 before the first handover.
    pub left_at: u8,
    /// True if the note has a receipt. The parcel then only waits for the carrier's answer and has
    /// no row.
    pub confirmed: bool,
    pub after: Time,
    /// Number of handovers to the carrier.
    pub times: u8,
}

snapshot!(struct Parcel {
    contact, note, route, level, says, bytes, out, left_at, confirmed, after, times,
});

impl Parcel {
    /// Creates a parcel that is ready for a carrier.
    pub fn new(contact: ContactId, note: Option<NoteId>, route: Route, bytes: Vec<u8>) -> Self {
        let out = false;
        let confirmed = false;
        let after = Time::default();
        let level = 0;
        let left_at = 4;
        let times = 0;
        let says = Burden::default();
        Self { contact, note, route, level, says, bytes, out, left_at, confirmed, after, times }
    }

    /// Returns the notice to the carriers that this parcel, number `id`, is lost.
    pub fn into_dropped(self, id: ParcelId) -> Dropped {
        let Self { contact, bytes, says, .. } = self;
        Dropped { id, contact, bytes, loses_root: says.root }
    }

    /// Returns the next time at which the parcel may leave or expires.
    pub fn due(&self, now: Time) -> Option<Time> {
        let waits = Some(self.after).filter(|after| !self.out && *after > now);
        waits.into_iter().chain(self.route.until).min()
    }

    /// Encodes the stored form: `contact u32 | note u64 | carrier u8 | level u8 | invitation u8 |
    /// until u64 | len u8 | address | len u16 | bytes`; version 4 has `says u8` before the route.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let Route { carrier, until, invitation, address } = &self.route;
        let mut w = Writer::with_capacity(64 + address.len() + self.bytes.len());
        let says = self.says.to_bits();
        w.put_u8(if says == 0 { PLAIN } else { VERSION });
        w.put_u32(self.contact.0).put_u64(self.note.map_or(0, |note| note.0));
        if says != 0 {
            w.put_u8(says);
        }
        w.put_u8(carrier.number()).put_u8(self.level).put_u8(u8::from(*invitation));
        w.put_u64(until.map_or(0, Time::as_ms)).put_var8(address).put_var16(&self.bytes);
        Wiping::new(w.finish())
    }

    /// Reads the stored form of this or an older version.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            let contact = ContactId(r.read_u32()?);
            let note = Some(r.read_u64()?).filter(|note| *note != 0).map(NoteId);
            let says = if version == VERSION {
                Burden::from_bits(r.read_u8()?)?
            } else {
                Burden::default()
            };
            let (route, level) = match version {
                // A parcel without items that must be owed again has version 3, so version 4 would
                // be a second encoding (MSG-43).
                VERSION if says == Burden::default() => return Err(DecodeError::Value),
                VERSION | PLAIN => read_route(r)?,
                OLDER => read_older_route(r)?,
                _ => return Err(DecodeError::Value),
            };
            Ok(Self { level, says, ..Self::new(contact, note, route, r.read_var16()?.to_vec()) })
        })
    }
}

fn read_route(r: &mut Reader<'_>) -> Result<(Route, u8), DecodeError> {
    let carrier = CarrierId::from_number(r.read_u8()?).ok_or(DecodeError::Value)?;
    let level = r.read_u8()?;
    let invitation = read_flag(r)?;
    let until = Some(r.read_u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
    let address = r.read_var8()?.to_vec();
    let sound = level <= 4 && address.len() <= ADDRESS_BYTES_MAX;
    let route = Route { carrier, until, invitation, address };
    if sound { Ok((route, level)) } else { Err(DecodeError::Value) }
}

/// Reads the route of version 2: `way u8 | carrier data`. The way is 1 for a mailbox, 4 for cells,
/// 0x80 for an invitation, with the level in three of its bits. For an intro mailbox the data is
/// the signed prekey under which the first note is sealed.
fn read_older_route(r: &mut Reader<'_>) -> Result<(Route, u8), DecodeError> {
    const LEVEL_AT: u8 = 4;
    const LEVEL_MAX: u8 = 7;
    let number = r.read_u8()?;
    let level = number >> LEVEL_AT & LEVEL_MAX;
    let (carrier, until, invitation, address) = match number & !(LEVEL_MAX << LEVEL_AT) {
        1 => {
            RelayEntry::read(r)?;
            let seal = PublicKey::read_from(r)?;
            let until = Time::from_ms(r.read_u64()?);
            let address = if read_flag(r)? { seal.0.to_vec() } else { Vec::new() };
            (CarrierId::RELAY, Some(until), false, address)
        }
        4 => (CarrierId::MIXNET, None, false, Vec::new()),
        0x80 => (CarrierId::MIXNET, Some(Time::from_ms(r.read_u64()?)), true, Vec::new()),
        _ => return Err(DecodeError::Value),
    };
    Ok((Route { carrier, until, invitation, address }, level))
}
