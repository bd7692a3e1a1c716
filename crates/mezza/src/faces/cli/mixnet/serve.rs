//! `mezza mixnet entry|mix|bucket`: servers that run until Ctrl-C or SIGTERM.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::available_parallelism;

use data_encoding::HEXLOWER;
use mezza_mixnet::mix::NoiseFloor;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::{Exit, Fault};
use crate::faces::cli::CliContext;
use crate::faces::cli::args::{self, BucketArgs, EntryArgs, MixArgs, ServerArgs};
use crate::faces::cli::serve::{block_on, settings, two_threads};
use crate::process::stop::until_stopped;
use crate::process::{memory, metrics};
use crate::servers::mixnet::key::ServerKey;
use crate::servers::mixnet::network::ConfigArchive;
use crate::servers::mixnet::server::{self, Learn, ServerHandle};
use crate::servers::mixnet::signed::Signed;
use crate::servers::mixnet::{bucket, entry, mix};

/// `mezza mixnet entry`
pub(super) fn entry(context: &CliContext, asked: &EntryArgs) -> Result<Exit, Fault> {
    settings(context, &[])?;
    let (network, key) = load(&asked.identity)?;
    let options = entry::EntryServerOptions {
        network,
        key,
        listen: asked.listen,
        per_prefix: asked.per_prefix,
        once: asked.once,
        metrics: asked.identity.metrics.unwrap_or(metrics::ENTRY_PORT),
    };
    // Thousands of connections: all cores.
    let threads = Builder::new_multi_thread();
    block_on(threads, run(context, ("entry", &asked.identity), |stop| entry::start(options, stop)))
}

/// `mezza mixnet mix`
pub(super) fn mix(context: &CliContext, asked: &MixArgs) -> Result<Exit, Fault> {
    settings(context, &[])?;
    memory::require_closed()?;
    let (network, key) = load(&asked.identity)?;
    let signed = Signed::beside(&asked.identity.key)?;
    let listen = asked.listen.map_or_else(|| of_config(&network, &key), Ok)?;
    let options = mix::MixServerOptions {
        network,
        key,
        listen,
        floor: match asked.min_noise {
            args::NoiseFloorName::Standard => NoiseFloor::STANDARD,
            args::NoiseFloorName::Relaxed => NoiseFloor::RELAXED,
            args::NoiseFloorName::None => NoiseFloor::None,
        },
        threads: asked.threads.map_or_else(cores, usize::from),
        signed,
        metrics: asked.identity.metrics,
    };
    block_on(
        two_threads(),
        run(context, ("mix", &asked.identity), |stop| mix::start(options, stop)),
    )
}

/// `mezza mixnet bucket`
pub(super) fn bucket(context: &CliContext, asked: &BucketArgs) -> Result<Exit, Fault> {
    settings(context, &[])?;
    let (network, key) = load(&asked.identity)?;
    let options = bucket::BucketServerOptions {
        network,
        key,
        listen: asked.listen,
        dir: asked.dir.clone(),
        metrics: asked.identity.metrics.unwrap_or(metrics::BUCKET_PORT),
    };
    block_on(
        two_threads(),
        run(context, ("bucket", &asked.identity), |stop| bucket::start(options, stop)),
    )
}

fn load(identity: &ServerArgs) -> Result<(ConfigArchive, ServerKey), Fault> {
    let key = ServerKey::load(&identity.key)?;
    Ok((ConfigArchive::load(identity.configs.iter().map(AsRef::as_ref))?, key))
}

/// All addresses, at the port under which the config knows this mix.
fn of_config(network: &ConfigArchive, key: &ServerKey) -> Result<SocketAddr, Fault> {
    let (config, at) = mix::place(network, &key.public())?;
    let port =
        config.mixes[at].server.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port: u16 = port.ok_or_else(|| Fault::bug("an address of the config without port"))?;
    Ok((Ipv4Addr::UNSPECIFIED, port).into())
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs a server until it is told to stop, or cannot go on. At SIGHUP it reads its configs again.
async fn run<S: Future<Output = Result<ServerHandle, Fault>>>(
    context: &CliContext,
    (role, identity): (&'static str, &ServerArgs),
    start: impl FnOnce(watch::Receiver<bool>) -> S,
) -> Result<Exit, Fault> {
    memory::say();
    let (stop, stopped) = watch::channel(false);
    let mut hang_up = signal(SignalKind::hangup())
        .map_err(|_| Fault::bug("the system refuses signal handlers"))?;
    let mut running = start(stopped).await?;
    let (address, key) = (running.address, HEXLOWER.encode(&running.key));
    let value = json!({ "event": role, "address": address, "key": key });
    context.out.either(&value, format!("{role:<8} {address}   key {key}"));
    let told = until_stopped(stop.subscribe());
    tokio::pin!(told);
    loop {
        tokio::select! {
            ended = &mut running.task => return server::end(ended),
            signal = &mut told => {
                signal?;
                let _ = stop.send(true);
                return running.wait().await;
            }
            _ = hang_up.recv() => learn(identity, &running.learn),
        }
    }
}

/// Hands a server all configs of its files; those that it knows are taken again without effect.
fn learn(identity: &ServerArgs, learn: &Learn) {
    match ConfigArchive::load(identity.configs.iter().map(AsRef::as_ref)) {
        Ok(network) => network.archive.into_iter().for_each(learn),
        Err(fault) => tracing::error!("{fault}"),
    }
}
