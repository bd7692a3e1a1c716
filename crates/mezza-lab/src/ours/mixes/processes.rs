//! A network of processes: entry, bucket store, three mixes, and simulated users.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mezza::testing::api::network_uri::NetworkUri;
use mezza::testing::backend::kernel::choose_kernel;
use mezza::testing::process::home::private;
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::mixnet::demo::Times;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::noise::Law;
use serde_json::Value;

use super::network::{self, NetworkPlace};
use crate::process::Program;

/// A server of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// The bucket store.
    Bucket,
    /// A mix by number, from 0.
    Mix(usize),
    /// The entry server.
    Entry,
}

impl fmt::Display for ServerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix(at) => write!(f, "mix{at}"),
            Self::Bucket | Self::Entry => f.write_str(self.command()),
        }
    }
}

impl ServerRole {
    /// All servers in start order.
    pub const ALL: [Self; 5] =
        [Self::Bucket, Self::Mix(2), Self::Mix(1), Self::Mix(0), Self::Entry];

    /// Returns the command of `mezza mixnet` that runs the server.
    fn command(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Mix(_) => "mix",
            Self::Entry => "entry",
        }
    }
}

/// A running network.
pub struct ProcessMixnet {
    folder: PathBuf,
    config: Config,
    servers: Vec<Program>,
}

impl ProcessMixnet {
    /// Makes keys and a config in a new folder below `root`, and starts all servers on loopback
    /// with the conversation service alone.
    ///
    /// # Errors
    /// If a server does not start.
    pub fn start(root: &Path, users_max: u32, law: Law, times: Times) -> Result<Self> {
        let place = NetworkPlace::on_loopback(users_max);
        Self::start_at(root, place, network::conversations_only(law, times))
    }

    /// Starts a network with these services, at an address in the namespace of this thread.
    ///
    /// # Errors
    /// If a server does not start.
    pub fn start_at(
        root: &Path,
        place: NetworkPlace,
        services: Vec<ServicePolicy>,
    ) -> Result<Self> {
        let folder = network::next_folder(root);
        private::make_folder(&folder)?;
        let make = |name: &str| ServerKey::make(&folder.join(format!("{name}.key")), &mut OsRng);
        let mixes = (0..3).map(|at| Ok(make(&format!("mix{at}"))?)).collect::<Result<Vec<_>>>()?;
        let keys = network::NetworkKeys {
            mixes: &mixes,
            entry: &make("entry")?,
            bucket: &make("bucket")?,
        };
        let signed = network::make_config(&keys, place, services)?;
        private::replace(&folder.join("net.cfg"), &signed.encode())?;
        let mut mixnet = Self { folder, config: signed.config().clone(), servers: Vec::new() };
        for role in ServerRole::ALL {
            let server = mixnet.start_server(role)?;
            mixnet.servers.push(server);
        }
        Ok(mixnet)
    }

    /// Kills a server and starts it again. Returns the time at which it listens, ms since 1970.
    ///
    /// # Errors
    /// If the server does not start again.
    pub fn restart_server(&mut self, role: ServerRole) -> Result<u64> {
        let at = ServerRole::ALL.iter().position(|server| *server == role);
        let at = at.context("no such server")?;
        drop(self.servers.remove(at));
        let server = self.start_server(role)?;
        self.servers.insert(at, server);
        Ok(mezza::testing::clock::now().as_ms())
    }

    /// Returns the entry server.
    pub fn entry_program(&self) -> &Program {
        &self.servers[ServerRole::ALL.len() - 1]
    }

    /// Returns the link with which clients join the network.
    pub fn network_link(&self) -> String {
        let address = self.config.coordinator.address.clone();
        NetworkUri { genesis: self.config.hash(), address }.to_string()
    }

    /// Starts simulated users for some rounds, half of them in conversations; their replies are
    /// opened.
    ///
    /// # Errors
    /// If the load does not start.
    pub fn start_load(&self, users: u32, rounds: u32) -> Result<Program> {
        let uri = self.network_link();
        let users = users.to_string();
        let rounds = rounds.to_string();
        let words = ["mixnet", "load", "--network", &uri, "--users", &users, "--rounds", &rounds];
        let more =
            ["--conversing", "0.5", "--verify", "--json", "--kernel", choose_kernel().name()];
        let files = self.folder.join(format!("load-{users}"));
        Program::start(&self.folder, &files, &[&words[..], &more].concat(), &[])
    }

    /// Starts a server and waits until it listens.
    fn start_server(&self, role: ServerRole) -> Result<Program> {
        let server = match role {
            ServerRole::Bucket => &self.config.bucket,
            ServerRole::Mix(at) => &self.config.mixes[at].server,
            ServerRole::Entry => &self.config.coordinator,
        };
        let text = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let config = text("net.cfg");
        let key = text(&format!("{role}.key"));
        let buckets = text("buckets");
        let mut args = vec!["mixnet", role.command(), "--config", &config, "--key", &key];
        args.extend(["--listen", &server.address, "--metrics", "0"]);
        match role {
            ServerRole::Bucket => args.extend(["--dir", &buckets]),
            ServerRole::Mix(_) => {
                args.extend(["--min-noise", "none", "--kernel", choose_kernel().name()]);
            }
            ServerRole::Entry => {
                args.extend(["--per-prefix", "0", "--kernel", choose_kernel().name()]);
            }
        }
        let name = role.to_string();
        let mut program = Program::start(&self.folder, &self.folder.join(&name), &args, &[])?;
        program.wait_until(&name, |program| {
            program.read_output().contains(role.command()).then_some(())
        })?;
        Ok(program)
    }
}

/// Returns the events of one kind that a load has printed.
pub fn events_of(load: &Program, event: &str) -> Vec<Value> {
    let values =
        load.read_output().lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let values: Vec<Value> = values;
    values.into_iter().filter(|value| value["event"] == event).collect()
}
