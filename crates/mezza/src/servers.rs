//! The servers: a mesh node, the relay, the three roles of a mixnet, and the daemon of links.

pub(crate) mod mesh;
pub(crate) mod mixnet;
pub(crate) mod relay;
pub(crate) mod tunnel;
