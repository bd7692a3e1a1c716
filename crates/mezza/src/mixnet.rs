//! The mixnet's servers: every socket, file, clock and thread around the machines of
//! `mezza-mixnet`.
//!
//! | module | noun |
//! |---|---|
//! | [`key`] | the key file of a server or guardian |
//! | [`network`], [`written`] | the config of a network as a file, and as people write it |
//! | [`figures`] | what a config costs its clients and promises them |

pub mod figures;
pub mod key;
pub mod network;
pub mod written;
