//! The servers: the relay, and the three roles of a mixnet.

pub(crate) mod mixnet;
pub(crate) mod relay;
