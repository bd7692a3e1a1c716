//! "FoSAM": table 1 compared with another HIBE, figures 3 to 8 and table 2 with the engine of the
//! program, and the effect of colluders on the clock.
//!
//! Each experiment prints its parameters, since the paper does not give the interval of its vote,
//! its margin, the size of messages, the distance of devices or their first clocks. The paper ran
//! 16 seeds of five hours per point; [`Size`] has the seeds and times of each profile.

mod clocks;
mod colluders;
pub mod day;
mod delivery;
mod lives;
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
        [2, 20, 700],
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
        [2, 150, 400],
        clocks::report_converging,
    ),
    Experiment::calculated(
        "fosam-f5",
        "Figure 5: clocks at a synthetic festival",
        [2, 240, 800],
        clocks::report_festival,
    ),
    Experiment::calculated(
        "fosam-f6-users",
        "Figure 6: messages, by users",
        [3, 240, 2_000],
        delivery::by_users,
    ),
    Experiment::calculated(
        "fosam-f6-density",
        "Figure 6: messages, by density",
        [3, 180, 2_000],
        delivery::report_density,
    ),
    Experiment::calculated(
        "fosam-f6-attackers",
        "Figure 6: messages, by liars",
        [3, 340, 2_000],
        delivery::report_attackers,
    ),
    Experiment::calculated(
        "fosam-f7",
        "Figure 7: messages of groups that meet",
        [2, 440, 1_200],
        delivery::report_converging,
    ),
    Experiment::calculated(
        "fosam-f8",
        "Figure 8: messages at a synthetic festival",
        [2, 200, 1_200],
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
        "fosam-x5",
        "messages by the life of their cells",
        [5, 240, 2_400],
        lives::make_report,
    ),
    Experiment::calculated(
        "fosam-x6",
        "other people's votes in the same crowd",
        [5, 150, 2_700],
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
            seeds: pick(1, 8, 8) as u64,
            seconds: pick(60, 300, 3_600) as u64,
        }
    }

    /// Returns the name of the value that is printed for several seeds.
    fn name_middle(self) -> String {
        match self.seeds {
            1 => "of one seed".to_owned(),
            seeds => format!("lower median of {seeds} seeds"),
        }
    }

    fn describe_size(self) -> String {
        let Self { users, seeds, .. } = self;
        let seeds = if seeds == 1 { "1 seed".to_owned() } else { format!("{seeds} seeds") };
        format!("{seeds}, {users} users unless a row says so")
    }
}

/// The messages of a scene that has some.
const MESSAGES: &str =
    "each user sends a cell of 512 bytes every 30 s, which lives at most 90 s by any clock";

/// Makes a report that begins with the paper's values and the size of this run.
fn begin_report(exp: &str, size: Size) -> Result<Report> {
    let mut report = Report::default();
    let paper = papers::load_fosam()?;
    let printed = paper.list_values(exp).into_iter().chain(paper.list_statements(exp));
    printed.for_each(|line| report.add_line(line));
    report.add_line(format!(
        "simulated crowd, in each column: vote 1 s, margin 0.5 s, 1.4 Mbit/s a device, no loss, first clocks \
         off by up to 300 s that do not drift; {}",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_prints_what_its_paper_says_beside_it() {
        let paper = papers::load_fosam().unwrap();
        let figures = ALL.iter().filter(|e| e.id.starts_with("fosam-f") || e.id == "fosam-t2");
        for Experiment { id, .. } in figures {
            let printed = [paper.list_values(id), paper.list_statements(id)].concat();
            assert!(!printed.is_empty(), "{id}");
        }
        let known = |id: &str| ALL.iter().any(|experiment| experiment.id == id);
        assert!(paper.statement.iter().all(|s| known(&s.exp) && !s.place.is_empty()));
    }

    /// With two seeds the lower median is the minimum, which is no middle.
    #[test]
    fn a_printed_median_is_one_of_at_least_three_seeds() {
        let middle = |seeds| Size { users: 1, seeds, seconds: 1 }.name_middle();
        assert_eq!([1, 8].map(middle), ["of one seed", "lower median of 8 seeds"]);
        let of = |figures: &[f64]| crate::clock::median(figures).to_string();
        assert_eq!(of(&[52.0, 99.8]), "52");
        assert_eq!(of(&[99.9, 52.0, 99.8, 99.7, 97.0, 98.0, 99.0, 60.0]), "98");
    }
}
