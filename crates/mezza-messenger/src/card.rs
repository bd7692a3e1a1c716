//! The card: name, identity key, addresses and suites of a device, signed by its identity.
//!
//! ```text
//! card = head | sig[64] | parts                                                at most 1,024 B
//! head = version=1 | 0 | serial u32 | issued u32 | IK[32] | suites | len u8 | name | part list
//! part list = count u8 | count * (kind u8 | len u16 | hash[16])
//! sig  = XEdDSA over BLAKE2b-512 by IK of "mezza card 1" | head
//! ```
//!
//! The head binds the parts by hash, so a card keeps its signature when a part is left out. A
//! poster leaves out long parts; a mesh without internet leaves out the parts that need the
//! internet. A part that is listed but left out counts as unknown, never as absent.

mod head;
mod mixnet;
mod relay;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Blake2b512, CryptoRng, DecodeError, Reader, Writer, labelled_hash, snapshot};
use mezza_ratchet::{IdentityKey, IdentityKeyPair, SuiteList, xeddsa};

use head::{CardHead, PartDigest};

pub use mixnet::{MIXNET_PART, MixnetPart};
pub use relay::{RelayEntry, RelayKey, host_is_sound};
pub(crate) use relay::{read_place, write_place};

/// Most bytes of a card.
pub const CARD_BYTES_MAX: usize = 1_024;
/// Most bytes of the poster form.
pub const POSTER_BYTES_MAX: usize = 512;
/// Most relay entries in part 01.
pub const RELAYS_MAX: usize = 3;

/// The kind of the relay part.
pub const RELAY_PART: u8 = 1;
/// The kind of the part for first contact without internet.
pub const OFFLINE_PART: u8 = 3;

const SIGNATURE_BYTES: usize = 64;
const SIGNED: &[u8] = b"mezza card 1";

/// The reason why bytes are not a card, or why a card cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The card is longer than [`CARD_BYTES_MAX`].
    #[error("the card has {bytes} bytes, at most 1,024 are allowed")]
    TooBig {
        /// Length of the card in bytes.
        bytes: usize,
    },
    /// The bytes are not a card.
    #[error("this is not a card: {0}")]
    Malformed(#[from] DecodeError),
    /// A card of another version.
    #[error("the card has version {0}; a newer program reads it")]
    Version(u8),
    /// The identity key IK is not canonical or has low order.
    #[error("the card's key is not allowed")]
    Key,
    /// The name is too long or holds control or format characters.
    #[error("the card's name holds characters that are not allowed")]
    Name,
    /// The kinds of the parts are not ascending, there are more than six parts, or a part has
    /// length 0.
    #[error("the card's part list is not allowed")]
    Parts,
    /// The bytes after the signature do not match the listed parts.
    #[error("a part of the card was changed")]
    PartChanged,
    /// The relay part holds no entry, more than [`RELAYS_MAX`], or a malformed one.
    #[error("the card's relay part is malformed")]
    Relays,
    /// The signature is wrong.
    #[error("the card is signed by nobody")]
    Forged,
    /// The card has no part for first contact without internet: it does not list the part or leaves
    /// it out.
    #[error("the card has no offline part")]
    NoOfflinePart,
    /// The chosen form is too long, or cannot contain this part unchanged.
    #[error("the form would have {bytes} bytes; part {part} has to stay out")]
    LeaveOut {
        /// The part to leave out.
        part: u8,
        /// Size of the form in bytes.
        bytes: usize,
    },
}

/// The parts that a displayed card contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardForm {
    /// Every part that the card has; at most one relay entry.
    Full,
    /// Without the offline part; at most 512 bytes.
    Poster,
    /// Only the offline part.
    Offline,
}

/// The content that the owner gives a new card.
#[derive(Clone)]
pub struct CardDraft<'a> {
    /// Above every earlier serial of this identity.
    pub serial: u32,
    /// Days since 1970.
    pub issued_days: u32,
    /// Suites, best first.
    pub suites: SuiteList,
    /// Clean UTF-8 of at most 24 bytes.
    pub name: &'a str,
    /// At most [`RELAYS_MAX`] entries; without entries the card has no relay part.
    pub relays: Vec<RelayEntry>,
}

impl fmt::Debug for CardDraft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CardDraft")
    }
}

/// A checked card: its signature is right, and every part present matches its hash in the signed
/// head.
#[derive(Clone, PartialEq, Eq)]
pub struct Card {
    head: CardHead,
    signature: [u8; SIGNATURE_BYTES],
    /// One element for each entry of the head's list; `None` if the part was left out.
    parts: Vec<Option<Vec<u8>>>,
    relays: Vec<RelayEntry>,
}

snapshot!(encoded Card);

impl Card {
    /// Makes and signs a card with a relay part, if the draft has relays.
    pub fn issue(
        identity: &IdentityKeyPair,
        draft: CardDraft<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CardError> {
        Self::issue_with(identity, draft, Vec::new(), rng)
    }

    /// Makes and signs a card with further parts: kinds above [`RELAY_PART`], ascending.
    pub fn issue_with(
        identity: &IdentityKeyPair,
        draft: CardDraft<'_>,
        further: Vec<(u8, Vec<u8>)>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CardError> {
        let mut parts = Vec::with_capacity(1 + further.len());
        if !draft.relays.is_empty() {
            parts.push((RELAY_PART, encode_relays(&draft.relays)?));
        }
        parts.extend(further);
        let entries = parts.iter().map(|(kind, part)| PartDigest::from_part(*kind, part));
        let head = CardHead {
            serial: draft.serial,
            issued_days: draft.issued_days,
            ik: identity.public_key(),
            suites: draft.suites,
            name: draft.name.into(),
            entries: entries.collect::<Result<_, _>>()?,
        };
        // Our own card passes the same limits as a card that is read, so every reader accepts it
        // (MSG-1).
        head.check_limits()?;
        let signature = identity.sign::<Blake2b512>(&[SIGNED, &head.encode()], rng);
        let parts = parts.into_iter().map(|(_, part)| Some(part)).collect();
        let card = Self { head, signature, parts, relays: draft.relays };
        let bytes = card.encode().len();
        if bytes > CARD_BYTES_MAX { Err(CardError::TooBig { bytes }) } else { Ok(card) }
    }

    /// Decodes and checks a card; bytes after it are refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, CardError> {
        // The length is checked before anything is parsed (MSG-1).
        if bytes.len() > CARD_BYTES_MAX {
            return Err(CardError::TooBig { bytes: bytes.len() });
        }
        Self::parse(bytes)
    }

    /// Decodes a stored card. Versions before MSG-44 could merge forms into more than
    /// [`CARD_BYTES_MAX`]; parts that do not fit are left out.
    pub(crate) fn decode_stored(bytes: &[u8]) -> Result<Self, CardError> {
        Self::parse(bytes).map(Self::trim_to_limit)
    }

    /// Returns the claimed identity and name of a card without checking anything, or `None` if the
    /// head is malformed.
    pub(crate) fn read_claims(bytes: &[u8]) -> Option<(IdentityKey, String)> {
        CardHead::read(&mut Reader::new(bytes)).ok().map(|head| (head.ik, head.name))
    }

    fn parse(bytes: &[u8]) -> Result<Self, CardError> {
        let mut r = Reader::new(bytes);
        let head = CardHead::read(&mut r)?;
        let head_bytes = &bytes[..bytes.len() - r.len()];
        let signature = r.read_array()?;
        // The signature covers the head, and the head binds each part by its hash (section 3.1).
        if !xeddsa::verify::<Blake2b512>(&head.ik, &[SIGNED, head_bytes], &signature) {
            return Err(CardError::Forged);
        }
        let parts: Vec<_> = head.entries.iter().map(|entry| entry.take_part(&mut r)).collect();
        // Bytes after the matching parts belong to a changed or foreign part (MSG-1).
        r.expect_end().map_err(|_| CardError::PartChanged)?;
        let mut card = Self { head, signature, parts, relays: Vec::new() };
        if let Some(part) = card.part(RELAY_PART) {
            card.relays = decode_relays(part)?;
        }
        Ok(card)
    }

    /// Encodes the wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.head.encode();
        bytes.extend_from_slice(&self.signature);
        for part in self.parts.iter().flatten() {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Returns the same card with fewer parts.
    pub fn to_form(&self, form: CardForm) -> Result<Self, CardError> {
        match form {
            // The full form is read from a screen and has room for one relay entry (section 3.1).
            CardForm::Full if self.relays.len() > 1 => {
                Err(CardError::LeaveOut { part: RELAY_PART, bytes: self.encode().len() })
            }
            CardForm::Full => Ok(self.clone()),
            CardForm::Poster => {
                self.keep_parts(|kind| kind != OFFLINE_PART).no_longer_than_a_poster()
            }
            // An offline form without its part would contain no address.
            CardForm::Offline if self.part(OFFLINE_PART).is_none() => Err(CardError::NoOfflinePart),
            CardForm::Offline => Ok(self.keep_parts(|kind| kind == OFFLINE_PART)),
        }
    }

    /// Returns the identifier of this card: a 32-byte hash over head and signature, the same in
    /// every form.
    pub fn id(&self) -> [u8; 32] {
        labelled_hash("mezza/card", &[&self.head.encode(), &self.signature])
    }

    /// Returns the serial, which increases with every new card of an identity.
    pub fn serial(&self) -> u32 {
        self.head.serial
    }

    /// Returns the day of issue in days since 1970, as the owner claims it.
    pub fn issued_days(&self) -> u32 {
        self.head.issued_days
    }

    /// Returns the identity key of the owner.
    pub fn ik(&self) -> &IdentityKey {
        &self.head.ik
    }

    /// Returns the suites that every bundle of this identity must offer.
    pub fn suites(&self) -> &SuiteList {
        &self.head.suites
    }

    /// Returns the name that the owner claims: clean UTF-8, at most 24 bytes, possibly empty.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// Returns the entries of the relay part. The slice is empty if the card has no relay part or
    /// leaves it out.
    pub fn relays(&self) -> &[RelayEntry] {
        &self.relays
    }

    /// Returns the mixnet part, or `None` if it is left out or this version cannot decode it.
    pub fn mixnet(&self) -> Option<MixnetPart> {
        self.part(MIXNET_PART).and_then(|part| MixnetPart::decode(part).ok())
    }

    /// Returns a part, or `None` if the card does not contain it.
    pub fn part(&self, kind: u8) -> Option<&[u8]> {
        let place = self.head.entries.iter().position(|entry| entry.kind == kind)?;
        self.parts[place].as_deref()
    }

    /// Returns the kinds and bytes of all parts except the relay part, ascending by kind.
    pub fn further_parts(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let listed = self.head.entries.iter().zip(&self.parts);
        let here = listed.filter_map(|(entry, part)| Some((entry.kind, part.as_deref()?)));
        here.filter(|(kind, _)| *kind > RELAY_PART)
    }

    /// Returns the kinds of the parts that are listed but left out, ascending.
    pub fn absent_parts(&self) -> Vec<u8> {
        let listed = self.head.entries.iter().zip(&self.parts);
        listed.filter(|(_, part)| part.is_none()).map(|(entry, _)| entry.kind).collect()
    }

    /// Returns true if the card does not list a part of this kind. A part that is listed and left
    /// out is not lacking: another form of the same card contains it.
    pub fn lacks_part(&self, kind: u8) -> bool {
        self.head.entries.iter().all(|entry| entry.kind != kind)
    }

    /// Returns true if the card lists a part. A part is an address, so notes can leave with it.
    pub fn has_address(&self) -> bool {
        !self.head.entries.is_empty()
    }

    /// Returns true if the heads of both cards are equal, even if different parts are present.
    pub fn same_head(&self, other: &Self) -> bool {
        self.head == other.head
    }

    /// Adds to this card the parts that only `older` contains, if the heads of both are equal. If
    /// the result exceeds [`CARD_BYTES_MAX`], the parts of the lowest kinds are kept (MSG-44).
    #[must_use]
    pub fn with_parts_of(&self, older: &Self) -> Self {
        let mut card = self.clone();
        if !self.same_head(older) {
            return card;
        }
        for (own, part) in card.parts.iter_mut().zip(&older.parts) {
            if own.is_none() {
                own.clone_from(part);
            }
        }
        if card.relays.is_empty() {
            card.relays.clone_from(&older.relays);
        }
        card.trim_to_limit()
    }

    /// Leaves out parts that exceed [`CARD_BYTES_MAX`]; the parts of the lowest kinds are kept.
    fn trim_to_limit(mut self) -> Self {
        let mut bytes = self.head.encode().len() + SIGNATURE_BYTES;
        for part in &mut self.parts {
            let longer = bytes + part.as_ref().map_or(0, Vec::len);
            // An omitted part counts as unknown, so the card stays valid without it (section 3.1).
            if longer > CARD_BYTES_MAX {
                *part = None;
            } else {
                bytes = longer;
            }
        }
        // Entries of a part that was omitted must not be used.
        if self.part(RELAY_PART).is_none() {
            self.relays.clear();
        }
        self
    }

    fn keep_parts(&self, wanted: impl Fn(u8) -> bool) -> Self {
        let mut card = self.clone();
        for (entry, part) in card.head.entries.iter().zip(&mut card.parts) {
            if !wanted(entry.kind) {
                *part = None;
            }
        }
        if card.part(RELAY_PART).is_none() {
            card.relays.clear();
        }
        card
    }

    fn no_longer_than_a_poster(self) -> Result<Self, CardError> {
        let bytes = self.encode().len();
        // A longer poster would not fit a QR code on paper, so its creation fails (MSG-4).
        if bytes <= POSTER_BYTES_MAX {
            return Ok(self);
        }
        let here = self.head.entries.iter().zip(&self.parts);
        let longest = here.filter(|(_, part)| part.is_some()).max_by_key(|(entry, _)| entry.len);
        // The error names the longest part, because leaving it out helps most. Without parts a card
        // has at most 327 bytes.
        let part = longest.map_or(RELAY_PART, |(entry, _)| entry.kind);
        Err(CardError::LeaveOut { part, bytes })
    }
}

/// `Debug` omits name, key and address, because a card must not appear in a log.
impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Card")
    }
}

fn encode_relays(relays: &[RelayEntry]) -> Result<Vec<u8>, CardError> {
    // A card with a host that readers refuse must not be signed.
    if relays.len() > RELAYS_MAX || !relays.iter().all(RelayEntry::is_sound) {
        return Err(CardError::Relays);
    }
    let mut w = Writer::new();
    w.put_u8(relays.len() as u8);
    for relay in relays {
        relay.write(&mut w);
    }
    Ok(w.finish())
}

fn decode_relays(part: &[u8]) -> Result<Vec<RelayEntry>, CardError> {
    let relays = Reader::decode_exact(part, |r| {
        let count = usize::from(r.read_u8()?);
        // A part without entries is never written, so it is malformed.
        if count == 0 || count > RELAYS_MAX {
            return Err(DecodeError::Value);
        }
        (0..count).map(|_| RelayEntry::read(r)).collect()
    });
    relays.map_err(|_| CardError::Relays)
}
