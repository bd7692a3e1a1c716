//! Connections over TLS for carriers and servers: the client of a relay, the frames of a mixnet.

pub(crate) mod link;
pub(crate) mod relay;
pub(crate) mod tap;
