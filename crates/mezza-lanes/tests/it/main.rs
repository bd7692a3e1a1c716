//! Effects that are visible from outside: the memory after a call, and the machine code.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[cfg(target_arch = "x86_64")]
mod code;
#[cfg(target_os = "linux")]
mod memory;
