//! Raw lines: every figure with its program, operation and round. A file is written under a
//! temporary name and renamed; a file without its end line is unfinished.
//!
//! ```text
//! {"head":1,..}  {"who":"ours","op":"send",..} ..  {"end":1,"lines":n}
//! ```

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use mezza_core::labelled_hash;
use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Spread;
use crate::machine::Hardware;
use crate::place;
use crate::profile::Profile;
use crate::shard::Shard;

/// Version of the raw format.
const VERSION: u32 = 1;

/// The parameters of one run.
pub struct RunSpec {
    /// The id of the experiment, for example `node-goals`.
    pub experiment: &'static str,
    /// The revision, raised when the meaning of the experiment's figures changes.
    pub rev: u32,
    /// The profile, which determines the length of the run.
    pub profile: Profile,
    /// The seed of all random draws.
    pub seed: u64,
    /// The arguments that select jobs.
    pub params: Value,
    /// True if the run measures time. Then no other run of the lab may use this machine.
    pub exclusive: bool,
    /// The part of the jobs that this run covers; `None` for all jobs.
    pub shard: Option<Shard>,
}

impl RunSpec {
    /// Returns the first 16 hexadecimal digits of BLAKE2b over the job as JSON with sorted keys.
    pub fn id(&self) -> String {
        // The JSON object sorts its keys.
        let text = json!({
            "exp": self.experiment, "params": self.params, "profile": self.profile.name(),
            "rev": self.rev, "seed": self.seed,
        });
        let text = text.to_string();
        data_encoding::HEXLOWER.encode(&labelled_hash::<8>("mezza/lab/job", &[text.as_bytes()]))
    }

    fn to_head(&self) -> Value {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (commit, dirty) = find_commit();
        json!({
            "v": VERSION, "head": 1, "exp": self.experiment, "rev": self.rev, "job": self.id(),
            "params": self.params, "seed": self.seed, "profile": self.profile.name(),
            "commit": commit, "dirty": dirty, "build": describe_build(), "peers": {},
            "machine": Hardware::of_this_machine().to_json(), "started_s": since.as_secs(),
        })
    }
}

/// Describes the build of this program.
pub fn describe_build() -> Value {
    json!({
        "rustc": env!("LAB_RUSTC"), "profile": env!("LAB_PROFILE"),
        "rustflags": env!("LAB_RUSTFLAGS"), "backend": "aws-lc",
    })
}

/// Returns the commit that is checked out, and true if files differ from it.
pub fn find_commit() -> (Option<String>, Option<bool>) {
    let Some(root) = place::find_repository() else { return (None, None) };
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Pages that another experiment has just written do not change the program.
    let status = git(&["status", "--porcelain", "--", ".", ":!docs/lab"]);
    (git(&["rev-parse", "HEAD"]), status.map(|text| !text.is_empty()))
}

/// The names of clocks and units, which are constants.
type Text = &'static str;

/// One figure.
#[derive(Serialize)]
pub struct RawFigure<'a> {
    /// The measured program: `ours`, `variant:NAME`, `peer:NAME` or `limit:NAME`.
    pub who: &'a str,
    /// The operation.
    pub op: &'a str,
    /// The clock: `thread_cpu`, `wall` or `count`.
    pub clock: Text,
    /// The unit of the values.
    pub unit: Text,
    /// The number of the round, from 1.
    pub round: usize,
    /// The spread of the samples.
    #[serde(flatten)]
    pub spread: Spread,
    /// True if the machine was busy during the round.
    pub busy: bool,
}

impl<'a> RawFigure<'a> {
    /// Makes a figure from samples of the first round, on a quiet machine.
    pub fn from_samples(
        who: &'a str,
        op: &'a str,
        clock: Text,
        unit: Text,
        samples: Vec<f64>,
    ) -> Self {
        Self { who, op, clock, unit, round: 1, spread: Spread::from_samples(samples), busy: false }
    }

    /// Makes a figure from a single value, in the first round, on a quiet machine.
    pub fn single(who: &'a str, op: &'a str, clock: Text, unit: Text, value: f64) -> Self {
        Self::from_samples(who, op, clock, unit, vec![value])
    }
}

/// The raw lines of one run.
pub struct Raw {
    text: String,
    lines: usize,
}

impl Raw {
    /// Makes a file that has only its head.
    pub fn new(job: &RunSpec) -> Self {
        Self { text: format!("{}\n", job.to_head()), lines: 0 }
    }

    /// Adds a figure.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn push_figure(&mut self, line: &RawFigure<'_>) -> Result<()> {
        self.text.push_str(&serde_json::to_string(line)?);
        self.text.push('\n');
        self.lines += 1;
        Ok(())
    }

    /// Writes the whole file. After an error the old file is unchanged.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn write_file(mut self, path: &Path) -> Result<()> {
        let end = json!({ "end": 1, "lines": self.lines }).to_string();
        self.text.push_str(&(end + "\n"));
        let folder = path.parent().context("a file without a folder")?;
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let unfinished = path.with_extension("part");
            let mut file = File::create(&unfinished)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, path)
        };
        write().with_context(|| format!("{}; choose another with `--out DIR`", path.display()))
    }
}

/// Returns the path of an experiment's raw file, or of a part of it.
pub fn raw_path(out: &Path, experiment: &str, shard: Option<Shard>) -> PathBuf {
    let part = shard.map_or_else(String::new, |shard| format!(".{shard}"));
    out.join("raw").join(format!("{experiment}{part}.jsonl"))
}

/// Describes for the user if an experiment was measured, with the path of its figures.
pub fn describe_state(out: &Path, experiment: &str) -> String {
    let path = raw_path(out, experiment, None);
    let state = match fs::read_to_string(&path) {
        Ok(text) if is_finished(&text) => "measured, in",
        Ok(_) => "unfinished, measure again:",
        Err(_) => "not measured yet; would go to",
    };
    format!("{state} {}", path.display())
}

/// Returns true if there is a whole raw file of an experiment.
pub fn is_measured(out: &Path, experiment: &str) -> bool {
    fs::read_to_string(raw_path(out, experiment, None)).is_ok_and(|text| is_finished(&text))
}

/// Returns true if a text is a whole raw file: a head, figures, and an end that counts them.
pub fn is_finished(text: &str) -> bool {
    let values: Option<Vec<Value>> =
        text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let Some(values) = values.filter(|_| text.ends_with('\n')) else { return false };
    match values.as_slice() {
        [head, figures @ .., end] => {
            let figure = |value: &Value| value["who"].is_string() && value["median"].is_number();
            head["head"] == 1
                && head["v"] == VERSION
                && end["end"] == 1
                && end["lines"] == figures.len()
                && figures.iter().all(figure)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(seed: u64) -> RunSpec {
        let experiment = "node-goals";
        let params = json!({ "only": ["M1"] });
        let profile = Profile::Smoke;
        let exclusive = true;
        RunSpec { experiment, rev: 1, profile, seed, params, exclusive, shard: None }
    }

    fn line() -> RawFigure<'static> {
        let spread = Spread::from_samples(vec![1.0, 2.0, 3.0]);
        let (who, op, clock, unit) = ("ours", "send", "thread_cpu", "ns");
        RawFigure { who, op, clock, unit, round: 1, spread, busy: false }
    }

    fn written() -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = raw_path(folder.path(), "node-goals", None);
        let mut raw = Raw::new(&job(7));
        raw.push_figure(&line()).unwrap();
        raw.push_figure(&line()).unwrap();
        raw.write_file(&path).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_without_its_last_line_is_unfinished() {
        let whole = written();
        assert!(is_finished(&whole));
        let lines: Vec<&str> = whole.lines().collect();
        assert_eq!(lines.len(), 4);
        for missing in 0..lines.len() {
            let mut rest = lines.clone();
            rest.remove(missing);
            assert!(!is_finished(&(rest.join("\n") + "\n")), "without line {missing}");
        }
        for end in 0..whole.len() {
            assert!(!is_finished(&whole[..end]), "{end} bytes");
        }
        assert!(!is_finished(&whole.replace("\"lines\":2", "\"lines\":3")));
        assert!(!is_finished(&whole.replace("\"v\":1", "\"v\":2")));
    }

    #[test]
    fn lab_19_no_names_of_hosts_or_people() {
        let text = written();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let user = std::env::var("USER").unwrap_or_default();
        let home = std::env::var("HOME").unwrap_or_default();
        for secret in [host.trim(), &user, &home] {
            // A name of one or two letters may be part of any text.
            assert!(secret.len() < 3 || !text.contains(&format!("\"{secret}\"")), "{secret}");
        }
        let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let keys: Vec<&String> = head.as_object().unwrap().keys().collect();
        assert!(
            !keys.iter().any(|key| ["host", "user", "address", "home"].contains(&key.as_str()))
        );
    }

    #[test]
    fn a_job_is_named_after_what_decides_its_figures() {
        assert_eq!(job(7).id(), job(7).id());
        assert_ne!(job(7).id(), job(8).id());
        assert_eq!(job(7).id().len(), 16);
        let text =
            r#"{"exp":"node-goals","params":{"only":["M1"]},"profile":"smoke","rev":1,"seed":7}"#;
        let hash = labelled_hash::<8>("mezza/lab/job", &[text.as_bytes()]);
        assert_eq!(job(7).id(), data_encoding::HEXLOWER.encode(&hash));
    }
}
