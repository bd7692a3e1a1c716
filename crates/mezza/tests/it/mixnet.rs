//! The mixnet's servers and their commands.

mod capture;
mod change;
mod configs;
mod guardians;
mod guest;
mod interop;
mod links;
mod people;
mod processes;
mod refusals;
pub mod town;
mod wipe;
