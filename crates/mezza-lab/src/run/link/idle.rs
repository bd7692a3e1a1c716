//! The wake-ups of an idle daemon.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::road;
use super::world::LinkWorld;
use crate::bench::Bench;
use crate::shape::Claim;

/// The limit: the wake-ups of wireguard-go.
const WAKES_MAX: f64 = 6.0;
/// Time in which exchanges and IPv6 neighbours may still be active.
const SETTLE: Duration = Duration::from_secs(15);

/// Counts how often the threads of two idle daemons sleep, and therefore wake up.
///
/// # Errors
/// A link that does not come up, or a daemon that ends.
pub fn measure_wakes(bench: &mut Bench) -> Result<Claim> {
    let folder = bench.folder.path().join("idle");
    std::fs::create_dir_all(&folder)?;
    let mut world = LinkWorld::lay_road(&folder, road::PLAIN, bench.seed)?;
    world.bring_up()?;
    std::thread::sleep(SETTLE);
    let before = count_sleeps(&world)?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(bench.profile.pick(2, 20, 60)));
    let seconds = begun.elapsed().as_secs_f64();
    let rates =
        count_sleeps(&world)?.into_iter().zip(before).map(|(now, before)| (now - before) / seconds);
    let most = rates.fold(0.0, f64::max);
    bench.note_count("idle", "wakes", "1/s", most)?;
    Ok(Claim::at_most("wake-ups a second of an idle daemon", most, WAKES_MAX))
}

/// Returns how often the threads of each daemon have slept.
fn count_sleeps(world: &LinkWorld) -> Result<Vec<f64>> {
    let of_thread = |path: std::path::PathBuf| -> Result<f64> {
        let status = std::fs::read_to_string(path.join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Ok(line.context("no count of switches")?.trim().parse()?)
    };
    let of_daemon = |id: &u32| -> Result<f64> {
        let threads = std::fs::read_dir(format!("/proc/{id}/task"))?;
        threads.map(|thread| of_thread(thread?.path())).sum()
    };
    world.net().tunnels().iter().map(of_daemon).collect()
}
