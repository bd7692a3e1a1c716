//! Table 2: four devices in a cafeteria, one of them too far away. The paper used phones; ours are
//! four nodes of the crowd, three in one room and the fourth in range of one of them for a
//! fifteenth of the time.

use anyhow::Result;
use mezza::testing::servers::mesh::crowd::{HostedCrew, START};
use mezza_mesh::Grade;
use mezza_mesh::crew::CrewSettings;
use mezza_mesh::limits::{NEVER, SECOND};
use mezza_sim::crowd::{Crowd, RadioModel};

use crate::bench::Bench;
use crate::papers;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Number of messages to each device in table 2.
const ADDRESSED: [u32; 4] = [23, 5, 4, 16];
/// The shares that the paper prints, %.
const PRINTED: [f64; 4] = [74.0, 80.0, 75.0, 44.0];
/// Lost receptions per million, caused by people and tables.
const LOSS_PPM: u32 = 300_000;

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let printed = papers::load_fosam()?.list_values("fosam-t2");
    for line in printed {
        report.add_line(line);
    }
    report.add_line(
        "ours, simulated, one seed: right clocks, a message every 40 s, 30 % of receptions lost;",
    );
    report.add_line("device 4 in range of device 3 for 40 s of each ten minutes");
    report.add_line(format!("  {:<8} {:>10} {:>12}", "", "addressed", "successful"));
    let mut all = Vec::new();
    for to in 0..4_u32 {
        let addressed = ADDRESSED[to as usize];
        let arrived = count_arrived(to, bench.seed);
        let share = 100.0 * f64::from(arrived) / f64::from(addressed);
        bench.note_count("ours", &format!("device_{}", to + 1), "percent", share)?;
        report
            .add_line(format!("  Dev. {:<3} {addressed:>10} {arrived:>6} {share:>4.0} %", to + 1));
        all.push(share);
    }
    let near = all[..3].iter().copied().fold(100.0, f64::min);
    report.shapes.push(Claim::above(
        "device 4 loses most: the least of the others, %",
        near,
        all[3],
    ));
    report.add_line("no radio was measured here: loss and range were chosen, so no share says how well devices do");
    for ((to, share), printed) in (1..).zip(&all).zip(PRINTED) {
        if *share < printed {
            report.add_loss(format!(
                "device {to}: {share:.0} % against {printed:.0} (paper, on phones)"
            ));
        }
    }
    Ok(report)
}

/// Counts the messages to one device that arrive in time. The other devices take turns to send one
/// every 40 s.
fn count_arrived(to: u32, seed: u64) -> u32 {
    let settings = CrewSettings { every: NEVER, ring: 1_024, ..CrewSettings::default() };
    let crew = HostedCrew::new(settings, &[(Grade::Fair, 0); 4], seed);
    let radio = RadioModel { loss_ppm: LOSS_PPM, ..RadioModel::default() };
    let mut crowd = Crowd::new(crew, 4, radio, seed, START);
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        crowd.begin_contact(a, b);
    }
    crowd.run_until(START + 30 * SECOND);
    let now = crowd.now();
    crowd.swarm_mut().0.count_from(now);
    for number in 0..ADDRESSED[to as usize] {
        let now = crowd.now();
        if number % 15 == 0 {
            crowd.begin_contact(2, 3);
        } else {
            crowd.end_contact(2, 3);
        }
        let from = (to + 1 + number % 3) % 4;
        crowd.swarm_mut().0.send_message(from, to, now);
        crowd.check_device(from);
        crowd.run_until(now + 40 * SECOND);
    }
    u32::try_from(crowd.swarm().0.deliveries().arrived).unwrap_or(0)
}
