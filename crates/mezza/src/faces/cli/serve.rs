//! Long-running commands: `node`.

use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Builder;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::args::{NodeCommand, ServeArgs};
use super::{CliContext, person, show};
use crate::carriers::Dialer;
use crate::faces::config::{LoadedSettings, Settings};
use crate::faces::mesh_node::{MeshChoice, MeshNodeThread};
use crate::faces::passphrase;
use crate::faces::served::{self, ServedNode};
use crate::node::NodeOptions;
use crate::node::observer::Observer;
use mezza_host::api::json::{NodeStateJson, StatusJson};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::connection::tap::Tap;
use mezza_host::process::home::Home;
use mezza_host::process::rng::keep_gifts;
use mezza_host::process::stop::until_stopped;

/// `mezza node`
pub(crate) fn run_node(context: &CliContext, what: &NodeCommand) -> Result<Exit, Fault> {
    match what {
        NodeCommand::Run { serve, observe } => {
            let observe = observe.then(|| ("observe", "true".into()));
            let flags: Vec<_> = setting_flags(serve).into_iter().chain(observe).collect();
            let settings = read_settings(context, &flags)?;
            block_on(Builder::new_current_thread(), serve_node(context, serve, &settings))
        }
        NodeCommand::Status => show_status(context),
        NodeCommand::Stop => {
            context.client()?.act("POST", "/v1/stop")?;
            context.out.print_either(&json!({ "stopped": true }), "stopping");
            Ok(Exit::Done)
        }
        NodeCommand::TrustClock => trust_clock(context),
    }
}

/// `mezza node trust-clock`
fn trust_clock(context: &CliContext) -> Result<Exit, Fault> {
    let status: StatusJson = context.client()?.post("/v1/clock", &())?;
    let text = format!("the node uses {}", show::format_time(status.now_ms));
    context.out.print_either(&json!({ "now": show::format_utc(status.now_ms) }), text);
    Ok(Exit::Done)
}

/// Returns the flags that are settings.
pub(crate) fn setting_flags(serve: &ServeArgs) -> Vec<(&'static str, String)> {
    serve.listen.port().map(|port| ("web_port", port.to_string())).into_iter().collect()
}

/// Reads the settings and starts the log.
pub(crate) fn read_settings(
    context: &CliContext,
    flags: &[(&'static str, String)],
) -> Result<Settings, Fault> {
    let config: LoadedSettings = context.load_settings(flags)?;
    let level = LevelFilter::from_str(&config.settings.log).map_err(|_| {
        let text = "the setting `log` is no level";
        Fault::new(Exit::Config, text, "use error, warn, info, debug or trace")
    })?;
    // Log our own lines only: libraries at `trace` may log the data that they process.
    let ours = Targets::new().with_target("mezza", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
    Ok(config.settings)
}

/// Returns a runtime for servers with many clients. A node has one user: there, waking another
/// thread for each step of a note costs more than the step.
pub(crate) fn two_threads() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    builder
}

/// Returns a runtime that runs its tasks on the calling thread. A timer wakes one thread, where a
/// multi-threaded runtime wakes three.
pub(crate) fn one_thread() -> Builder {
    Builder::new_current_thread()
}

/// Runs one future to its end.
pub(crate) fn block_on<T>(
    mut builder: Builder,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|_| Fault::bug("the system refuses a runtime"))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

async fn serve_node(
    context: &CliContext,
    serve: &ServeArgs,
    settings: &Settings,
) -> Result<Exit, Fault> {
    context.home.make_folders()?;
    let lock = served::lock_home(&context.home)?;
    // Before anything is drawn (GUARD-58).
    keep_gifts(&context.home.generator());
    person::not_in_a_demonstration(context)?;
    let observer = Arc::new(Observer::new(watched_files(&context.home)));
    observer.set_on(settings.observe);
    let dialer = Dialer { tap: Some(observer.clone() as Arc<dyn Tap>), ..Dialer::default() };
    let unattended = has_passphrase_file(serve);
    // First the mesh node, so that a wrong setting ends the command before anything is served.
    let mesh = MeshChoice::of_settings(&context.home, settings)?;
    let carrying = mesh.as_ref().map(MeshNodeThread::start).transpose()?;
    let options = NodeOptions {
        vault: context.home.vault(),
        witness: Some(context.home.state()),
        demo: false,
        idle_lock_s: if unattended { 0 } else { settings.idle_lock_s },
        clock: Clock::system(),
        dialer,
        mesh: mesh.as_ref().map(MeshChoice::place),
        link: settings.link_place()?,
        observer: Some(observer),
    };
    let served = ServedNode::open(&context.home, lock, settings.web_port, options).await?;
    if settings.relay_with_node {
        served.start_relay().await;
    }
    if unattended && let Err(fault) = unlock_at_start(&served, serve).await {
        served.close().await;
        return Err(fault);
    }
    announce_node(context, serve, &served).await?;
    until_stopped(served.watch_stop()).await?;
    served.close().await;
    drop(carrying);
    Ok(Exit::Done)
}

/// Returns the files that a thief would read, except the databases: a process must not open a
/// database a second time beside its connection (MSG-61).
pub fn watched_files(home: &Home) -> Vec<std::path::PathBuf> {
    ["head", "keyring"].map(|name| home.vault().join(name)).into()
}

/// Returns true if a passphrase is available without the user.
pub(crate) fn has_passphrase_file(serve: &ServeArgs) -> bool {
    serve.key.passphrase_file.is_some() || std::env::var_os("MEZZA_PASSPHRASE_FILE").is_some()
}

/// Unlocks a node that starts with a passphrase file.
///
/// # Errors
/// A wrong passphrase, or no vault.
pub(crate) async fn unlock_at_start(served: &ServedNode, serve: &ServeArgs) -> Result<(), Fault> {
    let pass = passphrase::ask(serve.key.passphrase_file.as_deref(), "Passphrase")?;
    Ok(served.node.ask(move |shell| shell.unlock_vault(&pass)).await?)
}

async fn announce_node(
    context: &CliContext,
    serve: &ServeArgs,
    served: &ServedNode,
) -> Result<(), Fault> {
    let status = served.node.ask(|shell| Ok(shell.status())).await?;
    let value = json!({
        "event": "running", "port": served.port, "state": status.state,
        "url": (!serve.no_web).then_some(&served.url),
    });
    context.out.print_value(&value);
    context.out.print_line(format!("node     {}", state_line(&status)));
    if !serve.no_web {
        context
            .out
            .print_line(format!("open     {}   (works once, `mezza url` for another)", served.url));
    }
    Ok(())
}

pub(crate) fn state_line(status: &StatusJson) -> String {
    match status.state {
        NodeStateJson::Empty => "running, no identity yet: make one on the page".into(),
        NodeStateJson::Locked => "running, locked: `mezza unlock`, or on the page".into(),
        NodeStateJson::Open => {
            format!("running as {}", show::clean_text(status.name.as_deref().unwrap_or_default()))
        }
    }
}

fn show_status(context: &CliContext) -> Result<Exit, Fault> {
    let client = context.client()?.as_watcher();
    let status: StatusJson = client.get("/v1/status")?;
    let value =
        json!({ "pid": client.api().pid, "address": client.api().address, "status": status });
    context.out.print_value(&value);
    context.out.print_line(format!("{}, process {}", state_line(&status), client.api().pid));
    Ok(Exit::Done)
}
