//! The interface between the device and a carrier (house 4a): values, and no word about which
//! carrier it is.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU8;

use mezza_core::{Time, snapshot};
use mezza_ratchet::{OneTimePrekey, Padding, SuiteList};

use super::{ContactId, DeliveryProblem};
use crate::card::{Card, RelayEntry};
use crate::evidence::WaitReason;
use crate::note::{Item, RemoteMailbox};

/// A way for parcels, by its number in stored forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarrierId(NonZeroU8);

snapshot!(struct CarrierId(number => number.get()));

impl CarrierId {
    /// A mailbox server: level 1.
    pub const RELAY: Self = Self::with_number(1);
    /// A local link or tunnel: level 1.
    pub const LINK: Self = Self::with_number(2);
    /// Devices that pass cells on without internet: level 3.
    pub const MESH: Self = Self::with_number(3);
    /// Onions in rounds: level 4.
    pub const MIXNET: Self = Self::with_number(4);
    /// All carriers that the format names, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::RELAY, Self::LINK, Self::MESH, Self::MIXNET];

    /// The carrier with this number, which is 1 to 255.
    pub const fn with_number(number: u8) -> Self {
        match NonZeroU8::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU8::MIN),
        }
    }

    /// The carrier of a stored number; 0 is none. A number that no carrier here has is kept.
    pub fn from_number(number: u8) -> Option<Self> {
        NonZeroU8::new(number).map(Self)
    }

    /// Its number in stored forms.
    pub const fn number(self) -> u8 {
        self.0.get()
    }

    /// Its name on the command line and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::RELAY => "relay",
            Self::LINK => "link",
            Self::MESH => "mesh",
            Self::MIXNET => "mixnet",
            _ => "absent",
        }
    }
}

/// Present abilities of a carrier: the one source for policy, texts and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierCaps {
    /// Bytes of one piece.
    pub piece_bytes: usize,
    /// Pieces that one parcel may have.
    pub pieces_max: usize,
    /// Bytes that the carrier adds to a parcel before it is cut into pieces.
    pub around_bytes: usize,
    /// Most bytes of a parcel.
    pub parcel_bytes_max: usize,
    /// Protection level, 1 to 4.
    pub level: u8,
    /// Usual delay in milliseconds, median.
    pub delay_ms: u32,
    /// Usual delay in milliseconds, 99th percentile.
    pub delay_p99_ms: u32,
    /// True if `delivered` receipts travel by default.
    pub receipts: bool,
    /// Hours that the carrier keeps what waits.
    pub store_h: u32,
    /// True if it needs the internet.
    pub needs_internet: bool,
    /// True if it runs as a demonstration on one machine and so protects nothing.
    pub demo: bool,
    /// The facts that it hides besides the content.
    pub hides: CarrierHides,
    /// How much its noise protects; `None` for a carrier without noise or before it is known.
    pub noise: Option<NoiseGrade>,
}

/// How much the noise of a carrier protects: the one source for texts about it (MSG-122).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseGrade {
    /// It promises nothing, or more than it keeps.
    Nothing,
    /// It keeps its own promise, which is below the standard level.
    Weak,
    /// It keeps the promise of the standard level.
    Standard,
}

snapshot!(enum NoiseGrade [Nothing, Weak, Standard]);

/// The facts that a carrier hides, by observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierHides {
    /// From whoever provides the internet: who writes to whom.
    pub partners_from_provider: bool,
    /// From whoever runs it: who writes to whom.
    pub partners_from_operator: bool,
    /// From an observer of all traffic: whether anybody converses at all.
    pub talk_from_observer: bool,
}

impl CarrierHides {
    /// Nothing.
    pub const NOTHING: Self = Self {
        partners_from_provider: false,
        partners_from_operator: false,
        talk_from_observer: false,
    };
}

snapshot!(struct CarrierHides { partners_from_provider, partners_from_operator, talk_from_observer });

snapshot!(struct CarrierCaps {
    piece_bytes, pieces_max, around_bytes, parcel_bytes_max, level, delay_ms, delay_p99_ms,
    receipts, store_h, needs_internet, demo, hides, noise,
});

/// A carrier as it is now.
#[derive(Clone, Copy, Debug)]
pub struct CarrierState {
    /// True if the contact that was asked about can be reached by it at all.
    pub reached: bool,
    /// True if it is up, or why not.
    pub up: Result<(), WaitReason>,
    /// Its abilities.
    pub caps: CarrierCaps,
}

/// A connection that a carrier keeps.
#[derive(Clone, Debug)]
pub struct CarrierConnection {
    /// The relay, if it is one.
    pub relay: Option<RelayEntry>,
    /// True if our own mailboxes are there.
    pub own: bool,
    /// True if it stands.
    pub up: bool,
    /// Our own mailboxes there.
    pub places: Places,
    /// The mailboxes left there, if it is a relay that was replaced.
    pub left: Option<LeftRelay>,
    /// Its abilities.
    pub caps: CarrierCaps,
}

/// A relay that the own card does not name any more and by which no contact is reached: what is left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRelay {
    /// Replaced mailboxes that are still read: contacts that do not know the new ones write there.
    pub read: u32,
    /// Mailboxes that nobody reads, whose tokens wait until the relay has closed them.
    pub closing: u32,
    /// When the last mailbox is read no longer; without one, when the last token is given up.
    pub until: Time,
}

/// Where others leave mail for us, as its carrier answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many there are.
    pub all: u32,
    /// Those whose mail comes here.
    pub here: u32,
    /// Those that another device with the same vault reads.
    pub elsewhere: u32,
}

/// The session with a contact, as far as a carrier needs to know it.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact of a session")]
pub struct SessionFacts {
    /// Its id, if there is one.
    pub id: Option<[u8; 16]>,
    /// True if we began it.
    pub initiator: bool,
    /// True if it waits for the first reply.
    pub pending: bool,
    /// True if the next note needs a new one.
    pub renew: bool,
    /// True if a bundle is held for another one.
    pub bundle: bool,
}

impl SessionFacts {
    /// Returns true if a note can be sealed in it.
    pub const fn is_usable(&self) -> bool {
        self.id.is_some() && !self.renew
    }
}

/// The facts of a contact that the device gives to a carrier with a request.
#[derive(Clone, Copy)]
pub struct ContactFacts<'a> {
    /// Its number.
    pub id: ContactId,
    /// Its card.
    pub card: &'a Card,
    /// Our own card.
    pub own: &'a Card,
    /// True if we send anything to it at all (MSG-26).
    pub is_ours: bool,
    /// True if both sides have answered.
    pub is_open: bool,
    /// True if an invitation to it is on its way.
    pub invited: bool,
    /// The problem that keeps notes from leaving.
    pub trouble: Option<DeliveryProblem>,
    /// The session with it.
    pub session: SessionFacts,
}

/// By which carrier a parcel goes. It is stored with the parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which carrier.
    pub carrier: CarrierId,
    /// Until when the other side can open the parcel; `None`: there is no end.
    pub until: Option<Time>,
    /// True if it is an invitation: taken again and again until it is answered or ends.
    pub invitation: bool,
    /// The carrier's own data, at most 64 bytes.
    pub address: Vec<u8>,
}

snapshot!(struct Route { carrier, until, invitation, address });

/// The address in the first note of a session, at which we are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloPlace {
    /// This mailbox.
    Mailbox(RemoteMailbox),
    /// Nothing: the reader knows whose it is by a tag.
    Tag,
    /// Our mailbox does not exist yet; a first note waits for it.
    NotYet,
}

/// A way that can be taken now.
pub struct Reach {
    /// The route.
    pub route: Route,
    /// The content of a hello.
    pub place: HelloPlace,
    /// How the message may be filled up, the first that fits.
    pub paddings: &'static [Padding],
    /// The outer binding of the message, at most 64 bytes; the reader's carrier says the
    /// same of what it brings.
    pub outer: Vec<u8>,
}

/// Why a way cannot be taken now.
pub enum Missing {
    /// It has to wait.
    Wait(WaitReason),
    /// A session, from a bundle that is to be fetched.
    Session,
    /// A first message of another kind.
    First(FirstTerms),
}

/// Requirements of an invitation.
pub struct FirstTerms {
    /// The suites that fit into it.
    pub suites: SuiteList,
    /// Bytes of the whole message.
    pub bytes: usize,
    /// Its items.
    pub items: Vec<Item>,
    /// How much longer than its bundle it travels, milliseconds.
    pub beyond_ms: u64,
}

/// A parcel that may leave.
pub struct Leaving<'a> {
    /// Which.
    pub id: ParcelId,
    /// For whom.
    pub to: ContactFacts<'a>,
    /// Its route.
    pub route: &'a Route,
    /// The lowest level by which it may leave.
    pub pin: u8,
    /// True if a person wrote what is in it.
    pub own: bool,
    /// How often the carrier took it.
    pub times: u8,
    /// The parcel.
    pub bytes: &'a [u8],
}

/// The result of offering a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It is out; the answer comes as news.
    Out,
    /// The carrier takes none now.
    Waits,
}

/// The number of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParcelId(pub u64);

snapshot!(struct ParcelId(id));

/// A parcel that need not leave any more. It may be under way with a carrier since before a start, so
/// that its bytes name it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its number.
    pub id: ParcelId,
    /// For whom it was.
    pub contact: ContactId,
    /// The parcel.
    pub bytes: Vec<u8>,
}

/// The state of a contact that a carrier must forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// The state that it shares with the contact's device.
    Chains,
    /// Everything.
    All,
}

/// The own prekeys on their way to where others fetch them.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The bundle.
    pub bundle: Vec<u8>,
    /// One-time keys beside it.
    pub one_time: Vec<OneTimePrekey>,
    /// True if the old stock goes first. Said once and not stored: were it repeated after a crash,
    /// one-time keys that were given out in between would be given out again.
    pub replace: bool,
}

snapshot!(struct Publication { bundle, one_time, replace });

impl Publication {
    /// Joins a newer one: the newer bundle counts; keys that a replacement drops go.
    pub fn merge_newer(&mut self, newer: Self) {
        self.bundle = newer.bundle;
        // The keys that a replacement drops were partly given out already (section 8).
        if newer.replace {
            self.replace = true;
            self.one_time.clear();
        }
        self.one_time.extend(newer.one_time);
    }
}

/// Which network: the link that a person opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAddress {
    /// The hash of its first config.
    pub pin: [u8; 32],
    /// `host:port` of the entry that the link names.
    pub address: String,
}

snapshot!(struct NetworkAddress { pin, address });

/// Somebody who invites over a carrier and has shown no card.
#[derive(Clone, Copy)]
pub struct InviterFacts {
    /// The number of the contact that this becomes.
    pub id: ContactId,
    /// The identity key, 32 bytes.
    pub ik: [u8; 32],
    /// When the invitation came.
    pub at: Time,
    /// True if the person has asked who it is.
    pub asked: bool,
}

impl fmt::Debug for InviterFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InviterFacts({})", self.id.0)
    }
}

/// The parts of our card about the carriers.
#[derive(Default)]
pub struct CardParts {
    /// The relays, with the address of the intro mailbox.
    pub relays: Vec<RelayEntry>,
    /// Further parts by kind, ascending.
    pub further: Vec<(u8, Vec<u8>)>,
}
