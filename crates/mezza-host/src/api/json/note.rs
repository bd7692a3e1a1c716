//! Notes: content, delivery state, and the cost of sending.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a thread.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Notes {
    /// Oldest first.
    pub notes: Vec<NoteJson>,
    /// True if older ones exist.
    pub more: bool,
}

/// A note.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Note)]
pub struct NoteJson {
    /// Number of the note on this device.
    pub id: String,
    /// The contact whose thread has the note.
    pub contact: String,
    /// True if the note came from the contact.
    pub incoming: bool,
    /// The content.
    pub kind: NoteKind,
    /// The text, for kind `text`.
    pub text: Option<String>,
    /// When it was written, milliseconds since 1970; a claim for incoming notes.
    pub sent_ms: u64,
    /// Time at which the note was stored here, milliseconds since 1970.
    pub at_ms: u64,
    /// State of the note.
    pub state: NoteStateJson,
    /// Why it waits, for state `queued`: sending, `no_carrier`, `below_pin`, `too_big`, keys, answer,
    /// `box_gone`, `box_full`, budget, slow, restored.
    pub why: Option<String>,
    /// The state in words for people.
    pub words: String,
    /// The carrier it leaves or came by.
    pub carrier: Option<String>,
    /// The level at which that carrier hid it as it left or came; `None`: it has not left yet, or a version
    /// before did not note it.
    pub level: Option<u8>,
    /// The pin it was written under.
    pub pin: u8,
    /// The facts behind the state.
    pub facts: Vec<FactJson>,
    /// When it goes or is given up.
    pub due_ms: Option<u64>,
    /// The doubt about it that a restore has left.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mark: Option<super::RestoreMarkJson>,
}

/// The content of a note.
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
#[schema(as = NoteState)]
pub enum NoteStateJson {
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

/// A fact that is proven about a note.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Fact)]
pub struct FactJson {
    /// handed, carried, delivered or read.
    pub what: NoteStateJson,
    /// The carrier over which the fact became known.
    pub carrier: String,
    /// Time at which the fact became known, milliseconds since 1970.
    pub at_ms: u64,
    /// The fact as a sentence.
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

/// The cost of sending a text.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Length of the text, bytes.
    pub bytes: usize,
    /// Maximum length of the text of a note, bytes.
    pub bytes_max: usize,
    /// One line per carrier.
    pub offers: Vec<OfferJson>,
}

/// The offer of one carrier for a text.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Offer)]
pub struct OfferJson {
    /// Name of the carrier.
    pub carrier: String,
    /// True if the policy of the conversation and the size of the text allow this carrier.
    pub fits: bool,
    /// True if the carrier is up.
    pub up: bool,
    /// Present level of the carrier.
    pub level: u8,
    /// Number of pieces into which the carrier would cut the note.
    pub pieces: usize,
    /// The cost as a sentence.
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
#[schema(as = Outbox)]
pub struct OutboxJson {
    /// Oldest first.
    pub notes: Vec<NoteJson>,
}
