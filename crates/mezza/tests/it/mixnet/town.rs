//! A network of real processes on loopback.
//!
//! ```text
//! load ==TLS==> entry ==control==> m0 m1 m2 ==store==> bucket
//!                 +=====data=====> m0 => m1 => m2         ^
//!                 +====================store==============+
//! ```

use std::path::Path;

use mezza::testing::servers::mixnet::demo::DemoFiles;
use mezza::testing::servers::mixnet::network;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Program, free_port, until};

/// The servers by name, in the order in which they start.
pub const SERVERS: [&str; 5] = ["bucket", "mix0", "mix1", "mix2", "entry"];

/// The files of a network, and its servers.
pub struct Town {
    pub files: DemoFiles,
    /// The port of the entry's metrics.
    pub metrics: u16,
    /// Where the entry listens.
    entry: String,
    pub servers: Vec<Program>,
}

impl Town {
    pub fn start(folder: &Path) -> Self {
        Self::with(folder, str::to_owned)
    }

    /// The entry listens where `entry` says, who is told where the config has it.
    pub fn with(folder: &Path, entry: impl FnOnce(&str) -> String) -> Self {
        let files = DemoFiles::load_or_make(&folder.join("mixnet")).unwrap();
        let metrics = free_port();
        let config = network::read_config(&files.config_path()).unwrap();
        let entry = entry(&config.config().coordinator.address);
        let listens = EntryPorts { address: &entry, metrics };
        let start = |name: &&str| start(&files, folder, name, listens);
        let servers = SERVERS.iter().map(start).collect();
        Self { files, metrics, entry, servers }
    }

    /// Kills a server and starts it again; when it listens, ms since 1970.
    pub fn kill(&mut self, name: &str) -> u64 {
        let at = SERVERS.iter().position(|server| *server == name).unwrap();
        self.servers[at].stop(Signal::SIGKILL);
        let home = self.servers[at].home.clone();
        let listens = EntryPorts { address: &self.entry, metrics: self.metrics };
        self.servers[at] = start(&self.files, &home, name, listens);
        mezza::testing::clock::now().as_ms()
    }

    /// Users for so many rounds.
    pub fn load(&self, folder: &Path, users: u32, rounds: u32) -> Program {
        let uri = self.files.make_uri().unwrap().to_string();
        let users = users.to_string();
        let rounds = rounds.to_string();
        let args = [
            "mixnet",
            "load",
            "--network",
            &uri,
            "--users",
            &users,
            "--conversing",
            "0.5",
            "--rounds",
            &rounds,
            "--verify",
            "--json",
        ];
        Program::start(folder, &args, &[])
    }

    /// The logs of all servers.
    pub fn logs(&self) -> String {
        let log = |(name, server): (&&str, &Program)| format!("--- {name}\n{}\n", server.log());
        SERVERS.iter().zip(&self.servers).map(log).collect()
    }
}

/// The address at which the entry server listens, and the port of its metrics (0: none).
#[derive(Clone, Copy)]
struct EntryPorts<'a> {
    address: &'a str,
    metrics: u16,
}

/// Starts a server and waits until it listens; the entry at its address and with its metrics.
fn start(files: &DemoFiles, folder: &Path, name: &str, entry: EntryPorts<'_>) -> Program {
    launch(files, name, entry, |args, env| Program::start(folder, args, env))
}

/// Starts one server of a network with so many file descriptors, where the config has it; its
/// address.
pub fn start_with_files(
    files: &DemoFiles,
    folder: &Path,
    name: &str,
    descriptors: u64,
) -> (Program, String) {
    let signed = network::read_config(&files.config_path()).unwrap();
    let config = signed.config();
    let entry = config.coordinator.address.clone();
    let program = launch(files, name, EntryPorts { address: &entry, metrics: 0 }, |args, env| {
        Program::with_files(folder, descriptors, args, env)
    });
    let address = match name {
        "entry" => entry,
        "bucket" => config.bucket.address.clone(),
        _ => config.mixes[0].server.address.clone(),
    };
    (program, address)
}

fn launch(
    files: &DemoFiles,
    name: &str,
    entry: EntryPorts<'_>,
    start: impl FnOnce(&[&str], &[(&str, &str)]) -> Program,
) -> Program {
    let signed = network::read_config(&files.config_path()).unwrap();
    let config = signed.config();
    let (role, address) = match name {
        "entry" => ("entry", entry.address),
        "bucket" => ("bucket", config.bucket.address.as_str()),
        mix => ("mix", config.mixes[mix[3..].parse::<usize>().unwrap()].server.address.as_str()),
    };
    let cfg = files.config_path();
    let key = files.key_path(name);
    let buckets = files.buckets();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let cfg = text(&cfg);
    let key = text(&key);
    let buckets = text(&buckets);
    let mut args = vec!["mixnet", role, "--config", &cfg, "--key", &key, "--listen", address];
    let metrics = if role == "entry" { entry.metrics } else { 0 }.to_string();
    args.extend(["--metrics", &metrics]);
    match role {
        "mix" => args.extend(["--min-noise", "none"]),
        "bucket" => args.extend(["--dir", &buckets]),
        _ => args.extend(["--per-prefix", "0"]),
    }
    let program = start(&args, &[("MEZZA_LOG", "info")]);
    until(name, || program.out().contains(role));
    program
}

/// The rounds that a load has told of.
pub fn rounds(load: &Program) -> Vec<Value> {
    let lines = load.out();
    // The last line may be half.
    let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let values = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.filter(|value| value["event"] == "round").collect()
}
