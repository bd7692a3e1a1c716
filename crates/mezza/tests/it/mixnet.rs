//! The mixnet's servers and their commands.

mod guardians;
