//! The servers: the relay, the three roles of a mixnet, and the daemon of links.

pub(crate) mod mixnet;
pub(crate) mod relay;
pub(crate) mod tunnel;
