//! The interface between the device and a carrier: types that are independent of the
//! carrier.

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
use crate::policy::NoteLife;

/// A carrier, by its number in stored forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarrierId(NonZeroU8);

snapshot!(struct CarrierId(number => number.get()));

impl CarrierId {
    /// The mailbox servers: level 1.
    pub const RELAY: Self = Self::with_number(1);
    /// Local links and tunnels: level 1.
    pub const LINK: Self = Self::with_number(2);
    /// The mesh of devices that forward cells without internet: level 3.
    pub const MESH: Self = Self::with_number(3);
    /// The mixnet, which sends onions in rounds: level 4.
    pub const MIXNET: Self = Self::with_number(4);
    /// All carriers that the format defines, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::RELAY, Self::LINK, Self::MESH, Self::MIXNET];

    /// Returns the carrier with this number, which must be 1 to 255.
    pub const fn with_number(number: u8) -> Self {
        match NonZeroU8::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU8::MIN),
        }
    }

    /// Returns the carrier of a stored number, or `None` for 0. The number of an unknown carrier is
    /// kept.
    pub fn from_number(number: u8) -> Option<Self> {
        NonZeroU8::new(number).map(Self)
    }

    /// Returns the number in stored forms.
    pub const fn number(self) -> u8 {
        self.0.get()
    }

    /// Returns the name on the command line and in texts.
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

/// Present properties of a carrier, used by policy, texts and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierCaps {
    /// Bytes of one piece.
    pub piece_bytes: usize,
    /// Most pieces of one parcel.
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
    /// Hours for which the carrier stores waiting parcels.
    pub store_h: u32,
    /// True if the carrier needs the internet.
    pub needs_internet: bool,
    /// True if the carrier runs as a demonstration on one machine and so protects nothing.
    pub demo: bool,
    /// The facts that the carrier hides besides the content.
    pub hides: CarrierHides,
    /// Protection by the noise of the carrier; `None` for a carrier without noise, or before the
    /// noise is known.
    pub noise: Option<NoiseGrade>,
}

/// Grade of protection by a carrier's noise, used by all texts about it (MSG-122). Noise promises
/// differential privacy with parameters epsilon and delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseGrade {
    /// The noise promises no privacy, or is too small for the privacy that it promises.
    Nothing,
    /// The noise is large enough for its promise, which is below the standard level.
    Weak,
    /// The noise is large enough for the standard level of privacy.
    Standard,
}

snapshot!(enum NoiseGrade [Nothing, Weak, Standard]);

/// The facts that a carrier hides from each kind of observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierHides {
    /// True if the internet provider cannot see who writes to whom.
    pub partners_from_provider: bool,
    /// True if the operator of the carrier cannot see who writes to whom.
    pub partners_from_operator: bool,
    /// True if an observer of all traffic cannot see that a conversation takes place at all.
    pub talk_from_observer: bool,
}

impl CarrierHides {
    /// Hides nothing from any observer.
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

/// The present state of a carrier.
#[derive(Clone, Copy, Debug)]
pub struct CarrierState {
    /// True if the given contact has an address at this carrier.
    pub reached: bool,
    /// `Ok` if the carrier is up, otherwise the reason why it is down.
    pub up: Result<(), WaitReason>,
    /// Abilities of the carrier.
    pub caps: CarrierCaps,
}

/// A connection that a carrier keeps.
#[derive(Clone, Debug)]
pub struct CarrierConnection {
    /// The relay of the connection; `None` for other carriers.
    pub relay: Option<RelayEntry>,
    /// True if we have mailboxes at this relay.
    pub own: bool,
    /// True if the connection is up.
    pub up: bool,
    /// Counts of our mailboxes there.
    pub places: Places,
    /// Our remaining mailboxes there, if the relay was replaced.
    pub left: Option<LeftRelay>,
    /// Abilities of the connection.
    pub caps: CarrierCaps,
}

/// The remaining mailboxes at a replaced relay, which is not on our card and reaches no contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftRelay {
    /// Number of replaced mailboxes that are still read, because contacts may not know the new ones
    /// yet.
    pub read: u32,
    /// Number of mailboxes that are not read any more, and whose tokens wait for CLOSE.
    pub closing: u32,
    /// Time until which the last mailbox is read. If none is read any more: time at which the last
    /// token is dropped.
    pub until: Time,
}

/// Counts of our mailboxes at a relay, as the relay reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Number of all mailboxes.
    pub all: u32,
    /// Number of mailboxes that this device reads.
    pub here: u32,
    /// Number of mailboxes that another device with the same vault reads.
    pub elsewhere: u32,
}

/// The facts about a session that a carrier needs.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact of a session")]
pub struct SessionFacts {
    /// The id of the session, or `None` if there is no session.
    pub id: Option<[u8; 16]>,
    /// True if we began the session.
    pub initiator: bool,
    /// True if the session waits for the first reply.
    pub pending: bool,
    /// True if the next note needs a new session.
    pub renew: bool,
    /// True if a bundle for another session is stored.
    pub bundle: bool,
}

impl SessionFacts {
    /// Returns true if a note can be sealed in the session.
    pub const fn is_usable(&self) -> bool {
        self.id.is_some() && !self.renew
    }
}

/// The facts about a contact that the device passes to a carrier with each request.
#[derive(Clone, Copy)]
pub struct ContactFacts<'a> {
    /// The number of the contact.
    pub id: ContactId,
    /// The card of the contact.
    pub card: &'a Card,
    /// Our own card.
    pub own: &'a Card,
    /// True if we send anything to the contact (MSG-26).
    pub is_ours: bool,
    /// True if both sides have answered.
    pub is_open: bool,
    /// True if an invitation to the contact is on its way.
    pub invited: bool,
    /// The problem that keeps notes from leaving.
    pub trouble: Option<DeliveryProblem>,
    /// The session with the contact.
    pub session: SessionFacts,
}

/// The route of a parcel, which is stored with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The carrier of the route.
    pub carrier: CarrierId,
    /// Time until which the recipient can open the parcel; `None` if there is no limit.
    pub until: Option<Time>,
    /// True for an invitation, which is repeated until it is answered or expires.
    pub invitation: bool,
    /// Data of the carrier itself, at most 64 bytes.
    pub address: Vec<u8>,
}

snapshot!(struct Route { carrier, until, invitation, address });

/// Our address in the first note of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloPlace {
    /// A mailbox of ours for the contact.
    Mailbox(RemoteMailbox),
    /// No address; a tag identifies us to the reader.
    Tag,
    /// Our mailbox does not exist yet, and a first note waits for it.
    NotYet,
}

/// A route that is usable now.
pub struct Reach {
    /// The route.
    pub route: Route,
    /// Our address for a hello.
    pub place: HelloPlace,
    /// The allowed paddings of the message; the first that fits is used.
    pub paddings: &'static [Padding],
    /// The outer binding of the message, at most 64 bytes. The reader's carrier supplies the same
    /// bytes at arrival.
    pub outer: Vec<u8>,
}

/// Requirements of a route.
#[derive(Clone, Copy)]
pub struct RouteTerms {
    /// The lowest privacy level, 1 to 4, at which the carrier may be used.
    pub pin: u8,
    /// True if a note of the user is to leave; false for items that the device owes.
    pub is_user_note: bool,
    /// The life that the user chose for the note or its conversation; `None` for no choice. Only
    /// carriers whose parcels other devices carry use it.
    pub life: Option<NoteLife>,
}

/// The reason why no route to a contact is usable now.
pub enum Missing {
    /// The note must wait.
    Wait(WaitReason),
    /// A session is missing; a bundle must be fetched first.
    Session,
    /// A first message of a special form (an invitation) is needed.
    First(FirstTerms),
}

/// Requirements of an invitation.
pub struct FirstTerms {
    /// The suites that fit into an invitation.
    pub suites: SuiteList,
    /// Size of the whole message in bytes.
    pub bytes: usize,
    /// Items of the invitation.
    pub items: Vec<Item>,
    /// Milliseconds that the invitation may remain on its way after its bundle has expired.
    pub beyond_ms: u64,
}

/// A parcel that is offered to a carrier.
pub struct Leaving<'a> {
    /// Number of the parcel.
    pub id: ParcelId,
    /// Facts about the recipient.
    pub to: ContactFacts<'a>,
    /// Route of the parcel.
    pub route: &'a Route,
    /// The lowest level at which the parcel may leave.
    pub pin: u8,
    /// True if the parcel contains a note of the user.
    pub own: bool,
    /// Number of earlier handovers of the parcel.
    pub times: u8,
    /// Bytes of the parcel.
    pub bytes: &'a [u8],
}

/// The result of offering a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The carrier took the parcel and reports the result as news.
    Out,
    /// The carrier accepts no parcel now.
    Waits,
}

/// The number of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParcelId(pub u64);

snapshot!(struct ParcelId(id));

/// A parcel that must not leave any more. A carrier that got it before a restart recognises it by
/// its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Number of the parcel.
    pub id: ParcelId,
    /// The recipient of the parcel.
    pub contact: ContactId,
    /// Bytes of the parcel.
    pub bytes: Vec<u8>,
    /// True if the parcel contains the root of mixnet chains and is lost, not only recalled.
    pub loses_root: bool,
}

/// The extent of the state that a carrier must forget about a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Only the state that is shared with the contact's device, such as the chains in the mixnet.
    Chains,
    /// All state of the contact.
    All,
}

/// Our prekeys on their way to the servers from which contacts fetch them.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The encoded bundle.
    pub bundle: Vec<u8>,
    /// One-time keys to add to the stock.
    pub one_time: Vec<OneTimePrekey>,
    /// True if the relay should delete the old stock first. The flag is sent once and not stored:
    /// repeated after a crash, it would offer one-time keys again that were already given out.
    pub replace: bool,
}

snapshot!(struct Publication { bundle, one_time, replace });

impl Publication {
    /// Merges a newer publication into this one: the newer bundle replaces the older, and a
    /// replacement drops the older keys.
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

/// A mixnet, as named by the link that the user opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAddress {
    /// Hash of the network's first config.
    pub pin: [u8; 32],
    /// `host:port` of the entry server in the link.
    pub address: String,
}

snapshot!(struct NetworkAddress { pin, address });

/// An inviter that has not sent a card.
#[derive(Clone, Copy)]
pub struct InviterFacts {
    /// The number of the contact that the inviter will become.
    pub id: ContactId,
    /// The identity key, 32 bytes.
    pub ik: [u8; 32],
    /// Arrival time of the invitation.
    pub at: Time,
    /// True if the user has asked for the identity.
    pub asked: bool,
}

impl fmt::Debug for InviterFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InviterFacts({})", self.id.0)
    }
}

/// The parts of our card that the carriers provide.
#[derive(Default)]
pub struct CardParts {
    /// The relays, with the addresses of the intro mailboxes.
    pub relays: Vec<RelayEntry>,
    /// Further parts by kind, ascending.
    pub further: Vec<(u8, Vec<u8>)>,
}
