//! The role `entry`: clock, announcer and concentrator. One task owns the coordinator.
//!
//! ```text
//! clients ==TLS==> a task each --> +------+ ==control==> every mix
//!                                  | task | ==data=====> first mix
//! clients <== outbox of each <==== +------+ ==store====> bucket store
//! ```

mod cause;
mod clients;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_core::{Machine as _, Time};
use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Config, Server, SignedConfig};
use mezza_mixnet::coordinator::{ConnectionId, Coordinator, Ending, Input, Output};
use mezza_mixnet::wire::{Frame, FrameBody};
use tokio::sync::{mpsc, watch};

use super::key::ServerKey;
use super::network::{ConfigArchive, in_force, warn_if_none_is_in_force};
use super::server::{self, EVENTS_MAX, ServerHandle};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::now;
use mezza_host::connection::link::{
    self, DialTarget, FrameBytes, LinkChange, LinkEvent, LinkTable,
};
use mezza_host::process::drive::Shell;
use mezza_host::process::files;
use mezza_host::process::limiter::ConnectionLimiter;
use mezza_host::process::metrics::{self, Metric, Metrics};
use mezza_host::process::rng::OsRng;
use mezza_host::tls::TlsIdentity;

/// Connections beyond the clients: links of servers, and clients that only fetch a config.
const SPARE: usize = 64;
/// Time limit for HELLO on a new connection.
const UNSEEN: Duration = Duration::from_secs(60);
/// How often connections without HELLO are checked.
const TICK: Duration = Duration::from_secs(1);
/// How long `--once` waits for the mixes.
const ONCE: Duration = Duration::from_secs(10);

/// Options of an entry server.
#[derive(Debug)]
pub struct EntryServerOptions {
    /// The configs.
    pub network: ConfigArchive,
    /// The identity key; the config names its public half.
    pub key: ServerKey,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Connections per /24 or /48; a quarter of it per IPv4 address; 0: no limit.
    pub per_prefix: u32,
    /// End after the first conversation round that was returned.
    pub once: bool,
    /// The port of the metrics; 0: none.
    pub metrics: u16,
}

/// The servers that the entry has links with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ServerLink {
    /// The control link of a mix: keys, signatures, aborts, alarms.
    Control(u8),
    /// The data link of the first mix: batches.
    Data,
    /// The bucket store.
    Store,
}

/// An event of the entry's task.
enum Event {
    Line(ServerLink, u64, LinkEvent),
    Client(ConnectionId, LinkEvent),
    Config(SignedConfig),
}

/// Starts an entry. It runs until `stop` turns true; then its rounds are ended.
///
/// # Errors
/// A key that the config does not name, an address that cannot be bound, too few file descriptors.
pub async fn start(
    options: EntryServerOptions,
    stop: watch::Receiver<bool>,
) -> Result<ServerHandle, Fault> {
    let EntryServerOptions { network, key, listen, per_prefix, once, metrics: port } = options;
    let config = in_force(&network.chain).clone();
    let public = key.public();
    if config.coordinator.key != public {
        let text = "entry: this key is not that of the config's coordinator";
        return Err(Fault::new(Exit::Config, text, "use the key whose public half stands there"));
    }
    let most = config.users_max as usize + SPARE;
    files::room_for_files(most as u64 + files::OTHERS)?;
    let (listener, address) = server::bind_listener(listen).await?;
    let (events, queue) = mpsc::channel(EVENTS_MAX);
    let counts = metrics::serve_metrics(port).await;

    let identity = Arc::new(key.identity()?);
    let tls = server::make_acceptor(&identity, &[link::CLIENT], None)?;
    let limiter = ConnectionLimiter::new(clients::client_bounds(per_prefix, most));
    tokio::spawn(clients::accept_clients(
        listener,
        tls,
        limiter,
        events.clone(),
        Arc::clone(&counts),
    ));
    dial_servers(&config, &identity, &events, &counts);
    tracing::info!("entry runs");
    warn_if_none_is_in_force(&network.chain);
    let shell = EntryShell {
        machine: Coordinator::new(key.signer(), network.chain, network.archive),
        mixes: config.mixes.len() as u8,
        lines: LinkTable::default(),
        clients: LinkTable::default(),
        unseen: VecDeque::new(),
        begun: Instant::now(),
        ticked: Instant::now(),
        once,
        returned: false,
        metrics: Arc::clone(&counts),
    };
    let learn = server::config_sender(&events, Event::Config);
    let task = tokio::spawn(server::drive_server(shell, queue, stop));
    Ok(ServerHandle { address, key: public, learn, metrics: counts, task })
}

/// Dials every mix, the first one twice, and the bucket store.
fn dial_servers(
    config: &Config,
    identity: &Arc<TlsIdentity>,
    events: &mpsc::Sender<Event>,
    metrics: &Arc<Metrics>,
) {
    let dial = |line: ServerLink, name: String, server: &Server, protocol| {
        let target = DialTarget { name, server: server.clone(), protocol };
        let event = move |link, news| Event::Line(line, link, news);
        let identity = Arc::clone(identity);
        let metrics = Arc::clone(metrics);
        tokio::spawn(link::keep_link_up(target, identity, events.clone(), metrics, event));
    };
    for (mix, at) in config.mixes.iter().zip(0_u8..) {
        dial(ServerLink::Control(at), format!("mix {at}"), &mix.server, link::CONTROL);
    }
    if let Some(first) = config.mixes.first() {
        dial(ServerLink::Data, "mix 0".into(), &first.server, link::DATA);
    }
    dial(ServerLink::Store, "bucket store".into(), &config.bucket, link::STORE);
}

/// The coordinator machine, and the links and clients that its outputs go to.
struct EntryShell {
    machine: Coordinator,
    mixes: u8,
    lines: LinkTable<ServerLink>,
    clients: LinkTable<ConnectionId>,
    /// Connections without HELLO, with the time of their start.
    unseen: VecDeque<(Instant, ConnectionId)>,
    begun: Instant,
    ticked: Instant,
    once: bool,
    returned: bool,
    metrics: Arc<Metrics>,
}

impl Shell for EntryShell {
    type Event = Event;

    fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    fn wake(&mut self, now: Time) {
        self.machine.wake(now, &mut OsRng);
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Line(line, link, news) => self.hear_server(line, link, news),
            Event::Client(client, news) => self.hear_client(client, news),
            Event::Config(config) => {
                if server::is_news(&config, self.machine.chain()) {
                    self.apply_input(Input::Config(config));
                }
            }
        }
    }

    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        loop {
            let (lost, gone) = self.carry_out();
            if lost.is_empty() && gone.is_empty() {
                return Ok(());
            }
            for line in lost {
                self.on_line_lost(line);
            }
            for client in gone {
                self.hang_up(client);
            }
        }
    }

    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.hang_up_unseen();
            self.metrics.set(Metric::Clients, self.machine.clients());
        }
        if self.once { self.is_done() } else { None }
    }

    fn stop(&mut self) {
        self.apply_input(Input::Stop);
    }
}

impl EntryShell {
    fn hear_server(&mut self, line: ServerLink, link: u64, news: LinkEvent) {
        let change = self.lines.handle_event(line, link, news);
        self.metrics.set(Metric::Links, self.lines.count());
        match (change, line) {
            (LinkChange::None, _) => {}
            (LinkChange::Frame(frame), ServerLink::Control(at)) => {
                self.apply_input(Input::FromMix(at, frame));
            }
            (LinkChange::Frame(frame), ServerLink::Data) => {
                self.apply_input(Input::FromMix(0, frame));
            }
            (LinkChange::Frame(frame), ServerLink::Store) => {
                self.apply_input(Input::FromStore(frame));
            }
            (LinkChange::Lost, line) => self.on_line_lost(line),
        }
    }

    fn on_line_lost(&mut self, line: ServerLink) {
        self.apply_input(match line {
            ServerLink::Control(at) => Input::MixLost(at),
            ServerLink::Data => Input::MixLost(0),
            ServerLink::Store => Input::StoreLost,
        });
    }

    fn hear_client(&mut self, client: ConnectionId, news: LinkEvent) {
        if matches!(news, LinkEvent::Up(_)) {
            self.unseen.push_back((Instant::now(), client));
        }
        match self.clients.handle_event(client, client, news) {
            LinkChange::None => {}
            LinkChange::Frame(frame) => {
                if let Err(error) =
                    self.machine.handle(Input::FromClient(client, frame), now(), &mut OsRng)
                {
                    self.metrics.count(Metric::Refused);
                    tracing::warn!(%error, "a client was hung up on");
                    self.hang_up(client);
                }
            }
            LinkChange::Lost => self.hang_up(client),
        }
    }

    fn hang_up(&mut self, client: ConnectionId) {
        self.clients.drop_link(client);
        // A client that sent nothing is unknown to the machine, which refuses its id and has no
        // state to drop.
        let _ = self.machine.handle(Input::Gone(client), now(), &mut OsRng);
    }

    fn hang_up_unseen(&mut self) {
        while let Some((since, client)) = self.unseen.front().copied() {
            if since.elapsed() < UNSEEN {
                break;
            }
            self.unseen.pop_front();
            if !self.machine.is_welcomed(client) {
                self.hang_up(client);
            }
        }
    }

    fn apply_input(&mut self, input: Input) {
        if let Err(error) = self.machine.handle(input, now(), &mut OsRng) {
            self.metrics.count(Metric::Refused);
            tracing::debug!(%error, "an input was refused");
        }
    }

    /// Carries out the outputs of the machine. Returns the links and clients that were lost.
    fn carry_out(&mut self) -> (BTreeSet<ServerLink>, BTreeSet<ConnectionId>) {
        let mut lost = BTreeSet::new();
        let mut gone = BTreeSet::new();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::ToMix(at, frame) => {
                    let line =
                        if is_batch(&frame) { ServerLink::Data } else { ServerLink::Control(at) };
                    if !self.lines.send_frame(line, frame) {
                        lost.insert(line);
                    }
                }
                Output::ToStore(frame) => {
                    if !self.lines.send_frame(ServerLink::Store, frame) {
                        lost.insert(ServerLink::Store);
                    }
                }
                Output::ToClient(client, frame) => {
                    if !self.clients.send_frame(client, frame) {
                        gone.insert(client);
                    }
                }
                Output::Bytes(client, bytes) => {
                    if !self.clients.send_parcel(client, FrameBytes::Shared(bytes)) {
                        gone.insert(client);
                    }
                }
                Output::ToAll(frame) => self.tell_all(&frame, &mut gone),
                Output::Close(client) => self.hang_up(client),
                Output::Over(id, ending) => {
                    self.count_ending(id, ending);
                    self.returned |= id.service.has_replies() && is_returned(ending);
                }
            }
        }
        (lost, gone)
    }

    fn tell_all(&mut self, frame: &Frame, gone: &mut BTreeSet<ConnectionId>) {
        if matches!(frame, Frame::Round(_, FrameBody::Alarm { .. })) {
            self.metrics.count(Metric::Alarms);
            tracing::warn!("a mix raised an alarm: its own noise did not come back");
        }
        let Ok(bytes) = frame.encode().map(Arc::<[u8]>::from) else { return };
        for client in self.machine.welcomed_clients() {
            if !self.clients.send_parcel(client, FrameBytes::Shared(Arc::clone(&bytes))) {
                gone.insert(client);
            }
        }
    }

    fn count_ending(&self, id: RoundId, ending: Ending) {
        match ending {
            Ending::Returned(_) => self.metrics.count(Metric::Returned),
            Ending::Aborted(reason, cause) => {
                self.metrics.count(Metric::Aborted);
                let config = self.machine.chain().of_round(id);
                server::ended_early(id, reason, cause::describe_cause(cause, config).as_deref());
            }
        }
    }

    /// With `--once`: returns the result once the run is over.
    fn is_done(&self) -> Option<Result<Exit, Fault>> {
        if self.returned {
            return Some(Ok(Exit::Done));
        }
        let there: BTreeSet<ServerLink> = self.lines.peers().collect();
        let away = (0..self.mixes).find(|at| !there.contains(&ServerLink::Control(*at)))?;
        (self.begun.elapsed() >= ONCE).then(|| {
            let text = format!("entry: mix {away} did not answer in 10 s");
            Err(Fault::new(Exit::Unreachable, text, "check its log"))
        })
    }
}

/// Returns true if a frame goes over the data link.
const fn is_batch(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::Round(
            _,
            FrameBody::BatchStart { .. } | FrameBody::Onions(_) | FrameBody::BatchEnd { .. }
        )
    )
}

const fn is_returned(ending: Ending) -> bool {
    matches!(ending, Ending::Returned(_))
}
