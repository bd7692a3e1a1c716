//! TLS connections of carriers and servers: the client of a relay, and the links of a mixnet.

pub mod link;
pub mod relay;
pub mod tap;
