//! `run WHAT..`: the tables and figures of the papers, measured again.

mod asa;
mod claims;
mod experiment;
mod fosam;
mod hibe;
mod leak;
mod link;
mod options;
mod others;
mod page;
mod seka;
mod signal;
mod thesis;
mod vuvuzela;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use mezza::testing::api::{Exit, Fault};
use serde_json::{Value, json};

use crate::args::MeasureArgs;
use crate::bench::Bench;
use crate::machine::Hardware;
use crate::profile::Profile;
use crate::raw::{self, RunSpec};
use crate::shape::Claim;
use crate::terminal::{print_error, print_line};
use crate::{parallel, peer, place};
use experiment::{Experiment, Report};
pub use fosam::day::{DayOrder, serve_day};
use options::WireOptions;
use others::CpuTimes;
use page::PageHead;

/// The arguments of `run`.
#[derive(Debug, Args)]
pub struct Order {
    /// Experiments (`mezza-lab list`), a paper, or all
    #[arg(required = true, value_name = "WHAT")]
    what: Vec<String>,
    /// How long to measure
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    /// Folder for pages and figures; `pages` beside the raw lines if it is not given
    #[arg(long, value_name = "FOLDER")]
    pages: Option<PathBuf>,
    #[command(flatten)]
    options: WireOptions,
    #[command(flatten)]
    args: MeasureArgs,
}

/// The papers and their experiments.
const PAPERS: [(&str, &[Experiment]); 10] = [
    ("fosam", fosam::ALL),
    ("hibe", hibe::ALL),
    ("seka", seka::ALL),
    ("link", link::ALL),
    ("signal", signal::ALL),
    ("vuvuzela", vuvuzela::ALL),
    ("sosp15", vuvuzela::SOSP15),
    ("thesis", thesis::ALL),
    ("wires", leak::ALL),
    ("attacks", asa::ALL),
];

/// Returns all experiments.
#[cfg(test)]
fn all_experiments() -> impl Iterator<Item = &'static Experiment> {
    PAPERS.into_iter().flat_map(|(_, experiments)| experiments)
}

/// Runs experiments and prints their results. Returns the exit code: [`Exit::No`] if a claim fails,
/// [`Exit::Unreachable`] if an experiment decided no claim because its peer is absent.
///
/// # Errors
/// An unknown id, a busy machine, a peer that cannot be fetched, or a failed disk.
pub fn run_experiments(order: Order) -> Result<Exit> {
    let Order { what, profile, pages, options, args } = order;
    let MeasureArgs { fetch, json, seed, shard, out } = args;
    let json = json || options.is_stream();
    let mut chosen = choose_experiments(&what)?;
    let params = options.params(&chosen)?;
    if let Some(shard) = shard {
        chosen = shard.pick_jobs(chosen, |experiment| profile.cost_s(experiment.seconds));
    }
    if fetch {
        let peers: BTreeSet<&str> = chosen.iter().flat_map(|e| e.peers).copied().collect();
        peers.into_iter().try_for_each(peer::fetch_peer)?;
    }
    let out = place::out_folder(out);
    let pages = pages.unwrap_or_else(|| out.join("pages"));
    let summary = Mutex::new(Summary { all_hold: true, is_empty: false });
    let run = |experiment| {
        let options = RunOptions { profile, seed, params: &params };
        let done = measure_experiment(experiment, options, &out)?;
        // An experiment is written when it is done, so that an interrupted run keeps it. The lock
        // keeps the lines of two experiments apart.
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.add(&done.report, profile);
        summary.all_hold &= write_results(&done, options, json, [&out, &pages])?;
        Ok(())
    };
    // Experiments that measure no time run on all cores, before the others start.
    let (exclusive, calculated): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|e| e.exclusive);
    parallel::map_parallel(calculated, run).into_iter().collect::<Result<()>>()?;
    exclusive.into_iter().try_for_each(run)?;
    let Summary { all_hold, is_empty } =
        summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(match (all_hold, is_empty) {
        (false, _) => Exit::No,
        (true, true) => Exit::Unreachable,
        (true, false) => Exit::Done,
    })
}

/// The verdict over all experiments of a run.
struct Summary {
    /// No claim fails.
    all_hold: bool,
    /// An experiment decided no claim because its peer is absent, which is no success.
    is_empty: bool,
}

impl Summary {
    fn add(&mut self, report: &Report, profile: Profile) {
        self.all_hold &= report.holds(profile);
        self.is_empty |= report.shapes.is_empty() && !report.absent.is_empty();
    }
}

/// Writes the table, plot and page of an experiment, and prints its result. Returns false if its
/// claims are not the declared ones.
fn write_results(
    done: &Done,
    options: RunOptions<'_>,
    json: bool,
    [out, pages]: [&Path; 2],
) -> Result<bool> {
    let Done { experiment, report, raw, took, others } = done;
    let profile = options.profile;
    let mismatch = claims::find_mismatch(experiment, report).filter(|_| profile == Profile::Quick);
    if let Some(text) = &mismatch {
        print_error(text);
    }
    let value = report_json(experiment, report, profile);
    store_report(out, experiment, report, &value)?;
    let page =
        page::write_page(pages, &PageHead::for_run(experiment, options, *took, *others), report)?;
    if json {
        print_line(&value.to_string())?;
    } else {
        print_report(experiment, report, profile)?;
        print_line(&format!("raw    {}", raw.display()))?;
        print_line(&format!("page   {}", page.display()))?;
    }
    Ok(mismatch.is_none())
}

/// An experiment that ran.
struct Done {
    experiment: &'static Experiment,
    report: Report,
    /// The path of its raw lines.
    raw: PathBuf,
    /// The wall time of the experiment.
    took: Duration,
    /// The share of all cores that other programs used meanwhile, percent; `None` if unknown.
    others: Option<f64>,
}

/// The options of the user that hold for each experiment.
#[derive(Clone, Copy)]
struct RunOptions<'a> {
    profile: Profile,
    seed: u64,
    params: &'a Value,
}

/// Runs an experiment.
fn measure_experiment(
    experiment: &'static Experiment,
    options: RunOptions<'_>,
    out: &Path,
) -> Result<Done> {
    let Experiment { id, rev, exclusive, .. } = *experiment;
    print_error(&format!("measuring {id}"));
    let RunOptions { profile, seed, params } = options;
    let params = params.clone();
    let run = RunSpec { experiment: id, rev, profile, seed, params, exclusive, shard: None };
    let mut bench = Bench::new(&run, out)?;
    let before = CpuTimes::read();
    let begun = Instant::now();
    let report = (experiment.run)(&mut bench)?;
    let others = before.zip(CpuTimes::read()).map(|(before, now)| before.others_since(&now));
    Ok(Done { experiment, report, raw: bench.write_raw()?, took: begun.elapsed(), others })
}

fn report_json(experiment: &Experiment, report: &Report, profile: Profile) -> Value {
    let shapes: Vec<_> = report.shapes.iter().map(Claim::to_json).collect();
    json!({
        "exp": experiment.id, "profile": profile.name(), "lines": report.lines, "shapes": shapes,
        "absent": report.absent, "losing": report.losing, "holds": report.holds(profile),
    })
}

/// Writes table and plot next to the raw lines.
fn store_report(out: &Path, experiment: &Experiment, report: &Report, value: &Value) -> Result<()> {
    let write = |folder: &str, ending: &str, text: String| {
        let folder = out.join(folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{}.{ending}", experiment.id)), text)
    };
    write("tables", "txt", report.lines.join("\n") + "\n")?;
    write("tables", "json", format!("{value}\n"))?;
    if let Some(plot) = &report.plot {
        write("plots", "svg", plot.to_svg())?;
    }
    Ok(())
}

fn print_report(experiment: &Experiment, report: &Report, profile: Profile) -> Result<()> {
    let machine = Hardware::of_this_machine().id();
    let id = experiment.id;
    let about = experiment.about;
    let profile = profile.name();
    print_line(&format!("{id}  {about}    profile {profile}, machine {machine}"))?;
    for line in &report.lines {
        print_line(&format!("  {line}"))?;
    }
    for shape in &report.shapes {
        print_line(&shape.format_line())?;
    }
    for text in &report.losing {
        print_line(&format!("loses  {text}"))?;
    }
    for reason in &report.absent {
        print_line(&format!("PEER ABSENT {reason}"))?;
    }
    Ok(())
}

fn choose_experiments(what: &[String]) -> Result<Vec<&'static Experiment>> {
    let named = |paper: &str, experiment: &Experiment, word: &str| {
        [experiment.id, paper, "all"].iter().any(|name| name.eq_ignore_ascii_case(word))
    };
    let is_known =
        |word: &String| PAPERS.iter().any(|(paper, all)| all.iter().any(|e| named(paper, e, word)));
    if let Some(word) = what.iter().find(|word| !is_known(word)) {
        let text = format!("there is no experiment {word}");
        bail!(Fault::new(Exit::NotFound, text, "`mezza-lab list` shows them"));
    }
    let chosen = PAPERS.into_iter().flat_map(|(paper, all)| {
        all.iter().filter(move |e| what.iter().any(|word| named(paper, e, word)))
    });
    Ok(chosen.collect())
}

/// Returns the lines of `mezza-lab list` for experiments, by paper.
pub fn list_experiments(out: &Path) -> Vec<String> {
    let head = format!(
        "  {:<18} {:<61} {:>5} {:>5} {:>5}  {:<8}  peers",
        "experiment", "what", "smoke", "quick", "full", "measured"
    );
    let line = |e: &Experiment| {
        let [smoke, quick, full] = e.seconds;
        let measured = if raw::is_measured(out, e.id) { "yes" } else { "no" };
        let peers = e.peers.join(" ");
        let line = format!(
            "  {:<18} {:<61} {smoke:>5} {quick:>5} {full:>5}  {measured:<8}  {peers}",
            e.id, e.about
        );
        line.trim_end().to_owned()
    };
    let part = |(paper, experiments): (&str, &[Experiment])| {
        let title = format!("{paper}: `mezza-lab run {paper}` runs all of them");
        std::iter::once(title).chain(experiments.iter().map(line)).collect::<Vec<String>>()
    };
    let folder = format!("times are seconds; figures lie in {}", out.join("raw").display());
    [folder, head].into_iter().chain(PAPERS.into_iter().flat_map(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Shard;

    #[test]
    fn each_experiment_belongs_to_exactly_one_part() {
        let sorted = |mut ids: Vec<&'static str>| {
            ids.sort_unstable();
            ids
        };
        let whole = sorted(all_experiments().map(|experiment| experiment.id).collect());
        for count in 1..=whole.len() + 1 {
            let part = |index: usize| {
                let shard: Shard = format!("{index}/{count}").parse().unwrap();
                shard.pick_jobs(all_experiments().collect(), |experiment| {
                    Profile::Quick.cost_s(experiment.seconds)
                })
            };
            let union = (0..count).flat_map(part).map(|experiment| experiment.id).collect();
            assert_eq!(sorted(union), whole, "{count} parts");
        }
    }

    /// All other experiments measure time and run alone.
    #[test]
    fn what_only_calculates_is_declared() {
        let calculated = all_experiments().filter(|experiment| !experiment.exclusive);
        let ids: Vec<_> = calculated.map(|experiment| experiment.id).collect();
        let calculated = |all: &[Experiment]| {
            let all = all.iter().filter(|experiment| !experiment.exclusive);
            all.map(|experiment| experiment.id).collect::<Vec<_>>()
        };
        let others = ["signal-f5", "signal-f6", "vuvuzela-noise", "wire", "leak", "asa"];
        let attacks = calculated(hibe::ALL);
        assert!(attacks.iter().all(|id| id.starts_with("hibe-")) && attacks.len() == 12);
        let links = calculated(seka::ALL);
        assert_eq!(ids, [calculated(fosam::ALL), attacks, links, others.to_vec()].concat());
    }

    /// Pages that no experiment makes.
    const OTHER_PAGES: [&str; 3] = ["ARTIFACT", "README", "errata"];

    /// Returns true if a line of a page is a claim of its experiment.
    fn is_claim(line: &str) -> bool {
        VERDICTS.iter().any(|verdict| line.starts_with(verdict))
    }

    /// How a line begins whose claim holds, fails, or is undecided.
    const VERDICTS: [&str; 3] = ["- holds: ", "- **fails: ", "- **undecided: "];

    /// Returns the claim of a line of a page.
    fn read_claim(line: &str) -> Claim {
        let is_undecided = line.starts_with(VERDICTS[2]);
        Claim { is_undecided, ..Claim::is(line, "", line.starts_with(VERDICTS[0])) }
    }

    #[test]
    fn each_page_has_the_title_the_command_and_the_claims_of_its_experiment() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab");
        let mut pages = 0;
        for file in std::fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if path.extension().is_none_or(|e| e != "md") || OTHER_PAGES.contains(&name) {
                continue;
            }
            let experiment =
                all_experiments().find(|e| e.id == name).unwrap_or_else(|| panic!("{name}"));
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().next(), Some(&*format!("# {}", experiment.about)), "{name}");
            assert!(text.contains(&format!("`mezza-lab run {name} --profile ")), "{name}");
            let figure = format!("{name}.svg");
            assert_eq!(text.contains(&figure), folder.join(&figure).exists(), "{name}");
            let claims = text.lines().filter(|line| is_claim(line)).map(read_claim);
            let claims: Vec<Claim> = claims.collect();
            let verdict = page::describe_claims(&claims);
            assert!(text.lines().any(|line| line == verdict), "{name}: {verdict}");
            let count = Some(claims.len());
            assert_eq!(claims::declared_count(name), count, "{name}: claims of its page");
            pages += 1;
        }
        assert_eq!(pages, claims::CLAIMS.len(), "each declared experiment has a page");
    }

    #[test]
    fn experiments_are_chosen_by_id_paper_or_all() {
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            choose_experiments(&words).map(|chosen| chosen.len())
        };
        assert_eq!(chosen(&["signal-T1", "signal-t1"]).unwrap(), 1);
        assert_eq!(chosen(&["signal"]).unwrap(), signal::ALL.len());
        assert_eq!(chosen(&["vuvuzela", "sosp15"]).unwrap(), vuvuzela::ALL.len() + 1);
        assert_eq!(chosen(&["all"]).unwrap(), all_experiments().count());
        let error = chosen(&["signal-t9"]).unwrap_err();
        assert_eq!(crate::place::exit_of(&error), Exit::NotFound);
    }
}
