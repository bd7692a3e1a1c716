//! Who asks a node: the command line, and the page over HTTP.

pub mod cli;
pub mod config;
pub mod passphrase;
pub mod ports;
pub mod qr;
pub mod served;
pub mod web;
