//! The thesis as it stands: its groups, its listings, its firewalls that leave a channel open, and what is
//! wrong with them. For the lab alone.

pub mod curve;
#[cfg(test)]
mod errata;
pub mod listing;
pub mod uniform;
pub mod weak;
