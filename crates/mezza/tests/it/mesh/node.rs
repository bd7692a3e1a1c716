//! A mesh node as a process with a home of its own, and whoever listens there.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use mezza::testing::process::home::private;
use serde_json::Value;

use super::net::Net;

/// How long anything may take: loaded machines are slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// The clock of a node when it starts.
#[derive(Clone, Copy)]
pub struct FirstClock {
    /// The grade in the words of the program.
    pub grade: &'static str,
    /// The error in ms.
    pub off_ms: i64,
}

impl FirstClock {
    /// A good clock without an error.
    pub const GOOD: Self = Self::good(0);

    /// A good clock that is off by so many ms.
    pub const fn good(off_ms: i64) -> Self {
        Self { grade: "good", off_ms }
    }

    /// A poor clock that is off by so many ms.
    pub const fn poor(off_ms: i64) -> Self {
        Self { grade: "poor", off_ms }
    }
}

/// A node of the mesh: a home, a process, and the namespace that it runs in.
pub struct MeshNode {
    pub space: Option<String>,
    pub home: PathBuf,
    env: Vec<(&'static str, String)>,
    run: Vec<String>,
    child: Option<Child>,
}

impl MeshNode {
    /// A node in a namespace of its own, with a grade and an error of its clock in ms.
    pub fn new(net: &mut Net, folder: &Path, name: &str, clock: FirstClock) -> Self {
        let mut node = Self::alone(folder, name, clock);
        node.space = net.space(name);
        assert!(node.space.is_some());
        node
    }

    /// A node that shares the network of the test.
    pub fn alone(folder: &Path, name: &str, clock: FirstClock) -> Self {
        let FirstClock { grade, off_ms } = clock;
        let env = vec![
            ("MEZZA_TEST_CLOCK_GRADE", grade.to_owned()),
            ("MEZZA_TEST_RTC_OFFSET_MS", off_ms.to_string()),
            ("MEZZA_LOG", "trace".to_owned()),
        ];
        let run = vec!["mesh".to_owned(), "run".to_owned()];
        Self { space: None, home: folder.join(name), env, run, child: None }
    }

    /// It is started with these words too.
    pub fn with(mut self, words: &[&str]) -> Self {
        self.run.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// It runs with this in its environment too.
    pub fn set(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Grade and error of its clock in ms, from its next start on.
    pub fn set_clock(&mut self, grade: &str, off_ms: i64) {
        self.env.retain(|(name, _)| !name.starts_with("MEZZA_TEST_"));
        self.env.push(("MEZZA_TEST_CLOCK_GRADE", grade.to_owned()));
        self.env.push(("MEZZA_TEST_RTC_OFFSET_MS", off_ms.to_string()));
    }

    /// Memory of its process, KiB.
    pub fn resident_kib(&self) -> u64 {
        let id = self.child.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// CPU time of its process, ms.
    pub fn cpu_ms(&self) -> u64 {
        let id = self.child.as_ref().unwrap().id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        10 * ticks.sum::<u64>()
    }

    /// The name of its namespace.
    pub fn space(&self) -> &str {
        self.space.as_deref().unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let program = crate::program::program_path();
        let mut command = match &self.space {
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("--home").arg(&self.home).args(words).envs(self.env.iter().cloned());
        command
    }

    pub fn start(&mut self) {
        let words: Vec<&str> = self.run.iter().map(String::as_str).collect();
        let log = File::create(self.log_file()).unwrap();
        let run = self.command(&words).stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(run.unwrap());
    }

    fn log_file(&self) -> PathBuf {
        self.home.with_extension("log")
    }

    /// Returns its log since the last start, at the finest level.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap()
    }

    /// The process is killed: what it held in memory is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    pub fn status(&self) -> Option<Value> {
        let output = self.run(&["mesh", "status", "--json"]);
        let text = String::from_utf8(output.stdout).ok()?;
        serde_json::from_str(text.lines().next()?).ok()
    }

    /// How many names it has heard.
    pub fn around(&self) -> usize {
        let status = self.status().unwrap_or_default();
        let neighbours = status["neighbours"].as_array().cloned().unwrap_or_default();
        let names: std::collections::BTreeSet<_> =
            neighbours.iter().map(|n| n["name"].to_string()).collect();
        names.len()
    }

    /// A tree in this home, and its card.
    pub fn keygen(&self) -> (PathBuf, PathBuf) {
        let tree = self.home.join("tree");
        let pass = self.home.join("pass");
        private::make_folder(&self.home).unwrap();
        private::replace(&pass, b"correct horse battery staple six").unwrap();
        let [dir, file] = [&tree, &pass].map(|path| path.to_str().unwrap());
        let made = self.run(&["hibe", "keygen", "--dir", dir, "--passphrase-file", file]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (tree.clone(), tree.join("card"))
    }

    /// Listens with the tree of this home.
    pub fn listen(&self) -> Listener {
        let tree = self.home.join("tree");
        let pass = self.home.join("pass");
        let [dir, file] = [&tree, &pass].map(|path| path.to_str().unwrap());
        let words = ["mesh", "listen", "--dir", dir, "--passphrase-file", file];
        Listener::start(self.command(&words))
    }

    /// Offers a text to the node; returns true if it accepts it.
    pub fn offer(&self, card: &Path, text: &str) -> bool {
        self.offering(card)(text)
    }

    /// The same for another thread.
    pub fn offering(&self, card: &Path) -> impl Fn(&str) -> bool + Send + 'static {
        let words = ["mesh", "send", "--wait", "accepted", "--card", card.to_str().unwrap()];
        let command = self.command(&words);
        let program = command.get_program().to_owned();
        let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let env = self.env.clone();
        move |text| {
            let mut command = Command::new(&program);
            command.args(&args).envs(env.iter().cloned());
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            // A node that is down ends the command before it reads.
            let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
            child.wait().unwrap().success()
        }
    }

    /// Sends a text once.
    pub fn send(&self, card: &Path, text: &str, more: &[&str]) {
        let words = ["mesh", "send", "--wait", "accepted", "--card", card.to_str().unwrap()];
        let mut command = self.command(&[&words[..], more].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let sent = child.wait_with_output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }

    /// Sends until the listener prints the text, three times at most: a cell that is not heard within its
    /// minute is lost, as one that is sent at the end of it.
    pub fn reaches(&self, listener: &Listener, card: &Path, text: &str, more: &[&str]) {
        let arrived = (0..3).any(|_| {
            self.send(card, text, more);
            listener.hears(text, PATIENCE / 3)
        });
        assert!(arrived, "{text} did not arrive");
    }
}

impl Drop for MeshNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that listens, and the lines that it prints.
pub struct Listener {
    child: Child,
    lines: Receiver<String>,
    /// Lines that `has_heard` has taken.
    heard: std::cell::RefCell<Vec<String>>,
}

impl Listener {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut lines = output.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self { child, lines, heard: std::cell::RefCell::default() }
    }

    /// Returns true if it prints this line within the time, whatever else it prints before.
    pub fn hears(&self, text: &str, within: Duration) -> bool {
        let end = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return true,
                Ok(_) => (),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => panic!("the listener ended before {text}"),
            }
        }
    }

    /// The same for lines in any order: what was printed before counts too.
    pub fn has_heard(&self, text: &str, within: Duration) -> bool {
        let end = Instant::now() + within;
        loop {
            let mut heard = self.heard.borrow_mut();
            heard.extend(self.lines.try_iter());
            if heard.iter().any(|line| line.contains(text)) {
                return true;
            }
            drop(heard);
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until it prints this line.
    pub fn prints(&self, text: &str) {
        assert!(self.hears(text, PATIENCE), "{text} did not arrive");
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut yes: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !yes() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(300));
    }
}
