//! Contacts, their policies, and contact requests.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NoteJson, RelayJson};

/// All contacts.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Contacts {
    /// In the order of their numbers.
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
    /// Notes that came and were not seen.
    pub unread: usize,
    /// Notes that were written before others that arrived, and did not arrive here.
    pub missing: usize,
    /// A problem that the user has to solve, in words.
    pub trouble: Option<String>,
    /// True if another contact claims the same name with another key.
    pub namesake: bool,
    /// Notes that a restore has left open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub restored: Option<super::RestoredJson>,
    /// The newest note.
    pub last: Option<NoteJson>,
}

/// How far things are with a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Standing)]
pub enum StandingJson {
    /// The card is held, nothing was sent.
    Held,
    /// The first note is out.
    Asked,
    /// Both have answered.
    Open,
    /// A stranger wrote.
    Request,
    /// Incoming notes are dropped.
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
    /// The card was scanned from their own screen.
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
}

/// True if another carrier may step in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fallback)]
pub enum FallbackJson {
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
    /// True if it was scanned from the person's own screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_person: Option<bool>,
}

/// Changes to a contact. Absent fields stay as they are.
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
    pub policy: Option<PolicyJson>,
    /// Block, or let in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

/// Changes in a conversation.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Changes)]
pub struct ChangesJson {
    /// The oldest first, at most 64.
    pub changes: Vec<ChangeJson>,
}

/// A change that stands as a line in the thread.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Change)]
pub struct ChangeJson {
    /// When it was stored here, milliseconds since 1970.
    pub at_ms: u64,
    /// True if this device's owner made it.
    pub own: bool,
    /// The kind of change.
    pub what: ChangeWhat,
    /// For `timer`: seconds, 0 for never. For `level`: 1 to 4. For `fallback`: 1 or 0.
    pub number: Option<u32>,
    /// For `carriers`: their names, best first. For `name`: the name alone.
    pub names: Vec<String>,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeWhat {
    /// After which time notes go, for both sides.
    Timer,
    /// The carriers for own notes.
    Carriers,
    /// True if another carrier of the list may step in.
    Fallback,
    /// The lowest level that own notes may leave by.
    Level,
    /// The name that the contact gives itself.
    Name,
}

/// An unfinished note to a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// At most 32,768 bytes; empty: nothing.
    pub text: String,
}

/// The safety number of a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Number {
    /// Twelve groups of five digits.
    pub groups: Vec<String>,
    /// The same as a QR code.
    pub scannable_svg: String,
}

/// Strangers who wrote or invite.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Requests)]
pub struct RequestsJson {
    /// One per stranger who wrote.
    pub requests: Vec<StrangerRequest>,
    /// One per stranger who invites over the mixnet and has shown no card.
    pub guests: Vec<InvitationJson>,
}

/// Somebody who invites over the mixnet: nothing is known of them but a key.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Guest)]
pub struct InvitationJson {
    /// The number of the contact that they may become.
    pub id: String,
    /// When the invitation came, milliseconds since 1970.
    pub at_ms: u64,
    /// True if they were asked who they are.
    pub asked: bool,
}

/// A stranger who wrote.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct StrangerRequest {
    /// The contact.
    pub contact: ContactJson,
    /// Their notes, at most eight.
    pub notes: Vec<NoteJson>,
}
