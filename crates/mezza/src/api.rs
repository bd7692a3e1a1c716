//! The outside of a device for people and programs: JSON types, texts, refusals, exit codes.

pub(crate) mod exit;
pub(crate) mod figures;
pub(crate) mod json;
pub(crate) mod network_uri;
pub(crate) mod refused;
pub(crate) mod uri;
pub(crate) mod views;
pub(crate) mod words;

pub use exit::{Exit, Fault};
pub(crate) use refused::Refused;
