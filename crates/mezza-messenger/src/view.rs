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
use crate::policy::{NoteLife, Policy};

/// Our identity, as shown to the user.
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
    /// Our relays, with the addresses of the intro mailboxes.
    pub relays: Vec<RelayEntry>,
    /// One-time keys left at the relay, if it reported them.
    pub one_time_stock: Option<u16>,
}

/// The joined mixnet, as shown to the user.
#[derive(Clone, Debug)]
pub struct NetworkView {
    /// The link that the user opened.
    pub link: NetworkAddress,
    /// The id of the network, once a config is known.
    pub network: Option<NetworkId>,
    /// True while the line to the entry server is up.
    pub up: bool,
    /// The present protection level.
    pub level: u8,
    /// Grade of the network's noise, once a config is known.
    pub noise: Option<NoiseGrade>,
    /// The reason why no round returns, if this device can tell it.
    pub trouble: Option<NetworkTrouble>,
    /// The policy of conversations in the config.
    pub policy: Option<ServicePolicy>,
    /// Number of the last conversation round that opened.
    pub round: Option<u64>,
    /// Clients in the last round, as the entry server reports.
    pub users: u32,
    /// Number of servers in the chain.
    pub mixes: usize,
    /// Conversation rounds used in this period.
    pub rounds_used: u64,
    /// The budgets of all services in this period.
    pub budgets: Vec<BudgetView>,
    /// The privacy (epsilon, delta) that the config promises over the rounds of all budgets.
    pub promise: Option<NetworkPromise>,
    /// The delta that all rounds of all periods have reached, at the epsilon of the promise.
    pub spent: Option<f64>,
    /// Number of times since the start that noise of a mix did not return.
    pub alarms: u32,
    /// True if our clock and the network's clock differ too much.
    pub clock_off: bool,
}

/// The reason why no round of a mixnet returns (MSG-123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkTrouble {
    /// The newest config ended.
    Ended {
        /// Milliseconds since its end.
        ago_ms: u64,
    },
    /// Our clock and the network's clock differ too much.
    Clock,
    /// The entry server announces rounds under a config of another network.
    Foreign,
}

/// The budget of one service of the mixnet.
#[derive(Clone, Copy, Debug)]
pub struct BudgetView {
    /// The service of the budget.
    pub service: Service,
    /// Rounds used in this period, converted to rounds of the current noise.
    pub used: u64,
    /// Rounds that the config allows.
    pub rounds: u64,
}

/// The effects of leaving a carrier's network on the notes and contacts that it serves.
#[derive(Clone, Debug, Default)]
pub struct LeavingView {
    /// Number of our notes without a receipt that go by another allowed carrier.
    pub elsewhere: usize,
    /// Number of our notes that wait, because no other carrier is allowed at their level.
    pub waiting: usize,
    /// Contacts that can no longer be reached.
    pub unreachable: Vec<ContactId>,
    /// Number of inviters without a card; their invitations are dropped.
    pub guests: usize,
}

/// Numbers about our prekeys.
#[derive(Clone, Debug)]
pub struct PrekeysView {
    /// Stored signed prekeys, newest first: suite, time of creation, time of wiping.
    pub signed: Vec<(SuiteId, Time, Time)>,
    /// The end of the present bundle's validity.
    pub until: Option<Time>,
    /// Number of one-time keys stored on this device.
    pub one_time_held: usize,
    /// One-time keys left at the relay, if it reported them.
    pub one_time_stock: Option<u16>,
    /// Number of sessions that contacts began today.
    pub sessions_today: u32,
    /// Number of the sessions begun by contacts today that used no one-time key.
    pub without_one_time: u32,
}

/// Progress of the first contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactState {
    /// We have the card, and nothing was sent.
    Held,
    /// Our first note was sent and not answered yet.
    Asked,
    /// Both sides have answered.
    Open,
    /// An unknown sender wrote; the user must accept or refuse the request.
    Request,
    /// The contact is blocked: its parcels are acknowledged and dropped.
    Blocked,
}

/// The way in which a contact's key was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationMethod {
    /// The card was scanned from the contact's own screen.
    InPerson,
    /// The safety numbers were compared.
    Number,
}

snapshot!(enum VerificationMethod [InPerson, Number]);

/// A contact, as shown to the user.
#[derive(Clone)]
pub struct ContactView {
    /// The number of the contact on this device.
    pub id: ContactId,
    /// The user's name for the contact.
    pub name: String,
    /// The name that the contact claims.
    pub claimed: String,
    /// The identity key, 32 bytes.
    pub ik: [u8; 32],
    /// Progress of the first contact.
    pub standing: ContactState,
    /// Method and time of the verification.
    pub verified: Option<(VerificationMethod, Time)>,
    /// The policy of the conversation.
    pub policy: Policy,
    /// Suites on the contact's card, best first.
    pub suites: Vec<SuiteId>,
    /// The relay on the contact's card, if there is one.
    pub relay: Option<RelayEntry>,
    /// Kinds of card parts that the card lists but does not contain in this form.
    pub absent_parts: Vec<u8>,
    /// Number of received notes that were not seen.
    pub unread: usize,
    /// The newest note of the thread.
    pub last: Option<NoteId>,
    /// Number of notes known to be on their way to us, which are gaps in the numbers.
    pub missing: usize,
    /// The problem shown to the user, until it ends or this device restarts.
    pub trouble: Option<DeliveryProblem>,
    /// True if another contact with another key has or claims the same name (MSG-7).
    pub namesake: bool,
    /// Number of notes whose fate is unknown after a restore of either side.
    pub restored: Option<RestoredView>,
}

/// Notes to a contact whose fate is unknown after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredView {
    /// Time when the backup was made from which this device was restored; `None` if it was not
    /// restored.
    pub made: Option<Time>,
    /// Number of own notes that are on the contact's device and not here.
    pub ahead: u32,
    /// Number of own notes that may have been sent since the backup.
    pub unsure: usize,
    /// Number of own notes that the contact had and lost.
    pub lost: usize,
}

/// The reason why the fate of a note is unknown after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMark {
    /// The note may have been sent since the backup of this time was made: the user decides.
    Unsure(Time),
    /// The contact's device had the note and was restored without it.
    Lost,
}

/// The part of a device to which a row belongs that does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A contact: its card, sessions, notes, mailboxes.
    Contact(ContactId),
    /// An inviter over the mixnet.
    Inviter(ContactId),
    /// The joined mixnet.
    Network,
    /// Rows of the mixnet client, which continues without them.
    NetworkRows,
    /// The spent budgets of mixnets that were left.
    LeftNetworks,
    /// One of our mailboxes.
    Mailbox(MailboxId),
    /// Notes whose contact is unknown, or that a parcel needs to leave.
    Notes,
    /// Parcels on their way.
    Parcels,
    /// The key tree of the mesh; what is sealed for it cannot be opened.
    KeyTree,
    /// Our prekeys; sessions that were begun with them cannot be opened.
    Prekeys,
    /// Bundles of contacts, which are fetched again when needed.
    Bundles,
    /// Rows that the store cannot open, so their keys are unknown.
    Sealed,
    /// Rows of kinds that this version does not know.
    Other,
}

snapshot!(enum Part [
    Contact(a), Inviter(a), Network, NetworkRows, LeftNetworks, Mailbox(a), Notes, Parcels, KeyTree,
    Prekeys, Bundles, Sealed, Other,
]);

/// A stored part that does not load. Its rows stay in the store unchanged.
#[derive(Clone)]
pub struct SetAside {
    /// The part of the device.
    pub part: Part,
    /// The name of the part, if it is readable.
    pub name: Option<String>,
    /// Number of its rows.
    pub records: usize,
    /// Number of its rows that are notes.
    pub notes: usize,
    /// Bytes of all its rows.
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
    /// Content of a newer version of the program.
    Newer,
}

snapshot!(enum NoteContent [Text(a), Newer]);

impl NoteContent {
    /// Returns the bytes of the text.
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

/// A note of a thread, as shown to the user.
#[derive(Clone, Debug)]
pub struct NoteView {
    /// The number of the note on this device.
    pub id: NoteId,
    /// The contact of the thread.
    pub contact: ContactId,
    /// True if the note came from the contact.
    pub incoming: bool,
    /// Content of the note.
    pub body: NoteContent,
    /// Time of writing: by our clock for sent notes, claimed for received ones.
    pub sent: Time,
    /// Time at which the note was stored here.
    pub at: Time,
    /// The present state of the note.
    pub state: NoteState,
    /// The facts from which the state is computed.
    pub facts: Vec<Fact>,
    /// Time at which the note disappears or is given up.
    pub due: Option<Time>,
    /// The carrier by which the note leaves or came, once known.
    pub carrier: Option<CarrierId>,
    /// Level of that carrier when the note left or arrived.
    pub level: Option<u8>,
    /// The lowest level that applied when the note was written.
    pub level_min: u8,
    /// The reason why the fate of the note is unknown after a restore, if it is.
    pub mark: Option<RestoreMark>,
    /// Time at which the devices that carry the note now drop it; `None` if no device carries it.
    pub carried_until: Option<Time>,
    /// The life that the user chose for this note alone.
    pub life: Option<NoteLife>,
}

/// A connection that the device keeps.
#[derive(Clone, Debug)]
pub struct ConnectionView {
    /// The carrier of the connection.
    pub carrier: CarrierId,
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
    /// Properties of the connection.
    pub caps: CarrierCaps,
}

/// The estimate of a carrier for a text.
#[derive(Clone, Copy, Debug)]
pub struct CarrierEstimate {
    /// The carrier of the estimate.
    pub carrier: CarrierId,
    /// The present properties of the carrier.
    pub caps: CarrierCaps,
    /// `Ok` if the carrier is up, otherwise the reason why it is down.
    pub up: Result<(), WaitReason>,
    /// True if the policy allows the carrier and the size fits.
    pub fits: bool,
    /// Number of pieces that the text needs.
    pub pieces: usize,
    /// The reason why a note would wait now if only this carrier were allowed. `None` if it would
    /// leave, or if only keys for its session are missing. Relay and mesh prepare a route for a
    /// note, so they may name a reason that the note would remove.
    pub waits: Option<WaitReason>,
}
