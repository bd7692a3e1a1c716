//! The program: every socket, file and clock around the pure floors. Floor 3.

pub mod relay;
pub mod tls;
