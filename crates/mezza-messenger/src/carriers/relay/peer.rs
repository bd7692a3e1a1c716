//! The addresses of a contact at relays, and our mailbox for the contact.

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer, snapshot};

use crate::io::{MailboxId, RequestId, read_flag};
use crate::note::RemoteMailbox;

/// Version of the stored form.
const VERSION: u8 = 1;

/// The signed prekey under which first notes are sealed, and the end of its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IntroKey {
    pub spk: PublicKey,
    pub not_after: Time,
}

snapshot!(struct IntroKey { spk, not_after });

/// State of a contact in the relay carrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayPeer {
    /// The mailbox that the contact gave us.
    pub theirs: Option<RemoteMailbox>,
    /// The prekey for the contact's intro mailbox.
    pub intro: Option<IntroKey>,
    /// The mailbox that we gave the contact.
    pub ours: Option<MailboxId>,
    // Not stored: a restart begins without a request in flight.
    pub fetch: Option<RequestId>,
    pub fetch_after: Time,
}

snapshot!(struct RelayPeer { theirs, intro, ours, fetch, fetch_after });

impl RelayPeer {
    /// Returns the row of the contact, or `None` if nothing must be stored.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        let known = self.theirs.is_some() || self.intro.is_some() || self.ours.is_some();
        known.then(|| self.write())
    }

    /// The stored form: `theirs | intro | ours u32`.
    fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(192);
        w.put_u8(VERSION).put_u8(u8::from(self.theirs.is_some()));
        if let Some(theirs) = &self.theirs {
            theirs.write(&mut w);
        }
        w.put_u8(u8::from(self.intro.is_some()));
        if let Some(intro) = &self.intro {
            w.put_bytes(&intro.spk.0).put_u64(intro.not_after.as_ms());
        }
        w.put_u32(self.ours.map_or(0, |mailbox| mailbox.0));
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? == VERSION { Self::read_body(r) } else { Err(DecodeError::Value) }
        })
    }

    /// Reads what follows the version.
    pub fn read_body(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let theirs = if read_flag(r)? { Some(RemoteMailbox::read(r)?) } else { None };
        let intro = if read_flag(r)? {
            Some(IntroKey {
                spk: PublicKey::read_from(r)?,
                not_after: Time::from_ms(r.read_u64()?),
            })
        } else {
            None
        };
        let ours = Some(r.read_u32()?).filter(|mailbox| *mailbox != 0).map(MailboxId);
        Ok(Self { theirs, intro, ours, ..Self::default() })
    }
}
