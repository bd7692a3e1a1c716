//! Commands that run for long: `up`, `node`, `relay`.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::args::{Node, Relay, RelayWhat, Serve, Up};
use super::{Desk, show};
use crate::carriers::Dialer;
use crate::config::{Config, Settings};
use crate::exit::{Exit, Fault};
use crate::home::Home;
use crate::node::{Options, Refused, words};
use crate::observer::Observer;
use crate::relay::{self, Limits, RelayConfig, RelayError, StoreSpec};
use crate::station::{self, Station, until_stopped};
use crate::web::dto::{NodeState, Status};
use crate::{memory, passphrase, up};

/// `mezza up`
pub fn up(desk: &Desk, args: &Up) -> Result<Exit, Fault> {
    let settings = settings(desk, &flags(&args.serve, args.observe))?;
    block_on(two_threads(), up::run(desk, args, &settings))
}

/// `mezza node`
pub fn node(desk: &Desk, what: &Node) -> Result<Exit, Fault> {
    match what {
        Node::Run { serve, observe } => {
            let settings = settings(desk, &flags(serve, *observe))?;
            block_on(Builder::new_current_thread(), run(desk, serve, &settings))
        }
        Node::Status => status(desk),
        Node::Stop => {
            desk.client()?.act("POST", "/v1/stop")?;
            desk.out.either(&json!({ "stopped": true }), "stopping");
            Ok(Exit::Done)
        }
    }
}

/// Flags that are settings.
fn flags(serve: &Serve, observe: bool) -> Vec<(&'static str, String)> {
    let mut flags = Vec::new();
    flags.extend(serve.port.map(|port| ("web_port", port.to_string())));
    if observe {
        flags.push(("observe", "true".into()));
    }
    flags
}

/// Reads the settings and starts the log.
pub(super) fn settings(desk: &Desk, flags: &[(&'static str, String)]) -> Result<Settings, Fault> {
    let config: Config = desk.config(flags)?;
    let level = LevelFilter::from_str(&config.settings.log).map_err(|_| {
        let text = "the setting `log` is no level";
        Fault::new(Exit::Config, text, "use error, warn, info, debug or trace")
    })?;
    // Only our own lines: what libraries say at `trace` may hold what passes through them.
    let ours = Targets::new().with_target("mezza", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
    memory::say();
    Ok(config.settings)
}

/// Where many clients are served. A node has one person: there, waking another thread for each
/// step of a note costs more than the step.
pub(super) fn two_threads() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    builder
}

pub(super) fn block_on<T>(
    mut builder: Builder,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|_| Fault::bug("the system refuses a runtime"))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

async fn run(desk: &Desk, serve: &Serve, settings: &Settings) -> Result<Exit, Fault> {
    desk.home.make()?;
    let lock = station::lock(&desk.home)?;
    let observer = settings.observe.then(|| Arc::new(Observer::new(files(&desk.home))));
    let dialer =
        Dialer { tap: observer.clone().map(|o| o as Arc<dyn relay::Tap>), ..Dialer::default() };
    let unattended = has_passphrase_file(serve);
    let options = Options {
        vault: desk.home.vault(),
        demo: false,
        idle_lock_s: if unattended { 0 } else { settings.idle_lock_s },
        dialer,
        observer: observer.clone(),
    };
    let station = Station::open(&desk.home, lock, settings.web_port, options, observer).await?;
    if unattended && let Err(fault) = unlock(&station, serve).await {
        station.close().await;
        return Err(fault);
    }
    announce(desk, serve, &station).await?;
    until_stopped(station.stopping()).await?;
    station.close().await;
    Ok(Exit::Done)
}

/// The files that a thief would read, but for the databases: no process opens one of its own beside
/// the connection that it has (MSG-61).
pub fn files(home: &Home) -> Vec<std::path::PathBuf> {
    ["head", "keyring"].map(|name| home.vault().join(name)).into()
}

fn has_passphrase_file(serve: &Serve) -> bool {
    serve.key.passphrase_file.is_some() || std::env::var_os("MEZZA_PASSPHRASE_FILE").is_some()
}

/// Unlocks a node that starts with a passphrase file.
///
/// # Errors
/// A wrong passphrase, or no vault.
pub async fn unlock(station: &Station, serve: &Serve) -> Result<(), Fault> {
    let pass = passphrase::ask(serve.key.passphrase_file.as_deref(), "Passphrase")?;
    station.node.ask(move |desk| desk.unlock(&pass)).await.map_err(|refused: Refused| refused.fault)
}

async fn announce(desk: &Desk, serve: &Serve, station: &Station) -> Result<(), Fault> {
    let status =
        station.node.ask(|desk| Ok(desk.status())).await.map_err(|refused| refused.fault)?;
    let value = json!({
        "event": "running", "port": station.port, "state": status.state,
        "url": (!serve.no_web).then_some(&station.url),
    });
    desk.out.value(&value);
    desk.out.line(format!("node     {}", state_line(&status)));
    if !serve.no_web {
        desk.out.line(format!("open     {}   (works once, `mezza url` for another)", station.url));
    }
    Ok(())
}

fn state_line(status: &Status) -> String {
    match status.state {
        NodeState::Empty => "running, no identity yet: make one on the page".into(),
        NodeState::Locked => "running, locked: `mezza unlock`, or on the page".into(),
        NodeState::Open => {
            format!("running as {}", show::clean(status.name.as_deref().unwrap_or_default()))
        }
    }
}

fn status(desk: &Desk) -> Result<Exit, Fault> {
    let client = desk.client()?;
    let status: Status = client.get("/v1/status")?;
    let value =
        json!({ "pid": client.api().pid, "address": client.api().address, "status": status });
    desk.out.value(&value);
    desk.out.line(format!("{}, process {}", state_line(&status), client.api().pid));
    Ok(Exit::Done)
}

/// `mezza relay`
pub fn relay(desk: &Desk, relay: &Relay) -> Result<Exit, Fault> {
    let mut flags = Vec::new();
    flags.extend(relay.store.clone().map(|store| ("relay_store", store)));
    flags.extend(relay.listen.clone().map(|listen| ("relay_listen", listen)));
    let settings = settings(desk, &flags)?;
    match &relay.what {
        RelayWhat::Run => block_on(two_threads(), relay_run(desk, &settings)),
        RelayWhat::Init => block_on(two_threads(), relay_init(desk, &settings)),
        RelayWhat::Status => block_on(two_threads(), relay_status(desk, &settings)),
        RelayWhat::Uri { host } => relay_uri(desk, &settings, host.as_deref()),
    }
}

/// A relay of this home as the settings want it.
///
/// # Errors
/// An address or a store that cannot be.
pub fn relay_config(home: &Home, settings: &Settings) -> Result<RelayConfig, Fault> {
    let defaults = Limits::default();
    let limits = Limits {
        store_bytes_max: settings.relay_store_bytes_max,
        boxes_max: settings.relay_boxes_max,
        address_connections_max: settings.relay_connections_max,
        address_opens_per_day: settings.relay_opens_day_max,
        address_put_bytes_per_day: settings.relay_put_bytes_day_max,
        ..defaults
    };
    let mut config = RelayConfig::new(home.relay(), listen_of(settings)?);
    config.store = store_of(settings)?;
    config.limits = limits;
    Ok(config)
}

fn listen_of(settings: &Settings) -> Result<SocketAddr, Fault> {
    settings.relay_listen.parse().map_err(|_| {
        let text = format!("{} is no address to listen on", settings.relay_listen);
        Fault::new(Exit::Config, text, "write it like 127.0.0.1:7101 or [::]:7101")
    })
}

fn store_of(settings: &Settings) -> Result<StoreSpec, Fault> {
    if settings.relay_store == "sqlite" {
        return Ok(StoreSpec::default());
    }
    settings.relay_store.parse().map_err(|error| {
        let text = format!("the setting `relay_store` is no store: {error}");
        Fault::new(Exit::Config, text, "use sqlite:PATH or postgres:URL")
    })
}

async fn relay_run(desk: &Desk, settings: &Settings) -> Result<Exit, Fault> {
    desk.home.make()?;
    let config = relay_config(&desk.home, settings)?;
    let (stop, stopped) = watch::channel(false);
    let handle = relay::serve(config, stopped).await.map_err(|error| relay_fault(&error))?;
    let (address, key) = (handle.address(), words::key_digits(handle.key()));
    let value = json!({ "event": "relay", "address": address, "key": key });
    desk.out.either(&value, format!("relay    {address}   key {key}"));
    let ended = handle.wait();
    tokio::pin!(ended);
    let done = tokio::select! {
        done = &mut ended => done,
        signal = until_stopped(stop.subscribe()) => {
            signal?;
            let _ = stop.send(true);
            ended.await
        }
    };
    done.map_err(|error| relay_fault(&error))?;
    Ok(Exit::Done)
}

async fn relay_init(desk: &Desk, settings: &Settings) -> Result<Exit, Fault> {
    desk.home.make()?;
    let config = relay_config(&desk.home, settings)?;
    let key = relay::init(&config.dir, &config.store).await.map_err(|error| relay_fault(&error))?;
    let digits = words::key_digits(&key);
    let text = format!(
        "relay key {digits}\nnext: `mezza relay run`, and `mezza relay uri` for its address"
    );
    desk.out.either(&json!({ "key": digits }), text);
    Ok(Exit::Done)
}

async fn relay_status(desk: &Desk, settings: &Settings) -> Result<Exit, Fault> {
    let config = relay_config(&desk.home, settings)?;
    let status =
        relay::status(&config.dir, &config.store).await.map_err(|error| relay_fault(&error))?;
    let digits = words::key_digits(&status.key);
    let totals = status.totals;
    let listens = tokio::net::TcpStream::connect(config.listen).await.is_ok();
    desk.out.value(&json!({
        "key": digits, "listen": config.listen, "listens": listens, "boxes": totals.boxes,
        "mails": totals.mails, "bytes": totals.bytes, "one_time_keys": totals.one_time_keys,
    }));
    let state = if listens { "something listens there" } else { "nothing listens there" };
    desk.out.line(format!("key      {digits}"));
    desk.out.line(format!("listen   {}, {state}", config.listen));
    desk.out.line(format!(
        "holds    {} boxes, {} mails, {} bytes",
        totals.boxes, totals.mails, totals.bytes
    ));
    Ok(Exit::Done)
}

fn relay_uri(desk: &Desk, settings: &Settings, host: Option<&str>) -> Result<Exit, Fault> {
    let config = relay_config(&desk.home, settings)?;
    let key = relay::key(&config.dir).map_err(|error| relay_fault(&error))?;
    let host = host.map_or_else(|| own_host(config.listen.ip()), |host| Ok(host.to_lowercase()))?;
    let uri = mezza_messenger::uri::relay(&key, config.listen.port(), &host, false);
    let uri = uri.map_err(|_| {
        Fault::new(
            Exit::Usage,
            "this is no host name or address",
            "write it like relay.example or 192.0.2.7",
        )
    })?;
    desk.out.either(&json!({ "uri": uri }), &uri);
    Ok(Exit::Done)
}

fn own_host(ip: IpAddr) -> Result<String, Fault> {
    if ip.is_unspecified() {
        let text = "the relay listens on all addresses, so its own is not known";
        return Err(Fault::new(Exit::Usage, text, "name it with `mezza relay uri --host NAME`"));
    }
    Ok(ip.to_string())
}

/// A relay's error as a fault: its text ends with the next step already.
pub fn relay_fault(error: &RelayError) -> Fault {
    let text = error.to_string();
    let (text, next) = text.rsplit_once("; ").unwrap_or((&text, "see `mezza relay status`"));
    Fault::new(exit_of(error.exit_code()), text, next)
}

fn exit_of(number: u8) -> Exit {
    match number {
        1 => Exit::No,
        2 => Exit::Usage,
        65 => Exit::Malformed,
        66 => Exit::NotFound,
        69 => Exit::Unreachable,
        73 => Exit::CannotWrite,
        75 => Exit::Busy,
        77 => Exit::Denied,
        78 => Exit::Config,
        _ => Exit::Bug,
    }
}
