//! The world itself under test, by a post office small enough to hold in mind.

mod deadlines;
mod links;
mod post;
mod worlds;
