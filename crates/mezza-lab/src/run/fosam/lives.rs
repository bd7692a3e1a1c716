//! The share of messages that arrive, by the life of their cells: minutes, half an hour, half a day.
//! Crowds that sit, walk and celebrate, and walkers who are scattered so that only carriers connect
//! them.

use anyhow::Result;
use mezza_mesh::{CellLife, ClockMode};
use mezza_sim::crowd::movement::Density;

use super::{Size, begin_report, map_seeds};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::liars::{Liar, LiarShare};
use crate::ours::crowd::{Moves, Scene, quotient_of_counts};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Time in which clocks settle before messages are counted, s.
const SETTLE_S: u64 = 300;
/// Time between two messages of a user, s.
const EVERY_S: u64 = 300;
/// Cells that a crowd stores. Users and floods together make fewer.
const RING: usize = 32_768;
/// Liars in each row that has some, in thousandths.
const PERMILLE: u64 = 100;

/// A column of the table.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    op: &'static str,
    mode: ClockMode,
    good_percent: u64,
    life: CellLife,
}

impl Column {
    const fn ours(name: &'static str, op: &'static str, life: CellLife) -> Self {
        Self { name, op, mode: ClockMode::Level, good_percent: 30, life }
    }
}

/// The paper's vote and life, then ours with each life.
const COLUMNS: [Column; 4] = [
    Column {
        name: "paper's vote",
        op: "paper",
        mode: ClockMode::Paper,
        good_percent: 0,
        life: CellLife::Minute,
    },
    Column::ours("minutes", "minutes", CellLife::Minute),
    Column::ours("half an hour", "half_hour", CellLife::HalfHour),
    Column::ours("half a day", "half_day", CellLife::HalfDay),
];
/// Indices in [`COLUMNS`].
const MINUTES: usize = 1;
const HALF_HOUR: usize = 2;
const HALF_DAY: usize = 3;

/// A movement and its name.
#[derive(Clone, Copy)]
struct People {
    name: &'static str,
    op: &'static str,
    moves: Moves,
}

const PEOPLE: [People; 4] = [
    People { name: "static", op: "static", moves: Moves::Sit(Density::Eight) },
    People { name: "walking", op: "walking", moves: Moves::Walk },
    People { name: "festival", op: "festival", moves: Moves::Celebrate },
    People { name: "scattered", op: "scattered", moves: Moves::Scatter },
];
/// The index of the scattered walkers in [`PEOPLE`].
const SCATTERED: usize = 3;

/// The liars of a row.
#[derive(Clone, Copy)]
struct Threat {
    name: &'static str,
    op: &'static str,
    liar: Option<Liar>,
}

const THREATS: [Threat; 4] = [
    Threat { name: "no liars", op: "honest", liar: None },
    Threat { name: "10 % show +60 s", op: "colluders", liar: Some(Liar::Collude(60)) },
    Threat { name: "10 % black holes", op: "black_holes", liar: Some(Liar::BlackHole) },
    Threat { name: "10 % flooders", op: "flooders", liar: Some(Liar::Flood) },
];
/// Index of the flooders in [`THREATS`].
const FLOODERS: usize = 3;

/// Durations of a run.
#[derive(Clone, Copy)]
struct Times {
    /// Time in which messages are written and counted, s.
    write_s: u64,
    /// Maximum time afterwards in which carried messages may still arrive, s.
    carry_s: u64,
}

/// Results of one run.
#[derive(Clone, Copy)]
struct Outcome {
    /// Counted messages that arrived while the receiver had the key, %.
    arrived: f64,
    /// 95th percentile of their delivery times, s.
    late_s: f64,
}

/// Runs one cell of the table. Cells of floods have no receiver and are not counted.
fn run_scene(scene: &Scene, times: Times) -> Outcome {
    let mut stage = scene.begin_stage();
    stage.run_for(SETTLE_S);
    stage.start_counting();
    let flooded = stage.run_day(times.write_s);
    stage.stop_writing();
    // Both epochs of the life, in which cells are live.
    let live_s = 60 * u64::from(scene.life.ticks());
    stage.run_for(times.carry_s.min(live_s));
    let (made, arrived) = stage.deliveries();
    Outcome {
        arrived: 100.0 * quotient_of_counts(arrived, made - flooded),
        late_s: stage.latency().1,
    }
}

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let (users, seeds, times) = bench.profile.pick(
        (30, 1, Times { write_s: 600, carry_s: 3_600 }),
        (60, 3, Times { write_s: 1_200, carry_s: 7_200 }),
        (120, 3, Times { write_s: 1_200, carry_s: 43_200 }),
    );
    let size = Size { users, seeds, seconds: times.write_s };
    let mut report = begin_report("fosam-x5", size)?;
    for line in [
        format!("each user sends a cell of 512 bytes every {EVERY_S} s for {} s, after {SETTLE_S} s in which clocks settle.", times.write_s),
        format!("Then nobody writes, and the run goes on for the life of the cells, at most {} s.", times.carry_s),
        "Static: a grid with 8 neighbours. Walking: 1 person on 35 m^2, range 10 m. Scattered: 1 on 700 m^2.".into(),
        "Paper's vote: no good clock, cells of minutes. The other columns: our vote, 30 % good clocks, by life.".into(),
        "Keys are kept for two epochs of the life: a thief of the device reads at most 1 min, 1 h or 1 day.".into(),
        "Writing begins 5 min after the begin of a half hour, 8 h after that of a half day, which favours both.".into(),
        "Messages to and from liars count. Those from black holes, a tenth, never leave. Flooders write 40 cells a".into(),
        "second for 20 s of every 600 s. Devices here store every live cell: the bound of the store is not simulated.".into(),
        "Brackets: the 95th percentile of the time of those that arrived, s. A longer life also delivers late ones.".into(),
        format!("Messages that arrive while the receiver has the key, %, {}", size.name_middle()),
    ] {
        report.add_line(line);
    }
    let head =
        COLUMNS.iter().fold(String::new(), |head, column| format!("{head} {:>18}", column.name));
    report.add_line(format!("  {:<28}{head}", ""));
    let rows: Vec<(usize, usize)> = (0..PEOPLE.len())
        .flat_map(|people| (0..THREATS.len()).map(move |at| (people, at)))
        .collect();
    let points: Vec<(usize, usize, usize)> = rows
        .iter()
        .flat_map(|(people, threat)| (0..COLUMNS.len()).map(move |at| (*people, *threat, at)))
        .collect();
    let results = map_seeds(&points, seeds, |(people, threat, column), seed| {
        let Column { mode, good_percent, life, .. } = COLUMNS[column];
        let liars: Option<LiarShare> = THREATS[threat].liar.map(|liar| liar.with_share(PERMILLE));
        let scene = Scene {
            moves: PEOPLE[people].moves,
            mode,
            good_percent,
            liars,
            every_s: Some(EVERY_S),
            life,
            ring: Some(RING),
            ..Scene::paper(users, seed)
        };
        run_scene(&scene, times)
    });
    let middle = |outcomes: &[Outcome], value: fn(&Outcome) -> f64| {
        median(&outcomes.iter().map(value).collect::<Vec<_>>())
    };
    let mut table = [[[0.0; COLUMNS.len()]; THREATS.len()]; PEOPLE.len()];
    for ((people, threat), row) in rows.iter().zip(results.chunks(COLUMNS.len())) {
        let mut cells = Vec::new();
        for (at, outcomes) in row.iter().enumerate() {
            let [arrived, late_s] =
                [middle(outcomes, |o| o.arrived), middle(outcomes, |o| o.late_s)];
            let op = format!("{}_{}", PEOPLE[*people].op, THREATS[*threat].op);
            bench.note_count(&format!("ours:{}", COLUMNS[at].op), &op, "percent", arrived)?;
            cells.push(format!("{arrived:.1} ({late_s:.1})"));
            table[*people][*threat][at] = arrived;
        }
        let name = format!("{}, {}", PEOPLE[*people].name, THREATS[*threat].name);
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line} {cell:>18}"));
        report.add_line(format!("  {name:<28}{cells}"));
        add_losses(&mut report, &name, &table[*people][*threat]);
    }
    add_claims(&mut report, &table);
    Ok(report)
}

type Table = [[[f64; COLUMNS.len()]; THREATS.len()]; PEOPLE.len()];

/// Notes each life of ours that delivers less than a column before it.
fn add_losses(report: &mut Report, name: &str, row: &[f64; COLUMNS.len()]) {
    for (at, column) in COLUMNS.iter().enumerate().skip(MINUTES) {
        for (before, other) in COLUMNS.iter().enumerate().take(at) {
            if (10.0 * row[at]).round() < (10.0 * row[before]).round() {
                report.add_loss(format!(
                    "{name}, {}: {:.1} % against {:.1} ({})",
                    column.name, row[at], row[before], other.name
                ));
            }
        }
    }
}

/// Adds the claims about the table.
fn add_claims(report: &mut Report, table: &Table) {
    let honest = &table[SCATTERED][0];
    report.shapes.push(Claim::above(
        "scattered, no liars: half an hour above minutes, percentage points",
        honest[HALF_HOUR] - honest[MINUTES],
        10.0,
    ));
    report.shapes.push(Claim::above("scattered, no liars: half a day, %", honest[HALF_DAY], 90.0));
    report.shapes.push(Claim::above(
        "scattered, 10 % flooders: half a day, %",
        table[SCATTERED][FLOODERS][HALF_DAY],
        80.0,
    ));
    let static_gain = table[0][0][HALF_DAY] - table[0][0][MINUTES];
    report.shapes.push(Claim::at_least(
        "static, no liars: half a day delivers at least what minutes deliver, percentage points",
        static_gain,
        0.0,
    ));
    let least = table.iter().flatten().map(|row| row[HALF_DAY]).fold(f64::INFINITY, f64::min);
    report.shapes.push(Claim::above("half a day in every row, the least, %", least, 80.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_life_that_delivers_less_is_listed_and_fails_its_claim() {
        let mut report = Report::default();
        add_losses(&mut report, "static", &[100.0, 98.3, 100.0, 97.0]);
        let losses = [
            "static, minutes: 98.3 % against 100.0 (paper's vote)",
            "static, half a day: 97.0 % against 100.0 (paper's vote)",
            "static, half a day: 97.0 % against 98.3 (minutes)",
            "static, half a day: 97.0 % against 100.0 (half an hour)",
        ];
        assert_eq!(report.losing, losses);
        let holds = |half_day| {
            let mut report = Report::default();
            let mut table = [[[95.0; COLUMNS.len()]; THREATS.len()]; PEOPLE.len()];
            table[0][0][HALF_DAY] = half_day;
            add_claims(&mut report, &table);
            report.shapes.iter().find(|c| c.text.starts_with("static")).unwrap().holds
        };
        assert!(holds(95.0) && !holds(94.5));
    }
}
