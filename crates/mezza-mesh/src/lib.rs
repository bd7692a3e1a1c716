//! The network of FoSAM: cells are flooded on request, and clocks agree without trust.
//!
//! Promise: a cell made now reaches every honest device that a path of honest devices connects to
//! its maker within the life of the cell; no frame reveals its author or receiver; no neighbour
//! moves a clock farther than the grade of that clock allows; after its last useful tick no honest
//! device has a cell. Not hidden: the use of the system, and the first device observed with a cell.
//!
//! | module | noun |
//! |---|---|
//! | [`limits`] | sizes, times and bounds |
//! | [`epoch`] | [`CellLife`], [`Age`]: which cells are live |
//! | [`clock`] | [`MeshClock`]: agreement on the time, [`Grade`]: how far it may move |
//! | [`set`] | [`Set`]: slots of cells, 64 to a word |
//! | [`table`] | [`CellTable`]: cells by slot; [`Bits`]: one table for a crowd |
//! | [`frame`] | [`MeshFrame`]: the messages between devices, as values |
//! | [`engine`] | [`Engine`]: all rules of one device |
//! | [`cell`], [`wire`] | a cell and its four sizes; every frame as bytes |
//! | [`network`] | [`MeshNetwork`]: a public name, or a key that members share |
//! | [`node`], [`bundle`] | [`Node`]: the machine of one device; its cells in a file |
//! | [`crew`] | [`Crew`]: the devices of a simulated crowd |
#![no_std]

extern crate alloc;

pub mod bundle;
pub mod cell;
mod chance;
pub mod clock;
pub mod crew;
pub mod engine;
pub mod epoch;
pub mod frame;
pub mod limits;
pub mod network;
pub mod node;
pub mod set;
pub mod table;
pub mod wire;

pub use cell::{CellError, CellId, MeshCell};
pub use clock::{ClockMode, ClockState, Grade, MeshClock};
pub use crew::Crew;
pub use engine::Engine;
pub use epoch::{Age, CellLife};
pub use frame::MeshFrame;
pub use network::MeshNetwork;
pub use node::Node;
pub use set::{Set, Slot};
pub use table::bits::Bits;
pub use table::ids::Ids;
pub use table::{CellFacts, CellTable};
