//! The mesh node of this home.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The mesh of this home.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Mesh)]
pub struct MeshJson {
    /// True if the program carries the mesh: it was started with `mesh = true`.
    pub on: bool,
    /// How long own cells live: minute, half-hour or half-day.
    pub life: Option<String>,
    /// True if the own card has keys for the mesh, so that contacts can write over it.
    pub has_keys: bool,
    /// Why the mesh node does not answer, in words for people.
    pub trouble: Option<String>,
    /// The state of the node; null while it does not answer.
    pub node: Option<MeshNodeJson>,
}

/// How the people of a simulated crowd move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CrowdMoves)]
pub enum CrowdMovesJson {
    /// They sit close together.
    Sit,
    /// They walk about.
    Walk,
    /// They walk about, most of them out of range of all others.
    Scatter,
    /// They go from stage to stage.
    Celebrate,
}

/// A simulated crowd in which person 0 stands for this device and writes one message to the last
/// person.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = CrowdMap)]
pub struct CrowdMapJson {
    /// Places are whole numbers from 0 to below this.
    pub side: u16,
    /// Range of a radio, in the unit of the places.
    pub range: u16,
    /// Grade of the clock of person 0, which is that of this device: none, poor, fair or good.
    pub own_grade: String,
    /// The error of that clock as the neighbours measured it, ms; 0 without a mesh.
    pub own_error_ms: i64,
    /// Seconds until the message arrived; null if it did not in the time that is shown.
    pub arrived_s: Option<u64>,
    /// The moments in order.
    pub moments: Vec<CrowdMomentJson>,
}

/// One moment of a simulated crowd.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = CrowdMoment)]
pub struct CrowdMomentJson {
    /// Seconds since the message was written.
    pub second: u64,
    /// East and north of each person.
    pub places: Vec<[u16; 2]>,
    /// The people whose devices hold the message, ascending.
    pub holders: Vec<u32>,
    /// Number of devices in range of person 0.
    pub around: usize,
    /// Percentage of the devices whose clocks are right within a second.
    pub clocks_percent: usize,
}

/// The state of a mesh node.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MeshNode)]
pub struct MeshNodeJson {
    /// Name of the network.
    pub network: String,
    /// True if only devices with the secret of the network take part.
    pub closed: bool,
    /// The interfaces and their addresses.
    pub links: Vec<String>,
    /// The present tick by the mesh: 30 s each, since 1970.
    pub cur: u64,
    /// Bound of the error of the clock, ms.
    pub within_ms: u64,
    /// By how much the neighbours moved the clock, ms.
    pub moved_ms: i64,
    /// The difference that the user accepted by trusting the neighbours, ms.
    pub trusted_ms: Option<i64>,
    /// By how much the clocks of the neighbours contradict this one, ms.
    pub elsewhere_ms: Option<i64>,
    /// The day of devices of this network with another date, days since 1970.
    pub other_day: Option<u64>,
    /// The number of such devices.
    pub other_devices: Option<u64>,
    /// alone, seeking, agreed or doubtful.
    pub state: String,
    /// Grade of the own clock: none, poor, fair or good.
    pub grade: String,
    /// Number of neighbours that are heard.
    pub around: u32,
    /// Cells that this device holds.
    pub live: u64,
    /// Bytes of these cells.
    pub store_bytes: u64,
    /// Cells that are carried for hours, on the disk too.
    pub carried: u64,
    /// Bytes of these cells.
    pub carried_bytes: u64,
    /// Bytes received since the start.
    pub bytes_in: u64,
    /// Bytes sent since the start.
    pub bytes_out: u64,
    /// The neighbours.
    pub neighbours: Vec<MeshNeighbourJson>,
}

/// A neighbour in the mesh. Its name changes every few minutes.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MeshNeighbour)]
pub struct MeshNeighbourJson {
    /// Its present name, hexadecimal.
    pub name: String,
    /// Time since its last frame, ms.
    pub silent_ms: u64,
    /// Cells that it announces.
    pub live: u64,
    /// Cells that it gave to this device.
    pub gave: u64,
    /// By how much its clock differs, ms.
    pub differs_ms: i64,
}
