//! A whole mixnet in one test, shared by the tests of `mezza-mixnet` and of the crates above it. It
//! is a package of its own, because it depends on `mezza-sim` and no crate has features.
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
