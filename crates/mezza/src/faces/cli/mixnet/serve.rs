//! `mezza mixnet entry|mix|bucket`: servers that run until Ctrl-C or SIGTERM.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::available_parallelism;

use data_encoding::HEXLOWER;
use mezza_mixnet::config::Server;
use mezza_mixnet::mix::NoiseFloor;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::faces::cli::CliContext;
use crate::faces::cli::args::{self, BucketArgs, EntryArgs, MixArgs, ServerArgs};
use crate::faces::cli::serve::{block_on, read_settings, two_threads};
use crate::faces::cli::show::Out;
use crate::faces::qr::{Medium, QrImage};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::stop::until_stopped;
use mezza_host::process::{memory, metrics};
use mezza_servers::mixnet::key::ServerKey;
use mezza_servers::mixnet::network::{ConfigArchive, in_force};
use mezza_servers::mixnet::server::{self, Learn, ServerHandle};
use mezza_servers::mixnet::signed::Signed;
use mezza_servers::mixnet::{bucket, entry, mix};

/// `mezza mixnet entry`
pub(super) fn run_entry(context: &CliContext, asked: &EntryArgs) -> Result<Exit, Fault> {
    read_settings(context, &[])?;
    let (network, key) = load_identity(&asked.identity)?;
    let config = in_force(&network.chain);
    let listen = listen_address(&asked.identity, "entry", &config.coordinator, &key)?;
    let genesis = network.archive.first().map(|first| first.config().hash());
    let address = config.coordinator.address.clone();
    let link = genesis.map(|genesis| NetworkUri { genesis, address });
    let options = entry::EntryServerOptions {
        network,
        key,
        listen,
        per_prefix: asked.per_prefix,
        once: asked.once,
        metrics: asked.identity.metrics.unwrap_or(metrics::ENTRY_PORT),
    };
    // Thousands of connections need all cores.
    let threads = Builder::new_multi_thread();
    let link = link.map(|link| (link, asked.qr));
    let role = Role { name: "entry", identity: &asked.identity, link };
    block_on(threads, run_server(context, role, |stop| entry::start(options, stop)))
}

/// `mezza mixnet mix`
pub(super) fn run_mix(context: &CliContext, asked: &MixArgs) -> Result<Exit, Fault> {
    read_settings(context, &[])?;
    memory::require_closed()?;
    let (network, key) = load_identity(&asked.identity)?;
    let signed = Signed::open_beside(&asked.identity.key)?;
    let (config, at) = mix::find_place(&network, &key.public())?;
    let listen = listen_address(&asked.identity, "mix", &config.mixes[at].server, &key)?;
    let options = mix::MixServerOptions {
        network,
        key,
        listen,
        floor: match asked.min_noise {
            args::NoiseFloorName::Standard => NoiseFloor::STANDARD,
            args::NoiseFloorName::Relaxed => NoiseFloor::RELAXED,
            args::NoiseFloorName::None => NoiseFloor::None,
        },
        threads: asked.threads.map_or_else(count_cores, usize::from),
        signed,
        metrics: asked.identity.metrics,
    };
    let role = Role { name: "mix", identity: &asked.identity, link: None };
    block_on(two_threads(), run_server(context, role, |stop| mix::start(options, stop)))
}

/// `mezza mixnet bucket`
pub(super) fn run_bucket(context: &CliContext, asked: &BucketArgs) -> Result<Exit, Fault> {
    read_settings(context, &[])?;
    let (network, key) = load_identity(&asked.identity)?;
    let listen = listen_address(&asked.identity, "bucket", &in_force(&network.chain).bucket, &key)?;
    let options = bucket::BucketServerOptions {
        network,
        key,
        listen,
        dir: asked.dir.clone(),
        metrics: asked.identity.metrics.unwrap_or(metrics::BUCKET_PORT),
    };
    let role = Role { name: "bucket", identity: &asked.identity, link: None };
    block_on(two_threads(), run_server(context, role, |stop| bucket::start(options, stop)))
}

fn load_identity(identity: &ServerArgs) -> Result<(ConfigArchive, ServerKey), Fault> {
    let key = ServerKey::load(&identity.key)?;
    Ok((ConfigArchive::load(identity.configs.iter().map(AsRef::as_ref))?, key))
}

/// Returns the address to listen on: the one given, else all addresses at the port that the config
/// names.
fn listen_address(
    asked: &ServerArgs,
    role: &str,
    written: &Server,
    key: &ServerKey,
) -> Result<SocketAddr, Fault> {
    if let Some(listen) = asked.listen {
        return Ok(listen);
    }
    if written.key != key.public() {
        let text = format!("{role}: this key is not that of the config's {role}");
        return Err(Fault::new(Exit::Config, text, "use the key whose public half stands there"));
    }
    let port = written.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port: u16 = port.ok_or_else(|| Fault::bug("an address of the config without port"))?;
    Ok((Ipv4Addr::UNSPECIFIED, port).into())
}

/// Prints the link with which members join, for the operator to publish.
pub(super) fn say_link(out: Out, link: &NetworkUri, qr: bool) -> Result<(), Fault> {
    let text = link.to_string();
    out.print_either(&json!({ "event": "link", "link": text }), format!("link     {text}"));
    if qr {
        out.print_line(QrImage::draw(&text, Medium::Screen)?.to_terminal());
    }
    Ok(())
}

fn count_cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// A server to run: its kind, its name, and the link that it prints, possibly as a QR code.
struct Role<'a> {
    name: &'static str,
    identity: &'a ServerArgs,
    link: Option<(NetworkUri, bool)>,
}

/// Runs a server until it is stopped or fails. At SIGHUP it reads its configs again.
async fn run_server<S: Future<Output = Result<ServerHandle, Fault>>>(
    context: &CliContext,
    role: Role<'_>,
    start: impl FnOnce(watch::Receiver<bool>) -> S,
) -> Result<Exit, Fault> {
    memory::log_refusals();
    let (stop, stopped) = watch::channel(false);
    let mut hang_up = signal(SignalKind::hangup())
        .map_err(|_| Fault::bug("the system refuses signal handlers"))?;
    let mut running = start(stopped).await?;
    let address = running.address;
    let key = HEXLOWER.encode(&running.key);
    let name = role.name;
    let value = json!({ "event": name, "address": address, "key": key });
    context.out.print_either(&value, format!("{name:<8} {address}   key {key}"));
    if let Some((link, qr)) = &role.link {
        say_link(context.out, link, *qr)?;
    }
    let told = until_stopped(stop.subscribe());
    tokio::pin!(told);
    loop {
        tokio::select! {
            ended = &mut running.task => return server::task_outcome(ended),
            signal = &mut told => {
                signal?;
                let _ = stop.send(true);
                return running.wait().await;
            }
            _ = hang_up.recv() => send_configs(role.identity, &running.learn),
        }
    }
}

/// Passes all configs of its files to a server; known ones have no effect.
fn send_configs(identity: &ServerArgs, learn: &Learn) {
    match ConfigArchive::load(identity.configs.iter().map(AsRef::as_ref)) {
        Ok(network) => network.archive.into_iter().for_each(learn),
        Err(fault) => tracing::error!("{fault}"),
    }
}
