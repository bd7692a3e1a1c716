//! Contacts, their policies, and contact requests.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NoteJson, RelayJson};

/// All contacts.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Contacts {
    /// The contacts, in the order of their numbers.
    pub contacts: Vec<ContactJson>,
}

/// A contact.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Contact)]
pub struct ContactJson {
    /// Number of the contact on this device.
    pub id: String,
    /// The user's name for the contact.
    pub name: String,
    /// The name on the contact's card: a claim.
    pub claimed_name: String,
    /// Progress of the first contact.
    pub standing: StandingJson,
    /// Method and time of the verification.
    pub verified: Option<Verified>,
    /// The rules of the conversation.
    pub policy: PolicyJson,
    /// Suites on the contact's card, best first.
    pub suites: Vec<String>,
    /// The relay on the contact's card, if there is one.
    pub relay: Option<RelayJson>,
    /// Kinds of card parts that the card lists but does not contain in this form.
    pub absent_parts: Vec<u8>,
    /// Number of received notes that the user has not seen.
    pub unread: usize,
    /// Number of notes that are known to be missing here, because later ones have arrived.
    pub missing: usize,
    /// A problem that the user has to solve, in words.
    pub trouble: Option<String>,
    /// True if another contact claims the same name with another key.
    pub namesake: bool,
    /// Notes whose fate is unknown after a restore.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub restored: Option<super::RestoredJson>,
    /// The newest note.
    pub last: Option<NoteJson>,
}

/// Progress of the first contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Standing)]
pub enum StandingJson {
    /// We have the card, and nothing was sent.
    Held,
    /// Our first note was sent.
    Asked,
    /// Both sides have answered.
    Open,
    /// An unknown sender wrote.
    Request,
    /// The contact is blocked: incoming notes are dropped.
    Blocked,
}

/// How a contact was verified.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// Method of the verification.
    pub how: VerifiedHow,
    /// Time of the verification, milliseconds since 1970.
    pub at_ms: u64,
}

/// Ways to verify a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifiedHow {
    /// The card was scanned from the contact's own screen.
    InPerson,
    /// The safety numbers were compared.
    Number,
}

/// The rules of a conversation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Policy)]
pub struct PolicyJson {
    /// Carriers, best first: relay, link, mesh, mixnet.
    pub carriers: Vec<String>,
    /// The lowest level at which a note may be sent, 1 to 4.
    pub pin: u8,
    /// True if another carrier of the list may step in.
    pub fallback: FallbackJson,
    /// Seconds after which a note is deleted; 0: never.
    pub timer_s: u32,
    /// True if `delivered` receipts are sent.
    pub delivered: bool,
    /// True if `read` receipts are sent.
    pub read: bool,
    /// How long devices of the mesh carry our notes. Absent: as `mesh_life` in config.toml says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mesh_life: Option<MeshLifeJson>,
}

/// How long devices of the mesh carry a note, and the receiver keeps the keys for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[schema(as = MeshLife)]
pub enum MeshLifeJson {
    /// At most a minute
    #[value(alias = "minutes")]
    Minute,
    /// At most an hour
    HalfHour,
    /// At most a day
    HalfDay,
}

/// True if another carrier may step in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fallback)]
pub enum FallbackJson {
    /// Only the first carrier of the list is used.
    None,
    /// The first carrier of the list that fits and is up is used.
    Listed,
}

/// A new contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct AddRequest {
    /// The card, `mezzavoce:c1/..`; spaces and line breaks do not matter.
    pub uri: String,
    /// The user's name for the contact; if absent, the name on the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the card was scanned from the contact's own screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_person: Option<bool>,
}

/// A card to read without adding it.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct CardRequest {
    /// The card, `mezzavoce:c1/..`; spaces and line breaks do not matter.
    pub uri: String,
}

/// The contents of somebody's card.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct CardSummary {
    /// The name that the owner claims.
    pub name: String,
    /// The number of the card, which increases with every new card of its owner.
    pub serial: u32,
    /// The first relay on the card.
    pub relay: Option<super::RelayJson>,
    /// True if the card lists an address of any carrier. Without one nothing can be sent with it.
    pub has_address: bool,
    /// The name of the contact who has this key already.
    pub known_as: Option<String>,
}

/// Changes to a contact. Absent fields stay as they are.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct ContactPatch {
    /// New name for the contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the safety numbers were compared and are equal; false clears an earlier
    /// verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// The complete new policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyJson>,
    /// True to block the contact, false to unblock it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

/// Changes in a conversation.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Changes)]
pub struct ChangesJson {
    /// The changes, oldest first, at most 64.
    pub changes: Vec<ChangeJson>,
}

/// A change that is shown as a line in the thread.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Change)]
pub struct ChangeJson {
    /// Time at which the change was stored here, milliseconds since 1970.
    pub at_ms: u64,
    /// True if the user of this device made the change.
    pub own: bool,
    /// The kind of change.
    pub what: ChangeWhat,
    /// For `timer`: seconds, 0 for never. For `level`: 1 to 4. For `fallback`: 1 or 0.
    pub number: Option<u32>,
    /// For `carriers`: their names, best first. For `name`: the name alone. For `life`: minute,
    /// half-hour or half-day; none if the setting of the node applies again.
    pub names: Vec<String>,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeWhat {
    /// The time after which notes disappear, for both sides.
    Timer,
    /// The carriers for our notes.
    Carriers,
    /// True if another carrier of the list may step in.
    Fallback,
    /// The lowest level at which our notes may leave.
    Level,
    /// The name that the contact claims.
    Name,
    /// How long devices of the mesh carry our notes.
    Life,
}

/// An unfinished note to a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// The text of the unfinished note, at most 32,768 bytes; empty if there is none.
    pub text: String,
}

/// The safety number of a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Number {
    /// Twelve groups of five digits.
    pub groups: Vec<String>,
    /// The safety number as a QR code.
    pub scannable_svg: String,
}

/// Unknown senders who wrote or sent an invitation.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Requests)]
pub struct RequestsJson {
    /// One entry for each unknown sender who wrote.
    pub requests: Vec<StrangerRequest>,
    /// One entry for each inviter over the mixnet who has not sent a card.
    pub guests: Vec<InvitationJson>,
}

/// An inviter over the mixnet. Only the inviter's key is known.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Guest)]
pub struct InvitationJson {
    /// The number of the contact that the inviter may become.
    pub id: String,
    /// Arrival time of the invitation, milliseconds since 1970.
    pub at_ms: u64,
    /// True if the identity of the inviter was requested.
    pub asked: bool,
}

/// An unknown sender who wrote.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct StrangerRequest {
    /// The contact.
    pub contact: ContactJson,
    /// Notes of the sender, at most eight.
    pub notes: Vec<NoteJson>,
}
