//! The thesis as published: its groups, its listings, its firewalls that leave a channel open, and
//! the errors in them. For the lab alone.

pub mod curve;
#[cfg(test)]
mod errata;
pub mod listing;
pub mod uniform;
pub mod weak;
