//! How many mails of 1 KiB a relay makes durable in a second: `durable_puts [FOLDER] [POSTGRES-URL]`.
//!
//! For comparison, the same run also measures puts without waiting for the disk, and puts with one
//! commit each.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::env;
use std::path::PathBuf;

use mezza::testing::puts::{durable_puts, puts_into, single_puts};
use mezza::testing::servers::relay::{RelayError, StoreSpec};

/// Number of puts, enough that the write-ahead log is copied into the file several times.
const PUTS: u64 = 100_000;
/// Number of puts with one commit each; fewer, because each waits for the disk alone.
const SINGLE_PUTS: u64 = 2_000;

#[tokio::main]
async fn main() -> Result<(), RelayError> {
    let dir = env::args_os().nth(1).map_or_else(env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("durable-puts-{}", std::process::id()));
    let io = |source| RelayError::Io { what: "a folder for the figures", source };
    std::fs::create_dir_all(&dir).map_err(io)?;
    let single = single_puts(&dir, SINGLE_PUTS).await?.per_second();
    let off = durable_puts(&dir, PUTS, true).await?.per_second();
    let full = durable_puts(&dir, PUTS, false).await?.per_second();
    println!("SQLite, one commit each   {single:>9.0} /s");
    println!("SQLite, never synced      {off:>9.0} /s");
    println!("SQLite, group commit      {full:>9.0} /s   {:.2} of never synced", full / off);
    println!("                                       {:.0} times one commit each", full / single);
    if let Some(url) = env::args().nth(2) {
        let rate = puts_into(&StoreSpec::Postgres(url), &dir, PUTS).await?.per_second();
        println!("PostgreSQL, group commit  {rate:>9.0} /s");
    }
    std::fs::remove_dir_all(&dir).map_err(io)
}
