//! Connections over TLS for carriers and servers: the client of a relay, the frames of a mixnet.

pub mod link;
pub mod relay;
pub mod tap;
