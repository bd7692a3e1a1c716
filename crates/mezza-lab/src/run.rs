//! `run WHAT..`: the tables and figures of a paper, measured again here.

mod experiment;
mod signal;
mod vuvuzela;

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use crate::bench::{Bench, Plan};
use crate::machine::Hardware;
use crate::profile::Profile;
use crate::row::Stop;
use crate::shape::Claim;
use crate::terminal::{complain, say};
use crate::{peer, place, raw};
use experiment::{Experiment, Report};

/// What was asked for.
pub struct Order {
    /// Ids of experiments, a paper, or `all`.
    pub what: Vec<String>,
    /// How long to measure.
    pub profile: Profile,
    /// Whether to get peers first.
    pub fetch: bool,
    /// JSON instead of tables.
    pub json: bool,
    /// The seed.
    pub seed: u64,
    /// Where figures go.
    pub out: Option<PathBuf>,
}

/// All experiments.
fn all() -> impl Iterator<Item = &'static Experiment> {
    signal::ALL.iter().chain(vuvuzela::ALL)
}

/// Runs and prints; the exit code.
///
/// # Errors
/// An unknown id, a busy machine, a peer that cannot be fetched, or a disk that refuses.
pub fn run(order: Order) -> Result<u8> {
    let chosen = choose(&order.what)?;
    if order.fetch {
        let mut peers: Vec<&str> = chosen.iter().flat_map(|e| e.peers).copied().collect();
        peers.sort_unstable();
        peers.dedup();
        peers.into_iter().try_for_each(peer::fetch)?;
    }
    let out = place::out(order.out);
    let mut all_hold = true;
    for experiment in chosen {
        complain(&format!("measuring {}", experiment.id));
        let (profile, seed, params) = (order.profile, order.seed, json!({}));
        let Experiment { id, rev, .. } = *experiment;
        let plan = Plan { experiment: id, rev, profile, seed, params, out: &out };
        let mut bench = Bench::new(plan)?;
        let report = (experiment.run)(&mut bench)?;
        let path = bench.finish()?;
        all_hold &= report.holds(profile);
        let value = value(experiment, &report, profile);
        keep(&out, experiment, &report, &value)?;
        if order.json {
            say(&value.to_string())?;
        } else {
            print(experiment, &report, profile)?;
            say(&format!("raw    {}", path.display()))?;
        }
    }
    Ok(u8::from(!all_hold))
}

fn value(experiment: &Experiment, report: &Report, profile: Profile) -> serde_json::Value {
    let shapes: Vec<_> = report.shapes.iter().map(Claim::value).collect();
    json!({
        "exp": experiment.id, "profile": profile.name(), "lines": report.lines, "shapes": shapes,
        "absent": report.absent, "holds": report.holds(profile),
    })
}

/// Tables lie beside the raw lines.
fn keep(
    out: &std::path::Path,
    experiment: &Experiment,
    report: &Report,
    value: &serde_json::Value,
) -> Result<()> {
    let folder = out.join("tables");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{}.txt", experiment.id)), report.lines.join("\n") + "\n")?;
    std::fs::write(folder.join(format!("{}.json", experiment.id)), format!("{value}\n"))?;
    Ok(())
}

fn print(experiment: &Experiment, report: &Report, profile: Profile) -> Result<()> {
    let machine = Hardware::this().id();
    let (id, about, profile) = (experiment.id, experiment.about, profile.name());
    say(&format!("{id}  {about}    profile {profile}, machine {machine}"))?;
    for line in &report.lines {
        say(&format!("  {line}"))?;
    }
    for shape in &report.shapes {
        say(&shape.line())?;
    }
    for reason in &report.absent {
        say(&format!("PEER ABSENT {reason}"))?;
    }
    Ok(())
}

fn choose(what: &[String]) -> Result<Vec<&'static Experiment>> {
    let named = |experiment: &Experiment, word: &str| {
        let paper = experiment.id.split('-').next().unwrap_or_default();
        [experiment.id, paper, "all"].iter().any(|name| name.eq_ignore_ascii_case(word))
    };
    if let Some(word) = what.iter().find(|word| !all().any(|e| named(e, word))) {
        let text = format!("there is no experiment {word}; `mezza-lab list` shows them");
        bail!(Stop { code: 66, text });
    }
    Ok(all().filter(|e| what.iter().any(|word| named(e, word))).collect())
}

/// The lines of `mezza-lab list` on experiments.
pub fn list(out: &std::path::Path) -> Vec<String> {
    let line = |e: &Experiment| {
        let [smoke, quick, full] = e.seconds;
        let needs = if e.peers.is_empty() { "nothing".into() } else { e.peers.join(" ") };
        let head = format!("{:<18} {:<44} {smoke:>3} / {quick} / {full} s", e.id, e.about);
        format!("{head}   peers: {needs}; {}", raw::state(out, e.id))
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_chosen_by_id_paper_or_all() {
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            choose(&words).map(|chosen| chosen.len())
        };
        assert_eq!(chosen(&["signal-T1", "signal-t1"]).unwrap(), 1);
        assert_eq!(chosen(&["signal"]).unwrap(), signal::ALL.len());
        assert_eq!(chosen(&["vuvuzela", "sosp15"]).unwrap(), vuvuzela::ALL.len());
        assert_eq!(chosen(&["all"]).unwrap(), all().count());
        let error = chosen(&["signal-t9"]).unwrap_err();
        assert_eq!(error.downcast_ref::<Stop>().unwrap().code, 66);
    }
}
