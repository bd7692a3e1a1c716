//! The values of the HTTP interface: what the page, the command line and bots read and write.
//! Everything here is public by contract; `openapi.json` is made from it.

mod ratchet;
mod world;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use ratchet::*;
pub use world::*;

/// `Debug` that shows the name of the type alone: these values hold names, texts and addresses,
/// and must not reach a log by accident (MSG-37).
macro_rules! silent {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
use silent;

silent!(Status Relay Me CardText Contact Verified Policy AddRequest ContactPatch Note Fact Offer);

/// A one-time ticket from the URL's fragment.
#[derive(Deserialize, ToSchema)]
pub struct SessionRequest {
    /// 64 hexadecimal digits.
    pub ticket: String,
}

/// The bearer that a ticket was exchanged for.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// 64 hexadecimal digits, sent as `Authorization: Bearer ..` from now on.
    pub bearer: String,
}

/// An address for a browser, good for one visit.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct TicketUrl {
    /// `http://127.0.0.1:PORT/#t=TICKET`.
    pub url: String,
}

/// What this program is doing.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// Whether there is an identity, and whether it is unlocked.
    pub state: NodeState,
    /// The own name, while unlocked.
    pub name: Option<String>,
    /// Whether this is the demonstration world, which hides nothing.
    pub demo: bool,
    /// Whether the observer is on.
    pub observer: bool,
    /// Seconds without a call after which the node locks itself; 0: never.
    pub idle_lock_s: u64,
    /// The node's clock, milliseconds since 1970.
    pub now_ms: u64,
}

/// How far the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// No identity yet.
    Empty,
    /// An identity that waits for its passphrase.
    Locked,
    /// Running.
    Open,
}

/// A new identity.
#[derive(Deserialize, ToSchema)]
pub struct CreateRequest {
    /// The name that others read on the card, at most 24 bytes.
    pub name: String,
    /// The passphrase of the vault.
    pub passphrase: String,
    /// A relay, as `mezzavoce:r1/..`.
    pub relay: Option<String>,
}

/// An offered passphrase.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Words {
    /// Six words.
    pub words: Vec<String>,
}

/// The key to the vault.
#[derive(Deserialize, ToSchema)]
pub struct UnlockRequest {
    /// The passphrase.
    pub passphrase: String,
}

/// A relay as people compare it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Relay {
    /// First eight digits of its key, `5F3A-91C0`.
    pub key: String,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// The own identity.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The name on the card.
    pub name: String,
    /// First 16 bytes of the identity key, hexadecimal.
    pub id: String,
    /// The card's serial.
    pub card_serial: u32,
    /// Day on which the card was issued, days since 1970.
    pub issued_days: u32,
    /// Suites, best first, `0x0101`.
    pub suites: Vec<String>,
    /// The own relays.
    pub relays: Vec<Relay>,
    /// One-time keys left at the relay, if it said so.
    pub one_time_stock: Option<u16>,
}

/// What shall be otherwise on the own card.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct RenewRequest {
    /// Another name, at most 24 bytes.
    pub name: Option<String>,
    /// All own relays from now on, as `mezzavoce:r1/..`.
    pub relays: Option<Vec<String>>,
}

/// Which parts of a card are given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CardForm {
    /// All parts.
    #[default]
    Full,
    /// Small enough for paper.
    Poster,
    /// For use without internet.
    Offline,
}

/// The own card as text.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CardText {
    /// `mezzavoce:c1/..`.
    pub uri: String,
    /// The form it was made in.
    pub form: CardForm,
    /// Bytes of the card.
    pub bytes: usize,
}

/// All contacts.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Contacts {
    /// In the order of their numbers.
    pub contacts: Vec<Contact>,
}

/// A contact.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Contact {
    /// Its number on this device.
    pub id: String,
    /// The owner's name for it.
    pub name: String,
    /// The name it gave itself: a claim.
    pub claimed_name: String,
    /// How far things are.
    pub standing: Standing,
    /// How and when it was verified.
    pub verified: Option<Verified>,
    /// The rules of the conversation.
    pub policy: Policy,
    /// Suites on its card, best first.
    pub suites: Vec<String>,
    /// Its relay.
    pub relay: Option<Relay>,
    /// Kinds of card parts that are listed but not here.
    pub absent_parts: Vec<u8>,
    /// Notes that came and were not seen.
    pub unread: usize,
    /// Notes known to be on their way to us.
    pub missing: usize,
    /// What needs the person, in words.
    pub trouble: Option<String>,
    /// Whether another contact claims the same name with another key.
    pub namesake: bool,
    /// The newest note.
    pub last: Option<Note>,
}

/// How far things are with a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The card is held, nothing was sent.
    Held,
    /// The first note is out.
    Asked,
    /// Both have answered.
    Open,
    /// A stranger wrote.
    Request,
    /// What comes is dropped.
    Blocked,
}

/// How a contact was verified.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// By which way.
    pub how: VerifiedHow,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Ways to verify a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifiedHow {
    /// The card was scanned from their own screen.
    InPerson,
    /// The safety numbers were compared.
    Number,
}

/// The rules of a conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Carriers, best first: relay, link, mesh, mixnet.
    pub carriers: Vec<String>,
    /// The lowest level a note may leave by, 1 to 4.
    pub pin: u8,
    /// Whether another carrier of the list may step in.
    pub fallback: Fallback,
    /// Seconds until a note goes; 0: never.
    pub timer_s: u32,
    /// Whether `delivered` receipts are sent.
    pub delivered: bool,
    /// Whether `read` receipts are sent.
    pub read: bool,
}

/// Whether another carrier may step in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// The first of the list alone.
    None,
    /// The first of the list that fits and is up.
    Listed,
}

/// A new contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct AddRequest {
    /// The card, `mezzavoce:c1/..`; spaces and line breaks do not matter.
    pub uri: String,
    /// The owner's name for it; else the claimed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it was scanned from the person's own screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_person: Option<bool>,
}

/// What shall change about a contact; what is left out stays.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct ContactPatch {
    /// Another name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The numbers were compared and equal, or the mark is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Other rules, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Block, or let in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

/// The safety number of a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Number {
    /// Twelve groups of five digits.
    pub groups: Vec<String>,
    /// The same as a QR code.
    pub scannable_svg: String,
}

/// A part of a thread.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Notes {
    /// Oldest first.
    pub notes: Vec<Note>,
    /// Whether older ones exist.
    pub more: bool,
}

/// A note.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Note {
    /// Its number on this device.
    pub id: String,
    /// Whose thread.
    pub contact: String,
    /// Whether it came from the contact.
    pub incoming: bool,
    /// What it shows.
    pub kind: NoteKind,
    /// The text, for kind `text`.
    pub text: Option<String>,
    /// When it was written, milliseconds since 1970; a claim for incoming notes.
    pub sent_ms: u64,
    /// When it was stored here.
    pub at_ms: u64,
    /// Its state now.
    pub state: NoteState,
    /// Why it waits, for state `queued`: sending, `no_carrier`, `below_pin`, `too_big`, keys, answer,
    /// `box_gone`, `box_full`, budget, slow.
    pub why: Option<String>,
    /// The state in words for people.
    pub words: String,
    /// The carrier it leaves or came by.
    pub carrier: Option<String>,
    /// That carrier's level now.
    pub level: Option<u8>,
    /// The pin it was written under.
    pub pin: u8,
    /// What the state rests on.
    pub facts: Vec<Fact>,
    /// When it goes or is given up.
    pub due_ms: Option<u64>,
}

/// What a note shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Text.
    Text,
    /// Something from a newer version of the program.
    Newer,
}

/// The state of a note; a function of its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteState {
    /// It came from the contact.
    Received,
    /// It waits here.
    Queued,
    /// A carrier took it.
    Handed,
    /// Others announce it.
    Carried,
    /// Not confirmed before its time was over.
    Expired,
    /// On the other device's disk.
    Delivered,
    /// Seen by the other person.
    Read,
}

/// One thing known to have happened to a note.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Fact {
    /// handed, carried, delivered or read.
    pub what: NoteState,
    /// By which carrier it became known.
    pub carrier: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The same in words.
    pub words: String,
}

/// A note to write.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SendRequest {
    /// 1 to 8,192 bytes.
    pub text: String,
    /// 32 hexadecimal digits; the same ones again give the same note.
    pub client_id: String,
}

/// A text that is being written.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct PreviewRequest {
    /// The text so far.
    pub text: String,
}

/// What sending a text would take.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Its length.
    pub bytes: usize,
    /// The most that a note holds.
    pub bytes_max: usize,
    /// One line per carrier.
    pub offers: Vec<Offer>,
}

/// What one carrier would do with a text.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// Which.
    pub carrier: String,
    /// Whether the policy and its size allow it.
    pub fits: bool,
    /// Whether it is up.
    pub up: bool,
    /// Its level now.
    pub level: u8,
    /// Pieces it would be cut into.
    pub pieces: usize,
    /// What it costs, in words.
    pub cost: String,
}

/// Up to which note the person has read.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SeenRequest {
    /// The newest note seen.
    pub note: String,
}

/// Own notes that are not delivered yet.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Outbox {
    /// Oldest first.
    pub notes: Vec<Note>,
}

/// Strangers who wrote.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Requests {
    /// One per stranger.
    pub requests: Vec<StrangerRequest>,
}

/// A stranger who wrote.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct StrangerRequest {
    /// Who.
    pub contact: Contact,
    /// What they wrote, at most eight notes.
    pub notes: Vec<Note>,
}
