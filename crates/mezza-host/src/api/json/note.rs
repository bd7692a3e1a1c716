//! Notes: content, delivery state, and the cost of sending.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a thread.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Notes {
    /// The notes, oldest first.
    pub notes: Vec<NoteJson>,
    /// True if older notes exist.
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
    /// Time of writing, milliseconds since 1970; for incoming notes as the contact claims it.
    pub sent_ms: u64,
    /// Time at which the note was stored here, milliseconds since 1970.
    pub at_ms: u64,
    /// State of the note.
    pub state: NoteStateJson,
    /// The reason why the note waits, for state `queued`: sending, `no_carrier`, `below_pin`,
    /// `too_big`, keys, answer, `box_gone`, `box_full`, budget, slow, restored, guard.
    pub why: Option<String>,
    /// The state in words for the user.
    pub words: String,
    /// The carrier over which the note leaves or came.
    pub carrier: Option<String>,
    /// The protection level of that carrier when the note left or came. Absent if the note has not
    /// left yet, or if an earlier version did not store it.
    pub level: Option<u8>,
    /// The lowest level that applied when the note was written.
    pub pin: u8,
    /// The facts from which the state is computed.
    pub facts: Vec<FactJson>,
    /// Time at which the note disappears or is given up.
    pub due_ms: Option<u64>,
    /// For state `carried`: how many neighbours announce it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub announced: Option<u16>,
    /// For state `carried`: when the devices that carry it drop it, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub carried_until_ms: Option<u64>,
    /// How long devices of the mesh carry the note, if the user chose it for this note alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mesh_life: Option<super::MeshLifeJson>,
    /// The reason why the fate of the note is unknown after a restore, if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mark: Option<super::RestoreMarkJson>,
}

/// The content of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Text.
    Text,
    /// Content of a newer version of the program.
    Newer,
}

/// The state of a note, computed from its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NoteState)]
pub enum NoteStateJson {
    /// The note came from the contact.
    Received,
    /// The note waits on this device.
    Queued,
    /// A carrier took the note.
    Handed,
    /// Other devices announce the note.
    Carried,
    /// The note was not confirmed before its time was over.
    Expired,
    /// The note is on the contact's device.
    Delivered,
    /// The contact has seen the note.
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

/// A text to look for.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SearchRequest {
    /// 1 to 256 bytes.
    pub text: String,
    /// Only in the thread of this contact.
    pub contact: Option<String>,
}

/// Notes that contain a text.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct FoundNotes {
    /// Newest first, at most 100.
    pub notes: Vec<NoteJson>,
    /// True if more notes contain the text.
    pub more: bool,
}

/// A note to write.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SendRequest {
    /// The text, 1 to 8,192 bytes.
    pub text: String,
    /// 32 random hexadecimal digits. A second request with the same digits makes no second note.
    pub client_id: String,
    /// How long devices of the mesh carry this note. Absent: as the rules of the conversation say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mesh_life: Option<super::MeshLifeJson>,
}

/// A text that is being written.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct PreviewRequest {
    /// The text of the unfinished note.
    pub text: String,
}

/// The cost of sending a text.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Length of the text, bytes.
    pub bytes: usize,
    /// Maximum length of the text of a note, bytes.
    pub bytes_max: usize,
    /// One entry for each carrier.
    pub offers: Vec<OfferJson>,
}

/// The estimate of one carrier for a text.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Offer)]
pub struct OfferJson {
    /// Name of the carrier.
    pub carrier: String,
    /// True if the policy of the conversation and the size of the text allow this carrier.
    pub fits: bool,
    /// True if the carrier is up.
    pub up: bool,
    /// Present protection level of the carrier.
    pub level: u8,
    /// Number of pieces into which the carrier would cut the note.
    pub pieces: usize,
    /// The cost as a sentence.
    pub cost: String,
}

/// The newest note that the user has seen.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SeenRequest {
    /// The newest note seen.
    pub note: String,
}

/// Our notes that are not delivered yet.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Outbox)]
pub struct OutboxJson {
    /// The notes, oldest first.
    pub notes: Vec<NoteJson>,
}
