//! One binary for every test that looks from outside.

mod fixture;
mod pairs;
mod people;
mod props;
mod rules;
mod silence;
mod vectors;
mod world;
