//! What speaks over TLS for carriers and servers alike: a client of a relay, frames of a mixnet.

pub mod link;
pub mod relay;
pub mod tap;
