//! One binary for every test that looks from outside.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]
