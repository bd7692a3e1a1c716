//! The interface of a device to users and programs: JSON types, texts, refusals, exit codes.

pub(crate) mod exit;
pub mod figures;
pub mod json;
pub mod network_uri;
pub mod problem;
pub(crate) mod refused;
pub mod uri;
pub mod views;
pub mod words;

pub use exit::{Exit, Fault};
pub use refused::Refused;
