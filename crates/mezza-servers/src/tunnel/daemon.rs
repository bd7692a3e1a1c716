//! The control task: the machines of all links, one pairing at a time, and who asks.

mod ask;
mod pairing;
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
use super::control::{LinkJson, show};
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

/// How often packet numbers are looked at.
const USED_PAUSE_MS: u64 = 100;

/// What `up` and `pair` are told.
pub struct TunnelOptions {
    /// Where the state is.
    pub state: StatePlace,
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
pub struct Daemon {
    options: TunnelOptions,
    folder: StateFolder,
    store: StoreThread,
    links: BTreeMap<u16, Link>,
    /// Pairings that do not load.
    damaged: Vec<DamagedPeer>,
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

#[derive(Clone)]
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

impl Daemon {
    fn moment(&self) -> Moment {
        self.options.clock.read()
    }

    /// The links that are up, for the text of `up`.
    pub fn links(&self) -> Vec<LinkJson> {
        let now = self.moment().boot;
        self.links.values().map(|link| show(link, now)).collect()
    }

    /// Pairings that were set aside.
    pub fn damaged(&self) -> &[DamagedPeer] {
        &self.damaged
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

fn no_link(name: &str) -> Fault {
    let text = format!("there is no link {name}");
    Fault::new(Exit::NotFound, text, "look at `mezza link show`, or pair one: `mezza link pair IF`")
}
