//! Views for the user: plain values, made from the device's state on request.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{SuiteId, Time, snapshot};
use mezza_mixnet::Service;
use mezza_mixnet::config::{NetworkId, ServicePolicy};
use mezza_mixnet::privacy::NetworkPromise;

use crate::card::RelayEntry;
use crate::evidence::WaitReason;
use crate::evidence::{Fact, NoteState};
pub use crate::io::InviterFacts as InvitationView;
use crate::io::{
    CarrierCaps, CarrierId, ContactId, DeliveryProblem, LeftRelay, MailboxId, NetworkAddress,
    NoiseGrade, NoteId, Places,
};
use crate::policy::Policy;

/// The own identity.
#[derive(Clone)]
pub struct IdentityView {
    /// The name on the card.
    pub name: String,
    /// The identity key, 32 bytes.
    pub ik: [u8; 32],
    /// The card's serial.
    pub serial: u32,
    /// Days since 1970 on which the card was issued.
    pub issued: u32,
    /// Suites, best first.
    pub suites: Vec<SuiteId>,
    /// The own relays, with the address of the intro mailbox.
    pub relays: Vec<RelayEntry>,
    /// One-time keys left at the relay, if it said so.
    pub one_time_stock: Option<u16>,
}

/// The mixnet that was joined.
#[derive(Clone, Debug)]
pub struct NetworkView {
    /// The link that the person opened.
    pub link: NetworkAddress,
    /// Its name, once a config is known.
    pub network: Option<NetworkId>,
    /// True if rounds are taken part in.
    pub up: bool,
    /// The protection level now.
    pub level: u8,
    /// How much its noise protects, once a config is known.
    pub noise: Option<NoiseGrade>,
    /// Why no round comes back, as far as this device can see.
    pub trouble: Option<NetworkTrouble>,
    /// The policy of conversations in the config.
    pub policy: Option<ServicePolicy>,
    /// The conversation round that opened last.
    pub round: Option<u64>,
    /// Clients in the last round, as the entry server reports.
    pub users: u32,
    /// Servers in the chain.
    pub mixes: usize,
    /// Conversation rounds used in this period.
    pub rounds_used: u64,
    /// The budgets of all services in this period.
    pub budgets: Vec<BudgetView>,
    /// The promise of the config over the rounds of all budgets.
    pub promise: Option<NetworkPromise>,
    /// The delta that all rounds of all periods reach so far, at the epsilon of the promise.
    pub spent: Option<f64>,
    /// How often noise of a mix did not come back since the start.
    pub alarms: u32,
    /// This clock and the network's differ too much.
    pub clock_off: bool,
}

/// Why no round of a mixnet comes back (MSG-123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkTrouble {
    /// The newest config ended.
    Ended {
        /// How long ago, milliseconds.
        ago_ms: u64,
    },
    /// This clock and the network's differ too much.
    Clock,
    /// The entry server announces rounds under a config that is none of this network's.
    Foreign,
}

/// The budget of one service of the mixnet.
#[derive(Clone, Copy, Debug)]
pub struct BudgetView {
    /// Which one.
    pub service: Service,
    /// Rounds used in this period, in rounds of the noise in force.
    pub used: u64,
    /// Rounds that the config allows.
    pub rounds: u64,
}

/// The effects of removing a carrier on the notes and contacts that it serves.
#[derive(Clone, Debug, Default)]
pub struct LeavingView {
    /// Own notes without a receipt that go by another carrier which their conversation allows.
    pub elsewhere: usize,
    /// Own notes that wait, as no other one is allowed at their level.
    pub waiting: usize,
    /// Contacts to whom nothing leaves any more.
    pub unreachable: Vec<ContactId>,
    /// Invitations of people who have shown no card; they are dropped.
    pub guests: usize,
}

/// The own prekeys, in numbers.
#[derive(Clone, Debug)]
pub struct PrekeysView {
    /// Signed prekeys held, newest first: suite, when it was made, when it is wiped.
    pub signed: Vec<(SuiteId, Time, Time)>,
    /// The end of the bundle that is published now.
    pub until: Option<Time>,
    /// One-time keys held here.
    pub one_time_held: usize,
    /// One-time keys left at the relay, if it said so.
    pub one_time_stock: Option<u16>,
    /// Sessions that others began today.
    pub sessions_today: u32,
    /// How many of them had no one-time key.
    pub without_one_time: u32,
}

/// How far things are with a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactState {
    /// We hold the card, nothing was sent.
    Held,
    /// Our first note is out, no answer yet.
    Asked,
    /// Both sides have answered.
    Open,
    /// A stranger wrote; it is ours to accept or refuse.
    Request,
    /// Incoming notes are accepted and dropped.
    Blocked,
}

/// How we know that the key belongs to the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationMethod {
    /// The card was scanned from their own screen.
    InPerson,
    /// The safety numbers were compared.
    Number,
}

snapshot!(enum VerificationMethod [InPerson, Number]);

/// A contact.
#[derive(Clone)]
pub struct ContactView {
    /// Its number here.
    pub id: ContactId,
    /// The owner's name for it.
    pub name: String,
    /// The name that it gave itself: a claim.
    pub claimed: String,
    /// The identity key, 32 bytes.
    pub ik: [u8; 32],
    /// How far things are.
    pub standing: ContactState,
    /// How and when it was verified.
    pub verified: Option<(VerificationMethod, Time)>,
    /// The rules of the conversation.
    pub policy: Policy,
    /// Suites on its card, best first.
    pub suites: Vec<SuiteId>,
    /// Its relay, if its card has one.
    pub relay: Option<RelayEntry>,
    /// Kinds of card parts that are listed but not here.
    pub absent_parts: Vec<u8>,
    /// Notes that came and were not seen.
    pub unread: usize,
    /// The newest note of the thread.
    pub last: Option<NoteId>,
    /// Notes known to be on their way to us: gaps in what arrived.
    pub missing: usize,
    /// The problem for the user, until it is over or this device starts again.
    pub trouble: Option<DeliveryProblem>,
    /// Another contact with another key is shown under the same name, or claims it (MSG-7).
    pub namesake: bool,
    /// Notes that a restore of either side has left open.
    pub restored: Option<RestoredView>,
}

/// Notes of a contact that a restore has left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredView {
    /// When the backup was made from which this device comes; `None`: it comes from none.
    pub made: Option<Time>,
    /// Own notes that are on the contact's device and not here.
    pub ahead: u32,
    /// Own notes that may have been sent since the backup.
    pub unsure: usize,
    /// Own notes that the contact had and lost.
    pub lost: usize,
}

/// The doubt about a note that a restore has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMark {
    /// It may have been sent since this backup: the user decides.
    Unsure(Time),
    /// It was on the contact's device, which was restored without it.
    Lost,
}

/// The owner of a stored record that does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A contact: its card, sessions, notes, mailboxes.
    Contact(ContactId),
    /// Somebody who invites over the mixnet.
    Inviter(ContactId),
    /// The mixnet that was joined.
    Network,
    /// Rows of its client, which goes on without them.
    NetworkRows,
    /// Mixnets that were left: what was spent there.
    LeftNetworks,
    /// One of the own mailboxes.
    Mailbox(MailboxId),
    /// Notes of which nobody knows whose they are, or without which a parcel may not leave.
    Notes,
    /// Parcels that were on their way.
    Parcels,
    /// Own prekeys: what was begun with them cannot be opened.
    Prekeys,
    /// Bundles of contacts; they are fetched again when they are needed.
    Bundles,
    /// Rows that the store cannot open: nobody knows which records of their kinds they were.
    Sealed,
    /// Records that are none of this version.
    Other,
}

snapshot!(enum Part [
    Contact(a), Inviter(a), Network, NetworkRows, LeftNetworks, Mailbox(a), Notes, Parcels,
    Prekeys, Bundles, Sealed, Other,
]);

/// Something that is stored and does not load. It stays in the store as it is.
#[derive(Clone)]
pub struct SetAside {
    /// The part.
    pub part: Part,
    /// Its name, if that could still be read.
    pub name: Option<String>,
    /// Its records.
    pub records: usize,
    /// How many of them are notes.
    pub notes: usize,
    /// Bytes of all its records.
    pub bytes: usize,
}

impl core::fmt::Debug for SetAside {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SetAside({:?}, {} records)", self.part, self.records)
    }
}

impl core::fmt::Debug for IdentityView {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("IdentityView")
    }
}

impl core::fmt::Debug for ContactView {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ContactView({})", self.id.0)
    }
}

/// The content of a note.
#[derive(Clone, PartialEq, Eq)]
pub enum NoteContent {
    /// Text.
    Text(String),
    /// Something that a newer version of the program made.
    Newer,
}

snapshot!(enum NoteContent [Text(a), Newer]);

impl NoteContent {
    /// Bytes of the text.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Text(text) => text.len() as u32,
            Self::Newer => 0,
        }
    }
}

impl core::fmt::Debug for NoteContent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Newer => "Newer",
        })
    }
}

/// A note of a thread.
#[derive(Clone, Debug)]
pub struct NoteView {
    /// Its number here.
    pub id: NoteId,
    /// Whose thread.
    pub contact: ContactId,
    /// True if it came from the contact.
    pub incoming: bool,
    /// Its content.
    pub body: NoteContent,
    /// When it was written: our clock for own notes, a claim for others.
    pub sent: Time,
    /// When it was stored here.
    pub at: Time,
    /// Its state now.
    pub state: NoteState,
    /// The facts behind the state.
    pub facts: Vec<Fact>,
    /// When it goes or is given up.
    pub due: Option<Time>,
    /// The carrier it leaves or came by, once known.
    pub carrier: Option<CarrierId>,
    /// At which level that carrier hid it on its way, once it has left or come.
    pub level: Option<u8>,
    /// The pin it was written under.
    pub level_min: u8,
    /// The doubt about it that a restore has left.
    pub mark: Option<RestoreMark>,
}

/// A connection that the device keeps.
#[derive(Clone, Debug)]
pub struct ConnectionView {
    /// Of which carrier.
    pub carrier: CarrierId,
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

/// The estimate of a carrier for a text.
#[derive(Clone, Copy, Debug)]
pub struct CarrierEstimate {
    /// Which carrier.
    pub carrier: CarrierId,
    /// Its present abilities.
    pub caps: CarrierCaps,
    /// True if it is up, or why not.
    pub up: Result<(), WaitReason>,
    /// True if the policy allows it and the size fits.
    pub fits: bool,
    /// Pieces that it would take.
    pub pieces: usize,
}
