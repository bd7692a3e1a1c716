//! What people and programs see of a device: JSON types, words, refusals, exit codes.

pub mod exit;
pub mod figures;
pub mod json;
pub mod network_uri;
pub mod refused;
pub mod uri;
pub mod views;
pub mod words;

pub use exit::{Exit, Fault};
pub use refused::Refused;
