//! The stored form of the windows of one contact and era.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer};

use super::Windows;
use crate::io::ContactId;
use crate::note::Era;
use crate::receipt::Window;

/// Returns the key of the windows' row.
pub(crate) fn key_seen(contact: ContactId, era: Era) -> Vec<u8> {
    [contact.0.to_be_bytes(), era.0].concat()
}

/// Encodes the windows of one era: notes that arrived, and notes that were read.
pub(crate) fn write_windows((arrived, read): &Windows) -> Wiping<Vec<u8>> {
    let mut w = Writer::new();
    arrived.write(&mut w);
    read.write(&mut w);
    Wiping::new(w.finish())
}

/// Reads the windows of one era; `era` is the end of the row's key.
pub(crate) fn read_windows(era: &[u8], bytes: &[u8]) -> Result<(Era, Windows), DecodeError> {
    let windows = |r: &mut Reader<'_>| Ok::<_, DecodeError>((Window::read(r)?, Window::read(r)?));
    let (arrived, read) = Reader::decode_exact(bytes, windows)?;
    // The era in the key and in both windows must agree, or the row is under a wrong key.
    let sound = arrived.era().0 == *era && read.era().0 == *era;
    if sound { Ok((arrived.era(), (arrived, read))) } else { Err(DecodeError::Value) }
}
