//! The world itself under test, by a post office small enough to hold in mind.

mod links;
mod post;
mod worlds;
