//! The values of the HTTP interface: as the page, the command line and bots read and write them.
//! All types are public API; `openapi.json` is generated from them.

mod backup;
mod contact;
mod guard;
mod link;
mod mesh;
mod mixnet;
mod note;
mod ratchet;
mod world;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use backup::*;
pub use contact::*;
pub use guard::*;
pub use link::*;
pub use mesh::*;
pub use mixnet::*;
pub use note::*;
pub use ratchet::*;
pub use world::*;

/// Implements `Debug` so that it shows only the name of the type: these values hold names, texts
/// and addresses, and must not reach a log by accident (MSG-37).
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

silent!(GuardJoinRequest LinkGuardRequest LinkPairRequest LinkPairingJson LinkAddressRequest Draft ChangeJson StatusJson RelayJson MeJson CardText ContactJson Verified PolicyJson AddRequest CardRequest CardSummary ContactPatch NoteJson FactJson OfferJson BackupRequest AutoBackupRequest BackupJson BackupsJson
    RestoreRequest MoveRecipientJson MoveFileRequest MoveInRequest MoveOutRequest MoveFinishRequest MoveKeyJson);

/// A one-time ticket from the fragment of the page's address.
#[derive(Deserialize, ToSchema)]
pub struct SessionRequest {
    /// 64 hexadecimal digits.
    pub ticket: String,
}

/// The bearer that a ticket was exchanged for.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub struct BearerJson {
    /// The bearer token, 64 hexadecimal digits. The page sends it as `Authorization: Bearer ..`
    /// from now on.
    pub bearer: String,
    /// A key of 64 hexadecimal digits, with which the tab checks proofs of the node. The tab never
    /// sends it to the node.
    pub proof_key: String,
    /// The command that prints another address of the page. It contains the home of this node,
    /// unless that is the default.
    pub command: String,
}

/// A challenge of a tab, by which it checks that it still talks to the node that gave it its bearer
/// token.
#[derive(Deserialize, ToSchema)]
pub struct ProofRequest {
    /// 64 random hexadecimal digits.
    pub challenge: String,
}

/// The answer to a challenge.
#[derive(Serialize, ToSchema)]
#[schema(as = Proof)]
pub struct ProofJson {
    /// HMAC-SHA-256, as 64 hexadecimal digits. The key is the key of proofs, the message is
    /// `mezza/page-proof` followed by the 32 bytes of the challenge.
    pub mac: String,
}

/// An address of the page for a browser, which can be used once.
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
    /// State of the node: whether there is an identity, and whether it is unlocked.
    pub state: NodeStateJson,
    /// True if the identity of this home has moved to another device.
    pub moved: bool,
    /// Name on our own card, while the vault is unlocked.
    pub name: Option<String>,
    /// True if this is the demonstration, which protects nothing.
    pub demo: bool,
    /// True if the observer is on.
    pub observer: bool,
    /// Seconds without a request of the user after which the node locks itself; 0: never.
    pub idle_lock_s: u64,
    /// The node's clock, milliseconds since 1970.
    pub now_ms: u64,
}

/// State of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NodeState)]
pub enum NodeStateJson {
    /// There is no identity yet.
    Empty,
    /// There is an identity, and its vault is locked.
    Locked,
    /// The vault is unlocked.
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
    /// Six random words for a passphrase.
    pub words: Vec<String>,
}

/// The key to the vault.
#[derive(Deserialize, ToSchema)]
pub struct UnlockRequest {
    /// The passphrase.
    pub passphrase: String,
}

/// A change of the passphrase.
#[derive(Deserialize, ToSchema)]
pub struct PassphraseRequest {
    /// Current passphrase.
    pub old: String,
    /// New passphrase, at least 8 characters.
    pub new: String,
}

/// Changes of settings. Absent fields stay unchanged.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct SettingsPatch {
    /// Seconds without a request of the user after which the node locks itself: 60 to 604,800, or 0
    /// for never.
    pub idle_lock_s: Option<u64>,
    /// True to record what a provider, the relay and a thief could see.
    pub observe: Option<bool>,
}

/// The relay that runs in this home, if there is one.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RelayHere {
    /// The relay; absent if there is none, or if others cannot reach any of its addresses.
    pub relay: Option<RelayOffer>,
}

/// A relay to run on this machine.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct RelayStart {
    /// Host and port under which others reach this machine; without it only this machine reaches
    /// the relay.
    pub public: Option<String>,
}

/// A relay that could be one's own.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RelayOffer {
    /// `mezzavoce:r1/..`.
    pub uri: String,
    /// The relay, as shown to users.
    pub relay: RelayJson,
    /// True if the relay runs now.
    pub up: bool,
    /// True if only this machine can reach its address.
    pub only_here: bool,
}

/// A relay, as shown to users for comparison.
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

/// Our own identity.
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
    /// Our relays.
    pub relays: Vec<RelayJson>,
    /// Number of one-time keys left at the relay, if it reported it.
    pub one_time_stock: Option<u16>,
}

/// Changes to our own card.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct RenewRequest {
    /// New name, at most 24 bytes.
    pub name: Option<String>,
    /// The complete list of our relays from now on, as `mezzavoce:r1/..`.
    pub relays: Option<Vec<String>>,
}

/// A request for keys of the mesh.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct MeshKeysRequest {
    /// True if the user has compared date and time of this device.
    #[serde(default)]
    pub confirmed: bool,
}

/// The parts of a card that are given to others.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = CardForm)]
pub enum CardFormJson {
    /// All parts.
    #[default]
    Full,
    /// Without long parts, so that the card fits a QR code on paper.
    Poster,
    /// Only the part for use without internet.
    Offline,
}

/// Our own card as text.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CardText {
    /// `mezzavoce:c1/..`.
    pub uri: String,
    /// The form in which the card was encoded.
    pub form: CardFormJson,
    /// Bytes of the card.
    pub bytes: usize,
}
