//! The load of FoSAM in a static crowd: simulated seconds per CPU second, and what was delivered.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "an example for a terminal, whose counts are small"
)]

#[path = "../tests/it/crowd.rs"]
#[allow(dead_code)]
mod crowd;

use mezza_mesh::crew::CrewSettings;
use mezza_mesh::limits::SECOND;

fn main() {
    let word = |n| std::env::args().nth(n).and_then(|word| word.parse().ok());
    let side = word(1).unwrap_or(24);
    let seconds = word(2).unwrap_or(300);
    let settings = CrewSettings { ring: 8_192, ..CrewSettings::default() };
    let mut crowd = crowd::grid(side as u32, 7, settings);
    crowd.run_until(crowd::START + 60 * SECOND);
    let now = crowd.now();
    crowd.swarm_mut().crew.count_from(now);
    let began = cpu();
    let counts = crowd.counts();
    crowd.run_until(crowd.now() + seconds * SECOND);
    let took = cpu() - began;
    let crew = &crowd.swarm().crew;
    let mut ms = crew.deliveries().took_ms.clone();
    ms.sort_unstable();
    let mean = ms.iter().map(|ms| f64::from(*ms)).sum::<f64>() / ms.len() as f64;
    println!("{} devices: {:.0} simulated s per CPU s", crew.len(), seconds as f64 / took);
    println!(
        "made {} arrived {} mean {mean:.0} ms p95 {} ms",
        crew.deliveries().made,
        crew.deliveries().arrived,
        ms[ms.len() * 95 / 100]
    );
    let cells = crew.deliveries().made as f64 * crew.len() as f64;
    let (all, kinds) = crew.sent_bytes();
    println!(
        "bytes per cell and device {:.0}, by kind {:?}",
        all as f64 / cells,
        kinds.map(|b| (b as f64 / cells).round())
    );
    let done = crowd.counts();
    let per = |n: u64| n as f64 / seconds as f64 / crew.len() as f64;
    println!(
        "per device and second: frames {:.1} receptions {:.1} events {:.1}",
        per(done.frames - counts.frames),
        per(done.receptions - counts.receptions),
        per(done.events - counts.events)
    );
    let sum = |of: fn(mezza_mesh::engine::EngineCounts) -> u64| {
        crew.engines().map(|e| of(e.counts())).sum::<u64>()
    };
    println!(
        "taken {} unsolicited {} refused {} failed {} given {}",
        sum(|c| c.taken),
        sum(|c| c.unsolicited),
        sum(|c| c.refused),
        sum(|c| c.failed),
        sum(|c| c.given)
    );
}

/// CPU time of this thread, seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
