//! The program: every socket, file and clock around the pure floors. Floor 3.

pub mod backend;
pub mod config;
pub mod exit;
pub mod home;
pub mod passphrase;
pub mod relay;
pub mod rng;
pub mod store;
pub mod tls;
