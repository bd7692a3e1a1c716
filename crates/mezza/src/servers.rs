//! What serves others: the relay, and the three roles of a mixnet.

pub mod mixnet;
pub mod relay;
