//! The start of a guard, and its run.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use mezza_guard::guard::{Guard, GuardSettings, SESSIONS_MAX};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::ControlSocket;
use mezza_host::process::drive::run_shell;
use mezza_host::process::limiter::{Bounds, ConnectionLimiter};
use mezza_host::process::lock::Lock;
use mezza_host::process::rng::OsRng;

use super::control::GuardAsk;
use super::driver::{AcceptedFrom, EVENTS_MAX, GuardShell, ShellEvent, ShellParts};
use super::folder::GuardFolder;
use super::ledger::{LedgerFile, load_ledger};
use super::peers::PeerList;
use super::settings::GuardConfig;
use super::side::SideContext;
use super::table::{ENCODING, RECORD_LENGTHS, link_rules};

/// The longest time between two wake-ups of the machine.
const NAP: Duration = Duration::from_secs(1);
/// Limits of connections from the inside, where one address may be the only device.
const INSIDE_BOUNDS: Bounds = Bounds {
    connections: SESSIONS_MAX,
    handshakes: 1_024,
    per_address: u32::MAX,
    per_site: u32::MAX,
};
/// Limits of connections from the network.
const WIRE_BOUNDS: Bounds =
    Bounds { connections: SESSIONS_MAX, handshakes: 256, per_address: 64, per_site: 256 };

/// A listener and the origin of its connections.
struct BoundListener {
    listener: StdListener,
    from: AcceptedFrom,
}

/// A guard that has loaded all its files and listens.
pub struct StartedGuard {
    folder: GuardFolder,
    config: GuardConfig,
    peers: PeerList,
    machine: Guard,
    ledger: LedgerFile,
    listeners: Vec<BoundListener>,
    /// The address for clients.
    pub address: SocketAddr,
    lock: Lock,
}

impl StartedGuard {
    /// Loads the files of a guard and begins to listen. Files that do not load keep the guard
    /// closed: nothing listens then, and nothing passes.
    ///
    /// # Errors
    /// Exit code 65 for a damaged ledger or key, 66 for a missing one, 75 if the guard runs
    /// already, 78 for wrong settings, 69 if an address cannot be listened on.
    pub fn open(folder: GuardFolder, config: GuardConfig) -> Result<Self, Fault> {
        let lock = folder.lock()?;
        let peers = folder.read_peers()?;
        let lists = peers.for_machine(&folder)?;
        let key = folder.read_coin_key()?;
        let loaded = load_ledger(&folder.ledger_path())?;
        let settings = GuardSettings {
            policy: config.policy.into(),
            table: link_rules()?,
            encoding: ENCODING,
            record_lengths: RECORD_LENGTHS,
            clients: lists.clients,
            destinations: lists.destinations,
        };
        let (machine, _) = Guard::start(settings, key, loaded, &mut OsRng);
        // The compact ledger holds the fresh era, so it is durable before any coin is derived
        // (GUARD-20).
        let ledger = LedgerFile::open(&folder.ledger_path(), machine.ledger())?;
        let mut listeners = vec![bind_listener(config.listen, AcceptedFrom::Inside)?];
        let address =
            listeners[0].listener.local_addr().map_err(|_| cannot_listen(config.listen))?;
        for client in peers.client_ids() {
            let entry = peers.client.get(&super::peers::format_id(client));
            if let Some(inbound) = entry.and_then(|entry| entry.inbound) {
                // One address that is taken must not close the guard for all other clients.
                match bind_listener(inbound, AcceptedFrom::Wire(client)) {
                    Ok(bound) => listeners.push(bound),
                    Err(fault) => tracing::error!(target: "mezza", "{fault}"),
                }
            }
        }
        Ok(Self { folder, config, peers, machine, ledger, listeners, address, lock })
    }

    /// Runs the guard until `stop` turns true.
    ///
    /// # Errors
    /// If the control socket cannot be made.
    pub async fn run(mut self, stop: watch::Receiver<bool>) -> Result<Exit, Fault> {
        let (events, waiting) = mpsc::channel::<ShellEvent>(EVENTS_MAX);
        let socket = self.folder.socket_path();
        let _control = ControlSocket::serve::<GuardAsk, ShellEvent>(&socket, events.clone())?;
        let clock = Clock::system();
        let context = SideContext { events, clock, tick_ms: self.config.tick_ms };
        let mut tasks = Vec::new();
        for bound in self.listeners.drain(..) {
            let bounds = match bound.from {
                AcceptedFrom::Inside => INSIDE_BOUNDS,
                AcceptedFrom::Wire(_) => WIRE_BOUNDS,
            };
            let accepting = accept_sockets(bound, bounds, context.events.clone());
            tasks.push(tokio::spawn(accepting));
        }
        let shell = self.into_shell(context);
        let done = run_shell(shell, waiting, stop, NAP).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        done
    }

    /// Makes the driver.
    pub(crate) fn into_shell(self, context: SideContext) -> GuardShell {
        GuardShell::new(ShellParts {
            machine: self.machine,
            ledger: self.ledger,
            folder: self.folder,
            peers: self.peers,
            config: self.config,
            context,
            lock: self.lock,
        })
    }
}

/// Changes a guard that does not run: one input, and its records durably.
///
/// # Errors
/// The faults of [`StartedGuard::open`], except those of listeners.
pub fn change_alone(
    folder: &GuardFolder,
    inputs: impl IntoIterator<Item = mezza_guard::guard::Input>,
) -> Result<(), Fault> {
    use mezza_core::Machine as _;
    let _lock = folder.lock()?;
    let lists = folder.read_peers()?.for_machine(folder)?;
    let settings = GuardSettings {
        policy: mezza_guard::guard::StrictPolicy::Strict,
        table: link_rules()?,
        encoding: ENCODING,
        record_lengths: RECORD_LENGTHS,
        clients: lists.clients,
        destinations: lists.destinations,
    };
    let loaded = load_ledger(&folder.ledger_path())?;
    let (mut machine, _) = Guard::start(settings, folder.read_coin_key()?, loaded, &mut OsRng);
    let now = Clock::system().boot();
    for input in inputs {
        machine.handle(input, now, &mut OsRng).map_err(|error| {
            let next = "look at the clients with `mezza guard status`";
            Fault::new(Exit::NotFound, error.to_string(), next)
        })?;
    }
    LedgerFile::open(&folder.ledger_path(), machine.ledger()).map(drop)
}

fn bind_listener(address: SocketAddr, from: AcceptedFrom) -> Result<BoundListener, Fault> {
    let listener = StdListener::bind(address).map_err(|_| cannot_listen(address))?;
    listener.set_nonblocking(true).map_err(|_| cannot_listen(address))?;
    Ok(BoundListener { listener, from })
}

fn cannot_listen(address: SocketAddr) -> Fault {
    let text = format!("the guard cannot listen on {address}");
    Fault::new(
        Exit::Unreachable,
        text,
        "choose a free address of this machine with `--listen` or in guard.toml",
    )
}

async fn accept_sockets(bound: BoundListener, bounds: Bounds, events: mpsc::Sender<ShellEvent>) {
    let limiter: Arc<ConnectionLimiter> = ConnectionLimiter::new(bounds);
    let Ok(listener) = TcpListener::from_std(bound.listener) else { return };
    loop {
        let (socket, address, permit) = limiter.accept(&listener).await;
        // Without a permit the source is at its limit, and the socket is closed here.
        let Some(permit) = permit else { continue };
        let event = ShellEvent::Accepted { from: bound.from, socket, address, permit };
        if events.send(event).await.is_err() {
            return;
        }
    }
}
