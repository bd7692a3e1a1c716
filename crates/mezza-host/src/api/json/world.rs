//! Carriers, the observer's events, health, and events of the node in the HTTP interface.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NoteJson, RelayJson, silent};

silent!(CarrierJson Hides ObserverEvent ObserverField Health HealthLine Problem EventJson);

/// All carriers.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Carriers {
    /// One entry for each carrier.
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
    /// The relay, if the carrier is a relay.
    pub relay: Option<RelayJson>,
    /// Median of the usual delay.
    pub delay_ms: u32,
    /// 99th percentile of the usual delay.
    pub delay_p99_ms: u32,
    /// Bytes of one piece of a note.
    pub piece_bytes: usize,
    /// Maximum number of pieces of a note.
    pub pieces_max: usize,
    /// Hours for which the carrier keeps undelivered parcels.
    pub store_h: u32,
    /// True if receipts are sent by default.
    pub receipts: bool,
    /// True if the carrier is part of a demonstration and protects nothing.
    pub demo: bool,
    /// Protection by the noise of the carrier: nothing, weak or standard; absent for a carrier
    /// without noise.
    pub noise_grade: Option<String>,
    /// The facts that the carrier hides, by observer.
    pub hides: Vec<Hides>,
}

/// The facts that a carrier hides from one kind of observer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hides {
    /// The observer.
    pub from: String,
    /// A fact that the observer may look for.
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

/// An event that the internet provider, the relay or a thief of the disk could see.
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
    /// The first 4,096 bytes of what was observed, hexadecimal.
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
    /// One line for each check.
    pub lines: Vec<HealthLine>,
}

/// One check.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct HealthLine {
    /// The name of the check.
    pub name: String,
    /// True if the check found no problem.
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
    /// A word that identifies the problem for programs.
    pub code: String,
    /// A sentence for people.
    pub title: String,
    /// The next step.
    pub next: String,
    /// The HTTP status.
    pub status: u16,
    /// The exit code of the command line for this problem.
    pub exit: u8,
}

/// An event of the WebSocket.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventJson {
    /// Number of the event. Send the highest one as `since` when connecting again; null if the
    /// event was sent before it was stored.
    pub cursor: Option<u64>,
    /// The kind of event.
    pub kind: EventKind,
    /// The contact of the thread, if the event belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// The whole note, for `note` and `state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<NoteJson>,
    /// Details in words, for `anew`, `trouble` and `gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A note was added to a thread.
    Note,
    /// A note has another state.
    State,
    /// A note was deleted; `text` is its number.
    Gone,
    /// A contact is new or has changed.
    Contact,
    /// A contact is gone.
    ContactGone,
    /// An unknown sender wrote, or a request changed.
    Request,
    /// A session was replaced; `text` is the reason.
    Anew,
    /// A problem needs the user; `text` describes it.
    Trouble,
    /// A carrier went up or down.
    Carrier,
    /// Our own card has changed.
    Card,
    /// The stock of one-time keys may be drained by an attacker.
    Low,
    /// The vault was locked.
    Locked,
    /// The vault was unlocked.
    Unlocked,
    /// Too many events were missed: read everything again.
    Reload,
}
