//! Addresses that people pass on: `mezzavoce:KIND/BASE32(payload | check)`.
//!
//! | kind | payload |
//! |---|---|
//! | `c1` | a card |
//! | `r1` | `relay key[32] \| port u16 \| len u8 \| host` |
//! | `h1` | a card block of `hibe` alone, without a card around it |
//!
//! Base 32 without padding (RFC 4648, section 6), upper or lower case but not mixed; check = 3
//! bytes of hash over kind and payload, so that a typing error is told apart from a forged card.
//! Upper case fits the alphanumeric mode of QR codes. Scheme and kind may be in either case on
//! their own, because programs on the way lower the scheme alone.

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
/// Base-32 letters of the longest payload with its check.
const LETTERS_MAX: usize = ((CARD_BYTES_MAX + CHECK_BYTES) * 8).div_ceil(5);

/// The content of an address.
#[derive(Clone, PartialEq, Eq)]
pub enum Uri {
    /// A checked card.
    Card(Card),
    /// A relay, without a mailbox.
    Relay {
        /// Its key.
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

/// Why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It does not begin with `mezzavoce:` and a kind.
    #[error("this is no address: it does not begin with mezzavoce:")]
    Scheme,
    /// A kind that this version does not know.
    #[error("a kind of address that this version does not know")]
    Kind,
    /// Longer than any address.
    #[error("the address is too long")]
    TooLong,
    /// A letter outside the alphabet, or a number of letters that cannot be.
    #[error("the address has a typing error: a letter that cannot stand there")]
    Letter,
    /// Upper and lower case mixed.
    #[error("the address has a typing error: upper and lower case are mixed")]
    MixedCase,
    /// The check at the end does not fit what stands before it.
    #[error("the address has a typing error")]
    Check,
    /// Typed right, but the card is refused.
    #[error(transparent)]
    Card(#[from] CardError),
    /// Typed right, but the relay entry is malformed.
    #[error("the relay address is malformed")]
    Relay,
}

impl UriError {
    /// Returns true if scanning or typing again may help, as the sender's address may be right (MSG-5).
    pub fn is_typing_error(&self) -> bool {
        matches!(self, Self::Letter | Self::MixedCase | Self::Check)
    }
}

/// Decodes an address. Spaces and line breaks are ignored, wherever they stand.
pub fn decode(text: &str) -> Result<Uri, UriError> {
    let mut compact = String::new();
    for c in text.chars().filter(|c| !is_between(*c)) {
        // The kind is short; whatever it is, no address is longer than this.
        // The text is bounded while it is read, before it is decoded.
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

/// Returns true for characters that copying puts between letters: spaces of every kind, and marks without width.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// The address of a card; `upper`: in upper case, for a QR code.
pub fn encode_card(card: &Card, upper: bool) -> String {
    encode(CARD, card.encode(), upper)
}

/// The address of a card block of at most 1,024 bytes; `upper`: in upper case, for a QR code.
pub fn encode_block(bytes: &[u8], upper: bool) -> String {
    encode(BLOCK, bytes.to_vec(), upper)
}

/// The address of a relay; `upper`: in upper case, for a QR code. Port and host have to be ones
/// that a reader accepts.
pub fn encode_relay(
    key: &RelayKey,
    port: u16,
    host: &str,
    upper: bool,
) -> Result<String, UriError> {
    // A reader refuses such an address, so it is never written.
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

/// The payload behind `letters`, its check removed and found right.
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
