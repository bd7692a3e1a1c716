//! `mezza hibe`: key trees in folders of their own, card blocks and envelopes.

pub(crate) mod at;
pub(super) mod card;
mod detect;
pub(super) mod lives;
mod open;
pub(super) mod seal;
mod tree;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use mezza_hibe::floor::ClockTrust;
use mezza_hibe::{KeyTree, Tick};
use mezza_mesh::Grade;

use super::args::{AtArgs, HibeCommand, TreeArgs};
use super::{CliContext, mesh, show};
use crate::faces::passphrase;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock;
use mezza_host::store::tree_folder::TreeFolder;
use mezza_servers::mesh::grade;

/// Bytes of the largest envelope plus one, so that a longer file is detected.
const ENVELOPE_READ_BYTES: u64 = 4_091;

/// Runs one of the commands.
pub(crate) fn run_hibe(context: &CliContext, what: &HibeCommand) -> Result<Exit, Fault> {
    match what {
        HibeCommand::Keygen(asked) => tree::make_tree(context, asked),
        HibeCommand::Card(asked) => card::show_card(context.out, asked),
        HibeCommand::Seal(asked) => seal::seal(context, asked),
        HibeCommand::Open(asked) => open::open(context, asked),
        HibeCommand::Advance(asked) => tree::advance_tree(context, asked),
        HibeCommand::Status(asked) => tree::show_status(context, asked),
        HibeCommand::DetectKey(asked) => detect::lend_keys(context, asked),
        HibeCommand::Detect(asked) => detect::run_detect(context, asked),
        HibeCommand::Wipe { dir, yes } => tree::wipe_tree(context.out, dir, *yes),
    }
}

impl AtArgs {
    /// Returns the tick as [`tick_or_now`] does.
    fn tick(&self, context: &CliContext) -> Tick {
        tick_or_now(self.at, context)
    }
}

/// Returns the given tick, else that of this home's mesh node, else that of the system's clock,
/// with a note.
fn tick_or_now(named: Option<Tick>, context: &CliContext) -> Tick {
    named.or_else(|| mesh::network_tick(context)).unwrap_or_else(|| {
        let tick = Tick::from_time(clock::now());
        context.out.print_aside(&format!("time: {} (clock of this system)", format_minute(tick)));
        tick
    })
}

/// Returns the earliest possible present tick: a card made on a fast clock must be able to open
/// mail at once. It is the given tick, else by the clock of this home's mesh node, else by the
/// system's clock minus its maximum error.
///
/// # Errors
/// Exit code 78 for a clock that shows a time before 2026.
fn earliest_tick(named: Option<Tick>, context: &CliContext) -> Result<Tick, Fault> {
    if let Some(tick) = named.or_else(|| mesh::earliest_tick(context)) {
        return Ok(tick);
    }
    let now = Tick::from_time(clock::now());
    let Some(within_ms) = grade::within_ms(&context.home) else {
        let text = format!("it is {} by this clock, which cannot be", format_minute(now));
        return Err(Fault::new(Exit::Config, text, "set the clock, or name the time with `--at`"));
    };
    let settled = Grade::of_bound(i64::from(within_ms) * 1_000) == Grade::Good;
    Ok(ClockTrust::within(u64::from(within_ms)).earliest_tick(now, settled))
}

/// Returns true if a network or the user has confirmed the clock that [`tick_or_now`] reads.
fn is_vouched_for(context: &CliContext) -> bool {
    let of_system = || grade::within_ms(&context.home).map(u64::from);
    let within_ms = mesh::within_ms(context).or_else(of_system);
    let bound = within_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000));
    bound.is_some_and(|bound| matches!(Grade::of_bound(bound), Grade::Good | Grade::Fair))
}

/// Explains why a tree opens no present envelope: its keys were erased while a clock was ahead.
/// Returns `None` if they were not.
pub(super) fn ahead_text(tree: &KeyTree, now: Tick) -> Option<String> {
    let card = tree.card();
    let current =
        card.epoch_of(now).ok().filter(|current| *current < tree.floor() && !tree.is_over())?;
    let minutes = u64::from(tree.floor().0 - current.0) * card.profile().epoch_ms() / 60_000;
    // A floor within the next minute is rounding, and no sign of a fast clock.
    (minutes > 0).then(|| format!(
        "the keys run {} ahead of this clock, since a clock was ahead when they were erased; until {} nothing \
         opens. If the clock is right now, make a new card with `mezza hibe keygen`",
        format_span(minutes),
        format_minute(card.first_tick(tree.floor())),
    ))
}

/// Formats minutes as `40 min`, `20 h` or `3 d`.
fn format_span(minutes: u64) -> String {
    match minutes {
        0..120 => format!("{minutes} min"),
        120..2_880 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1_440),
    }
}

impl TreeArgs {
    /// Opens the tree of the folder, unlocked.
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

/// Formats a tick for the user: `2026-11-25 10:41Z`, with its second half marked.
fn format_minute(tick: Tick) -> String {
    let half = if tick.0.is_multiple_of(2) { "" } else { "+30s" };
    format!("{}{half}", show::format_utc(tick.start_time().as_ms()))
}

/// Formats the day of a tick.
fn format_day(tick: Tick) -> String {
    let mut text = show::format_utc(tick.start_time().as_ms());
    text.truncate(10);
    text
}

/// Reads an envelope, or the beginning of another file.
fn read_envelope(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(ENVELOPE_READ_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
