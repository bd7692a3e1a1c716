//! The control task: the machines of all links, one pairing at a time, and who asks.

mod pairing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mezza_core::Time;
use mezza_seka::session::index_of;
use mezza_seka::suite::{FrameKey, LinkSuite};
use mezza_seka::wire::{DATA_OVERHEAD_BYTES, names_of};
use mezza_seka::{LinkId, PairingInput, Peer, PeerEvent, PeerInput};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::address::Endpoint;
use super::carrier::{Carrier, EtherCarrier, UdpCarrier};
use super::config::{CarrierKind, LinkPlan, LinkSettings, PairNote};
use super::control::{LinkAsk, LinkJson, show};
use super::link::Link;
use super::pair::PairingRun;
use super::shared::{LinkShared, SessionTable, Welcome};
use super::store::{StateFolder, StoreThread, StoredPeer};
use super::tap::Tap;
use super::{Suite, TunnelEvent, netlink, receive, transmit};
use crate::api::{Exit, Fault};
use crate::clock::{Clock, Moment};
use crate::process::control::{ControlAnswer, ControlRequest, ControlSocket};
use crate::process::drive::{self, Shell};
use crate::process::rng::OsRng;

/// Events that wait for the control task: handshake frames among them (SEKA-72).
const EVENTS_MAX: usize = 64;
/// How often packet numbers are looked at.
const USED_PAUSE_MS: u64 = 100;
/// The longest sleep: the clock of the system's timers stops in suspend.
const NAP: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header with one VLAN tag.
const ETHERNET_BYTES: usize = 14 + 4;
/// The usual MTU of a carrier whose interface does not say.
const CARRIER_MTU: usize = 1_500;

/// What `up` and `pair` are told.
pub(crate) struct TunnelOptions {
    /// The state folder.
    pub state: PathBuf,
    /// The settings.
    pub settings: LinkSettings,
    /// Only these links; none: all.
    pub names: Vec<String>,
    /// The control socket.
    pub socket: Option<PathBuf>,
    /// Whether data threads and interfaces are made: not by `pair` alone.
    pub serve: bool,
    /// No bound of exchanges: for the lab.
    pub unbounded: bool,
    /// The clock.
    pub clock: Clock,
}

/// The daemon.
pub(crate) struct Daemon {
    options: TunnelOptions,
    folder: StateFolder,
    store: StoreThread,
    links: BTreeMap<u16, Link>,
    /// Pairings that do not load, by the name of their file.
    damaged: Vec<String>,
    /// Pairings that are not run: name and peer, by link.
    idle: BTreeMap<u16, (String, LinkId)>,
    carriers: BTreeMap<CarrierPlace, CarrierEntry>,
    pairing: Option<PairingRun>,
    /// Whether a pairing stands that was made by this process.
    paired: bool,
    events: mpsc::Sender<TunnelEvent>,
    followers: Vec<(Option<String>, ControlAnswer)>,
    used_due: Time,
    follow_due: Time,
    /// Spawns the thread of a link, and of a carrier, for a kind of frame key.
    threads: FrameThreads,
}

/// Which carrier: one socket serves all links with the same.
type CarrierPlace = (String, CarrierKind, u16);

struct CarrierEntry {
    carrier: Arc<Carrier>,
    table: Arc<SessionTable>,
}

/// How data threads are made: `crates/mezza` has one kind of frame key, the lab has more (SEKA-73).
#[derive(Clone, Copy)]
pub struct FrameThreads {
    transmit: fn(Arc<LinkShared>, mpsc::Sender<TunnelEvent>),
    receive: fn(Arc<Carrier>, Arc<SessionTable>, mpsc::Sender<TunnelEvent>),
}

impl FrameThreads {
    /// Threads that protect frames with `F`.
    pub fn of<F: FrameKey>() -> Self {
        Self { transmit: transmit::run::<F>, receive: receive::run::<F> }
    }

    /// Those of the product.
    pub fn usual() -> Self {
        Self::of::<<Suite as LinkSuite>::Frames>()
    }
}

/// A daemon that runs, for its command.
pub(crate) struct Started {
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
    pub(crate) fn open(options: TunnelOptions, threads: FrameThreads) -> Result<Self, Fault> {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let folder = StateFolder::open(&options.state, &mut OsRng)?;
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
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) -> Result<Exit, Fault> {
        let Self { daemon, events, asks, _socket } = self;
        drop(asks);
        drive::run(daemon, events, stop, NAP).await
    }
}

impl Daemon {
    fn moment(&self) -> Moment {
        self.options.clock.read()
    }

    /// The links that are up, for the text of `up`.
    pub(crate) fn links(&self) -> Vec<LinkJson> {
        let now = self.moment().boot;
        self.links.values().map(|link| show(link, now)).collect()
    }

    /// Pairings that were set aside.
    pub(crate) fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Reads all pairings and brings those up that are asked for.
    fn load(&mut self, now: Time) -> Result<(), Fault> {
        let mut missing = self.options.names.clone();
        for stored in self.folder.peers()? {
            let (stored, file) = match stored {
                StoredPeer::Sound(stored, file) => (*stored, file),
                StoredPeer::Damaged(name) => {
                    self.damaged.push(name);
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
        let note = PairNote::load(&self.folder.notes(peer)).filter(|note| note.name == name);
        note.or_else(|| entry.then(|| PairNote::new(name, "", CarrierKind::Udp))).ok_or_else(|| {
            let text = format!("it is not known on which interface {name} was paired");
            Fault::new(Exit::Config, text, format!("write `on` into [link.{name}] of the settings"))
        })
    }

    /// Interface, carrier and threads of a link.
    fn bring_up(&mut self, peer: Peer<Suite>, plan: LinkPlan, now: Time) -> Result<(), Fault> {
        let number = peer.record().link;
        let carrier = self.carrier(&plan.on, plan.carrier, plan.listen)?;
        let room = carrier_mtu(&plan.on) - carrier.overhead_bytes() - DATA_OVERHEAD_BYTES;
        let mtu = plan.mtu.unwrap_or((room - ETHERNET_BYTES) as u16);
        let tap = Tap::make(&plan.name, mtu)?;
        for address in &plan.addresses {
            netlink::add_address(&plan.name, *address)?;
        }
        if let Some(bridge) = &plan.bridge {
            netlink::join_bridge(&plan.name, bridge)?;
        }
        let shared = Arc::new(LinkShared::new(number, tap, Arc::clone(&carrier), room));
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
    fn carrier(&mut self, on: &str, kind: CarrierKind, port: u16) -> Result<Arc<Carrier>, Fault> {
        let place = (on.to_owned(), kind, if kind == CarrierKind::Udp { port } else { 0 });
        if let Some(entry) = self.carriers.get(&place) {
            return Ok(Arc::clone(&entry.carrier));
        }
        let carrier = Arc::new(match kind {
            CarrierKind::Udp => Carrier::Udp(UdpCarrier::open(on, port)?),
            CarrierKind::Ether => Carrier::Ether(EtherCarrier::open(on)?),
        });
        let table = Arc::<SessionTable>::default();
        let (own, open) = (Arc::clone(&carrier), Arc::clone(&table));
        let (threads, events) = (self.threads.receive, self.events.clone());
        spawn("link receive", move || threads(own, open, events))?;
        self.carriers.insert(place, CarrierEntry { carrier: Arc::clone(&carrier), table });
        Ok(carrier)
    }

    /// Publishes to the threads of all carriers what may arrive over them.
    fn publish(&self) {
        for entry in self.carriers.values() {
            let of = |link: &&Link| Arc::ptr_eq(&link.shared.carrier, &entry.carrier);
            let links = || self.links.values().filter(of);
            let pairing = self.pairing.as_ref();
            entry.table.store(Arc::new(Welcome {
                open: links().flat_map(|link| link.open.iter().cloned()).collect(),
                peers: links().map(|link| link.peer.record().peer).collect(),
                pairs: pairing.is_some_and(|run| Arc::ptr_eq(&run.carrier, &entry.carrier)),
            }));
        }
    }

    /// A frame of pairing or exchange: by its names to the link, or to the pairing.
    fn frame(&mut self, interface: u32, from: Endpoint, frame: Vec<u8>) {
        let now = self.moment().boot;
        if let (Some(_), Some(run)) = (index_of(&frame), &mut self.pairing) {
            return run.frame(frame, from, now);
        }
        let Some((sender, _)) = names_of(&frame) else { return };
        let of = |link: &&mut Link| {
            link.peer.record().peer == sender && link.shared.carrier.interface() == interface
        };
        let pairs = self.pairing.as_ref().is_some_and(|run| {
            let kind = mezza_seka::wire::kind_of(&frame);
            let replaces = run.found == Some(sender);
            kind.is_some_and(mezza_seka::wire::is_pairing) || replaces
        });
        match &mut self.pairing {
            Some(run) if pairs && run.carrier.interface() == interface => {
                run.frame(frame, from, now);
            }
            // SEKA-30: outside of pairing these frames are not looked at.
            _ => {
                if let Some(link) = self.links.values_mut().find(of) {
                    link.frame(frame, from, now);
                }
            }
        }
    }

    fn asked(&mut self, ControlRequest { asked, answer }: ControlRequest<LinkAsk>) {
        let now = self.moment().boot;
        let done = match asked {
            LinkAsk::Show { name, follow } => self.show(name, follow, &answer),
            LinkAsk::Rekey { name } => self.link_named(&name).map(|link| {
                link.input(PeerInput::Rekey, now);
                answer.line(&json!({ "event": "asked" }));
            }),
            LinkAsk::Forget { name } => self.forget(&name).map(|()| {
                answer.line(&json!({ "event": "forgotten", "name": name }));
            }),
            LinkAsk::Pair(ask) => self.pair(ask, &answer),
            LinkAsk::Confirm { equal } => match &mut self.pairing {
                Some(run) => {
                    run.input(PairingInput::Confirm(equal), now);
                    Ok(())
                }
                None => Err(Fault::new(Exit::No, "no pairing is under way", "begin one")),
            },
        };
        if let Err(fault) = done {
            answer.fault(&fault);
        }
    }

    fn link_named(&mut self, name: &str) -> Result<&mut Link, Fault> {
        let link = self.links.values_mut().find(|link| link.plan.name == name);
        link.ok_or_else(|| no_link(name))
    }

    fn show(
        &mut self,
        name: Option<String>,
        follow: bool,
        answer: &ControlAnswer,
    ) -> Result<(), Fault> {
        if let Some(name) = &name {
            self.link_named(name)?;
        }
        self.answer_show(name.as_deref(), answer);
        if follow {
            self.followers.push((name, answer.clone()));
        }
        Ok(())
    }

    fn answer_show(&self, name: Option<&str>, answer: &ControlAnswer) -> bool {
        let now = self.moment().boot;
        let links =
            self.links.values().filter(|link| name.is_none_or(|name| link.plan.name == name));
        let mut links = links;
        links.all(|link| answer.line(&show(link, now)))
    }

    pub(crate) fn forget(&mut self, name: &str) -> Result<(), Fault> {
        let running = self.links.iter().find(|(_, link)| link.plan.name == name);
        let running = running.map(|(number, link)| (*number, link.peer.record().peer));
        let idle = self.idle.iter().find(|(_, (known, _))| known == name);
        let idle = idle.map(|(number, (_, peer))| (*number, *peer));
        let (number, peer) = running.or(idle).ok_or_else(|| no_link(name))?;
        if let Some(link) = self.links.remove(&number) {
            link.shared.send_under(None);
            netlink::delete(link.shared.tap.name())?;
        }
        self.idle.remove(&number);
        self.store.close(number);
        self.publish();
        let file = data_encoding::HEXLOWER.encode(peer.as_bytes());
        self.folder.forget(&format!("{file}.st"))
    }

    /// Everybody who is paired, by link: name and device.
    fn known(&self) -> BTreeMap<u16, (String, LinkId)> {
        let running = self
            .links
            .iter()
            .map(|(number, link)| (*number, (link.plan.name.clone(), link.peer.record().peer)));
        running.chain(self.idle.iter().map(|(number, known)| (*number, known.clone()))).collect()
    }

    fn tell(name: &str, event: PeerEvent) {
        match event {
            PeerEvent::NotRecognised => tracing::warn!(
                link = name,
                "the peer is no longer recognised: the pairing was intercepted, one side lost its \
                 state, or somebody spoofs it"
            ),
            PeerEvent::NoAnswer => tracing::warn!(link = name, "nobody answers"),
            PeerEvent::StoreFailed => tracing::error!(link = name, "its record cannot be written"),
            PeerEvent::Overdue => tracing::warn!(link = name, "its key should have been renewed"),
            other => tracing::info!(link = name, ?other),
        }
    }

    /// Packet numbers, ten times a second; those who follow, once a second.
    fn look(&mut self, now: Time) {
        if self.used_due <= now {
            self.used_due = now.plus_ms(USED_PAUSE_MS);
            self.links.values_mut().for_each(|link| link.tell_used(now));
        }
        if self.follow_due <= now && !self.followers.is_empty() {
            self.follow_due = now.plus_ms(Time::SECOND_MS);
            let mut followers = std::mem::take(&mut self.followers);
            followers.retain(|(name, answer)| self.answer_show(name.as_deref(), answer));
            self.followers = followers;
        }
    }
}

impl Shell for Daemon {
    type Event = TunnelEvent;

    fn now(&self) -> Time {
        self.options.clock.boot()
    }

    fn deadline(&self) -> Option<Time> {
        let links =
            self.links.values().filter_map(|link| mezza_core::Machine::deadline(&link.peer));
        let pairing = self.pairing.as_ref().and_then(PairingRun::deadline);
        let used = (!self.links.is_empty()).then_some(self.used_due);
        let follow = (!self.followers.is_empty()).then_some(self.follow_due);
        links.chain(pairing).chain(used).chain(follow).min()
    }

    fn wake(&mut self, now: Time) {
        for link in self.links.values_mut() {
            mezza_core::Machine::wake(&mut link.peer, now, &mut OsRng);
        }
        if let Some(run) = &mut self.pairing {
            run.wake(now);
        }
        self.look(now);
    }

    fn hear(&mut self, event: TunnelEvent) {
        let now = self.moment().boot;
        match event {
            TunnelEvent::Frame { interface, from, frame } => self.frame(interface, from, frame),
            TunnelEvent::Fresh { link, attempt } => self.give(link, PeerInput::Fresh(attempt)),
            TunnelEvent::Wanted(link) => self.give(link, PeerInput::Wanted),
            TunnelEvent::Moved { link, to } => self.give(link, PeerInput::Heard(to.stored())),
            TunnelEvent::Stored { link, seq, ok } => match &mut self.pairing {
                Some(run) if run.link == link => run.stored(seq, ok, now),
                _ if ok => self.give(link, PeerInput::Stored(seq)),
                _ => self.give(link, PeerInput::StoreFailed(seq)),
            },
            TunnelEvent::Asked(request) => self.asked(request),
        }
    }

    async fn settle(&mut self) -> Result<(), Fault> {
        let now = self.moment().boot;
        let mut sessions = false;
        for link in self.links.values_mut() {
            let carried = link.settle(&self.store, now);
            sessions |= carried.sessions;
            for event in carried.events {
                Self::tell(&link.plan.name, event);
            }
        }
        if sessions {
            self.publish();
        }
        self.settle_pairing(now)
    }

    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        // `pair` alone ends with its pairing.
        let over = !self.options.serve && self.paired;
        over.then_some(Ok(Exit::Done))
    }

    fn stop(&mut self) {
        let now = self.moment().boot;
        if let Some(run) = &mut self.pairing {
            run.input(PairingInput::Cancel, now);
        }
    }
}

impl Daemon {
    fn give(&mut self, link: u16, input: PeerInput) {
        let now = self.moment().boot;
        if let Some(link) = self.links.get_mut(&link) {
            link.input(input, now);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|error| Fault::bug(format!("no thread for data: {error}")))
}

fn no_link(name: &str) -> Fault {
    let text = format!("there is no link {name}");
    Fault::new(Exit::NotFound, text, "look at `mezza link show`, or pair one: `mezza link pair IF`")
}

/// Bytes of a frame of an interface without Ethernet header.
fn carrier_mtu(interface: &str) -> usize {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("mtu"));
    let mtu = text.ok().and_then(|text| text.trim().parse().ok());
    // A jumbo interface, or loopback, is used up to what a datagram may have.
    mtu.unwrap_or(CARRIER_MTU).clamp(1_280, 9_216)
}
