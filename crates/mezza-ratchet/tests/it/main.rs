//! One binary for every test that looks from outside.

mod attacks;
mod fixture;
mod pairs;
mod people;
mod prekeys;
mod props;
mod rules;
mod silence;
mod vectors;
mod world;
