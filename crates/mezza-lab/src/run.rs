//! `run WHAT..`: the tables and figures of a paper, measured again here.

mod experiment;
mod signal;
mod vuvuzela;

use anyhow::{Result, bail};
use clap::Args;
use mezza::exit::{Exit, Fault};
use serde_json::json;

use crate::args::MeasureArgs;
use crate::bench::{Bench, Plan};
use crate::machine::Hardware;
use crate::profile::Profile;
use crate::shape::Claim;
use crate::terminal::{complain, say};
use crate::{peer, place, raw};
use experiment::{Experiment, Report};

/// What was asked for.
#[derive(Debug, Args)]
pub struct Order {
    /// Experiments (`mezza-lab list`), a paper, or all
    #[arg(required = true, value_name = "WHAT")]
    what: Vec<String>,
    /// How long to measure
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    #[command(flatten)]
    args: MeasureArgs,
}

/// All experiments.
fn all() -> impl Iterator<Item = &'static Experiment> {
    signal::ALL.iter().chain(vuvuzela::ALL)
}

/// Runs and prints; how the program ends.
///
/// # Errors
/// An unknown id, a busy machine, a peer that cannot be fetched, or a disk that refuses.
pub fn run(order: Order) -> Result<Exit> {
    let Order { what, profile, args: MeasureArgs { fetch, json, seed, out } } = order;
    let chosen = choose(&what)?;
    if fetch {
        let mut peers: Vec<&str> = chosen.iter().flat_map(|e| e.peers).copied().collect();
        peers.sort_unstable();
        peers.dedup();
        peers.into_iter().try_for_each(peer::fetch)?;
    }
    let out = place::out(out);
    let mut all_hold = true;
    for experiment in chosen {
        complain(&format!("measuring {}", experiment.id));
        let Experiment { id, rev, .. } = *experiment;
        let plan = Plan { experiment: id, rev, profile, seed, params: json!({}), out: &out };
        let mut bench = Bench::new(plan)?;
        let report = (experiment.run)(&mut bench)?;
        let path = bench.finish()?;
        all_hold &= report.holds(profile);
        let value = value(experiment, &report, profile);
        keep(&out, experiment, &report, &value)?;
        if json {
            say(&value.to_string())?;
        } else {
            print(experiment, &report, profile)?;
            say(&format!("raw    {}", path.display()))?;
        }
    }
    Ok(if all_hold { Exit::Done } else { Exit::No })
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
        let text = format!("there is no experiment {word}");
        bail!(Fault::new(Exit::NotFound, text, "`mezza-lab list` shows them"));
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
    use mezza::exit;

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
        assert_eq!(exit::of(&error), Exit::NotFound);
    }
}
