//! Requests to a running mesh node, one JSON object a line.

use std::path::PathBuf;

use data_encoding::BASE64;
use mezza_mesh::ClockMode;
use mezza_mesh::frame::Name;
use mezza_mesh::node::{NeighbourStatus, NodeStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;

/// The next step for the user if no node runs.
pub const START: &str = "start `mezza mesh run`";

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum MeshAsk {
    /// Clock, neighbours, cells, bytes.
    Status,
    /// Sets the grade of our clock, or adopts the clock of the neighbours.
    Clock {
        /// The grade that the user sets.
        grade: Option<String>,
        /// True if the clocks of the neighbours are right.
        trust_neighbours: bool,
    },
    /// Sends an envelope; lines of the response report its progress.
    Send {
        /// The lifetime code of the cell, as on the wire.
        life: u8,
        /// The tick in which the envelope was sealed.
        tick: u32,
        /// The sealed envelope in base64.
        envelope: String,
        /// The listener that receives the progress; `None`: the lines of this response do.
        #[serde(default)]
        follower: Option<CellFollower>,
    },
    /// Subscribes to the clock, each live cell, and each new cell.
    Listen {
        /// The name by which [`CellFollower`] refers to this listener, drawn at random by it.
        #[serde(default)]
        name: Option<u64>,
    },
    /// Exports all live cells as a bundle.
    Export,
    /// Imports the cells of a bundle.
    Import {
        /// The cells in base64.
        cells: Vec<String>,
    },
}

/// The listener that receives the progress of a cell (MESH-86).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFollower {
    /// The name of the listener.
    pub listener: u64,
    /// The number by which the listener knows the cell; it is part of each line of progress.
    pub ticket: u64,
}

/// The path of the control socket of this home's mesh node.
pub fn socket_path(home: &Home) -> PathBuf {
    home.run().join("mesh.sock")
}

/// The path of the lock that allows one mesh node per home.
pub fn lock_path(home: &Home) -> PathBuf {
    home.run().join("mesh.lock")
}

/// Decodes base64.
///
/// # Errors
/// Exit code 65 if `text` is not valid base64.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, Fault> {
    let wrong = |_| Fault::new(Exit::Malformed, "this is no base64", "use the `mezza` that runs");
    BASE64.decode(text.as_bytes()).map_err(wrong)
}

/// Encodes bytes in base64.
pub fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Formats a status as one line.
pub(crate) fn describe_status(status: &NodeStatus, links: &[String], lacks_streams: bool) -> Value {
    let NodeStatus { counts, .. } = status;
    json!({
        "network": status.network, "closed": status.closed, "links": links,
        "lacks_streams": lacks_streams,
        "cur": status.cur, "anchor_tick": status.anchor_tick, "moved_ms": status.moved_ms,
        "within_ms": status.within_ms, "trusted_ms": status.trusted_ms, "around": status.around,
        "other_day": status.other_date.map(|other| other.day),
        "other_devices": status.other_date.map(|other| other.devices),
        "two_clocks": status.two_clocks.iter().copied().map(format_name).collect::<Vec<_>>(),
        "elsewhere_ms": status.elsewhere_ms, "state": status.state.word(),
        "grade": status.grade.word(), "paper_mode": status.mode == ClockMode::Paper,
        "live": status.live, "store_bytes": status.store_bytes,
        "carried": status.carried_cells, "carried_bytes": status.carried_bytes,
        "bytes_in": status.bytes.0, "bytes_out": status.bytes.1,
        "name_age_s": status.name_age_s, "taken": counts.taken, "given": counts.given,
        "unsolicited": counts.unsolicited, "refused": counts.refused,
        "neighbours": status.neighbours.iter().map(describe_neighbour).collect::<Vec<_>>(),
    })
}

fn format_name(name: Name) -> String {
    format!("{name:012x}")
}

fn describe_neighbour(n: &NeighbourStatus) -> Value {
    json!({
        "name": format_name(n.name), "link": n.link, "silent_ms": n.silent_ms,
        "gave": n.gave, "live": n.live, "differs_ms": n.differs_ms,
    })
}
