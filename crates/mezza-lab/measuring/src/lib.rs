//! Tools with which the lab and its peer programs measure in the same way: the line
//! protocol ([`rate`]), the operations of the paper's tables for all implementations ([`primitive`]),
//! `RustCrypto` among these ([`rustcrypto`]), and one message after another ([`messages`]).

pub mod messages;
pub mod primitive;
pub mod rate;
pub mod rustcrypto;
