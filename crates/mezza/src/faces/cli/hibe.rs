//! `mezza hibe`: key trees in folders of their own, card blocks and envelopes.

pub(crate) mod at;
pub(super) mod card;
mod detect;
mod open;
pub(super) mod seal;
mod tree;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use mezza_hibe::Tick;
use mezza_hibe::floor::ClockTrust;
use mezza_mesh::Grade;

use super::args::{AtArgs, HibeCommand, TreeArgs};
use super::{CliContext, mesh, show};
use crate::faces::passphrase;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock;
use mezza_host::store::tree_folder::TreeFolder;
use mezza_servers::mesh::grade;

/// Bytes of the largest envelope, and one more, by which a longer file is told apart.
const ENVELOPE_READ_BYTES: u64 = 4_091;

/// Runs one of the commands.
pub(crate) fn hibe(context: &CliContext, what: &HibeCommand) -> Result<Exit, Fault> {
    match what {
        HibeCommand::Keygen(asked) => tree::keygen(context, asked),
        HibeCommand::Card(asked) => card::card(context.out, asked),
        HibeCommand::Seal(asked) => seal::seal(context, asked),
        HibeCommand::Open(asked) => open::open(context, asked),
        HibeCommand::Advance(asked) => tree::advance(context, asked),
        HibeCommand::Status(asked) => tree::status(context, asked),
        HibeCommand::DetectKey(asked) => detect::lend(context, asked),
        HibeCommand::Detect(asked) => detect::detect(context, asked),
        HibeCommand::Wipe { dir, yes } => tree::wipe(context.out, dir, *yes),
    }
}

impl AtArgs {
    /// See [`tick_or_now`].
    fn tick(&self, context: &CliContext) -> Tick {
        tick_or_now(self.at, context)
    }
}

/// The tick that was named, else that of the mesh node of this home, else that of this system's clock,
/// with a note.
fn tick_or_now(named: Option<Tick>, context: &CliContext) -> Tick {
    named.or_else(|| mesh::network_tick(context)).unwrap_or_else(|| {
        let tick = Tick::at(clock::now());
        context.out.aside(&format!("it is {}, says the clock of this system", minute(tick)));
        tick
    })
}

/// The earliest tick that it may be now: a card that is made on a fast clock must not be deaf at first. The
/// tick that was named, else by the clock of the mesh node of this home, else by this system's clock and how
/// good that is.
fn earliest_tick(named: Option<Tick>, context: &CliContext) -> Tick {
    named.or_else(|| mesh::earliest_tick(context)).unwrap_or_else(|| {
        let within_ms = grade::within_ms(&context.home);
        let trust = within_ms.map_or(ClockTrust::POOR, |ms| ClockTrust::within(u64::from(ms)));
        let settled =
            within_ms.is_some_and(|ms| Grade::of_bound(i64::from(ms) * 1_000) == Grade::Good);
        trust.earliest(Tick::at(clock::now()), settled)
    })
}

impl TreeArgs {
    /// The tree of the folder, unlocked.
    fn open(&self, context: &CliContext) -> Result<TreeFolder, Fault> {
        open_tree(context, &self.dir, self.key.passphrase_file.as_deref())
    }
}

pub(super) fn open_tree(
    context: &CliContext,
    dir: &Path,
    file: Option<&Path>,
) -> Result<TreeFolder, Fault> {
    if !TreeFolder::exists(dir) {
        return Err(TreeFolder::missing(dir));
    }
    let pass = passphrase::ask(file, "Passphrase of this tree: ")?;
    TreeFolder::open(dir, &context.home.state(), &pass)
}

/// A tick as a person reads it: `2026-11-25 10:41Z`, with its second half marked.
fn minute(tick: Tick) -> String {
    let half = if tick.0.is_multiple_of(2) { "" } else { "+30s" };
    format!("{}{half}", show::time(tick.time().ms()))
}

/// A tick as its day.
fn day(tick: Tick) -> String {
    let mut text = show::time(tick.time().ms());
    text.truncate(10);
    text
}

/// An envelope, or the beginning of a file that is none.
fn read_envelope(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(ENVELOPE_READ_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
