//! A whole network in one process: three mixes, entry and bucket store on loopback, for the
//! demonstration and for tests. Its noise is far below every floor.
//!
//! ```text
//! DIR/guardian.key entry.key bucket.key mix0.key mix1.key mix2.key net.cfg buckets/
//! ```

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use mezza_core::Time;
use mezza_mixnet::Service;
use mezza_mixnet::config::{
    Config, MixServer, Mode, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig, Traps,
};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::noise::Law;
use rand_core::Rng as _;
use tokio::sync::watch;

use super::key::ServerKey;
use super::network::{self, ConfigArchive};
use super::server;
use super::signed::Signed;
use super::{bucket, entry, mix};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::now;
use mezza_host::process::home::{Home, private};
use mezza_host::process::rng::OsRng;

/// Mixes of the network.
pub const MIXES: usize = 3;
/// Clients of the network.
const USERS_MAX: u32 = 200;
/// Noise for a demonstration: too little to protect a user.
const NOISE: Law = Law { mode: Mode::Gauss, mu: 40, scale: 6 };
/// Noise messages whose return is checked.
const TRAPS: Traps = Traps { singles: 8, pairs: 4 };
/// Ports tried until enough free ones are found.
const TRIES: usize = 1_000;
/// How long the config is valid.
const YEARS_MS: u64 = 3_650 * Time::DAY_MS;

/// The files of a network in one folder.
#[derive(Clone, Debug)]
pub struct DemoFiles(PathBuf);

/// A network that runs.
#[derive(Debug)]
pub struct DemoNetwork {
    /// The link that clients join it with.
    pub uri: NetworkUri,
    /// From one round of conversations to the next, milliseconds. A demonstration of an older version
    /// keeps the interval of its signed config.
    pub interval_ms: u32,
    servers: Vec<server::ServerHandle>,
    stop: watch::Sender<bool>,
}

/// Interval, request time, lead, collection time and `mix_limit` of a service, milliseconds.
pub type Times = [u32; 5];

/// All servers, two clients and other programs share a machine, often with two cores. Rounds of 500 ms
/// took a fifth of a core in a debug build, and missed their deadlines beside compilers.
const fn demo_times(service: Service) -> Times {
    match service {
        Service::Conversation => [1_000, 200, 400, 500, 2_000],
        Service::Call => [2_000, 200, 400, 500, 2_000],
        Service::Invitation => [5_000, 200, 400, 500, 3_000],
    }
}

/// Returns a policy with these times and this noise, without traps. It promises no privacy and
/// never ends: a budget would end it.
pub fn make_policy(service: Service, times: Times, law: Law, base_time: Time) -> ServicePolicy {
    let [interval_ms, ask_ms, lead_ms, collect_ms, mix_limit_ms] = times;
    ServicePolicy {
        service,
        base_round: 1,
        base_time,
        interval_ms,
        ask_ms,
        lead_ms,
        collect_ms,
        mix_limit_ms,
        slots: 1,
        buckets: 1,
        mode: law.mode,
        mu: law.mu,
        scale: law.scale,
        epsilon_micro: u32::MAX,
        delta_pico: 1_000_000_000_000,
        rounds: u64::from(u32::MAX),
        traps: Traps::NONE,
    }
}

/// Returns the policy of a service in the demo network.
fn demo_policy(service: Service, valid_from: Time) -> ServicePolicy {
    let traps = if service.has_replies() { TRAPS } else { Traps::NONE };
    ServicePolicy { traps, ..make_policy(service, demo_times(service), NOISE, valid_from) }
}

impl DemoFiles {
    /// Loads the files of the network in `dir`. If they are missing, creates keys and a signed
    /// config with free loopback ports.
    ///
    /// # Errors
    /// A folder that cannot be written, or is accessible to other users.
    pub fn load_or_make(dir: &Path) -> Result<Self, Fault> {
        private::make_folder(dir)?;
        let files = Self(dir.into());
        if !files.config_path().exists() {
            files.make()?;
        }
        Ok(files)
    }

    fn make(&self) -> Result<(), Fault> {
        let key = |name: &str| {
            let path = self.key_path(name);
            if path.exists() { ServerKey::load(&path) } else { ServerKey::make(&path, &mut OsRng) }
        };
        let mut ports = free_ports(MIXES + 2)?.into_iter();
        let mut server = |name: &str| {
            let port = ports.next().unwrap_or_default();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
            Ok::<_, Fault>(Server { key: key(name)?.public(), address })
        };
        let coordinator = server("entry")?;
        let bucket = server("bucket")?;
        let mixes = (0..MIXES).map(|at| {
            Ok(MixServer { server: server(&format!("mix{at}"))?, operator: "demo".into() })
        });
        let mixes = mixes.collect::<Result<_, Fault>>()?;
        let guardian = key("guardian")?;
        let mut network = [0; 16];
        OsRng.fill_bytes(&mut network);
        let valid_from = now().minus_ms(Time::HOUR_MS);
        let mut signed = SignedConfig::new(Config {
            network: NetworkId(network),
            seq: 0,
            prev: [0; 32],
            valid_from,
            valid_until: valid_from.plus_ms(YEARS_MS),
            threshold: 1,
            guardians: vec![guardian.public()],
            coordinator,
            bucket,
            mixes,
            users_max: USERS_MAX,
            services: Service::ALL.map(|service| demo_policy(service, valid_from)).to_vec(),
        });
        signed.add_signature(SignatureSet::Own, 0, &guardian.signer());
        private::replace(&self.config_path(), &signed.encode())
    }

    /// The path of the config.
    pub fn config_path(&self) -> PathBuf {
        self.0.join("net.cfg")
    }

    /// The path of a key: `entry`, `bucket`, `mix0`, ...
    pub fn key_path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.key"))
    }

    /// The folder of the buckets.
    pub fn buckets(&self) -> PathBuf {
        self.0.join("buckets")
    }

    /// Returns the link with which clients join the network.
    ///
    /// # Errors
    /// A config that cannot be read.
    pub fn make_uri(&self) -> Result<NetworkUri, Fault> {
        let config = network::read_config(&self.config_path())?;
        let config = config.config();
        Ok(NetworkUri { genesis: config.hash(), address: config.coordinator.address.clone() })
    }

    fn load_network(&self) -> Result<ConfigArchive, Fault> {
        ConfigArchive::load([self.config_path().as_path()])
    }
}

/// Returns free ports of loopback, below those that the system assigns to outgoing connections:
/// they should be free at the next start too.
///
/// # Errors
/// If nearly all ports are taken.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Fault> {
    let tries = std::iter::repeat_with(|| 20_000 + (OsRng.next_u32() % 10_000) as u16);
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|held| (port, held));
    // All ports are held until the last is found, so that no port is returned twice.
    let held = tries.take(TRIES).filter_map(|port| listen(port).ok()).take(count);
    let held: Vec<(u16, TcpListener)> = held.collect();
    if held.len() < count {
        let text = "no ports of loopback are free";
        return Err(Fault::new(Exit::Busy, text, "end other programs, then try again"));
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

/// Returns the address of a server, which is in the signed config. The clients of the network know it,
/// so another port would not do.
///
/// # Errors
/// Exit code 75 if another program uses the port, 78 if the address cannot be listened on at all.
fn free_address(server: &Server) -> Result<SocketAddr, Fault> {
    let address: SocketAddr = server.address.parse().map_err(|_| {
        let text = "the demo network's config names no address of this machine";
        Fault::new(Exit::Config, text, "remove its folder, and a new one is made")
    })?;
    TcpListener::bind(address).map_err(|error| {
        let text = format!("the demo network cannot listen on {address}: {error}");
        let (code, next) = if error.kind() == ErrorKind::AddrInUse {
            (
                Exit::Busy,
                "end the program that uses this port, or begin anew with `mezza up --remove`",
            )
        } else {
            (Exit::Config, "begin anew with `mezza up --remove`")
        };
        Fault::new(code, text, next)
    })?;
    Ok(address)
}

/// Starts the demo network of a home: three mixes, entry and bucket store as tasks of this process.
/// Its files are in the folder `mixnet` of the home.
///
/// # Errors
/// Files that cannot be read or made, ports that other programs use by now.
pub async fn start_network(home: &Home) -> Result<DemoNetwork, Fault> {
    start_from_files(&DemoFiles::load_or_make(&home.mixnet())?).await
}

/// Starts the network of `files`.
///
/// # Errors
/// As [`start_network`].
pub async fn start_from_files(files: &DemoFiles) -> Result<DemoNetwork, Fault> {
    let signed = network::read_config(&files.config_path())?;
    let config = signed.config();
    let (stop, stopped) = watch::channel(false);
    let mut servers = Vec::new();
    servers.push(
        bucket::start(
            bucket::BucketServerOptions {
                network: files.load_network()?,
                key: ServerKey::load(&files.key_path("bucket"))?,
                listen: free_address(&config.bucket)?,
                dir: files.buckets(),
                metrics: 0,
            },
            stopped.clone(),
        )
        .await?,
    );
    for (mix, at) in config.mixes.iter().zip(0..) {
        let path = files.key_path(&format!("mix{at}"));
        let options = mix::MixServerOptions {
            network: files.load_network()?,
            key: ServerKey::load(&path)?,
            listen: free_address(&mix.server)?,
            floor: NoiseFloor::None,
            threads: 1,
            signed: Signed::open_beside(&path)?,
            metrics: Some(0),
        };
        servers.push(mix::start(options, stopped.clone()).await?);
    }
    let options = entry::EntryServerOptions {
        network: files.load_network()?,
        key: ServerKey::load(&files.key_path("entry"))?,
        listen: free_address(&config.coordinator)?,
        per_prefix: 0,
        once: false,
        metrics: 0,
    };
    servers.push(entry::start(options, stopped).await?);
    let interval_ms =
        config.find_policy(Service::Conversation).map_or(0, |(_, policy)| policy.interval_ms);
    Ok(DemoNetwork { uri: files.make_uri()?, interval_ms, servers, stop })
}

impl DemoNetwork {
    /// Stops all servers, wipes their rounds, and waits for them.
    ///
    /// # Errors
    /// The fault of a server that ended early.
    pub async fn stop(self) -> Result<(), Fault> {
        let _ = self.stop.send(true);
        for server in self.servers {
            server.wait().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_another_program_uses_is_named_with_what_helps() {
        let folder = tempfile::tempdir().unwrap();
        let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
        let signed = network::read_config(&files.config_path()).unwrap();
        let taken = &signed.config().mixes[1].server.address;
        let _other = TcpListener::bind(taken).unwrap();
        let fault = start_from_files(&files).await.err().unwrap();
        assert_eq!(fault.code, Exit::Busy);
        assert!(fault.text.contains(taken) && fault.next.contains("up --remove"), "{fault}");
    }

    #[tokio::test]
    async fn a_network_of_an_older_version_says_its_own_interval() {
        let folder = tempfile::tempdir().unwrap();
        let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
        let mut config = network::read_config(&files.config_path()).unwrap().config().clone();
        let (at, _) = config.find_policy(Service::Conversation).unwrap();
        config.services[usize::from(at)].interval_ms = 700;
        let mut signed = SignedConfig::new(config);
        let guardian = ServerKey::load(&files.key_path("guardian")).unwrap();
        signed.add_signature(SignatureSet::Own, 0, &guardian.signer());
        private::replace(&files.config_path(), &signed.encode()).unwrap();
        let network = start_from_files(&files).await.unwrap();
        assert_eq!(network.interval_ms, 700);
        network.stop().await.unwrap();
    }
}
