//! A contact: the card it showed, what we call it, how far things are, where its mailbox is.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, PublicKey, Reader, Time, Wiping, Writer};
use mezza_ratchet::{Conversation, IdentityKey};

use crate::card::{Card, RelayEntry};
use crate::identity::text;
use crate::io::{ContactId, DeliveryProblem, MailboxId, RequestId};
use crate::note::{Era, RemoteMailbox};
use crate::policy::Policy;
use crate::receipt::Window;
use crate::recent::ReplayCache;
use crate::share::{Amount, Pace, Share, TALK_MS};
use crate::view::{ContactState, VerificationMethod};

/// Version of the stored form.
const VERSION: u8 = 3;
/// The version before contacts had a share.
const SHARELESS: u8 = 2;
/// Version, stage, blocked: what stands before the card.
const HEAD_BYTES: usize = 3;
/// Receipts that may go at once; then one per [`RECEIPT_EVERY_MS`] (MSG-27).
const RECEIPT_BURST: u32 = 10;
/// Milliseconds until one more receipt may go.
const RECEIPT_EVERY_MS: u64 = 2 * Time::SECOND_MS;
/// Notes that may be sealed once more at once; then one per [`REPEAT_EVERY_MS`] (MSG-53).
const REPEAT_BURST: u32 = 16;
/// Milliseconds until one more note may be sealed once more.
const REPEAT_EVERY_MS: u64 = Time::SECOND_MS;
/// Roots of a contact that the mixnet's client takes at once, each for a snapshot; then one per
/// [`ROOT_EVERY_MS`] (MSG-53).
const ROOT_BURST: u32 = 4;
/// Milliseconds until one more root may come.
const ROOT_EVERY_MS: u64 = 10 * Time::MINUTE_MS;
/// Ranges given up and not yet passed by a receipt; adjacent numbers join, so that this is more
/// than the reader's window can hold apart.
const VOIDS_MAX: usize = 512;
/// Flags in the first byte of what is owed; the level stands behind them.
const FLAGS: u8 = 6;
/// Answers to voids that wait at once.
const ANSWERS_MAX: usize = 8;

/// Progress of the first contact, requests included. `blocked` is a flag of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ContactPhase {
    Held = 0,
    Asked = 1,
    Open = 2,
    Request = 3,
}

/// Where first notes go: the contact's intro mailbox and the key of its bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IntroMailbox {
    /// The signed prekey under which the envelope is sealed.
    pub spk: PublicKey,
    /// Until when the contact answers for that prekey.
    pub not_after: Time,
}

/// What the next system note must say. Persistent: a crash forgets no promise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing to say, and any may be due")]
pub(crate) struct PendingItems {
    /// Our mailbox and card.
    pub hello: bool,
    /// Which notes have arrived.
    pub receipt: bool,
    /// Which notes were read.
    pub read: bool,
    /// Another timer.
    pub timer: bool,
    /// A newer card.
    pub card: bool,
    /// A new session, because of this cause (the numbers of `ResetCause`), and a wish to send again.
    pub anew: Option<u8>,
    /// That there are new voids.
    pub void: bool,
    /// Own numbers given up, from and to; said in every note until a receipt's floor passes them.
    pub voids: Vec<(u32, u32)>,
    /// Numbers that the contact gave up: if some of them are here, their bits are the answer.
    pub answers: Vec<(Era, u32, u32)>,
    /// The highest level by which a cause of all this came: it goes by none below (MSG-20).
    pub level: u8,
}

impl PendingItems {
    /// Whether there is anything to say without a note of the person.
    pub fn any(&self) -> bool {
        self.hello
            || self.receipt
            || self.read
            || self.timer
            || self.card
            || self.anew.is_some()
            || self.void
            || !self.answers.is_empty()
    }

    /// Adds a void; of too many the oldest go, and the reader shows a gap instead.
    pub fn give_up(&mut self, seq: u32) {
        self.void = true;
        match self.voids.last_mut() {
            Some((_, to)) if to.checked_add(1) == Some(seq) => *to = seq,
            _ => self.voids.push((seq, seq)),
        }
        if self.voids.len() > VOIDS_MAX {
            self.voids.remove(0);
        }
    }

    /// A range that the contact gave up and of which something is here.
    pub fn answer(&mut self, era: Era, from: u32, to: u32) {
        if self.answers.len() < ANSWERS_MAX && !self.answers.contains(&(era, from, to)) {
            self.answers.push((era, from, to));
        }
    }
}

/// A contact with its conversation.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one contact")]
pub(crate) struct Contact<B: Backend> {
    pub id: ContactId,
    pub card: Card,
    pub petname: Option<String>,
    pub verified: Option<(VerificationMethod, Time)>,
    pub policy: Policy,
    pub stage: ContactPhase,
    pub blocked: bool,
    pub their_mailbox: Option<RemoteMailbox>,
    pub intro: Option<IntroMailbox>,
    pub our_mailbox: Option<MailboxId>,
    pub next_seq: u32,
    pub last_reset: Time,
    /// The next note needs a new session, from a new bundle.
    pub renew: bool,
    /// They were invited, and have called to know who it was.
    pub called_back: bool,
    /// The session for which the mixnet has a root.
    pub met: Option<[u8; 16]>,
    pub owed: PendingItems,
    /// What it has used of what it may use here.
    pub share: Share,
    pub conversation: Conversation<B>,
    /// What has arrived, per era of the writer; the second is what was read of it.
    pub arrived: BTreeMap<Era, (Window, Window)>,
    /// Which ratchet messages were opened last. The ratchet forgets a closed chain, so that a mail
    /// that the relay brings again would look forged; it must not end a session.
    pub recent: ReplayCache,
    // Not stored: a restart begins with a full burst and no request out.
    pub fetch: Option<RequestId>,
    pub fetch_after: Time,
    pub receipts: Pace,
    /// Own notes that are sealed once more.
    pub repeats: Pace,
    /// The own note without receipt that holds up newer ones, sent once more.
    pub oldest: Pace,
    /// Roots that it says.
    pub roots: Pace,
    /// When it was heard in the mixnet last, and when the person wrote to it last.
    pub heard_at: Time,
    pub wrote_at: Time,
    /// Whether the mixnet serves it for our words alone (MSG-54).
    pub muted: bool,
    /// Notes of it that the person has not seen.
    pub unseen: Amount,
    pub trouble: Option<DeliveryProblem>,
}

impl<B: Backend> Contact<B> {
    /// A contact of whom we hold the card.
    pub fn new(
        id: ContactId,
        card: Card,
        conversation: Conversation<B>,
        stage: ContactPhase,
    ) -> Self {
        Self {
            id,
            card,
            petname: None,
            verified: None,
            policy: Policy::default(),
            stage,
            blocked: false,
            their_mailbox: None,
            intro: None,
            our_mailbox: None,
            next_seq: 1,
            last_reset: Time::default(),
            renew: false,
            called_back: false,
            met: None,
            owed: PendingItems::default(),
            share: Share::default(),
            conversation,
            arrived: BTreeMap::new(),
            recent: ReplayCache::default(),
            fetch: None,
            fetch_after: Time::default(),
            receipts: Pace::new(RECEIPT_BURST, RECEIPT_EVERY_MS),
            repeats: Pace::new(REPEAT_BURST, REPEAT_EVERY_MS),
            oldest: Pace::new(1, Time::HOUR_MS),
            roots: Pace::new(ROOT_BURST, ROOT_EVERY_MS),
            heard_at: Time::default(),
            wrote_at: Time::default(),
            muted: false,
            unseen: Amount::default(),
            trouble: None,
        }
    }

    /// The owner's name for it, else the name it claims.
    pub fn name(&self) -> &str {
        self.petname.as_deref().unwrap_or_else(|| self.card.name())
    }

    /// How far things are.
    pub fn standing(&self) -> ContactState {
        match self.stage {
            _ if self.blocked => ContactState::Blocked,
            ContactPhase::Held => ContactState::Held,
            ContactPhase::Asked => ContactState::Asked,
            ContactPhase::Open => ContactState::Open,
            ContactPhase::Request => ContactState::Request,
        }
    }

    /// The relay by which it is reached: that of the mailbox that it gave us, else its card's.
    pub fn relay(&self) -> Option<&RelayEntry> {
        let theirs = self.their_mailbox.as_ref().map(|slot| &slot.relay);
        theirs.or_else(|| self.intro_relay())
    }

    /// The relay of its intro mailbox.
    pub fn intro_relay(&self) -> Option<&RelayEntry> {
        self.card.relays().first()
    }

    /// Whether anything of it is reached by the connection to this relay.
    pub fn is_at(&self, relay: &RelayEntry) -> bool {
        [self.relay(), self.intro_relay()].into_iter().flatten().any(|at| at.shares_line(relay))
    }

    /// Whether we send anything to it at all (MSG-26).
    pub fn is_ours(&self) -> bool {
        !self.blocked && self.stage != ContactPhase::Request
    }

    /// Whether the person wrote to it a short time ago.
    pub fn is_talked_to(&self, now: Time) -> bool {
        now >= self.wrote_at && now.since_ms(self.wrote_at) < TALK_MS
    }

    /// What has arrived, and what was read, of one era of the contact.
    pub fn window(&mut self, era: Era) -> &mut (Window, Window) {
        self.arrived.entry(era).or_insert_with(|| (Window::new(era), Window::new(era)))
    }

    /// Reads what has arrived: the windows of an era, or a chunk of the digests, by the end of its
    /// record's key.
    pub fn read_arrived(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), DecodeError> {
        if let [place] = key {
            return self.recent.read(*place, bytes);
        }
        let (era, windows) = read_windows(key, bytes)?;
        self.arrived.insert(era, windows);
        Ok(())
    }

    /// The stored form, without the conversation and the windows, which are records of their own.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let card = self.card.encode();
        let mut w = Writer::with_capacity(512 + card.len());
        w.u8(VERSION).u8(self.stage as u8).u8(u8::from(self.blocked));
        w.var16(&card).var8(self.petname.as_deref().unwrap_or("").as_bytes());
        let (how, at) = match self.verified {
            None => (0, Time::default()),
            Some((VerificationMethod::InPerson, at)) => (1, at),
            Some((VerificationMethod::Number, at)) => (2, at),
        };
        w.u8(how).u64(at.ms());
        self.policy.write(&mut w);
        w.u8(u8::from(self.their_mailbox.is_some()));
        if let Some(slot) = &self.their_mailbox {
            slot.relay.write(&mut w);
            w.bytes(&slot.seal.0);
        }
        w.u8(u8::from(self.intro.is_some()));
        if let Some(intro) = &self.intro {
            w.bytes(&intro.spk.0).u64(intro.not_after.ms());
        }
        w.u32(self.our_mailbox.map_or(0, |slot| slot.0))
            .u32(self.next_seq)
            .u64(self.last_reset.ms());
        w.u8(u8::from(self.renew) | u8::from(self.called_back) << 1)
            .u8(u8::from(self.met.is_some()));
        if let Some(session) = &self.met {
            w.bytes(session);
        }
        write_owed(&self.owed, &mut w);
        self.share.write(&mut w);
        Wiping::new(w.finish())
    }

    /// Reads the stored form; the conversation and the windows come in later.
    pub fn read(
        id: ContactId,
        bytes: &[u8],
        conversation: impl FnOnce(&Card) -> Result<Conversation<B>, DecodeError>,
    ) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.u8()?;
            if !(SHARELESS..=VERSION).contains(&version) {
                return Err(DecodeError::Value);
            }
            let stage = match r.u8()? {
                0 => ContactPhase::Held,
                1 => ContactPhase::Asked,
                2 => ContactPhase::Open,
                3 => ContactPhase::Request,
                _ => return Err(DecodeError::Value),
            };
            let blocked = flag(r)?;
            let card = Card::decode_stored(r.var16()?).map_err(|_| DecodeError::Value)?;
            let conversation = conversation(&card)?;
            let mut contact = Self::new(id, card, conversation, stage);
            contact.blocked = blocked;
            contact.petname = Some(text(r.var8()?)?).filter(|name| !name.is_empty());
            contact.verified = match (r.u8()?, Time::from_ms(r.u64()?)) {
                (0, _) => None,
                (1, at) => Some((VerificationMethod::InPerson, at)),
                (2, at) => Some((VerificationMethod::Number, at)),
                _ => return Err(DecodeError::Value),
            };
            contact.policy = Policy::read(r)?;
            if flag(r)? {
                let relay = RelayEntry::read(r)?;
                contact.their_mailbox = Some(RemoteMailbox { relay, seal: PublicKey::read(r)? });
            }
            if flag(r)? {
                let spk = PublicKey::read(r)?;
                contact.intro = Some(IntroMailbox { spk, not_after: Time::from_ms(r.u64()?) });
            }
            contact.our_mailbox = Some(r.u32()?).filter(|slot| *slot != 0).map(MailboxId);
            contact.next_seq = r.u32()?;
            contact.last_reset = Time::from_ms(r.u64()?);
            (contact.renew, contact.called_back) = match r.u8()? {
                bits @ 0..=3 => (bits & 1 == 1, bits >> 1 == 1),
                _ => return Err(DecodeError::Value),
            };
            contact.met = if flag(r)? { Some(r.array()?) } else { None };
            contact.owed = read_owed(r)?;
            if version > SHARELESS {
                contact.share = Share::read(r)?;
            }
            Ok(contact)
        })
    }
}

/// Whose contact a stored form is, and what the person calls it; read leniently, for a form that
/// is none of ours.
pub(crate) fn owner(bytes: &[u8]) -> Option<(IdentityKey, String)> {
    let mut r = Reader::new(bytes);
    r.bytes(HEAD_BYTES).ok()?;
    let (ik, claimed) = Card::claims(r.var16().ok()?)?;
    let petname = r.var8().ok().and_then(|name| text(name).ok());
    let petname = petname.filter(|name| !name.is_empty() && crate::name::is_clean(name));
    Some((ik, petname.unwrap_or(claimed)))
}

/// The stored form of what arrived of one era, and what was read of it.
pub(crate) fn write_windows((arrived, read): &(Window, Window)) -> Wiping<Vec<u8>> {
    let mut w = Writer::new();
    arrived.write(&mut w);
    read.write(&mut w);
    Wiping::new(w.finish())
}

/// Reads that stored form; `era` ends the record's key.
pub(crate) fn read_windows(
    era: &[u8],
    bytes: &[u8],
) -> Result<(Era, (Window, Window)), DecodeError> {
    let windows = |r: &mut Reader<'_>| Ok::<_, DecodeError>((Window::read(r)?, Window::read(r)?));
    let (arrived, read) = Reader::decode_exact(bytes, windows)?;
    let sound = arrived.era().0 == *era && read.era().0 == *era;
    if sound { Ok((arrived.era(), (arrived, read))) } else { Err(DecodeError::Value) }
}

pub(crate) fn flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

fn write_owed(owed: &PendingItems, w: &mut Writer) {
    let flags = [owed.hello, owed.receipt, owed.read, owed.timer, owed.card, owed.void];
    let flags = flags.iter().rev().fold(0, |bits, on| bits << 1 | u8::from(*on));
    // Levels 1 to 4; below 1 there is none.
    w.u8(flags | owed.level.saturating_sub(1) << FLAGS);
    w.u8(owed.anew.unwrap_or(0)).u16(owed.voids.len() as u16);
    for (from, to) in &owed.voids {
        w.u32(*from).u32(*to);
    }
    w.u8(owed.answers.len() as u8);
    for (era, from, to) in &owed.answers {
        w.bytes(&era.0).u32(*from).u32(*to);
    }
}

fn read_owed(r: &mut Reader<'_>) -> Result<PendingItems, DecodeError> {
    let bits = r.u8()?;
    let on = |i: u8| bits >> i & 1 == 1;
    let mut owed = PendingItems {
        hello: on(0),
        receipt: on(1),
        read: on(2),
        timer: on(3),
        card: on(4),
        void: on(5),
        anew: Some(r.u8()?).filter(|cause| *cause != 0),
        voids: Vec::new(),
        answers: Vec::new(),
        level: 1 + (bits >> FLAGS),
    };
    for _ in 0..r.u16()? {
        owed.voids.push((r.u32()?, r.u32()?));
    }
    for _ in 0..r.u8()? {
        owed.answers.push((Era::read(r)?, r.u32()?, r.u32()?));
    }
    Ok(owed)
}
