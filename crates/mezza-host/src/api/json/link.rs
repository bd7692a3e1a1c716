//! Pairings with the devices of contacts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pairing that the user requests.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LinkPairRequest {
    /// The number of the contact.
    pub contact: String,
    /// `host:port` of the contact's device, if this side connects; else it waits for the other one.
    pub address: Option<String>,
}

/// The user's decision about the digits.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LinkDigitsRequest {
    /// True if both devices show the same digits.
    pub equal: bool,
}

/// Another address of a paired device.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LinkAddressRequest {
    /// The number of the contact.
    pub contact: String,
    /// `host:port` of the contact's device.
    pub address: String,
}

/// The guard that this device joins.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct GuardJoinRequest {
    /// `host:port` of the guard.
    pub address: String,
    /// The code that `mezza guard pair` printed on the guard, 56 letters and digits.
    pub code: String,
}

/// The way through the guard to a paired device.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LinkGuardRequest {
    /// The number of the contact.
    pub contact: String,
    /// The number of the device on the guard's list, 1 to 65,519; null: not through the guard.
    pub dest: Option<u16>,
}

/// The pairing in progress, or the last one.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = LinkPairing)]
pub struct LinkPairingJson {
    /// The number of the contact; null before the first pairing.
    pub contact: Option<String>,
    /// How far it is.
    pub state: LinkPairingState,
    /// Six digits to compare, as `123 456`, in the state `digits`.
    pub digits: Option<String>,
    /// Why it failed, in words for people.
    pub trouble: Option<String>,
}

/// How far a pairing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkPairingState {
    /// There was none since the vault was unlocked.
    None,
    /// The other device is awaited.
    Waiting,
    /// The user compares digits, or the other user does.
    Digits,
    /// The devices are paired.
    Paired,
    /// It failed.
    Failed,
}
