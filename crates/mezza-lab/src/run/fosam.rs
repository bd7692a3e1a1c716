//! "FoSAM": table 1 compared with another HIBE, figures 3 to 8 and table 2 with the engine of the
//! program, and the effect of colluders on the clock.
//!
//! Each experiment prints its parameters, since the paper does not give the interval of its vote,
//! its margin, the size of messages, the distance of devices or their first clocks. The paper ran
//! 16 seeds of five hours per point; [`Size`] has the seeds and times of each profile.

mod clocks;
mod colluders;
mod day;
mod delivery;
mod microbenchmark;
mod rivals;
mod sweep;
mod table;

use anyhow::Result;

use super::experiment::{Experiment, Report};
use crate::bench::Bench;
use crate::{papers, parallel};

/// All experiments of this paper.
pub const ALL: &[Experiment] = &[
    Experiment::calculated(
        "fosam-f3-users",
        "Figure 3: time to agree, by users",
        [2, 12, 500],
        clocks::by_users,
    ),
    Experiment::calculated(
        "fosam-f3-density",
        "Figure 3: time to agree, by density",
        [2, 12, 500],
        clocks::report_density,
    ),
    Experiment::calculated(
        "fosam-f3-attackers",
        "Figure 3: time to agree, by liars",
        [2, 12, 40],
        clocks::report_attackers,
    ),
    Experiment::calculated(
        "fosam-f4",
        "Figure 4: groups that meet agree",
        [2, 10, 300],
        clocks::report_converging,
    ),
    Experiment::calculated(
        "fosam-f5",
        "Figure 5: clocks at a synthetic festival",
        [2, 15, 600],
        clocks::report_festival,
    ),
    Experiment::calculated(
        "fosam-f6-users",
        "Figure 6: messages, by users",
        [3, 40, 1_500],
        delivery::by_users,
    ),
    Experiment::calculated(
        "fosam-f6-density",
        "Figure 6: messages, by density",
        [3, 30, 1_500],
        delivery::report_density,
    ),
    Experiment::calculated(
        "fosam-f6-attackers",
        "Figure 6: messages, by liars",
        [3, 40, 1_500],
        delivery::report_attackers,
    ),
    Experiment::calculated(
        "fosam-f7",
        "Figure 7: messages of groups that meet",
        [2, 20, 900],
        delivery::report_converging,
    ),
    Experiment::calculated(
        "fosam-f8",
        "Figure 8: messages at a synthetic festival",
        [2, 20, 900],
        delivery::report_festival,
    ),
    Experiment::timed(
        "fosam-t1",
        "Table 1: encryption microbenchmark",
        [10, 60, 150],
        microbenchmark::make_report,
    )
    .with_peers(&["hohibe"]),
    Experiment::calculated(
        "fosam-t2",
        "Table 2: four devices, one far away",
        [1, 2, 10],
        table::make_report,
    ),
    Experiment::calculated(
        "fosam-x1",
        "colluders, and what they do to keys",
        [5, 300, 900],
        colluders::make_report,
    ),
    Experiment::calculated(
        "fosam-x6",
        "other people's votes in the same crowd",
        [5, 60, 2_000],
        rivals::make_report,
    ),
    Experiment::calculated(
        "fosam-x7",
        "a day among liars who use every attack",
        [20, 600, 900],
        day::make_report,
    ),
];

/// The share of the paper's runs that a profile covers.
#[derive(Clone, Copy)]
struct Size {
    /// The number of users of a usual point.
    users: usize,
    /// The number of seeds per point.
    seeds: u64,
    /// Simulated seconds in which messages are counted.
    seconds: u64,
}

impl Size {
    fn for_profile(bench: &Bench) -> Self {
        let pick = |smoke, quick, full| bench.profile.pick(smoke, quick, full);
        Self {
            users: pick(64, 300, 600),
            seeds: pick(1, 2, 6) as u64,
            seconds: pick(60, 300, 3_600) as u64,
        }
    }

    fn describe_size(self) -> String {
        let Self { users, seeds, seconds } = self;
        format!("{seeds} seeds, {users} users unless a row says so, {seconds} s counted")
    }
}

/// Makes a report that begins with the paper's values and the size of this run.
fn begin_report(exp: &str, size: Size) -> Result<Report> {
    let mut report = Report::default();
    papers::load_fosam()?.list_values(exp).into_iter().for_each(|line| report.add_line(line));
    report.add_line(format!(
        "ours: vote 1 s, margin 0.5 s, 1.4 Mbit/s a device, no loss, cells of 512 bytes that live a minute, \
         one every 30 s from each user, clocks off by up to 300 s that do not drift; {}",
        size.describe_size()
    ));
    Ok(report)
}

/// Computes the value of each seed of each point on all cores. Returns them in the order of the
/// points.
fn map_seeds<P: Copy + Send + Sync, V: Clone + Send>(
    points: &[P],
    seeds: u64,
    work: impl Fn(P, u64) -> V + Sync,
) -> Vec<Vec<V>> {
    let jobs: Vec<(P, u64)> =
        points.iter().flat_map(|p| (0..seeds).map(|seed| (*p, seed))).collect();
    let done = parallel::map_parallel(jobs, |(point, seed)| work(point, seed));
    let per = usize::try_from(seeds).unwrap_or(1).max(1);
    done.chunks(per).map(<[V]>::to_vec).collect()
}
