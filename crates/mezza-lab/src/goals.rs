//! `goals PART`: the target rows of a design document, each beside its limit in one run.

pub mod node;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::cli::{Profile, complain, say};
use crate::clock::Watch;
use crate::doctor::LOOP_MS;
use crate::machine::Machine;
use crate::place::{self, Turn};
use crate::raw::{self, Job, Line, Raw};
use crate::row::{Row, Stop, Verdict, exit};

/// The raw file's name.
const EXPERIMENT: &str = "node-goals";
/// Raised when the meaning of a figure changes.
const REV: u32 = 1;

/// What was asked for.
pub struct Order {
    /// How long to measure.
    pub profile: Profile,
    /// Only these rows; all if empty.
    pub only: Vec<String>,
    /// JSON instead of a table.
    pub json: bool,
    /// The seed.
    pub seed: u64,
    /// Where figures go.
    pub out: Option<PathBuf>,
}

/// What every measurement may use.
pub struct Bench {
    /// How long to measure.
    pub profile: Profile,
    /// The seed.
    pub seed: u64,
    /// Where the lines go.
    pub raw: Raw,
    /// Whether the machine is busy.
    pub watch: Watch,
    /// A folder on the disk that is measured, gone afterwards.
    pub folder: tempfile::TempDir,
}

impl Bench {
    /// A figure of one value that was measured once.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn note(&mut self, line: &Line) -> Result<()> {
        self.raw.push(line)
    }
}

/// One measurement: the rows that it gives, and how.
pub struct Measurement {
    /// The ids of its rows with what they are about.
    pub rows: &'static [(&'static str, &'static str)],
    /// What it needs.
    pub needs: &'static str,
    /// About how long it takes: smoke, quick, full, in seconds.
    pub seconds: [u32; 3],
    /// Measures.
    pub run: fn(&mut Bench) -> Result<Vec<Row>>,
}

/// Measures and prints; the exit code.
///
/// # Errors
/// An unknown row, a busy machine, or a disk that refuses.
pub fn run(order: Order) -> Result<u8> {
    let chosen = choose(&order.only)?;
    let decides = order.profile != Profile::Smoke;
    let _turn = if decides { Some(Turn::take()?) } else { None };
    let out = place::out(order.out);
    let cannot = |_| Stop {
        code: 73,
        text: format!("{} cannot be written; choose another with `--out DIR`", out.display()),
    };
    std::fs::create_dir_all(&out).map_err(cannot)?;
    let folder = tempfile::Builder::new().prefix("goals-").tempdir_in(&out).map_err(cannot)?;
    let profile = order.profile.name();
    let params = json!({ "only": order.only });
    let job = Job { experiment: EXPERIMENT, rev: REV, profile, seed: order.seed, params };
    let mut bench = Bench {
        profile: order.profile,
        seed: order.seed,
        raw: Raw::new(&job),
        watch: Watch::new(order.profile.pick(2, LOOP_MS, LOOP_MS), decides),
        folder,
    };
    let rows = measure(&mut bench, &chosen);
    let path = raw::path(&out, EXPERIMENT);
    bench.raw.finish(&path)?;
    print(&rows, order.json, profile)?;
    if !order.json {
        say(&format!("raw   {}", path.display()))?;
    }
    Ok(exit(&rows, decides))
}

fn choose(only: &[String]) -> Result<Vec<&'static Measurement>> {
    let named = |measurement: &Measurement, name: &str| {
        measurement.rows.iter().any(|(id, _)| id.eq_ignore_ascii_case(name))
    };
    let unknown = only.iter().find(|name| !node::ALL.iter().any(|m| named(m, name)));
    if let Some(name) = unknown {
        let text = format!("there is no row {name}; `mezza-lab list` shows them");
        bail!(Stop { code: 66, text });
    }
    let wanted = |m: &&Measurement| only.is_empty() || only.iter().any(|name| named(m, name));
    Ok(node::ALL.iter().filter(wanted).collect())
}

/// Rows in the order of their ids; a measurement that breaks gives broken rows, not an end.
fn measure(bench: &mut Bench, chosen: &[&Measurement]) -> Vec<Row> {
    let mut rows = Vec::new();
    for measurement in chosen {
        let ids: Vec<&str> = measurement.rows.iter().map(|(id, _)| *id).collect();
        complain(&format!("measuring {}", ids.join(" ")));
        match (measurement.run)(bench) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                let broken = |(id, goal): &(&'static str, &'static str)| {
                    Row::broken(id, goal, format!("{error:#}"))
                };
                rows.extend(measurement.rows.iter().map(broken));
            }
        }
    }
    rows.sort_by_key(|row| row.id);
    rows
}

fn print(rows: &[Row], json: bool, profile: &str) -> Result<()> {
    if json {
        for row in rows {
            say(&row.value().to_string())?;
        }
        return Ok(());
    }
    let built = raw::build()["profile"].as_str().context("no build profile")?.to_owned();
    say(&format!(
        "goals of the node, profile {profile}, {built} build, machine {}",
        Machine::this().id()
    ))?;
    say(&format!("{:<48} {:>14} {:>16} {:>6}", "    goal", "measured", "limit", "ratio"))?;
    for line in rows.iter().flat_map(Row::lines) {
        say(&line)?;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let decides = if profile == "smoke" { "; smoke figures decide nothing" } else { "" };
    say(&format!(
        "{} hold, {} fall short, {} not measurable here, {} broken{decides}",
        count(Verdict::Holds),
        count(Verdict::FallsShort),
        count(Verdict::NotHere),
        count(Verdict::Error)
    ))
}

/// `mezza-lab list`
///
/// # Errors
/// A closed output.
pub fn list(out: Option<PathBuf>) -> Result<()> {
    for measurement in node::ALL {
        let [smoke, quick, full] = measurement.seconds;
        for (id, about) in measurement.rows {
            say(&format!(
                "{id:<4} {about:<44} {smoke:>3} / {quick} / {full} s   {}",
                measurement.needs
            ))?;
        }
    }
    let path = raw::path(&place::out(out), EXPERIMENT);
    let state = match std::fs::read_to_string(&path) {
        Ok(text) if raw::is_finished(&text) => "measured, in",
        Ok(_) => "unfinished, measure again:",
        Err(_) => "not measured yet; would go to",
    };
    say(&format!("run them with `mezza-lab goals node`; {state} {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_design_is_there_once() {
        let mut ids: Vec<&str> =
            node::ALL.iter().flat_map(|m| m.rows.iter().map(|(id, _)| *id)).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8"]);
    }

    #[test]
    fn rows_are_chosen_by_their_ids() {
        assert_eq!(choose(&[]).unwrap().len(), node::ALL.len());
        assert_eq!(choose(&["m2".into(), "M4".into()]).unwrap().len(), 2);
        let error = choose(&["M9".into()]).err().unwrap();
        assert_eq!(error.downcast_ref::<Stop>().unwrap().code, 66);
    }
}
