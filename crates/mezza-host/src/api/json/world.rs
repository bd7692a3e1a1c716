//! Carriers, observers, health and events in the interface.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NoteJson, RelayJson, silent};

silent!(CarrierJson Hides ObserverEvent ObserverField Health HealthLine Problem EventJson);

/// All carriers.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Carriers {
    /// One line per carrier.
    pub carriers: Vec<CarrierJson>,
}

/// A carrier.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Carrier)]
pub struct CarrierJson {
    /// relay, link, mesh or mixnet.
    pub carrier: String,
    /// True if it is up.
    pub up: bool,
    /// Protection level now, 1 to 4.
    pub level: u8,
    /// For a relay: which.
    pub relay: Option<RelayJson>,
    /// Usual delay, median.
    pub delay_ms: u32,
    /// Usual delay, 99th percentile.
    pub delay_p99_ms: u32,
    /// Bytes of one piece.
    pub piece_bytes: usize,
    /// Pieces that one note may have.
    pub pieces_max: usize,
    /// Hours for which the carrier keeps undelivered parcels.
    pub store_h: u32,
    /// True if receipts are sent by default.
    pub receipts: bool,
    /// True if it is a demonstration and protects nothing.
    pub demo: bool,
    /// How much its noise protects: nothing, weak or standard; absent for a carrier without noise.
    pub noise_grade: Option<String>,
    /// The facts that it hides, by observer.
    pub hides: Vec<Hides>,
}

/// The facts that a carrier hides from one kind of observer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hides {
    /// The observer.
    pub from: String,
    /// The fact that the observer may look for.
    pub what: String,
    /// True if the carrier hides the fact from the observer.
    pub hidden: bool,
}

/// The text of a picture.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct QrText {
    /// The text of the code.
    pub uri: String,
}

/// The view of an observer on the path.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Observer)]
pub struct ObserverJson {
    /// Value of `since` for the next request.
    pub next: u64,
    /// Oldest first, at most 256.
    pub events: Vec<ObserverEvent>,
}

/// One event that the provider, the relay or a thief of the disk could see.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct ObserverEvent {
    /// Number of the event.
    pub n: u64,
    /// Time of the event, milliseconds since 1970.
    pub at_ms: u64,
    /// provider, relay or thief.
    pub who: String,
    /// `in`, `out` or `at rest`, as seen from this device.
    pub direction: String,
    /// Number of bytes that the observer sees.
    pub bytes: usize,
    /// The first 4,096 bytes, hexadecimal.
    pub hex: String,
    /// The decoded fields.
    pub fields: Vec<ObserverField>,
}

/// A field of the bytes that the observer sees.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObserverField {
    /// Name of the field in the specification.
    pub name: String,
    /// Value of the field.
    pub value: String,
    /// Offset of the field, bytes.
    pub offset: usize,
    /// Length of the field, bytes.
    pub len: usize,
}

/// Health of the node.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// One line per check.
    pub lines: Vec<HealthLine>,
}

/// One check.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct HealthLine {
    /// The name of the check.
    pub name: String,
    /// True if it is as it should be.
    pub ok: bool,
    /// The result.
    pub text: String,
    /// The next step, if something is wrong.
    pub next: Option<String>,
}

impl HealthLine {
    /// Makes a line for a check without a problem.
    pub fn good(name: &str, text: &str) -> Self {
        Self { name: name.into(), ok: true, text: text.into(), next: None }
    }

    /// Makes a line for a problem; `next` is the next step.
    pub fn bad(name: &str, text: &str, next: &str) -> Self {
        Self { name: name.into(), ok: false, text: text.into(), next: Some(next.into()) }
    }
}

/// An error (RFC 9457).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub title: String,
    /// The next step.
    pub next: String,
    /// The HTTP status.
    pub status: u16,
    /// The exit code of the command line for it.
    pub exit: u8,
}

/// An event of the WebSocket.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventJson {
    /// Give the highest one as `since` when connecting again; null: sent before it was stored.
    pub cursor: Option<u64>,
    /// The kind of event.
    pub kind: EventKind,
    /// Whose thread, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// The whole note, for `note` and `state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<NoteJson>,
    /// In words, for `anew`, `trouble`, `gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A note stands in a thread.
    Note,
    /// A note has another state.
    State,
    /// A note is gone; `text` is its number.
    Gone,
    /// A contact is new or has changed.
    Contact,
    /// A contact is gone.
    ContactGone,
    /// A stranger wrote, or a request changed.
    Request,
    /// A session was started anew; `text` says why.
    Anew,
    /// Something needs the person; `text` says what.
    Trouble,
    /// A carrier went up or down.
    Carrier,
    /// The own card has changed.
    Card,
    /// Somebody may drain the one-time keys.
    Low,
    /// The vault was locked.
    Locked,
    /// The vault was unlocked.
    Unlocked,
    /// Too much was missed: read everything again.
    Reload,
}
