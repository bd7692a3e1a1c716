//! The control task: runs the machines of all links and one pairing at a time, and serves requests.

mod ask;
mod pairing;
mod roads;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use mezza_core::Time;
use mezza_seka::session::index_of;
use mezza_seka::suite::{FrameKey, LinkSuite};
use mezza_seka::wire::names_of;
use mezza_seka::{LinkId, PairingInput, PeerEvent, PeerInput};
use tokio::sync::mpsc;

pub use start::Started;

use super::address::Endpoint;
use super::carrier::Carrier;
use super::config::{CarrierKind, LinkSettings, StatePlace};
use super::control::{LinkJson, describe_link};
use super::link::Link;
use super::pair::PairingRun;
use super::shared::{LinkShared, SessionTable, Welcome};
use super::store::{DamagedPeer, StateFolder, StoreThread};
use super::{Suite, TunnelEvent, receive, transmit};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::{Clock, Moment};
use mezza_host::process::control::ControlAnswer;
use mezza_host::process::drive::Shell;
use mezza_host::process::rng::OsRng;

/// How often packet numbers are checked: a session has 2^28 of them.
const USED_PAUSE_MS: u64 = 1_000;
/// The same interval for sessions with few subkeys, which a fast link uses up within a second.
const USED_PAUSE_SHORT_MS: u64 = 100;
/// Number of subkeys up to which a session has few.
const SUBKEYS_FEW: u32 = 64;

/// Options of `up` and `pair`.
pub struct TunnelOptions {
    /// The place of the pairings: a folder, or the memory of the daemon.
    pub state: StatePlace,
    /// The settings.
    pub settings: LinkSettings,
    /// Names of the links to run; empty: all.
    pub names: Vec<String>,
    /// The control socket.
    pub socket: Option<PathBuf>,
    /// True if data threads and interfaces are made; false for `pair` without a daemon.
    pub serve: bool,
    /// True if exchanges have no rate limit, for the lab.
    pub unbounded: bool,
    /// The clock.
    pub clock: Clock,
}

/// The daemon.
pub struct Daemon {
    options: TunnelOptions,
    folder: StateFolder,
    store: StoreThread,
    links: BTreeMap<u16, Link>,
    /// Pairings whose records cannot be opened.
    damaged: Vec<DamagedPeer>,
    /// Pairings that are not running: name and peer, by link.
    idle: BTreeMap<u16, (String, LinkId)>,
    /// All interfaces except those of links, at the last check.
    interfaces: BTreeMap<String, u32>,
    carriers: BTreeMap<CarrierPlace, CarrierEntry>,
    pairing: Option<PairingRun>,
    /// True if this process has completed a pairing.
    paired: bool,
    events: mpsc::Sender<TunnelEvent>,
    followers: Vec<(Option<String>, ControlAnswer)>,
    /// Commands that wait for their exchange.
    rekeys: Vec<WaitingRekey>,
    used_due: Time,
    sizes_due: Time,
    /// Spawns the thread of a link, and of a carrier, for a kind of frame key.
    threads: FrameThreads,
}

/// A command that waits for the exchange that it requested.
struct WaitingRekey {
    link: u16,
    until: Time,
    answer: ControlAnswer,
}

/// Identifies a carrier: interface, kind and port. Links with equal values share a socket.
type CarrierPlace = (String, CarrierKind, u16);

#[derive(Clone)]
struct CarrierEntry {
    carrier: Arc<Carrier>,
    table: Arc<SessionTable>,
}

/// How data threads are made: the program has one kind of frame key, the lab has more (SEKA-73).
#[derive(Clone, Copy)]
pub struct FrameThreads {
    transmit: fn(Arc<LinkShared>, mpsc::Sender<TunnelEvent>),
    receive: fn(Arc<Carrier>, Arc<SessionTable>, mpsc::Sender<TunnelEvent>),
}

impl FrameThreads {
    /// Threads that protect frames with `F`.
    pub fn with_key<F: FrameKey>() -> Self {
        Self { transmit: transmit::transmit_frames::<F>, receive: receive::receive_frames::<F> }
    }

    /// The threads with the product's frame key.
    pub fn for_product() -> Self {
        Self::with_key::<<Suite as LinkSuite>::Frames>()
    }
}

impl Daemon {
    fn read_clock(&self) -> Moment {
        self.options.clock.read()
    }

    /// Returns the links that are up, for the output of `up`.
    pub fn links(&self) -> Vec<LinkJson> {
        let now = self.read_clock().boot;
        self.links.values().map(|link| describe_link(link, now)).collect()
    }

    /// Pairings that were quarantined.
    pub fn damaged_peers(&self) -> &[DamagedPeer] {
        &self.damaged
    }

    /// Publishes the peers and sessions of each carrier to its thread.
    fn publish_tables(&self) {
        for entry in self.carriers.values() {
            let of = |link: &&Link| {
                link.road().is_some_and(|road| Arc::ptr_eq(&road.carrier, &entry.carrier))
            };
            let links = || self.links.values().filter(of);
            let pairing = self.pairing.as_ref();
            entry.table.store(Arc::new(Welcome {
                open: links().flat_map(|link| link.open.iter().cloned()).collect(),
                peers: links().map(|link| link.peer.record().peer).collect(),
                pairs: pairing.is_some_and(|run| Arc::ptr_eq(&run.carrier, &entry.carrier)),
            }));
        }
    }

    /// Passes a frame of pairing or exchange to its link or to the pairing, by the names in the
    /// frame.
    fn route_frame(&mut self, interface: u32, from: Endpoint, frame: Vec<u8>) {
        let now = self.read_clock().boot;
        if let (Some(_), Some(run)) = (index_of(&frame), &mut self.pairing) {
            return run.apply_frame(frame, from, now);
        }
        let Some((sender, _)) = names_of(&frame) else { return };
        let of = |link: &&mut Link| {
            let road = link.road();
            link.peer.record().peer == sender
                && road.is_some_and(|road| road.carrier.interface() == interface)
        };
        let pairs = self.pairing.as_ref().is_some_and(|run| {
            let kind = mezza_seka::wire::kind_of(&frame);
            let replaces = run.found == Some(sender);
            kind.is_some_and(mezza_seka::wire::is_pairing) || replaces
        });
        match &mut self.pairing {
            Some(run) if pairs && run.carrier.interface() == interface => {
                run.apply_frame(frame, from, now);
            }
            // SEKA-30: without a pairing window, pairing frames are ignored.
            _ => {
                if let Some(link) = self.links.values_mut().find(of) {
                    link.apply_frame(frame, from, now);
                }
            }
        }
    }

    fn log_event(name: &str, event: PeerEvent) {
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

    /// Does the periodic checks: packet numbers, paths, waiting links and followers.
    fn run_checks(&mut self, now: Time) {
        if self.used_due <= now {
            let few = |link: &Link| link.plan.peer.subkeys < SUBKEYS_FEW;
            let short = self.links.values().any(few);
            self.used_due = now.plus_ms(if short { USED_PAUSE_SHORT_MS } else { USED_PAUSE_MS });
            // The wall clock may have become right only now: a machine without a battery clock sets
            // it from the network.
            let wall = self.read_clock().wall.as_ms();
            for link in self.links.values_mut() {
                link.apply_input(PeerInput::Wall(wall), now);
                link.check_traffic(now);
            }
            self.raise_due(now);
            self.end_rekeys(now);
            let mut followers = std::mem::take(&mut self.followers);
            followers.retain(|(name, answer)| self.answer_show(name.as_deref(), answer));
            self.followers = followers;
        }
        if self.sizes_due <= now {
            self.sizes_due = now.plus_ms(roads::SIZES_MS);
            self.sizes_due();
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
        links.chain(pairing).chain(used).min()
    }

    fn wake(&mut self, now: Time) {
        for link in self.links.values_mut() {
            mezza_core::Machine::wake(&mut link.peer, now, &mut OsRng);
        }
        if let Some(run) = &mut self.pairing {
            run.wake(now);
        }
        self.run_checks(now);
    }

    fn handle_event(&mut self, event: TunnelEvent) {
        let now = self.read_clock().boot;
        match event {
            TunnelEvent::Frame { interface, from, frame } => {
                self.route_frame(interface, from, frame);
            }
            TunnelEvent::Fresh { link, attempt } => {
                self.apply_input(link, PeerInput::Fresh(attempt));
            }
            TunnelEvent::Wanted(link) => self.apply_input(link, PeerInput::Wanted),
            TunnelEvent::Moved { link, to } => {
                self.apply_input(link, PeerInput::Heard(to.stored_address()));
                // The path to the new address may have another MTU.
                self.fit_size(link);
            }
            TunnelEvent::Interfaces => self.interfaces_changed(now),
            TunnelEvent::Lost(interface) => self.carrier_lost(interface, now),
            TunnelEvent::Unplugged(link) => self.handle_unplugged(link, now),
            TunnelEvent::Narrowed(link) => self.fit_size(link),
            TunnelEvent::Stored { link, seq, ok } => match &mut self.pairing {
                Some(run) if run.link == link => run.apply_stored(seq, ok, now),
                _ if ok => self.apply_input(link, PeerInput::Stored(seq)),
                _ => self.apply_input(link, PeerInput::StoreFailed(seq)),
            },
            TunnelEvent::Asked(request) => self.answer_request(request),
        }
    }

    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        let now = self.read_clock().boot;
        let mut sessions = false;
        let mut accepted = Vec::new();
        for link in self.links.values_mut() {
            let carried = link.settle_outputs(&self.store, now);
            sessions |= carried.sessions;
            for event in carried.events {
                if let PeerEvent::Accepted(ms) = event {
                    accepted.push((link.number, ms));
                }
                Self::log_event(&link.plan.name, event);
            }
        }
        for (link, ms) in accepted {
            self.answer_rekeys(link, ms);
        }
        if sessions {
            self.publish_tables();
        }
        self.settle_pairing(now)
    }

    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        // `pair` alone ends with its pairing.
        let over = !self.options.serve && self.paired;
        over.then_some(Ok(Exit::Done))
    }

    fn stop(&mut self) {
        let now = self.read_clock().boot;
        if let Some(run) = &mut self.pairing {
            run.apply_input(PairingInput::Cancel, now);
        }
    }
}

impl Daemon {
    fn apply_input(&mut self, link: u16, input: PeerInput) {
        let now = self.read_clock().boot;
        if let Some(link) = self.links.get_mut(&link) {
            link.apply_input(input, now);
        }
    }
}

fn no_link(name: &str) -> Fault {
    let text = format!("there is no link {name}");
    Fault::new(Exit::NotFound, text, "look at `mezza link show`, or pair one: `mezza link pair IF`")
}

fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|error| Fault::bug(format!("no thread for data: {error}")))
}
