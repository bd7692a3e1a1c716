//! A network for measurements: keys, a config with only the conversation service, and its mixes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mezza::testing::clock::now;
use mezza::testing::process::metrics::Metric;
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::mixnet::demo::{Times, free_ports, make_policy};
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::signed::Signed;
use mezza::testing::servers::mixnet::{mix, network, server};
use mezza_core::Time;
use mezza_mixnet::Service;
use mezza_mixnet::config::{
    Config, MixServer, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig,
};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::noise::Law;
use rand_core::Rng as _;
use tokio::sync::watch;

use super::round::MixSetup;
use crate::machine;

/// Validity of a config before and after now, ms.
const VALID_MS: u64 = Time::DAY_MS;
/// A round may open every millisecond, so that the clock gives each round a fresh number. Its
/// phases have ten minutes.
const TIMES: Times = [1, 600_000, 600_000, 600_000, 600_000];
/// Time limit for the links to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Running mixes.
pub struct LocalMixnet {
    /// The config of the network.
    pub config: Config,
    /// The key of the coordinator.
    pub coordinator: ServerKey,
    /// The mixes, the first mix first.
    pub mixes: Vec<server::ServerHandle>,
    stop: watch::Sender<bool>,
}

impl LocalMixnet {
    /// Starts the mixes, the last first, so that each finds the next one.
    ///
    /// # Errors
    /// If a mix does not start.
    pub async fn start(folder: &Path, setup: &MixSetup) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = |at: usize| folder.join(format!("mix{at}.key"));
        let keys = (0..setup.mixes).map(|at| Ok(ServerKey::make(&path(at), &mut OsRng)?));
        let keys = keys.collect::<Result<Vec<ServerKey>>>()?;
        let coordinator = ServerKey::draw(&mut OsRng);
        let bucket = ServerKey::draw(&mut OsRng);
        let all = NetworkKeys { mixes: &keys, entry: &coordinator, bucket: &bucket };
        let place = NetworkPlace::on_loopback(setup.users_max);
        let signed = make_config(&all, place, conversations_only(setup.law, TIMES))?;
        let config = signed.config().clone();
        let (stop, stopped) = watch::channel(false);
        let mut mixes = Vec::new();
        for (at, key) in keys.into_iter().enumerate().rev() {
            let options = mix::MixServerOptions {
                network: network::ConfigArchive::check_configs(vec![signed.clone()], now())?,
                key,
                listen: config.mixes[at].server.address.parse()?,
                floor: NoiseFloor::None,
                threads: machine::count_cores(),
                signed: Signed::open_beside(&path(at))?,
                metrics: Some(0),
            };
            mixes.insert(0, mix::start_with(options, setup.kernel, stopped.clone()).await?);
        }
        Ok(Self { config, coordinator, mixes, stop })
    }

    /// Waits for all links of each mix: to the coordinator, to the previous mix and to the next
    /// mix. There is no bucket store, because measurements have no calls and invitations.
    ///
    /// # Errors
    /// If a link does not come up.
    pub async fn wait_linked(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let last = self.mixes.len() - 1;
        let due = |at: usize| if at == last { 2 } else { 3 };
        let is_up = |(at, mix): (usize, &server::ServerHandle)| {
            mix.metrics.read_count(Metric::Links) >= due(at)
        };
        while !self.mixes.iter().enumerate().all(is_up) {
            if Instant::now() > end {
                bail!("the links of the mixes do not come up");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Stops the mixes and waits for their ends.
    ///
    /// # Errors
    /// The error of a failed mix.
    pub async fn stop_mixes(self) -> Result<()> {
        let _ = self.stop.send(true);
        for mix in self.mixes {
            mix.wait().await?;
        }
        Ok(())
    }
}

/// The keys in a config.
pub struct NetworkKeys<'a> {
    /// The keys of the mixes, the first mix first.
    pub mixes: &'a [ServerKey],
    /// The key of the coordinator.
    pub entry: &'a ServerKey,
    /// The key of the bucket store.
    pub bucket: &'a ServerKey,
}

/// The address of a network, and its maximum number of users.
#[derive(Clone, Copy)]
pub struct NetworkPlace {
    /// The address of its servers.
    pub host: Ipv4Addr,
    /// The maximum number of users.
    pub users_max: u32,
}

impl NetworkPlace {
    /// Returns the place of a network on loopback.
    pub fn on_loopback(users_max: u32) -> Self {
        Self { host: Ipv4Addr::LOCALHOST, users_max }
    }
}

/// Returns the conversation service alone, without a privacy promise.
pub fn conversations_only(law: Law, times: Times) -> Vec<ServicePolicy> {
    vec![make_policy(Service::Conversation, times, law, now().minus_ms(VALID_MS))]
}

/// Makes a signed config with these services, on free ports of the place.
///
/// # Errors
/// If no ports are free.
pub fn make_config(
    keys: &NetworkKeys<'_>,
    place: NetworkPlace,
    services: Vec<ServicePolicy>,
) -> Result<SignedConfig> {
    let guardian = ServerKey::draw(&mut OsRng);
    let mut id = [0; 16];
    OsRng.fill_bytes(&mut id);
    let valid_from = now().minus_ms(VALID_MS);
    let mut ports = free_ports(keys.mixes.len() + 2)?.into_iter();
    let mut server = |key: &ServerKey| {
        let port = ports.next().unwrap_or_default();
        let address = SocketAddr::from((place.host, port)).to_string();
        Server { key: key.public(), address }
    };
    let coordinator = server(keys.entry);
    let bucket = server(keys.bucket);
    let entry = |key| MixServer { server: server(key), operator: "lab".into() };
    let mut signed = SignedConfig::new(Config {
        network: NetworkId(id),
        seq: 0,
        prev: [0; 32],
        valid_from,
        valid_until: now().plus_ms(VALID_MS),
        threshold: 1,
        guardians: vec![guardian.public()],
        coordinator,
        bucket,
        mixes: keys.mixes.iter().map(entry).collect(),
        users_max: place.users_max.max(1),
        services,
    });
    signed.add_signature(SignatureSet::Own, 0, &guardian.signer());
    Ok(signed)
}

/// Returns a new folder for another network of this measurement.
pub fn next_folder(root: &Path) -> PathBuf {
    let paths = (0..u16::MAX).map(|n| root.join(format!("mixes-{n}")));
    paths.into_iter().find(|path| !path.exists()).unwrap_or_else(|| root.to_owned())
}
