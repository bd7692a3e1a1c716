//! A network of processes: entry, bucket store, three mixes, and simulated users.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mezza::testing::api::network_uri::NetworkUri;
use mezza::testing::backend::kernel::kernel;
use mezza::testing::process::home::private;
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::mixnet::demo::Times;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza_mixnet::config::Config;
use mezza_mixnet::noise::Law;
use serde_json::Value;

use super::network;
use super::program::Program;

/// The servers, in the order in which they start.
pub const SERVERS: [&str; 5] = ["bucket", "mix2", "mix1", "mix0", "entry"];

/// A network that runs.
pub struct ProcessMixnet {
    folder: PathBuf,
    config: Config,
    servers: Vec<Program>,
}

impl ProcessMixnet {
    /// Makes keys and a config in a folder of its own below `root`, and starts all servers.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(root: &Path, users_max: u32, law: Law, times: Times) -> Result<Self> {
        let folder = network::folder(root);
        private::folder(&folder)?;
        let make = |name: &str| ServerKey::make(&folder.join(format!("{name}.key")), &mut OsRng);
        let mixes = (0..3).map(|at| Ok(make(&format!("mix{at}"))?)).collect::<Result<Vec<_>>>()?;
        let keys = network::NetworkKeys {
            mixes: &mixes,
            entry: &make("entry")?,
            bucket: &make("bucket")?,
        };
        let signed = network::config(&keys, users_max, law, times)?;
        private::replace(&folder.join("net.cfg"), &signed.encode())?;
        let mut town = Self { folder, config: signed.config().clone(), servers: Vec::new() };
        for name in SERVERS {
            let server = town.server(name)?;
            town.servers.push(server);
        }
        Ok(town)
    }

    /// Kills a server and starts it again; when it listens, ms since 1970.
    ///
    /// # Errors
    /// If it does not come back.
    pub fn kill(&mut self, name: &str) -> Result<u64> {
        let at = SERVERS.iter().position(|server| *server == name).context("no such server")?;
        drop(self.servers.remove(at));
        let server = self.server(name)?;
        self.servers.insert(at, server);
        Ok(mezza::testing::clock::now().ms())
    }

    /// The entry.
    pub fn entry(&self) -> &Program {
        &self.servers[SERVERS.len() - 1]
    }

    /// Users, half of them in conversations, for so many rounds; replies are opened.
    ///
    /// # Errors
    /// If they do not start.
    pub fn load(&self, users: u32, rounds: u32) -> Result<Program> {
        let address = self.config.coordinator.address.clone();
        let uri = NetworkUri { genesis: self.config.hash(), address }.to_string();
        let (users, rounds) = (users.to_string(), rounds.to_string());
        let words = ["mixnet", "load", "--network", &uri, "--users", &users, "--rounds", &rounds];
        let more = ["--conversing", "0.5", "--verify", "--json", "--kernel", kernel().name()];
        Program::start(&self.folder, &format!("load-{users}"), &[&words[..], &more].concat())
    }

    /// Starts a server and waits until it listens.
    fn server(&self, name: &str) -> Result<Program> {
        let mix = name.strip_prefix("mix").and_then(|at| at.parse::<usize>().ok());
        let (role, server) = match mix {
            Some(at) => ("mix", &self.config.mixes[at].server),
            None if name == "entry" => (name, &self.config.coordinator),
            None => (name, &self.config.bucket),
        };
        let text = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let (config, key) = (text("net.cfg"), text(&format!("{name}.key")));
        let buckets = text("buckets");
        let mut args = vec!["mixnet", role, "--config", &config, "--key", &key];
        args.extend(["--listen", &server.address, "--metrics", "0"]);
        match role {
            "mix" => args.extend(["--min-noise", "none", "--kernel", kernel().name()]),
            "entry" => args.extend(["--per-prefix", "0", "--kernel", kernel().name()]),
            _ => args.extend(["--dir", &buckets]),
        }
        let mut program = Program::start(&self.folder, name, &args)?;
        program.until(name, |program| program.said().contains(role).then_some(()))?;
        Ok(program)
    }
}

/// The lines of one kind that a load has said.
pub fn events_of(load: &Program, event: &str) -> Vec<Value> {
    let values = load.said().lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let values: Vec<Value> = values;
    values.into_iter().filter(|value| value["event"] == event).collect()
}
