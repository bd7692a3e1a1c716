//! The mixnet's servers and their commands.

mod guardians;
mod links;
mod processes;
mod town;
