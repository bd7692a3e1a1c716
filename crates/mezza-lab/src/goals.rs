//! `goals PART`: the target rows of a design document, each beside its limit in one run.

pub mod lanes;
pub mod mixnet;
pub mod node;
pub mod ratchet;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::bench::{Bench, Plan};
use crate::cli::{Part, Profile, complain, say};
use crate::machine::Machine;
use crate::row::{Row, Stop, Verdict, exit};
use crate::{peer, place, raw};

/// What was asked for.
pub struct Order {
    /// Whose goals.
    pub part: Part,
    /// How long to measure.
    pub profile: Profile,
    /// Only these rows; all if empty.
    pub only: Vec<String>,
    /// Whether to get peers first.
    pub fetch: bool,
    /// JSON instead of a table.
    pub json: bool,
    /// The seed.
    pub seed: u64,
    /// Where figures go.
    pub out: Option<PathBuf>,
}

impl Part {
    /// Its measurements.
    fn all(self) -> &'static [Measurement] {
        match self {
            Self::Node => node::ALL,
            Self::Lanes => lanes::ALL,
            Self::Ratchet => ratchet::ALL,
            Self::Mixnet => mixnet::ALL,
        }
    }

    /// Its raw file, and the number that is raised when the meaning of a figure changes.
    fn experiment(self) -> (&'static str, u32) {
        match self {
            Self::Node => ("node-goals", 1),
            Self::Lanes => ("lanes-goals", 1),
            Self::Ratchet => ("ratchet-goals", 1),
            Self::Mixnet => ("mixnet-goals", 1),
        }
    }

    /// The peers of its rows.
    fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Node => &[],
            Self::Lanes => lanes::PEERS,
            Self::Ratchet => ratchet::PEERS,
            Self::Mixnet => mixnet::PEERS,
        }
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
/// An unknown row, a busy machine, a peer that cannot be fetched, or a disk that refuses.
pub fn run(order: Order) -> Result<u8> {
    let Order { part, profile, seed, .. } = order;
    let chosen = choose(part, &order.only)?;
    if order.fetch {
        part.peers().iter().try_for_each(|name| peer::fetch(name))?;
    }
    let (experiment, rev) = part.experiment();
    let out = place::out(order.out);
    let params = json!({ "only": order.only });
    let mut bench = Bench::new(Plan { experiment, rev, profile, seed, params, out: &out })?;
    let rows = measure(&mut bench, &chosen);
    let path = bench.finish()?;
    print(&rows, order.json, part, profile)?;
    if !order.json {
        say(&format!("raw   {}", path.display()))?;
    }
    Ok(exit(&rows, profile != Profile::Smoke))
}

fn choose(part: Part, only: &[String]) -> Result<Vec<&'static Measurement>> {
    let named = |measurement: &Measurement, name: &str| {
        measurement.rows.iter().any(|(id, _)| id.eq_ignore_ascii_case(name))
    };
    let unknown = only.iter().find(|name| !part.all().iter().any(|m| named(m, name)));
    if let Some(name) = unknown {
        let text = format!("there is no row {name}; `mezza-lab list` shows them");
        bail!(Stop { code: 66, text });
    }
    let wanted = |m: &&Measurement| only.is_empty() || only.iter().any(|name| named(m, name));
    Ok(part.all().iter().filter(wanted).collect())
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

fn print(rows: &[Row], json: bool, part: Part, profile: Profile) -> Result<()> {
    if json {
        for row in rows {
            say(&row.value().to_string())?;
        }
        return Ok(());
    }
    let built = raw::build()["profile"].as_str().context("no build profile")?.to_owned();
    say(&format!(
        "goals of the {}, profile {}, {built} build, machine {}",
        part.name(),
        profile.name(),
        Machine::this().id()
    ))?;
    say(&format!("{:<48} {:>14} {:>16} {:>6}", "    goal", "measured", "limit", "ratio"))?;
    for line in rows.iter().flat_map(Row::lines) {
        say(&line)?;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let decides = if profile == Profile::Smoke { "; smoke figures decide nothing" } else { "" };
    say(&format!(
        "{} hold, {} fall short, {} not measurable here, {} without a peer, {} broken{decides}",
        count(Verdict::Holds),
        count(Verdict::FallsShort),
        count(Verdict::NotHere),
        count(Verdict::NoPeer),
        count(Verdict::Error)
    ))
}

/// The lines of `mezza-lab list` on a part.
pub fn list(part: Part, out: &std::path::Path) -> Vec<String> {
    let mut lines = Vec::new();
    for measurement in part.all() {
        let [smoke, quick, full] = measurement.seconds;
        let needs = measurement.needs;
        let row = |(id, about): &(&str, &str)| {
            format!("{id:<10} {about:<44} {smoke:>3} / {quick} / {full} s   {needs}")
        };
        lines.extend(measurement.rows.iter().map(row));
    }
    let (experiment, _) = part.experiment();
    let state = raw::state(out, experiment);
    lines.push(format!("run them with `mezza-lab goals {}`; {state}", part.name()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_design_is_there_once() {
        let ids = |part: Part| {
            let rows = part.all().iter().flat_map(|m| m.rows);
            let mut ids: Vec<&str> = rows.map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(Part::Node), ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8"]);
        assert_eq!(ids(Part::Ratchet), ["T1", "T2", "T3", "T4", "T5"]);
        assert_eq!(ids(Part::Mixnet), ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8"]);
        assert_eq!(ids(Part::Lanes), ["L1", "L2", "L3", "L6"]);
    }

    #[test]
    fn rows_are_chosen_by_their_ids() {
        assert_eq!(choose(Part::Node, &[]).unwrap().len(), node::ALL.len());
        assert_eq!(choose(Part::Node, &["m2".into(), "M4".into()]).unwrap().len(), 2);
        let error = choose(Part::Node, &["M9".into()]).err().unwrap();
        assert_eq!(error.downcast_ref::<Stop>().unwrap().code, 66);
    }
}
