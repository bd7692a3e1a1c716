//! The lab, a separate program in the same folder, and its runs as child processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// The file name of the lab.
const PROGRAM: &str = "mezza-lab";
/// Maximum length of a line of the lab, in bytes.
const LINE_BYTES_MAX: usize = 8 << 10;
/// The most that is read of the lab's errors, in bytes.
const ERROR_BYTES_MAX: u64 = 4 << 10;
/// Maximum length of a quoted error of the lab, in characters.
const ERROR_CHARS_MAX: usize = 300;

/// Finds the lab beside this program.
///
/// # Errors
/// Exit code 69 if it is not there.
pub(crate) fn find_lab() -> Result<PathBuf, Fault> {
    find_beside(&std::env::current_exe().unwrap_or_default())
}

fn find_beside(own: &Path) -> Result<PathBuf, Fault> {
    let program = own.with_file_name(PROGRAM);
    let missing = || absent_fault("the lab does not lie beside this program");
    program.is_file().then_some(program).ok_or_else(missing)
}

/// Returns the fault for a lab that cannot be run.
pub(crate) fn absent_fault(text: &str) -> Fault {
    let next = "build it with `cargo build --release -p mezza-lab`";
    Fault::new(Exit::Unreachable, text, next)
}

/// A run of the lab and all processes that it starts. They are killed on drop.
pub(crate) struct LabProcess {
    child: Child,
    /// The folder of its files, removed on drop.
    folder: PathBuf,
}

/// The output of a run of the lab.
pub(crate) struct LabOutput {
    lines: BufReader<ChildStdout>,
    errors: ChildStderr,
}

impl LabProcess {
    /// Starts the lab in a process group of its own, without a shell and with an empty environment.
    /// `folder` is made for its files, and emptied if an earlier run left it.
    ///
    /// # Errors
    /// Exit code 69 if the lab does not start, 73 if the folder cannot be made.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        words: &[&str],
    ) -> Result<(Self, LabOutput), Fault> {
        let _ = fs::remove_dir_all(folder);
        private::make_folder(folder)?;
        let mut command = Command::new(program);
        command.args(words).env_clear().current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child = started.map_err(|error| {
            let _ = fs::remove_dir_all(folder);
            absent_fault(&format!("{} does not start: {error}", program.display()))
        })?;
        let lines = child.stdout.take();
        let errors = child.stderr.take();
        let run = Self { child, folder: folder.to_path_buf() };
        let (Some(lines), Some(errors)) = (lines, errors) else {
            return Err(Fault::bug("the lab has no output"));
        };
        Ok((run, LabOutput { lines: BufReader::new(lines), errors }))
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        // The child is not waited for yet, so no other group can have its number.
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl LabOutput {
    /// Reads the next line, without its end; `None` if the lab has ended.
    ///
    /// # Errors
    /// Exit code 65 for a line of more than 8 KiB.
    pub(crate) fn read_line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let mut line = Vec::new();
        let mut limited = (&mut self.lines).take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        let count = read.map_err(|_| Fault::bug("the output of the lab cannot be read"))?;
        if line.pop_if(|last| *last == b'\n').is_none() && line.len() > LINE_BYTES_MAX {
            return Err(foreign_output());
        }
        Ok((count > 0).then_some(line))
    }

    /// Returns the last line of the lab's errors after its end, in plain characters.
    pub(crate) fn read_last_error(&mut self) -> String {
        let mut bytes = Vec::new();
        // What was read before an error is shown.
        let _ = (&mut self.errors).take(ERROR_BYTES_MAX).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().next_back().unwrap_or_default().trim();
        let plain = last.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(ERROR_CHARS_MAX).collect()
    }
}

/// Returns the fault for output of the lab that this program does not know.
pub(crate) fn foreign_output() -> Fault {
    let text = "the lab prints what this program does not know";
    Fault::new(Exit::Malformed, text, "build both from the same sources")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, Instant};

    fn write_program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join(PROGRAM);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn it_is_found_beside_us_or_one_is_told_how_to_build_it() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("mezza");
        let fault = find_beside(&own).unwrap_err();
        assert_eq!(fault.code, Exit::Unreachable);
        assert!(fault.next.contains("-p mezza-lab"), "{fault}");
        fs::write(folder.path().join(PROGRAM), "").unwrap();
        assert_eq!(find_beside(&own).unwrap(), folder.path().join(PROGRAM));
    }

    #[test]
    fn it_runs_without_an_environment_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("left"), "by an earlier run").unwrap();
        let script = "echo \"$HOME|$1|$2\"; ls; pwd; echo \"bad\u{1b}[2J\" >&2; exit 3";
        let program = write_program(folder.path(), script);
        let (run, mut output) = LabProcess::start(&program, &files, &["a b", "$(c)"]).unwrap();
        assert_eq!(output.read_line().unwrap().unwrap(), b"|a b|$(c)");
        let place = output.read_line().unwrap().unwrap();
        assert!(place.ends_with(b"/files"), "the folder is empty: {place:?}");
        assert!(output.read_line().unwrap().is_none());
        assert_eq!(output.read_last_error(), "bad [2J");
        drop(run);
        assert!(!files.exists());
    }

    #[test]
    fn a_line_without_end_is_refused_and_no_process_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        // The shell's child is no child of ours: only the group has it.
        let script = "/bin/sleep 600 & echo $!; while :; do printf 0123456789abcdef; done";
        let program = write_program(folder.path(), script);
        let (run, mut output) = LabProcess::start(&program, &files, &[]).unwrap();
        let child = String::from_utf8(output.read_line().unwrap().unwrap()).unwrap();
        assert_eq!(output.read_line().unwrap_err().code, Exit::Malformed);
        let pid = Pid::from_raw(child.trim().parse().unwrap());
        assert!(nix::sys::signal::kill(pid, None).is_ok(), "it runs");
        drop(run);
        // Its new parent has to take its end.
        let stat = format!("/proc/{pid}/stat");
        let ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(60);
        while !ended() {
            assert!(Instant::now() < end, "{pid} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
