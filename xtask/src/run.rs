//! Runs other programs: their output goes into a log, and the last lines are kept for the report.

use crate::libtest;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// The result of a program and its output.
pub struct Ended {
    /// True if the exit status is success.
    pub ok: bool,
    /// The texts after `SKIPPED ` in the output.
    pub skipped: Vec<String>,
    /// The last printed lines.
    pub tail: Vec<String>,
}

/// Lines of a failed step that are repeated in the report.
const TAIL_LINES: usize = 40;

/// The folder of the logs of a run.
pub struct Logs {
    folder: PathBuf,
}

impl Logs {
    /// Makes the folder `xtask` in the build directory.
    pub fn new(target: &Path) -> Result<Self, String> {
        let folder = target.join("xtask");
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Returns the path of a step's log.
    pub fn path(&self, step: &str) -> PathBuf {
        self.folder.join(format!("{}.log", step.replace(' ', "-")))
    }

    /// Removes the logs of earlier runs, so that no old result counts for this run.
    pub fn remove_logs(&self) -> Result<(), String> {
        for path in self.paths() {
            fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the contents of all logs whose names begin with `start`.
    pub fn read_logs(&self, start: &str) -> String {
        let paths = self.paths().into_iter();
        let named = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        };
        paths.filter(named).map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths = entries.map(|entry| entry.path()).collect::<Vec<_>>();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        paths.sort();
        paths
    }

    /// Makes an empty log.
    pub fn open(&self, step: &str) -> Result<File, String> {
        let path = self.path(step);
        File::create(&path).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Runs `command`; every line goes to `log`.
pub fn run_logged(command: &mut Command, log: &mut File) -> Result<Ended, String> {
    run_lines(command, log, |_| true)
}

/// Runs a test program. The tail of the result is the output of the failed tests.
pub fn run_tests(command: &mut Command, log: &mut File) -> Result<Ended, String> {
    let mut output = libtest::TestOutput::default();
    let mut ended = run_lines(command, log, |line| {
        output.read_line(line);
        true
    })?;
    ended.tail = output.failures();
    Ok(ended)
}

/// Runs `command` and passes each line to `keep`, which returns true if the line belongs in `log`
/// and in the tail.
pub fn run_lines(
    command: &mut Command,
    log: &mut File,
    mut keep: impl FnMut(&str) -> bool,
) -> Result<Ended, String> {
    let _ = writeln!(log, "$ {}", format_command(command));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", format_command(command)))?;
    let (sender, lines) = mpsc::channel();
    forward_lines(child.stdout.take(), sender.clone());
    forward_lines(child.stderr.take(), sender);
    let mut ended = Ended { ok: false, skipped: Vec::new(), tail: Vec::new() };
    for line in lines {
        if !keep(&line) {
            continue;
        }
        let _ = writeln!(log, "{line}");
        ended.skipped.extend(skip_reason(&line));
        if ended.tail.len() == TAIL_LINES {
            ended.tail.remove(0);
        }
        ended.tail.push(line);
    }
    let status = child.wait().map_err(|e| format!("{}: {e}", format_command(command)))?;
    ended.ok = status.success();
    if !ended.ok {
        // The status distinguishes a killed program from one that failed.
        let line = format!("{} ended with {status}", format_command(command));
        let _ = writeln!(log, "{line}");
        ended.tail.push(line);
    }
    Ok(ended)
}

/// Returns the first line of the output of `command`, or `None` if it cannot be run or fails.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns the first of `names` that is an executable file in the search path.
pub fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    let found = names.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    found.into_iter().find(|file| file.is_file())
}

/// Parses the line of a test that cannot run here: `SKIPPED name: reason; how to enable it`.
fn skip_reason(line: &str) -> Option<String> {
    let (_, text) = line.split_once("SKIPPED ")?;
    let (_, reason) = text.split_once(": ")?;
    reason.contains("; ").then(|| text.trim().to_owned())
}

fn forward_lines(pipe: Option<impl Read + Send + 'static>, to: mpsc::Sender<String>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if to.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
}

fn format_command(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_read_from_the_output() {
        let line = "test store::postgres ... SKIPPED postgres: no server; apt install postgresql";
        assert_eq!(
            skip_reason(line).as_deref(),
            Some("postgres: no server; apt install postgresql")
        );
        assert_eq!(skip_reason("nothing was SKIPPED here: it all ran"), None);
        assert_eq!(skip_reason("SKIPPED 3"), None);
    }

    #[test]
    fn output_is_kept_and_the_status_told() {
        let logs = Logs::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").as_path());
        let logs = logs.expect("a folder for logs");
        let mut log = logs.open("self test").expect("a log");
        let script = "echo one; echo SKIPPED x: no y\\; get y >&2; exit 3";
        let ended = run_logged(Command::new("sh").args(["-c", script]), &mut log).expect("sh");
        assert!(!ended.ok && ended.tail.contains(&"one".to_owned()));
        assert_eq!(ended.skipped, ["x: no y; get y"]);
        let kept = fs::read_to_string(logs.path("self test")).expect("the log");
        assert!(kept.starts_with("$ sh -c") && kept.contains("\none\n"));
        assert!(run_logged(&mut Command::new("no such program"), &mut log).is_err());
    }
}
