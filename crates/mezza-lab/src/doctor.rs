//! Checks if this machine is suitable for measurements.

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit};

use crate::clock::{LOOP_MS, LoadWatch, clock_cost_ns};
use crate::machine::{self, Hardware};
use crate::terminal::print_line;

/// Prints the properties of this machine that affect figures.
///
/// # Errors
/// If the system has no clock for threads.
pub fn print_machine() -> Result<()> {
    let machine = Hardware::of_this_machine();
    print_line(&format!("machine   {}", machine.id()))?;
    print_line(&format!("processor {}, {} cores", machine.cpu, machine.cores))?;
    print_line(&format!("flags     {}", machine.flags.join(" ")))?;
    print_line(&format!("memory    {} GiB, kernel {}", machine.gib, machine.kernel))?;
    let governor = machine::read_governor().unwrap_or_else(|| "none".into());
    print_line(&format!("governor  {governor}"))?;
    let (files, files_max) = getrlimit(Resource::RLIMIT_NOFILE)?;
    print_line(&format!("files     {files}, at most {files_max}"))?;
    print_line(&format!("clock     {:.0} ns to read it twice", clock_cost_ns()?))?;
    let load = machine::read_load().map_or("unknown".into(), |load| format!("{load:.2}"));
    print_line(&format!("load      {load}"))?;
    let mut watch = LoadWatch::new(LOOP_MS, true);
    let rounds = watch.run_rounds(|| Ok(()))?;
    let quiet = rounds.iter().any(|round| !round.busy);
    let verdict =
        if quiet { "quiet" } else { "busy: figures will be disturbed; wait or stop work" };
    print_line(&format!("loops     slowest {:.2} of the median: {verdict}", watch.loop_spread()))
}
