//! What speaks over TLS for carriers and servers alike: a client of a relay, frames of a mixnet.

pub(crate) mod link;
pub(crate) mod relay;
pub(crate) mod tap;
