//! The values of the HTTP interface: as the page, the command line and bots read and write them.
//! All types are public API; `openapi.json` is generated from them.

mod backup;
mod contact;
mod mixnet;
mod note;
mod ratchet;
mod world;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use backup::*;
pub use contact::*;
pub use mixnet::*;
pub use note::*;
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

silent!(Draft ChangeJson StatusJson RelayJson MeJson CardText ContactJson Verified PolicyJson AddRequest ContactPatch NoteJson FactJson OfferJson BackupRequest AutoBackupRequest BackupJson BackupsJson
    RestoreRequest MoveRecipientJson MoveFileRequest MoveInRequest MoveOutRequest MoveFinishRequest MoveKeyJson);

/// A one-time ticket from the URL's fragment.
#[derive(Deserialize, ToSchema)]
pub struct SessionRequest {
    /// 64 hexadecimal digits.
    pub ticket: String,
}

/// The bearer that a ticket was exchanged for.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub struct BearerJson {
    /// 64 hexadecimal digits, sent as `Authorization: Bearer ..` from now on.
    pub bearer: String,
    /// 64 hexadecimal digits, with which the tab checks proofs. It is never sent to the node.
    pub proof_key: String,
    /// The command that prints another address, with the home of this node where it is not the usual one.
    pub command: String,
}

/// A challenge of a tab that wants to know whether this is still the node in which it came in.
#[derive(Deserialize, ToSchema)]
pub struct ProofRequest {
    /// 64 hexadecimal digits by chance.
    pub challenge: String,
}

/// The answer to a challenge.
#[derive(Serialize, ToSchema)]
#[schema(as = Proof)]
pub struct ProofJson {
    /// HMAC-SHA-256 under the key of proofs of `mezza/page-proof` and the 32 bytes of the challenge,
    /// 64 hexadecimal digits.
    pub mac: String,
}

/// An address for a browser, good for one visit.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct TicketUrl {
    /// `http://127.0.0.1:PORT/#t=TICKET`.
    pub url: String,
}

/// The state of this program.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusJson {
    /// The program's version.
    pub version: String,
    /// True if there is an identity, and whether it is unlocked.
    pub state: NodeStateJson,
    /// True if the identity of this home has moved to another device.
    pub moved: bool,
    /// The own name, while unlocked.
    pub name: Option<String>,
    /// True if this is the demonstration world, which hides nothing.
    pub demo: bool,
    /// True if the observer is on.
    pub observer: bool,
    /// Seconds without a call after which the node locks itself; 0: never.
    pub idle_lock_s: u64,
    /// The node's clock, milliseconds since 1970.
    pub now_ms: u64,
}

/// State of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NodeState)]
pub enum NodeStateJson {
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
#[schema(as = Words)]
pub struct PassphraseJson {
    /// Six words.
    pub words: Vec<String>,
}

/// The key to the vault.
#[derive(Deserialize, ToSchema)]
pub struct UnlockRequest {
    /// The passphrase.
    pub passphrase: String,
}

/// Another passphrase.
#[derive(Deserialize, ToSchema)]
pub struct PassphraseRequest {
    /// Current passphrase.
    pub old: String,
    /// The one from now on, at least 8 characters.
    pub new: String,
}

/// Settings of the program that shall be otherwise.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct SettingsPatch {
    /// Seconds without a call after which the node locks itself: 60 to 604,800, or 0 for never.
    pub idle_lock_s: Option<u64>,
    /// True if the observer records what others could see.
    pub observe: Option<bool>,
}

/// The relay of this home.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RelayHere {
    /// None if there is none, or none with an address that others could be told.
    pub relay: Option<RelayOffer>,
}

/// A relay that could be one's own.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RelayOffer {
    /// `mezzavoce:r1/..`.
    pub uri: String,
    /// The same for people.
    pub relay: RelayJson,
    /// True if it runs now.
    pub up: bool,
    /// True if only this machine reaches its address.
    pub only_here: bool,
}

/// A relay as people compare it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Relay)]
pub struct RelayJson {
    /// First eight digits of its key, `5F3A-91C0`.
    pub key: String,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// The own identity.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Me)]
pub struct MeJson {
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
    pub relays: Vec<RelayJson>,
    /// One-time keys left at the relay, if it said so.
    pub one_time_stock: Option<u16>,
}

/// Changes to our own card.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct RenewRequest {
    /// Another name, at most 24 bytes.
    pub name: Option<String>,
    /// All own relays from now on, as `mezzavoce:r1/..`.
    pub relays: Option<Vec<String>>,
}

/// A request for keys of the mesh.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct MeshKeysRequest {
    /// True if the user compared date and time of this device.
    #[serde(default)]
    pub confirmed: bool,
}

/// Which parts of a card are given away.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = CardForm)]
pub enum CardFormJson {
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
    pub form: CardFormJson,
    /// Bytes of the card.
    pub bytes: usize,
}
