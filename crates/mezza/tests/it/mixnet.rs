//! The mixnet's servers and their commands.

mod guardians;
mod links;
mod processes;
mod refusals;
mod town;
mod wipe;
