//! The device and its codecs, seen from outside.

mod model;
mod rules;
mod stage;
