//! A ratchet message that no carrier has taken yet.
//!
//! ```text
//! note: queued -route, Store-> parcel ready -Handover-> out -Handed-> (parcel dropped, a fact kept)
//!                                   ^------- Returned, Refused -----'
//! ```
//!
//! A parcel is stored before it leaves, and the same bytes leave again after a crash; what the
//! carrier wraps around them is made anew each time (MSG-16, MSG-17).

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer, snapshot};

use super::Burden;
use crate::card::RelayEntry;
use crate::io::{CarrierId, ContactId, NoteId, Route, read_flag};

/// Version of the stored form.
const VERSION: u8 = 4;
/// The form of what says nothing that would be owed again, and of all parcels before.
const PLAIN: u8 = 3;
/// The version before held what its carriers needed in forms of their own.
const OLDER: u8 = 2;
/// Most bytes of what a carrier needs to know of a parcel.
const ADDRESS_BYTES_MAX: usize = 64;

/// A parcel.
pub(crate) struct Parcel {
    pub contact: ContactId,
    /// The note inside, if a person wrote one.
    pub note: Option<NoteId>,
    pub route: Route,
    /// The level by which the cause came of what no person wrote; it leaves by none below. 0: it
    /// has no such cause.
    pub level: u8,
    /// Its items that are owed again if it is lost.
    pub says: Burden,
    /// `01 | ratchet message`.
    pub bytes: Vec<u8>,
    // Not stored: a restart begins with nothing out.
    pub out: bool,
    /// The lowest level at which a carrier had it in hand; 4: none had it yet.
    pub left_at: u8,
    /// The note has a receipt: the parcel waits for the carrier's answer alone, and has no row.
    pub confirmed: bool,
    pub after: Time,
    /// How often the carrier took it.
    pub times: u8,
}

snapshot!(struct Parcel {
    contact, note, route, level, says, bytes, out, left_at, confirmed, after, times,
});

impl Parcel {
    /// A parcel that is ready to leave.
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

    /// When something is to be done about it: it may leave, or may not any more.
    pub fn due(&self, now: Time) -> Option<Time> {
        let waits = Some(self.after).filter(|after| !self.out && *after > now);
        waits.into_iter().chain(self.route.until).min()
    }

    /// The stored form: `contact u32 | note u64 | carrier u8 | level u8 | invitation u8 |
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

    /// Reads the stored form, or that of the version before.
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
                // An empty burden has a form of its own, so version 4 with it is a second encoding
                // (MSG-43).
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

/// `way u8 | what it needs`: a mailbox 1, cells 4, an invitation 0x80; the level stands in three
/// bits of the way. Of a mailbox that is stored which is not the contact's usual one: the key of
/// the bundle under which a first note is sealed.
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
