//! `mezza up`: starts the node of a home. A home without an identity gets the demonstration, which
//! has its own home unless one is named (NODE-6).
//!
//! ```text
//! relay  <--TLS-- you  (alice, vault/, passphrase demo)      one process, many parties,
//!   ^----TLS----- echo (echo/vault/, a device of its own)    nothing shared but the loopback
//! mixnet: entry, three mixes and a bucket store; both are in it (DEMO NOISE)
//! mesh: a node beside each of the two devices, on the loopback interface
//! link: the two devices are paired; yours connects to echo's on a free port
//! ```
//!
//! The check sends a real note and waits for the real response; OK means that both devices
//! confirmed it (NODE-4).

mod check;
mod echo;
mod link;
mod mesh;
mod remove;
mod screen;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mezza_messenger::CarrierId;
use mezza_messenger::card::{RelayEntry, RelayKey};
use mezza_messenger::relay_wire::MailboxAddress;
use serde_json::json;
use tokio::sync::watch;

use crate::carriers::{Dialer, LinkListen, MeshPlace};
use crate::faces::cli::args::UpArgs;
use crate::faces::cli::relay::{relay_config, relay_fault};
use crate::faces::cli::{CliContext, paste, serve};
use crate::faces::config::Settings;
use crate::faces::mesh_node::{MeshChoice, MeshNodeThread};
use crate::faces::ports;
use crate::faces::served::{self, ServedNode};
use crate::node::observer::Observer;
use crate::node::{self, NodeHandle, NodeOptions, RunningNode};
use mesh::DemoMesh;
use mezza_host::api::json::{CardFormJson, CardText, ContactJson, NodeStateJson};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Exit, Fault, words};
use mezza_host::clock::Clock;
use mezza_host::connection::tap::Tap;
use mezza_host::process::home::Home;
use mezza_host::process::lock::Lock;
use mezza_host::process::stop::until_stopped;
use mezza_host::store::Vault;
use mezza_servers::mixnet::demo;
use mezza_servers::relay::{self, RelayConfig, RelayHandle};
use screen::Screen;

/// The passphrase of the demonstration, printed on the screen.
const PASSPHRASE: &[u8] = b"demo";
/// The name of the demonstration's user.
const PERSON: &str = "alice";
/// The name of the contact that answers.
const ECHO: &str = "echo";
/// The carriers of the first exchange, in this order. The relay makes the two devices acquainted.
const CHECKED: [CarrierId; 4] =
    [CarrierId::RELAY, CarrierId::LINK, CarrierId::MIXNET, CarrierId::MESH];
/// How long the parties may take to stop.
const STOP: Duration = Duration::from_millis(1_500);

/// Runs until Ctrl-C, or with `--check` until the check is done.
///
/// # Errors
/// The fault that keeps a part from starting.
pub(crate) fn run_up(context: &CliContext, args: &UpArgs) -> Result<Exit, Fault> {
    if args.remove {
        return remove::remove_demonstration(context);
    }
    let context = &CliContext { home: home_of(context, args)?, ..*context };
    if args.serve.key.passphrase_file.is_some() && !is_own(&context.home) {
        let text = "the demonstration has a passphrase of its own";
        let next = "leave `--passphrase-file` out, or make an identity with `mezza init` first";
        return Err(Fault::new(Exit::Usage, text, next));
    }
    paste::remember_home(&context.home);
    let settings = serve::read_settings(context, &serve::setting_flags(&args.serve))?;
    serve::block_on(serve::two_threads(), run_world(context, args, &settings))
}

/// Returns the home given by `--home`, else the user's home if it holds an identity, else the
/// demonstration's.
fn home_of(context: &CliContext, args: &UpArgs) -> Result<Home, Fault> {
    let is_inhabited = Vault::exists(&context.home.vault());
    if context.home_is_named || (is_inhabited && !args.demo) {
        return Ok(context.home.clone());
    }
    Home::of_demonstration()
}

/// Returns true if a home holds the identity of a user, and not the demonstration's.
fn is_own(home: &Home) -> bool {
    Vault::exists(&home.vault()) && !home.is_demonstration()
}

/// Locks a home. The fault names the command that stops the running node of this home.
fn lock_home(home: &Home) -> Result<Lock, Fault> {
    served::lock_home(home).map_err(|fault| match fault.code {
        Exit::Busy => {
            Fault { next: format!("stop it with `{}`", home.format_command("node stop")), ..fault }
        }
        _ => fault,
    })
}

async fn run_world(
    context: &CliContext,
    args: &UpArgs,
    settings: &Settings,
) -> Result<Exit, Fault> {
    context.home.make_folders()?;
    let lock = lock_home(&context.home)?;
    if is_own(&context.home) {
        if args.demo {
            let text = "this home holds an identity already";
            let next = "choose another folder for the demonstration with `--home DIR`";
            return Err(Fault::new(Exit::CannotWrite, text, next));
        }
        return run_own(context, args, settings, lock).await;
    }
    run_demonstration(context, args, settings, lock).await
}

/// Runs the demonstration with relay, mixnet, mesh, link and echo.
async fn run_demonstration(
    context: &CliContext,
    args: &UpArgs,
    settings: &Settings,
    lock: Lock,
) -> Result<Exit, Fault> {
    let screen = Screen::new(context, args);
    context.home.mark_as_demonstration()?;
    let echo_home = context.home.echo();
    echo_home.make_folders()?;
    let relay = DemoRelay::start(relay_config(&context.home, settings)?, true).await?;
    screen.show_relay(&relay, context);
    let network = demo::start_network(&context.home).await?;
    screen.show_network(&network);
    let mesh = DemoMesh::start(&context.home, &echo_home)?;
    let observer = Arc::new(Observer::new(serve::watched_files(&context.home)));
    let person = Means { mesh: mesh.of_person(), link: None, observer: Some(observer) };
    let options = options_of(&context.home, &relay, person);
    let served = ServedNode::open(&context.home, lock, settings.web_port, options).await?;
    wake(&served.node, PERSON, &relay).await?;
    screen.show_person(context);
    let means = Means { mesh: mesh.of_echo(), link: Some(link::LISTEN), observer: None };
    let echo = node::start_node(options_of(&echo_home, &relay, means));
    wake(&echo.node, ECHO, &relay).await?;
    screen.show_echo();
    join_network(&served.node, &network.uri).await?;
    join_network(&echo.node, &network.uri).await?;
    let meshed = mesh.make_keys([&served.node, &echo.node]).await;
    screen.show_mesh(&meshed);
    let contact = introduce_echo(&served.node, &echo.node).await?;
    let answering = tokio::spawn(echo::answer_notes(echo.node.clone()));
    let parties = Parties { person: &served.node, echo: &echo.node, contact: &contact };
    let done = tokio::select! {
        done = prove_and_wait(&screen, &served, parties, meshed.is_ok(), args) => done,
        signal = until_stopped(served.watch_stop()) => signal.map(|()| Exit::Done),
    };
    answering.abort();
    close_all(served, Some(echo), Some(relay)).await;
    drop(mesh);
    let _ = tokio::time::timeout(STOP, network.stop()).await;
    done
}

/// Prints the address of the page, runs the check, and waits (NODE-4).
async fn prove_and_wait(
    screen: &Screen<'_>,
    served: &ServedNode,
    parties: Parties<'_>,
    has_mesh: bool,
    args: &UpArgs,
) -> Result<Exit, Fault> {
    if !args.check {
        screen.open(served);
    }
    let proven = check_carriers(screen, parties, has_mesh).await;
    // A check that failed because the user locked the vault does not end the demonstration.
    let is_locked = served.node.ask(|shell| Ok(shell.state())).await? == NodeStateJson::Locked;
    if (!proven && !is_locked) || args.check {
        return Ok(if proven { Exit::Done } else { Exit::No });
    }
    std::future::pending().await
}

/// Checks the carriers in turn. Returns true if a note went to echo and back over each one that is
/// there.
async fn check_carriers(screen: &Screen<'_>, parties: Parties<'_>, has_mesh: bool) -> bool {
    let Parties { person, echo, contact } = parties;
    let [relay, link, mixnet, mesh] = CHECKED;
    let is_proven = async |carrier, patience| {
        let proof = check::exchange_notes(parties, carrier, patience).await;
        screen.show_check(&proof);
        proof.is_ok()
    };
    let [by_relay, by_link, by_mixnet, by_mesh] = check::PATIENCES;
    if !is_proven(relay, by_relay).await {
        return false;
    }
    // Echo holds the person's card since the first exchange, so the devices can be paired.
    let joined = link::join_devices(person, echo, contact).await;
    screen.show_link(&joined);
    if joined.is_ok() && !is_proven(link, by_link).await {
        return false;
    }
    check::until_acquainted(parties, mixnet).await;
    // Without a listener there is no link, and without multicast on the loopback interface no
    // mesh, as the screen shows.
    is_proven(mixnet, by_mixnet).await && (!has_mesh || is_proven(mesh, by_mesh).await)
}

/// Serves a home that holds an identity of its user.
async fn run_own(
    context: &CliContext,
    args: &UpArgs,
    settings: &Settings,
    lock: Lock,
) -> Result<Exit, Fault> {
    let screen = Screen::new(context, args);
    let relay = if context.home.relay().join("mail.db").exists() {
        Some(DemoRelay::start(relay_config(&context.home, settings)?, false).await?)
    } else {
        None
    };
    if let Some(relay) = &relay {
        screen.show_relay(relay, context);
    }
    let observer = Arc::new(Observer::new(serve::watched_files(&context.home)));
    let dialer = Dialer {
        at_home: relay.iter().map(DemoRelay::at_home).collect(),
        tap: Some(observer.clone() as Arc<dyn Tap>),
        demo: false,
    };
    let unattended = serve::has_passphrase_file(&args.serve);
    let idle_lock_s = if unattended { 0 } else { settings.idle_lock_s };
    let vault = context.home.vault();
    let witness = Some(context.home.state());
    let clock = Clock::system();
    let observer = Some(observer);
    let choice = MeshChoice::of_settings(&context.home, settings)?;
    let carrying = choice.as_ref().map(MeshNodeThread::start).transpose()?;
    let mesh = choice.as_ref().map(MeshChoice::place);
    let link = settings.link_place()?;
    let options = NodeOptions {
        vault,
        witness,
        demo: false,
        idle_lock_s,
        clock,
        dialer,
        mesh,
        link,
        observer,
    };
    let served = ServedNode::open(&context.home, lock, settings.web_port, options).await?;
    let unlocked =
        if unattended { serve::unlock_at_start(&served, &args.serve).await } else { Ok(()) };
    if unlocked.is_ok() && !args.check {
        screen.show_own(context, unattended);
        screen.open(&served);
        until_stopped(served.watch_stop()).await?;
    }
    close_all(served, None, relay).await;
    drop(carrying);
    unlocked.map(|()| Exit::Done)
}

async fn close_all(served: ServedNode, echo: Option<RunningNode>, relay: Option<DemoRelay>) {
    // Stop all at once: together they have the two seconds of NODE-2.
    let echo = async {
        if let Some(echo) = echo {
            echo.stop(STOP).await;
        }
    };
    let relay = async {
        if let Some(relay) = relay {
            let _ = relay.stop.send(true);
            let _ = tokio::time::timeout(STOP, relay.handle.wait()).await;
        }
    };
    tokio::join!(served.close(), echo, relay);
}

/// The two devices of the demonstration.
#[derive(Clone, Copy)]
struct Parties<'a> {
    person: &'a NodeHandle,
    echo: &'a NodeHandle,
    /// Echo as a contact of the person.
    contact: &'a ContactJson,
}

/// The means of a party that differ from those of the other one.
struct Means {
    mesh: MeshPlace,
    /// The address on which paired devices are accepted; `None`: this device only connects.
    link: Option<LinkListen>,
    observer: Option<Arc<Observer>>,
}

fn options_of(home: &Home, relay: &DemoRelay, means: Means) -> NodeOptions {
    let Means { mesh, link, observer } = means;
    let tap = observer.clone().map(|observer| observer as Arc<dyn Tap>);
    let dialer = Dialer { at_home: BTreeMap::from([relay.at_home()]), tap, demo: true };
    // A demonstration protects nothing, so it writes no witness outside of its home.
    let vault = home.vault();
    let witness = None;
    let clock = Clock::system();
    let mesh = Some(mesh);
    NodeOptions { vault, witness, demo: true, idle_lock_s: 0, clock, dialer, mesh, link, observer }
}

/// Makes the party's identity, or unlocks it. Echo has no observer; its parcels are seen at the
/// relay.
async fn wake(node: &NodeHandle, name: &'static str, relay: &DemoRelay) -> Result<(), Fault> {
    let entry = relay.entry.clone();
    let woken = node.ask(move |shell| match shell.state() {
        NodeStateJson::Empty => shell.create_identity(name, PASSPHRASE, &[entry]),
        _ => shell.unlock_vault(PASSPHRASE),
    });
    Ok(woken.await?)
}

/// Joins the demonstration's network unless an earlier start has joined it.
async fn join_network(node: &NodeHandle, uri: &NetworkUri) -> Result<(), Fault> {
    let uri = uri.clone();
    let joined = node.ask(move |shell| shell.describe_mixnet().or_else(|_| shell.join_mixnet(uri)));
    Ok(joined.await.map(drop)?)
}

/// Adds echo's card to Alice's contacts, as for any contact.
async fn introduce_echo(person: &NodeHandle, echo: &NodeHandle) -> Result<ContactJson, Fault> {
    check::until_reachable(echo).await?;
    let card: CardText = echo.ask(|shell| shell.card_text(CardFormJson::Full)).await?;
    Ok(person.ask(move |shell| shell.add_contact(&card.uri, None, false)).await?)
}

/// The relay of the demonstration.
struct DemoRelay {
    entry: RelayEntry,
    handle: RelayHandle,
    stop: watch::Sender<bool>,
}

impl DemoRelay {
    /// Starts the relay on its port; a demonstration takes the next free one (NODE-3).
    async fn start(config: RelayConfig, roam: bool) -> Result<Self, Fault> {
        let (stop, stopped) = watch::channel(false);
        let handle = Self::start_listening(config, roam, &stopped).await?;
        let address = handle.address();
        let key = *handle.key();
        let host = address.ip().to_string();
        let entry =
            RelayEntry { key, address: MailboxAddress([0; 16]), port: address.port(), host };
        Ok(Self { entry, handle, stop })
    }

    async fn start_listening(
        config: RelayConfig,
        roam: bool,
        stopped: &watch::Receiver<bool>,
    ) -> Result<RelayHandle, Fault> {
        let tries = if roam { usize::MAX } else { 1 };
        let mut fault = None;
        for port in ports::candidates(config.listen.port()).take(tries) {
            let mut config = config.clone();
            config.listen.set_port(port);
            match relay::start_relay(config, stopped.clone()).await {
                Ok(handle) => return Ok(handle),
                Err(error @ relay::RelayError::Listen { .. }) => {
                    fault.get_or_insert(relay_fault(&error));
                }
                Err(error) => return Err(relay_fault(&error)),
            }
        }
        Err(fault.unwrap_or_else(|| Fault::bug("no port was tried")))
    }

    /// Returns the relay's present address: cards name the port of the first start, which may
    /// differ.
    fn at_home(&self) -> (RelayKey, SocketAddr) {
        (self.entry.key, self.handle.address())
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "event": "relay", "address": self.handle.address(),
            "key": words::key_digits(&self.entry.key),
        })
    }
}
