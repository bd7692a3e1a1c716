//! The real program as a process: started, asked, stopped.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mezza::testing::api::json::Health;
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::process::home::Home;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take here: loaded machines are slow, and a line that broke often pauses
/// for as long as 72 s.
const PATIENCE: Duration = Duration::from_secs(300);

/// The carriers that `up` checks, in this order.
pub const CHECKED: [&str; 4] = ["relay", "link", "mixnet", "mesh"];

/// A running program.
pub struct Program {
    child: Child,
    pub home: PathBuf,
    out: Printed,
    log: Printed,
}

/// The output of a program so far, and the thread that reads it until the program ends.
struct Printed {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// The program: that of this build, unless `MEZZA_TEST_PROGRAM` names one for another machine.
pub fn program_path() -> PathBuf {
    let named = std::env::var_os("MEZZA_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_mezza").into(), PathBuf::from)
}

/// A command on a home; nothing of the surrounding environment decides how it runs. A `send` that
/// waits does so as long as everything else here, unless its arguments say how long.
pub fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program_path());
    command.env_clear().arg("--home").arg(home).args(args);
    if args.contains(&"send") && args.contains(&"--wait") && !args.contains(&"--timeout") {
        command.arg("--timeout").arg(PATIENCE.as_secs().to_string());
    }
    command
}

/// A command as a stranger types it: no home is named, the user's folder is `user`.
pub fn typed(user: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program_path());
    command.env_clear().env("HOME", user).args(args).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn mezza(home: &Path, args: &[&str]) -> Output {
    command(home, args).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that has to succeed; what it printed.
pub fn ok(home: &Path, args: &[&str]) -> String {
    let output = mezza(home, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Runs a command that has to succeed with `--json`; its values.
pub fn json(home: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    let args = [args, &["--json"]].concat();
    ok(home, &args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The state of the mixnet that a home has joined. Its command ends with 1 while no round comes back, and
/// with 78 while the clocks differ.
pub fn mixnet_status(home: &Path) -> serde_json::Value {
    let output = mezza(home, &["mixnet", "status", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!("mixnet status: {}", String::from_utf8_lossy(&output.stderr));
    });
    let is_up = value["up"] == true && value["trouble"].is_null();
    let expected = match (value["clock_off"] == true, is_up) {
        (true, _) => 78,
        (false, true) => 0,
        (false, false) => 1,
    };
    assert_eq!(output.status.code(), Some(expected), "{value}");
    value
}

/// Returns what `doctor` prints, whatever its exit code: its line about the disk depends on what else
/// uses it.
pub fn health(home: &Path) -> String {
    String::from_utf8(mezza(home, &["doctor"]).stdout).unwrap()
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A passphrase file, and what is in it.
pub fn passphrase(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("passphrase");
    mezza::testing::process::home::private::replace(&path, text.as_bytes()).unwrap();
    path
}

/// Asks until the answer is yes.
pub fn until(what: &str, mut yes: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !yes() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Program {
    /// Starts the program and collects what it prints.
    pub fn start(home: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::spawn(home, command(home, args), env)
    }

    /// The same with so many file descriptors and no more.
    pub fn with_files(home: &Path, files: u64, args: &[&str], env: &[(&str, &str)]) -> Self {
        let program = command(home, args);
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        Self::spawn(home, shell, env)
    }

    /// Starts the demonstration and waits until it has checked each carrier.
    pub fn demonstration(home: &Path) -> Self {
        let any_relay = ("MEZZA_RELAY_LISTEN", "127.0.0.1:0");
        let program = Self::start(home, &["up", "--json", "--port", "0"], &[any_relay]);
        program
            .until_printed("all checks", |out| out.matches("\"check\"").count() == CHECKED.len());
        program
    }

    /// Waits until the program has printed something. A failure shows what it printed instead. So does
    /// a part of the demonstration that is not there, since its check does not come any more.
    pub fn until_printed(&self, what: &str, mut is_there: impl FnMut(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let out = self.out();
            if is_there(&out) {
                return;
            }
            let is_hopeless = out.contains("\"ok\":false") || Instant::now() >= end;
            assert!(!is_hopeless, "{what}: not printed, but\n{out}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a prepared command, which runs the program on this home.
    pub fn spawn(home: &Path, mut command: Command, env: &[(&str, &str)]) -> Self {
        command.envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = Printed::collect(child.stdout.take().unwrap());
        let log = Printed::collect(child.stderr.take().unwrap());
        Self { child, home: home.into(), out, log }
    }

    /// Starts a node and waits until it answers.
    pub fn node(home: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let args = [&["node", "run", "--port", "0"], args].concat();
        let program = Self::start(home, &args, env);
        until("the node", || program.client().is_some());
        program
    }

    /// Starts a node in a network namespace and waits until it answers.
    pub fn node_within(space: &str, home: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let args = [&["node", "run", "--port", "0"], args].concat();
        let program = command(home, &args);
        let mut within = Command::new("ip");
        within.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        within.args(["netns", "exec", space]).arg(program.get_program()).args(program.get_args());
        let program = Self::spawn(home, within, env);
        until("the node", || program.client().is_some());
        program
    }

    /// Starts a relay on a port and waits until it listens.
    pub fn relay(home: &Path, port: u16, env: &[(&str, &str)]) -> Self {
        let program =
            Self::start(home, &["relay", "run", "--listen", &format!("127.0.0.1:{port}")], env);
        until("the relay", || program.out().contains("relay "));
        program
    }

    /// The interface of the node, once it answers.
    pub fn client(&self) -> Option<ApiClient> {
        let client = ApiClient::for_home(&Home::find(Some(&self.home)).ok()?).ok()?;
        client.get::<serde_json::Value>("/v1/status").ok()?;
        Some(client)
    }

    /// Returns true if the relay has confirmed mailbox and bundle: strangers can write from here on.
    pub fn is_reachable(&self) -> bool {
        let health = self.client().and_then(|client| client.get::<Health>("/v1/health").ok());
        health.is_some_and(|h| h.lines.iter().any(|line| line.name == "mailbox" && line.ok))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn out(&self) -> String {
        self.out.read()
    }

    pub fn log(&self) -> String {
        self.log.read()
    }

    /// Sends a signal and waits for the end: exit code and how long it took.
    pub fn stop(&mut self, signal: Signal) -> (Option<i32>, Duration) {
        let began = Instant::now();
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        let status = self.child.wait().unwrap();
        let took = began.elapsed();
        self.read_to_end();
        (status.code(), took)
    }

    /// Waits for a program that ends by itself.
    pub fn wait(&mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        self.read_to_end();
        code
    }

    /// Reads the last lines of a program that has ended.
    fn read_to_end(&mut self) {
        self.out.finish();
        self.log.finish();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Printed {
    fn collect(mut stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn read(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// Waits for the end of the stream.
    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}
