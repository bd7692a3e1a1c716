//! A whole mixnet in one test: what the tests of `mezza-mixnet` share with those of the crates above.
//! A package of its own, because it takes `mezza-sim`, and because no crate has features.
//!
//! | module | noun |
//! |---|---|
//! | [`fixture`] | [`Net`](fixture::Net): configs, mixes in a row with their disks, jobs run inline |
//! | [`city`] | [`City`](city::City): the entry and the bucket store in front of them; clients are frames |
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::panic,
    reason = "it is part of tests, which may panic"
)]

pub mod city;
pub mod fixture;
