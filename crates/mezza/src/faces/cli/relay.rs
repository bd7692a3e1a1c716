//! `mezza relay`: runs a relay.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mezza_core::Time;
use mezza_messenger::card::RelayKey;
use serde_json::json;
use tokio::sync::watch;

use super::CliContext;
use super::args::RelayCommand;
use super::serve::{block_on, read_settings, two_threads};
use super::show;
use crate::faces::config::{self, Settings};
use mezza_host::api::{Exit, Fault, words};
use mezza_host::process::home::Home;
use mezza_host::process::memory;
use mezza_host::process::stop::until_stopped;
use mezza_servers::relay::{self, Limits, RelayConfig, RelayError, StoreSpec};

/// An option that is a setting: its key and its value.
type Flag = (&'static str, String);

/// Runs `mezza relay`.
///
/// # Errors
/// The fault of the command; see each of them.
pub(crate) fn run_relay(context: &CliContext, what: &RelayCommand) -> Result<Exit, Fault> {
    let flags = what.flags();
    let settings = read_settings(context, &flags)?;
    match what {
        RelayCommand::Run(_) => block_on(two_threads(), serve_relay(context, &settings)),
        RelayCommand::Init { .. } => {
            block_on(two_threads(), init_relay(context, &settings, &flags))
        }
        RelayCommand::Status(_) => block_on(two_threads(), show_status(context, &settings)),
        RelayCommand::TrustClock => trust_clock(context),
        RelayCommand::Uri(_) => print_uri(context, &settings, &flags),
    }
}

/// Returns the config of this home's relay.
///
/// # Errors
/// An invalid address or store.
pub(crate) fn relay_config(home: &Home, settings: &Settings) -> Result<RelayConfig, Fault> {
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

/// Returns the host and port under which users reach the relay, if set.
pub(crate) fn public_of(settings: &Settings) -> Result<Option<(String, u16)>, Fault> {
    let text = settings.relay_public.to_lowercase();
    if text.is_empty() {
        return Ok(None);
    }
    let parts = text.rsplit_once(':').and_then(|(host, port)| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some((inner.unwrap_or(host).to_owned(), port.parse().ok()?))
    });
    // The encoder of addresses decides which hosts and ports a reader accepts.
    let sound = |(host, port): &(String, u16)| {
        mezza_messenger::uri::encode_relay(&RelayKey([0; 32]), *port, host, false).is_ok()
    };
    let next = "write it like relay.example:7101 or [2001:db8::7]:7101";
    let (host, port) = parts.filter(sound).ok_or_else(|| {
        let text = format!("{} is no host with a port", settings.relay_public);
        Fault::new(Exit::Config, text, next)
    })?;
    if is_nobodys(&host) || port == 0 {
        let text = format!("{} is where nobody can reach a relay", settings.relay_public);
        return Err(Fault::new(Exit::Config, text, next));
    }
    Ok(Some((host, port)))
}

/// Returns true if a host is an address for several machines (multicast) or for any (unspecified).
fn is_nobodys(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| {
        let ip = ip.to_canonical();
        ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST
    })
}

async fn serve_relay(context: &CliContext, settings: &Settings) -> Result<Exit, Fault> {
    context.home.make_folders()?;
    let config = relay_config(&context.home, settings)?;
    memory::log_refusals();
    let is_new = !config.dir.join("key").exists();
    let (stop, stopped) = watch::channel(false);
    let handle = relay::start_relay(config, stopped).await.map_err(|error| relay_fault(&error))?;
    let address = handle.address();
    let key = words::key_digits(handle.key());
    let value = json!({ "event": "relay", "address": address, "key": key });
    context.out.print_either(&value, format!("relay    {address}   key {key}"));
    if is_new {
        context.out.print_aside("this home had no relay, so a new one was made; Ctrl-C stops it");
    }
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

async fn init_relay(
    context: &CliContext,
    settings: &Settings,
    flags: &[Flag],
) -> Result<Exit, Fault> {
    let config = relay_config(&context.home, settings)?;
    public_of(settings)?;
    context.home.make_folders()?;
    let is_made = config.dir.join("key").exists();
    let key = relay::init(&config.dir, &config.store).await.map_err(|error| relay_fault(&error))?;
    config::store_settings(&context.home.config(), &kept_flags(flags)?)?;
    let digits = words::key_digits(&key);
    let text = format!(
        "relay key {digits}\nnext: `mezza relay run`, and `mezza relay uri` for its address"
    );
    let is_loopback = config.listen.ip().is_loopback();
    context.out.print_either(&json!({ "key": digits, "loopback": is_loopback }), text);
    if is_made {
        context.out.print_aside(
            "this home had a relay before, and its key and mail stay; if its address is another now, give out \
             what `mezza relay uri` prints",
        );
    }
    if is_loopback && !settings.relay_public.is_empty() {
        context.out.print_aside(&format!(
            "the relay listens on {}, which others reach only if this machine passes them on; else \
             say where with `mezza relay init --listen ADDRESS`",
            config.listen
        ));
    }
    Ok(Exit::Done)
}

/// Returns the options that `init` stores; the path of a store becomes absolute.
fn kept_flags(flags: &[Flag]) -> Result<Vec<Flag>, Fault> {
    let whole = |(key, text): &Flag| match text.strip_prefix("sqlite:") {
        Some(path) if *key == "relay_store" => {
            Ok((*key, format!("sqlite:{}", make_absolute(path)?)))
        }
        _ => Ok((*key, text.clone())),
    };
    flags.iter().map(whole).collect()
}

fn make_absolute(path: &str) -> Result<String, Fault> {
    let whole = std::path::absolute(path).ok().and_then(|path| path.to_str().map(str::to_owned));
    whole.ok_or_else(|| {
        let text = format!("the folder in which {path} lies has no name that can be kept");
        Fault::new(Exit::Config, text, "write the whole path, like sqlite:/srv/relay/mail.db")
    })
}

async fn show_status(context: &CliContext, settings: &Settings) -> Result<Exit, Fault> {
    let config = relay_config(&context.home, settings)?;
    let status = relay::read_status(&config.dir, &config.store)
        .await
        .map_err(|error| relay_fault(&error))?;
    let digits = words::key_digits(&status.key);
    let totals = status.totals;
    let running = relay::running_address(&config.dir);
    let listen = running.unwrap_or(config.listen);
    context.out.print_value(&json!({
        "key": digits, "listen": listen, "listens": running.is_some(), "boxes": totals.boxes,
        "mails": totals.mails, "bytes": totals.bytes, "one_time_keys": totals.one_time_keys,
        "clock_doubted": status.clock.is_some_and(|clock| clock.doubted_h.is_some()),
    }));
    let state = if running.is_some() { "it runs" } else { "it does not run" };
    context.out.print_line(format!("key      {digits}"));
    context.out.print_line(format!("listen   {listen}, {state}"));
    context.out.print_line(format!(
        "holds    {}, {}, {}",
        words::format_count(totals.boxes, "box", "boxes"),
        words::format_count(totals.mails, "mail", "mails"),
        words::format_count(totals.bytes, "byte", "bytes")
    ));
    if let Some((clock, doubted_h)) = status.clock.and_then(|clock| Some((clock, clock.doubted_h?)))
    {
        let at = |hours: u32| show::format_time(u64::from(hours) * Time::HOUR_MS);
        context.out.print_line(format!(
            "clock    says {}, {} was expected: no mail expires until it has stood for a day; if it is \
             right, say `mezza relay trust-clock`",
            at(doubted_h),
            at(clock.believed_h)
        ));
    }
    Ok(Exit::Done)
}

/// Stores the operator's confirmation of the clock.
fn trust_clock(context: &CliContext) -> Result<Exit, Fault> {
    relay::trust_clock(&context.home.relay()).map_err(|error| relay_fault(&error))?;
    let now_ms = mezza_host::clock::now().as_ms();
    let text = format!("the relay uses {} within a minute", show::format_time(now_ms));
    context.out.print_either(&json!({ "now": show::format_utc(now_ms) }), text);
    Ok(Exit::Done)
}

/// Prints the address for users: the one given, else where the relay listens now, else where it
/// would listen.
fn print_uri(context: &CliContext, settings: &Settings, flags: &[Flag]) -> Result<Exit, Fault> {
    let config = relay_config(&context.home, settings)?;
    let key = relay::read_key(&config.dir).map_err(|error| relay_fault(&error))?;
    let public = public_of(settings)?;
    let listen = relay::running_address(&config.dir).unwrap_or(config.listen);
    let own = public.is_none().then_some(listen.ip());
    let (host, port) = public.unwrap_or_else(|| (listen.ip().to_string(), listen.port()));
    let next = "name what others reach with `mezza relay uri --public HOST:PORT`";
    if own.is_some_and(|ip| ip.is_unspecified()) {
        let text = "the relay listens on all addresses, so its own is not known";
        return Err(Fault::new(Exit::Usage, text, next));
    }
    let uri = mezza_messenger::uri::encode_relay(&key, port, &host, false).map_err(|_| {
        let text = format!("the relay does not run, and nobody can reach port {port} of {host}");
        Fault::new(Exit::Usage, text, "start it with `mezza relay run`")
    })?;
    config::store_settings(&context.home.config(), flags)?;
    let is_loopback = own.is_some_and(|ip| ip.is_loopback());
    context.out.print_either(&json!({ "uri": uri, "loopback": is_loopback }), &uri);
    if is_loopback {
        context.out.print_aside(&format!("this address works on this machine alone; {next}"));
    }
    Ok(Exit::Done)
}

/// Converts a relay's error into a fault: its text already ends with the next step.
pub(crate) fn relay_fault(error: &RelayError) -> Fault {
    let text = error.to_string();
    let (text, next) = text.rsplit_once("; ").unwrap_or((&text, "see `mezza relay status`"));
    Fault::new(error.exit_code(), text, next)
}
