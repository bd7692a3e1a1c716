//! Checks whether this machine is fit to measure on.

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit};

use crate::clock::{LOOP_MS, LoadWatch, clock_cost_ns};
use crate::machine::{self, Hardware};
use crate::terminal::say;

/// Prints the properties of this machine that decide figures.
///
/// # Errors
/// If the system has no clock for threads.
pub fn run() -> Result<()> {
    let machine = Hardware::this();
    say(&format!("machine   {}", machine.id()))?;
    say(&format!("processor {}, {} cores", machine.cpu, machine.cores))?;
    say(&format!("flags     {}", machine.flags.join(" ")))?;
    say(&format!("memory    {} GiB, kernel {}", machine.gib, machine.kernel))?;
    let governor = machine::governor().unwrap_or_else(|| "none".into());
    say(&format!("governor  {governor}"))?;
    let (files, files_max) = getrlimit(Resource::RLIMIT_NOFILE)?;
    say(&format!("files     {files}, at most {files_max}"))?;
    say(&format!("clock     {:.0} ns to read it twice", clock_cost_ns()?))?;
    let load = machine::load().map_or("unknown".into(), |load| format!("{load:.2}"));
    say(&format!("load      {load}"))?;
    let mut watch = LoadWatch::new(LOOP_MS, true);
    let rounds = watch.rounds(|| Ok(()))?;
    let quiet = rounds.iter().any(|round| !round.busy);
    let verdict =
        if quiet { "quiet" } else { "busy: figures will be disturbed; wait or stop work" };
    say(&format!("loops     slowest {:.2} of the median: {verdict}", watch.loop_spread()))
}
