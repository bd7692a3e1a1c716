//! Addresses that users share: `mezzavoce:KIND/BASE32(payload | check)`.
//!
//! | kind | payload |
//! |---|---|
//! | `c1` | a card |
//! | `r1` | `relay key[32] \| port u16 \| len u8 \| host` |
//! | `h1` | a card block of `hibe` alone, without a card around it |
//!
//! Base 32 without padding (RFC 4648, section 6), upper or lower case but not mixed. The check is 3
//! bytes of a hash over kind and payload, which distinguishes a typing error from a forged card.
//! Upper case fits the alphanumeric mode of QR codes. Scheme and kind may be in either case
//! independently, because some programs convert only the scheme to lower case.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use data_encoding::BASE32_NOPAD;
use mezza_core::{Reader, Writer, labelled_hash};

use crate::card::{
    CARD_BYTES_MAX, Card, CardError, RelayKey, host_is_sound, read_place, write_place,
};

const SCHEME: &str = "mezzavoce:";
const CARD: &str = "c1";
const RELAY: &str = "r1";
const BLOCK: &str = "h1";
const CHECK_BYTES: usize = 3;
/// Most base-32 letters of an address: those of the longest payload with its check.
const LETTERS_MAX: usize = ((CARD_BYTES_MAX + CHECK_BYTES) * 8).div_ceil(5);

/// The content of an address.
#[derive(Clone, PartialEq, Eq)]
pub enum Uri {
    /// A checked card.
    Card(Card),
    /// A relay, without a mailbox.
    Relay {
        /// The key of the relay.
        key: RelayKey,
        /// TCP port, 1 to 65,535.
        port: u16,
        /// Lower-case ASCII name or IP literal without brackets.
        host: String,
    },
    /// The bytes of a card block, which `mezza-hibe` checks.
    Block(Vec<u8>),
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Card(_) => "Card",
            Self::Relay { .. } => "Relay",
            Self::Block(_) => "Block",
        })
    }
}

/// The reason why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The text does not begin with `mezzavoce:` and a kind.
    #[error("this is no address: it does not begin with mezzavoce:")]
    Scheme,
    /// This version does not know the kind.
    #[error("a kind of address that this version does not know")]
    Kind,
    /// The text is longer than any address.
    #[error("the address is too long")]
    TooLong,
    /// A letter is outside the alphabet, or the number of letters is impossible.
    #[error("the address has a typing error: a letter that cannot stand there")]
    Letter,
    /// Upper and lower case are mixed.
    #[error("the address has a typing error: upper and lower case are mixed")]
    MixedCase,
    /// The check at the end does not match the payload.
    #[error("the address has a typing error")]
    Check,
    /// The text was typed correctly, but the card is refused.
    #[error(transparent)]
    Card(#[from] CardError),
    /// The text was typed correctly, but the relay entry is malformed.
    #[error("the relay address is malformed")]
    Relay,
}

impl UriError {
    /// Returns true if scanning or typing again may help, because the error may be a typing error
    /// (MSG-5).
    pub fn is_typing_error(&self) -> bool {
        matches!(self, Self::Letter | Self::MixedCase | Self::Check)
    }
}

/// Decodes an address. Spaces and line breaks are ignored at any place.
pub fn decode(text: &str) -> Result<Uri, UriError> {
    let mut compact = String::new();
    for c in text.chars().filter(|c| !is_between(*c)) {
        // The text is bounded while it is read, before it is decoded. No address is longer than
        // this, because kinds are short.
        if compact.len() > SCHEME.len() + LETTERS_MAX + 16 {
            return Err(UriError::TooLong);
        }
        compact.push(c);
    }
    let (scheme, rest) = compact.split_at_checked(SCHEME.len()).ok_or(UriError::Scheme)?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(UriError::Scheme);
    }
    let (kind, letters) = rest.split_once('/').ok_or(UriError::Scheme)?;
    match kind.to_ascii_lowercase().as_str() {
        CARD => Ok(Uri::Card(Card::decode(&decode_payload(CARD, letters)?)?)),
        RELAY => decode_relay(&decode_payload(RELAY, letters)?),
        BLOCK => Ok(Uri::Block(decode_payload(BLOCK, letters)?)),
        _ => Err(UriError::Kind),
    }
}

/// Returns true for characters that copying inserts between letters: all kinds of spaces, and marks
/// without width.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// Encodes the address of a card; `upper` selects upper case, for a QR code.
pub fn encode_card(card: &Card, upper: bool) -> String {
    encode(CARD, card.encode(), upper)
}

/// Encodes the address of a card block of at most 1,024 bytes; `upper` selects upper case, for a QR
/// code.
pub fn encode_block(bytes: &[u8], upper: bool) -> String {
    encode(BLOCK, bytes.to_vec(), upper)
}

/// Encodes the address of a relay; `upper` selects upper case, for a QR code.
///
/// # Errors
/// [`UriError::Relay`] if a reader would refuse port or host.
pub fn encode_relay(
    key: &RelayKey,
    port: u16,
    host: &str,
    upper: bool,
) -> Result<String, UriError> {
    // A reader refuses such an address, so it is not encoded.
    if port == 0 || !host_is_sound(host) {
        return Err(UriError::Relay);
    }
    let mut w = Writer::new();
    w.put_bytes(&key.0);
    write_place(&mut w, port, host);
    Ok(encode(RELAY, w.finish(), upper))
}

fn encode(kind: &str, mut payload: Vec<u8>, upper: bool) -> String {
    payload.extend_from_slice(&compute_check(kind, &payload));
    let mut text = String::from(SCHEME);
    text.push_str(kind);
    text.push('/');
    BASE32_NOPAD.encode_append(&payload, &mut text);
    if upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() }
}

/// Decodes `letters` and checks and removes the check at their end.
fn decode_payload(kind: &str, letters: &str) -> Result<Vec<u8>, UriError> {
    if letters.len() > LETTERS_MAX {
        return Err(UriError::TooLong);
    }
    let has = |test: fn(&u8) -> bool| letters.bytes().any(|b| test(&b));
    // Mixed case is a typing error: programs change the case of the scheme only (3.3).
    if has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) {
        return Err(UriError::MixedCase);
    }
    let bytes = BASE32_NOPAD.decode(letters.to_ascii_uppercase().as_bytes());
    let bytes = bytes.map_err(|_| UriError::Letter)?;
    let (payload, sum) = bytes.split_last_chunk().ok_or(UriError::Check)?;
    if *sum != compute_check(kind, payload) {
        return Err(UriError::Check);
    }
    Ok(payload.to_vec())
}

fn decode_relay(payload: &[u8]) -> Result<Uri, UriError> {
    let relay = Reader::decode_exact(payload, |r| {
        let key = RelayKey(r.read_array()?);
        let (port, host) = read_place(r)?;
        Ok::<_, mezza_core::DecodeError>(Uri::Relay { key, port, host })
    });
    relay.map_err(|_| UriError::Relay)
}

fn compute_check(kind: &str, payload: &[u8]) -> [u8; CHECK_BYTES] {
    labelled_hash("mezza/uri", &[kind.as_bytes(), payload])
}
