//! The start of a daemon: state, pairings, carriers, interfaces, threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::Time;
use mezza_seka::wire::DATA_OVERHEAD_BYTES;
use mezza_seka::{LinkId, Peer, PeerInput};
use tokio::sync::{mpsc, watch};

use super::super::address::Endpoint;
use super::super::carrier::{Carrier, EtherCarrier, UdpCarrier};
use super::super::config::{CarrierKind, LinkPlan, PairNote, StatePlace};
use super::super::control::LinkAsk;
use super::super::link::Link;
use super::super::shared::{LinkShared, SessionTable};
use super::super::store::{StateFolder, StoreThread, StoredPeer};
use super::super::tap::Tap;
use super::super::{Suite, TunnelEvent, netlink};
use super::{CarrierEntry, Daemon, FrameThreads, TunnelOptions, no_link};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::ControlSocket;
use mezza_host::process::drive;
use mezza_host::process::rng::OsRng;

/// Events that wait for the control task: handshake frames among them (SEKA-72).
const EVENTS_MAX: usize = 64;
/// The longest sleep: the clock of the system's timers stops in suspend.
const NAP: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header with one VLAN tag.
const ETHERNET_BYTES: usize = 14 + 4;
/// The usual MTU of a carrier whose interface does not say.
const CARRIER_MTU: usize = 1_500;

/// A daemon that runs, for its command.
pub struct Started {
    /// It.
    pub daemon: Daemon,
    events: mpsc::Receiver<TunnelEvent>,
    /// The way to ask it without a socket.
    pub asks: mpsc::Sender<TunnelEvent>,
    _socket: Option<ControlSocket>,
}

impl Started {
    /// Opens state, carriers and interfaces, and serves the control socket.
    ///
    /// # Errors
    /// What cannot be had: nothing is started then.
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
            carriers: BTreeMap::new(),
            pairing: None,
            paired: false,
            events: events.clone(),
            followers: Vec::new(),
            used_due: now,
            follow_due: now,
            threads,
        };
        daemon.load(now)?;
        let socket = socket
            .map(|path| ControlSocket::serve::<LinkAsk, TunnelEvent>(&path, events.clone()))
            .transpose()?;
        Ok(Self { daemon, events: heard, asks: events, _socket: socket })
    }

    /// Runs until `stop` turns true, or a pairing alone is over.
    ///
    /// # Errors
    /// A fault that ends it.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Exit, Fault> {
        let Self { daemon, events, asks, _socket } = self;
        drop(asks);
        drive::run(daemon, events, stop, NAP).await
    }
}

impl Daemon {
    /// Reads all pairings and brings those up that are asked for.
    pub(super) fn load(&mut self, now: Time) -> Result<(), Fault> {
        let mut missing = self.options.names.clone();
        for stored in self.folder.peers()? {
            let (stored, file) = match stored {
                StoredPeer::Sound(stored, file) => (*stored, file),
                StoredPeer::Damaged(damaged) => {
                    self.damaged.push(damaged);
                    continue;
                }
            };
            let (name, link) = (stored.1.name.clone(), stored.1.link);
            missing.retain(|other| *other != name);
            let wanted = self.options.names.is_empty() || self.options.names.contains(&name);
            if !wanted || !self.options.serve || !stored.1.accepted {
                if stored.1.accepted {
                    self.idle.insert(link, (name, stored.1.peer));
                }
                continue;
            }
            let note = self.note(&name, stored.1.peer)?;
            let mut plan = self.options.settings.plan(&note)?;
            if self.options.unbounded {
                plan.peer.exchange_ms = 0;
            }
            let key = self.folder.key();
            let peer = Peer::restore(stored, key, plan.peer, now)
                .map_err(|_| Fault::bug("a pairing of another suite"))?;
            self.store.open(link, file);
            self.bring_up(peer, plan, now)?;
        }
        match missing.first() {
            Some(name) => Err(no_link(name)),
            None => Ok(()),
        }
    }

    fn note(&self, name: &str, peer: LinkId) -> Result<PairNote, Fault> {
        let entry = self.options.settings.link.contains_key(name);
        let note = self.folder.notes(peer).and_then(|path| PairNote::load(&path));
        let note = note.filter(|note| note.name == name);
        note.or_else(|| entry.then(|| PairNote::new(name, "", CarrierKind::Udp))).ok_or_else(|| {
            let text = format!("it is not known on which interface {name} was paired");
            Fault::new(Exit::Config, text, format!("write `on` into [link.{name}] of the settings"))
        })
    }

    /// Interface, carrier and threads of a link.
    pub(super) fn bring_up(
        &mut self,
        peer: Peer<Suite>,
        plan: LinkPlan,
        now: Time,
    ) -> Result<(), Fault> {
        let number = peer.record().link;
        let CarrierEntry { carrier, table } = self.carrier(&plan.on, plan.carrier, plan.listen)?;
        let room = carrier_mtu(&plan.on) - carrier.overhead_bytes() - DATA_OVERHEAD_BYTES;
        let mtu = plan.mtu.unwrap_or((room - ETHERNET_BYTES) as u16);
        let tap = Tap::make(&plan.name, mtu)?;
        // A super-frame of more segments than one call takes would be sent, and joined, in two halves.
        if let Some(most) = carrier.row_frames_max(room + DATA_OVERHEAD_BYTES) {
            netlink::limit_segments(&plan.name, most as u32)?;
        }
        for address in &plan.addresses {
            netlink::add_address(&plan.name, *address)?;
        }
        if let Some(bridge) = &plan.bridge {
            netlink::join_bridge(&plan.name, bridge)?;
        }
        let shared = Arc::new(LinkShared::new(number, tap, (Arc::clone(&carrier), table), room));
        let interface = carrier.interface();
        let said = plan.endpoint.map(|address| Endpoint::of(address, interface));
        let hint = Endpoint::restore(&peer.record().address, interface);
        shared.endpoint.store(said.or(hint).map(Arc::new));
        let (run, threads, events) =
            (Arc::clone(&shared), self.threads.transmit, self.events.clone());
        spawn("link transmit", move || threads(run, events))?;
        let mut link = Link::new(peer, shared, plan, now);
        link.input(PeerInput::Wall(self.moment().wall.ms()), now);
        link.input(PeerInput::Carrier(true), now);
        self.links.insert(number, link);
        self.publish();
        Ok(())
    }

    /// The carrier of an interface; its thread begins with it.
    pub(super) fn carrier(
        &mut self,
        on: &str,
        kind: CarrierKind,
        port: u16,
    ) -> Result<CarrierEntry, Fault> {
        let place = (on.to_owned(), kind, if kind == CarrierKind::Udp { port } else { 0 });
        if let Some(entry) = self.carriers.get(&place) {
            return Ok(entry.clone());
        }
        let carrier = Arc::new(match kind {
            CarrierKind::Udp => Carrier::Udp(UdpCarrier::open(on, port)?),
            CarrierKind::Ether => Carrier::Ether(EtherCarrier::open(on)?),
        });
        let table = Arc::<SessionTable>::default();
        let (own, open) = (Arc::clone(&carrier), Arc::clone(&table));
        let (threads, events) = (self.threads.receive, self.events.clone());
        spawn("link receive", move || threads(own, open, events))?;
        let entry = CarrierEntry { carrier, table };
        self.carriers.insert(place, entry.clone());
        Ok(entry)
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|error| Fault::bug(format!("no thread for data: {error}")))
}

/// Bytes of a frame of an interface without Ethernet header.
fn carrier_mtu(interface: &str) -> usize {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("mtu"));
    let mtu = text.ok().and_then(|text| text.trim().parse().ok());
    // A jumbo interface, or loopback, is used up to what a datagram may have.
    mtu.unwrap_or(CARRIER_MTU).clamp(1_280, 9_216)
}

/// Without a folder there is no lock: the socket tells whether another daemon runs (SEKA-51).
fn refuse_second(socket: Option<&Path>) -> Result<(), Fault> {
    let taken = socket.filter(|path| std::os::unix::net::UnixStream::connect(path).is_ok());
    taken.map_or(Ok(()), |path| {
        let text = format!("a daemon listens at {} already", path.display());
        Err(Fault::new(Exit::Busy, text, "stop it, or name another `socket` in the settings"))
    })
}
