//! The card: who somebody is, where to write, which suites to expect; signed by the identity.
//!
//! ```text
//! card = head | sig[64] | parts                                                at most 1,024 B
//! head = version=1 | 0 | serial u32 | issued u32 | IK[32] | suites | len u8 | name | part list
//! part list = count u8 | count * (kind u8 | len u16 | hash[16])
//! sig  = XEdDSA over BLAKE2b-512 by IK of "mezza card 1" | head
//! ```
//!
//! The head binds the parts by hash, so a card without some of them keeps its signature: a poster
//! leaves out what is long, a mesh without internet what needs it. A part that is listed but not
//! here is unknown, never "there is none".

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

/// Why bytes are not a card, or a card cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// Longer than [`CARD_BYTES_MAX`].
    #[error("the card has {bytes} bytes, at most 1,024 are allowed")]
    TooBig {
        /// Its length.
        bytes: usize,
    },
    /// The bytes are not a card.
    #[error("this is not a card: {0}")]
    Malformed(#[from] DecodeError),
    /// A card of another version.
    #[error("the card has version {0}; a newer program reads it")]
    Version(u8),
    /// IK is not canonical or of low order.
    #[error("the card's key is not allowed")]
    Key,
    /// The name is too long or holds control or format characters.
    #[error("the card's name holds characters that are not allowed")]
    Name,
    /// Kinds not ascending, more than six, or a part of length 0.
    #[error("the card's part list is not allowed")]
    Parts,
    /// Bytes behind the signature that are none of the listed parts.
    #[error("a part of the card was changed")]
    PartChanged,
    /// The relay part holds no, too many or malformed entries.
    #[error("the card's relay part is malformed")]
    Relays,
    /// The signature is wrong.
    #[error("the card is signed by nobody")]
    Forged,
    /// The card has no part for first contact without internet, or it is not here.
    #[error("the card has no offline part")]
    NoOfflinePart,
    /// The form is too long or may not hold this part as it is.
    #[error("the form would have {bytes} bytes; part {part} has to stay out")]
    LeaveOut {
        /// The part to leave out.
        part: u8,
        /// The size of the form.
        bytes: usize,
    },
}

/// Which parts a shown card holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardForm {
    /// Every part that is here; at most one relay entry.
    Full,
    /// Without the offline part; at most 512 bytes.
    Poster,
    /// Of the parts, the offline part alone.
    Offline,
}

/// The content that the owner gives a new card.
#[derive(Clone)]
pub struct CardDraft<'a> {
    /// Above every serial used before.
    pub serial: u32,
    /// Days since 1970.
    pub issued_days: u32,
    /// Suites, best first.
    pub suites: SuiteList,
    /// Clean UTF-8 of at most 24 bytes.
    pub name: &'a str,
    /// At most [`RELAYS_MAX`]; none: the card has no relay part.
    pub relays: Vec<RelayEntry>,
}

impl fmt::Debug for CardDraft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CardDraft")
    }
}

/// A checked card: the signature is right, every part that is here is the one that was signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Card {
    head: CardHead,
    signature: [u8; SIGNATURE_BYTES],
    /// One place for each entry of the head's list.
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

    /// Decodes and checks a card; nothing may follow it.
    pub fn decode(bytes: &[u8]) -> Result<Self, CardError> {
        // The length is checked before anything is parsed (MSG-1).
        if bytes.len() > CARD_BYTES_MAX {
            return Err(CardError::TooBig { bytes: bytes.len() });
        }
        Self::parse(bytes)
    }

    /// Decodes a card that was stored. Versions before MSG-44 united forms without a bound; of such
    /// a card that is left out which does not fit.
    pub(crate) fn decode_stored(bytes: &[u8]) -> Result<Self, CardError> {
        Self::parse(bytes).map(Self::trim_to_limit)
    }

    /// Whose card it says to be, and under which name; nothing is checked.
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

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.head.encode();
        bytes.extend_from_slice(&self.signature);
        for part in self.parts.iter().flatten() {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// The same card with fewer parts.
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
            // An offline form without its part would be a head that reaches nobody.
            CardForm::Offline if self.part(OFFLINE_PART).is_none() => Err(CardError::NoOfflinePart),
            CardForm::Offline => Ok(self.keep_parts(|kind| kind == OFFLINE_PART)),
        }
    }

    /// The name of this card: 32 bytes over head and signature, the same in every form.
    pub fn id(&self) -> [u8; 32] {
        labelled_hash("mezza/card", &[&self.head.encode(), &self.signature])
    }

    /// Goes up with every card of an identity.
    pub fn serial(&self) -> u32 {
        self.head.serial
    }

    /// Days since 1970 on which the card was issued, as its owner says.
    pub fn issued_days(&self) -> u32 {
        self.head.issued_days
    }

    /// The identity.
    pub fn ik(&self) -> &IdentityKey {
        &self.head.ik
    }

    /// The suites that every bundle of this identity has to offer.
    pub fn suites(&self) -> &SuiteList {
        &self.head.suites
    }

    /// The name that the owner claims; clean, at most 24 bytes, may be empty.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The entries of the relay part; empty if there is none or it is not here.
    pub fn relays(&self) -> &[RelayEntry] {
        &self.relays
    }

    /// The mixnet part, if it is here and one that this version understands.
    pub fn mixnet(&self) -> Option<MixnetPart> {
        self.part(MIXNET_PART).and_then(|part| MixnetPart::decode(part).ok())
    }

    /// A part that is here.
    pub fn part(&self, kind: u8) -> Option<&[u8]> {
        let place = self.head.entries.iter().position(|entry| entry.kind == kind)?;
        self.parts[place].as_deref()
    }

    /// Returns the parts besides the relays: kinds and parts, ascending.
    pub fn further_parts(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let listed = self.head.entries.iter().zip(&self.parts);
        let here = listed.filter_map(|(entry, part)| Some((entry.kind, part.as_deref()?)));
        here.filter(|(kind, _)| *kind > RELAY_PART)
    }

    /// The kinds that are listed but not here, ascending.
    pub fn absent_parts(&self) -> Vec<u8> {
        let listed = self.head.entries.iter().zip(&self.parts);
        listed.filter(|(_, part)| part.is_none()).map(|(entry, _)| entry.kind).collect()
    }

    /// Returns true if both cards say the same, whatever parts are here.
    pub fn same_head(&self, other: &Self) -> bool {
        self.head == other.head
    }

    /// This card with the parts of `older` that are not here, if both say the same. Of what does
    /// not fit into a card the parts of the lowest kinds stay (MSG-44).
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

    /// Leaves out what does not fit into a card; the parts of the lowest kinds stay.
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
        // Head and signature alone have at most 327 bytes, so a part that is here is to blame.
        let part = longest.map_or(RELAY_PART, |(entry, _)| entry.kind);
        Err(CardError::LeaveOut { part, bytes })
    }
}

/// Nothing of a card belongs in a log: not the name, not the key, not the address.
impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Card")
    }
}

fn encode_relays(relays: &[RelayEntry]) -> Result<Vec<u8>, CardError> {
    // A host that readers refuse must not be signed.
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
