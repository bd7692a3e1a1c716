//! The start of a daemon: state, pairings, carriers, interfaces, threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mezza_core::Time;
use mezza_seka::{LinkId, Peer};
use tokio::sync::{mpsc, watch};

use super::super::config::{CarrierKind, LinkPlan, PairNote, StatePlace};
use super::super::control::LinkAsk;
use super::super::link::Link;
use super::super::store::{StateFolder, StoreThread, StoredPeer};
use super::super::{Suite, TunnelEvent};
use super::{Daemon, FrameThreads, TunnelOptions, USED_PAUSE_MS, no_link, roads};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::ControlSocket;
use mezza_host::process::drive;
use mezza_host::process::rng::OsRng;

/// Events that wait for the control task: handshake frames among them (SEKA-72).
const EVENTS_MAX: usize = 64;
/// The longest sleep: the system's timers stop during suspend. It exceeds the pause between two
/// checks of the links, so that an idle daemon wakes once and not twice.
const NAP: Duration = Duration::from_millis(2 * USED_PAUSE_MS);

/// A daemon whose sockets are open, as the command that runs it receives it.
pub struct Started {
    /// The daemon.
    pub daemon: Daemon,
    events: mpsc::Receiver<TunnelEvent>,
    /// Sends requests to the daemon without the control socket.
    pub asks: mpsc::Sender<TunnelEvent>,
    _socket: Option<ControlSocket>,
}

impl Started {
    /// Opens state, carriers and interfaces, and serves the control socket.
    ///
    /// # Errors
    /// The fault of the first missing requirement; nothing is started then.
    pub fn open(options: TunnelOptions, threads: FrameThreads) -> Result<Self, Fault> {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let folder = match &options.state {
            StatePlace::Folder(root) => StateFolder::open(root, &mut OsRng)?,
            StatePlace::Memory => {
                refuse_second(options.socket.as_deref())?;
                StateFolder::in_memory(&mut OsRng)
            }
        };
        let done = events.clone();
        let store = StoreThread::start(move |link, seq, ok| {
            let _ = done.blocking_send(TunnelEvent::Stored { link, seq, ok });
        })
        .map_err(|error| Fault::bug(format!("no thread for the disk: {error}")))?;
        let now = options.clock.boot();
        let socket = options.socket.clone();
        let mut daemon = Daemon {
            options,
            folder,
            store,
            links: BTreeMap::new(),
            damaged: Vec::new(),
            idle: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            carriers: BTreeMap::new(),
            pairing: None,
            paired: false,
            events: events.clone(),
            followers: Vec::new(),
            rekeys: Vec::new(),
            used_due: now,
            sizes_due: now,
            threads,
        };
        if daemon.options.serve {
            // Watch before links come up, so that no change is missed.
            roads::watch_interfaces(events.clone());
        }
        daemon.load_pairings(now)?;
        let socket = socket
            .map(|path| ControlSocket::serve::<LinkAsk, TunnelEvent>(&path, events.clone()))
            .transpose()?;
        Ok(Self { daemon, events: heard, asks: events, _socket: socket })
    }

    /// Runs until `stop` turns true, or until a `pair` without a daemon is over.
    ///
    /// # Errors
    /// The fault that ends the daemon.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Exit, Fault> {
        let Self { daemon, events, asks, _socket } = self;
        drop(asks);
        drive::run_shell(daemon, events, stop, NAP).await
    }
}

impl Daemon {
    /// Reads all pairings and brings up the requested ones.
    pub(super) fn load_pairings(&mut self, now: Time) -> Result<(), Fault> {
        let mut missing = self.options.names.clone();
        for stored in self.folder.load_peers()? {
            let (stored, file) = match stored {
                StoredPeer::Sound(stored, file) => (*stored, file),
                StoredPeer::Damaged(damaged) => {
                    self.damaged.push(damaged);
                    continue;
                }
            };
            let name = stored.1.name.clone();
            let link = stored.1.link;
            missing.retain(|other| *other != name);
            let wanted = self.options.names.is_empty() || self.options.names.contains(&name);
            if !stored.1.may_stand() {
                // The process ended before either side could use this pairing: remove it.
                tracing::info!(link = name, "a pairing that never stood is removed");
                self.folder.forget_pairing(stored.1.peer)?;
                continue;
            }
            if !wanted || !self.options.serve {
                self.idle.insert(link, (name, stored.1.peer));
                continue;
            }
            let note = self.load_note(&name, stored.1.peer);
            let mut plan = self.options.settings.plan_link(&note)?;
            if self.options.unbounded {
                plan.peer.exchange_ms = 0;
            }
            let key = self.folder.key();
            let peer = Peer::restore(stored.0, stored.1, key, plan.peer, now)
                .map_err(|_| Fault::bug("a pairing of another suite"))?;
            self.store.open(link, file);
            self.bring_up(peer, plan, now);
        }
        match missing.first() {
            Some(name) => Err(no_link(name)),
            None => Ok(()),
        }
    }

    /// Returns the note of a pairing. Without a note the settings must name its interface.
    fn load_note(&self, name: &str, peer: LinkId) -> PairNote {
        let note = self.folder.notes_path(peer).and_then(|path| PairNote::load(&path));
        let note = note.filter(|note| note.name == name);
        note.unwrap_or_else(|| PairNote::new(name, "", CarrierKind::Udp))
    }

    /// Adds a link. It runs, or is suspended until it can run.
    pub(super) fn bring_up(&mut self, peer: Peer<Suite>, plan: LinkPlan, now: Time) {
        let link = Link::new(peer, plan, now);
        let number = link.number;
        self.links.insert(number, link);
        self.raise_link(number, now);
    }
}

/// Refuses to start if another daemon listens on the socket. Without a folder there is no lock, so
/// only the socket shows this (SEKA-51).
fn refuse_second(socket: Option<&Path>) -> Result<(), Fault> {
    let taken = socket.filter(|path| std::os::unix::net::UnixStream::connect(path).is_ok());
    taken.map_or(Ok(()), |path| {
        let text = format!("a daemon listens at {} already", path.display());
        Err(Fault::new(Exit::Busy, text, "stop it, or name another `socket` in the settings"))
    })
}
