//! The users of a node: the command line, and the page over HTTP.

pub(crate) mod cli;
pub(crate) mod config;
pub(crate) mod lab;
pub(crate) mod mesh_node;
pub(crate) mod passphrase;
pub(crate) mod ports;
pub(crate) mod qr;
pub(crate) mod relay_beside;
pub(crate) mod served;
pub(crate) mod web;
