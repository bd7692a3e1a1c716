//! The thesis as it stands: what it prints and what is weak in it, for the lab alone.

pub mod weak;
