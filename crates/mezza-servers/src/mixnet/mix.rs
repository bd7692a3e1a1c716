//! The role `mix`: one machine, its links, its threads, and the number on disk.
//!
//! ```text
//! coordinator --control--> +------+ --data--> next mix, or --store--> bucket store
//! mix before ----data----> | task |
//! threads <---- jobs ----> +------+ -- highest round signed, durable --> disk
//! ```

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_core::{Machine as _, Time};
use mezza_lanes::Kernel;
use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Config, Mode, SignedConfig};
use mezza_mixnet::job::Job;
use mezza_mixnet::mix::{Input, Mix, MixError, MixOptions, Neighbour, NoiseFloor, Output};
use mezza_mixnet::sign::VerifyKey;
use mezza_mixnet::wire::{Frame, FrameBody};
use tokio::sync::{mpsc, watch};

use super::key::ServerKey;
use super::network::{ConfigArchive, in_force, warn_if_none_is_in_force};
use super::pool::{JobEnd, WorkerPool};
use super::server::{self, EVENTS_MAX, ServerHandle};
use super::signed::Signed;
use mezza_host::api::{Exit, Fault};
use mezza_host::backend::AwsLc;
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::connection::link::{self, LinkChange, LinkEvent, LinkTable};
use mezza_host::process::busy::Phase;
use mezza_host::process::drive::Shell;
use mezza_host::process::metrics::{self, Metric, Metrics};
use mezza_host::process::rng::OsRng;
use mezza_host::tls::AllowedClientKeys;

/// Onions per job, of frames of 512. Larger jobs end far apart on the threads, and latency grows in
/// steps. Without vectors a job takes 5 ms; with vectors 1 ms, with as many onions as share an
/// inversion.
const JOB_ITEMS: [usize; 2] = [64, 256];

/// Options of a mix server.
#[derive(Debug)]
pub struct MixServerOptions {
    /// The configs.
    pub network: ConfigArchive,
    /// The identity key; the config names its public half.
    pub key: ServerKey,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The least noise that this operator accepts.
    pub floor: NoiseFloor,
    /// Threads for heavy work.
    pub threads: usize,
    /// The highest rounds that this mix has signed.
    pub signed: Signed,
    /// The port of the metrics; 0: none. `None`: 7110 and the position.
    pub metrics: Option<u16>,
}

/// An event of the mix's task.
enum Event {
    Link(Neighbour, u64, LinkEvent),
    Job(JobEnd),
    Config(SignedConfig),
}

/// Returns the config in force, or the newest one, and the position of `key` among its mixes.
pub fn find_place(network: &ConfigArchive, key: &VerifyKey) -> Result<(Config, usize), Fault> {
    let config = in_force(&network.chain);
    let at = config.mix_keys().position(|mix| mix == key).ok_or_else(|| {
        let text = "mix: this key is no mix of the config";
        Fault::new(Exit::Config, text, "use the key whose public half stands there")
    })?;
    Ok((config.clone(), at))
}

/// Refuses a config whose noise is below the operator's floor (MIX-4).
fn check_noise(config: &Config, floor: &NoiseFloor) -> Result<(), Fault> {
    let NoiseFloor::Promise { delta, .. } = floor else { return Ok(()) };
    if floor.allows_config(config) {
        return Ok(());
    }
    let text = if config.services.iter().all(|policy| policy.mode == Mode::Gauss) {
        let reached = floor.reached_delta(config);
        format!(
            "mix: over a year of all services the noise of this config reaches delta {reached:.2e}, \
             and your --min-noise allows {delta:.0e}"
        )
    } else {
        "mix: the config has noise of the paper's law, which no --min-noise counts".into()
    };
    let next = "lower --min-noise, or ask the guardians for a config with a preset of \
                `mezza mixnet config example`";
    Err(Fault::new(Exit::No, text, next))
}

/// Starts a mix on the fastest kernel. It runs until `stop` turns true; then its rounds are ended and
/// wiped.
///
/// # Errors
/// A key that is no mix of the config, noise below the floor, an address that cannot be bound.
pub async fn start(
    options: MixServerOptions,
    stop: watch::Receiver<bool>,
) -> Result<ServerHandle, Fault> {
    start_with(options, choose_kernel(), stop).await
}

/// Starts a mix as [`start`] does, on the given kernel.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    options: MixServerOptions,
    kernel: &'static dyn Kernel,
    stop: watch::Receiver<bool>,
) -> Result<ServerHandle, Fault> {
    let MixServerOptions { network, key, listen, floor, threads, signed, metrics: port } = options;
    let public = key.public();
    let (config, at) = find_place(&network, &public)?;
    check_noise(&config, &floor)?;
    let (listener, address) = server::bind_listener(listen).await?;
    let (events, queue) = mpsc::channel(EVENTS_MAX);
    let counts = metrics::serve_metrics(port.unwrap_or(metrics::MIX_PORT + at as u16)).await;

    let report = events.clone();
    let pool = WorkerPool::start(threads, kernel, Arc::clone(&counts), move |outcome| {
        // The threads of the pool are outside the Tokio runtime, so the send blocks. If the task
        // has ended, the result is dropped.
        let _ = report.blocking_send(Event::Job(outcome));
    })?;
    warn_if_none_is_in_force(&network.chain);
    let setup = MixOptions {
        signer: key.signer(),
        chain: network.chain,
        signed: signed.rounds().clone(),
        floor,
        job_items: JOB_ITEMS[usize::from(kernel.name() == "ifma")],
    };
    open_links(&config, at, &key, listener, &events, &counts)?;
    tracing::info!(position = at, kernel = kernel.name(), threads, "mix runs");
    let shell = MixShell {
        mix: Mix::new(setup),
        links: LinkTable::default(),
        pool,
        signed,
        live: BTreeSet::new(),
        metrics: Arc::clone(&counts),
    };
    let learn = server::config_sender(&events, Event::Config);
    let metrics = Arc::clone(&counts);
    let task = async move {
        counts.busy.time_task(Phase::Machine, server::drive_server(shell, queue, stop)).await
    };
    Ok(ServerHandle { address, key: public, learn, metrics, task: tokio::spawn(task) })
}

/// Listens for coordinator and predecessor; dials the next mix or the bucket store.
fn open_links(
    config: &Config,
    at: usize,
    key: &ServerKey,
    listener: tokio::net::TcpListener,
    events: &mpsc::Sender<Event>,
    metrics: &Arc<Metrics>,
) -> Result<(), Fault> {
    let identity = Arc::new(key.identity()?);
    let coordinator = config.coordinator.key;
    let before = at.checked_sub(1).map_or(coordinator, |before| config.mixes[before].server.key);
    let peers = AllowedClientKeys::new(vec![coordinator, before]);
    let tls = server::make_acceptor(&identity, &[link::CONTROL, link::DATA], Some(peers))?;
    let who = move |key: &VerifyKey, protocol: &[u8]| match protocol {
        link::CONTROL if *key == coordinator => Some(Neighbour::Coordinator),
        link::DATA if *key == before => Some(Neighbour::Previous),
        _ => None,
    };
    tokio::spawn(server::accept_links(
        listener,
        tls,
        events.clone(),
        Arc::clone(metrics),
        who,
        Event::Link,
    ));
    let (peer, name, server, protocol) = if let Some(next) = config.mixes.get(at + 1) {
        (Neighbour::Next, format!("mix {}", at + 1), next.server.clone(), link::DATA)
    } else {
        (Neighbour::Store, "bucket store".into(), config.bucket.clone(), link::STORE)
    };
    let target = link::DialTarget { name, server, protocol };
    let event = move |link, news| Event::Link(peer, link, news);
    tokio::spawn(link::keep_link_up(target, identity, events.clone(), Arc::clone(metrics), event));
    Ok(())
}

/// The machine of a mix, and all that its outputs go to.
struct MixShell {
    mix: Mix<AwsLc>,
    links: LinkTable<Neighbour>,
    pool: WorkerPool,
    signed: Signed,
    /// Rounds in progress after the last input.
    live: BTreeSet<RoundId>,
    metrics: Arc<Metrics>,
}

impl Shell for MixShell {
    type Event = Event;

    fn deadline(&self) -> Option<Time> {
        self.mix.deadline()
    }

    fn wake(&mut self, now: Time) {
        self.mix.wake(now, &mut OsRng);
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Link(peer, link, news) => self.hear_link(peer, link, news),
            Event::Job(JobEnd::Done(job, done)) => self.apply_input(Input::Done(job, done)),
            Event::Job(JobEnd::Lost(id)) => self.apply_input(Input::Lost(id)),
            Event::Config(config) => {
                if server::is_news(&config, self.mix.chain()) {
                    self.apply_input(Input::Config(config));
                }
            }
        }
    }

    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        loop {
            let lost = self.carry_out();
            if lost.is_empty() {
                break;
            }
            for peer in lost {
                self.apply_input(Input::LinkLost(peer));
            }
        }
        self.forget_jobs();
        Ok(())
    }

    /// Stops the machine. Its queues and the pool are wiped when the shell is dropped.
    fn stop(&mut self) {
        self.apply_input(Input::Stop);
    }
}

impl MixShell {
    fn hear_link(&mut self, peer: Neighbour, link: u64, news: LinkEvent) {
        match self.links.handle_event(peer, link, news) {
            LinkChange::None => {}
            LinkChange::Frame(frame) => self.apply_input(Input::Frame(peer, frame)),
            LinkChange::Lost => self.apply_input(Input::LinkLost(peer)),
        }
        self.metrics.set(Metric::Links, self.links.count());
    }

    fn apply_input(&mut self, input: Input) {
        let Err(error) = self.mix.handle(input, mezza_host::clock::now(), &mut OsRng) else {
            return;
        };
        self.metrics.count(Metric::Refused);
        match error {
            // A late frame or job of a finished round is not the peer's fault.
            MixError::UnknownRound | MixError::Unasked | MixError::Unexpected | MixError::Round => {
                tracing::debug!(%error, "an input was refused");
            }
            MixError::NoConfig
            | MixError::TooMany
            | MixError::Clock
            | MixError::Settings
            | MixError::Noise
            | MixError::Signature
            | MixError::Config(_) => tracing::warn!("mixnet: {error}"),
        }
    }

    /// Carries out the outputs of the machine. Returns the peers whose links were lost.
    fn carry_out(&mut self) -> BTreeSet<Neighbour> {
        let mut lost = BTreeSet::new();
        while let Some(output) = self.mix.poll() {
            match output {
                Output::Frame(peer, frame) => {
                    self.tally_frame(peer, &frame);
                    if !self.links.send_frame(peer, frame) {
                        lost.insert(peer);
                    }
                }
                Output::Job(job) => {
                    let id = job.id();
                    if !self.pool.submit(job) {
                        self.apply_input(Input::Lost(id));
                    }
                }
                Output::Store(id) => {
                    // The machine signs once the number is durable; other inputs wait until then.
                    match tokio::task::block_in_place(|| self.signed.store_round(id)) {
                        Ok(()) => self.apply_input(Input::Stored(id)),
                        // Without the number on disk the round must not be signed (MIX-15). The
                        // next round may find free space, so the mix goes on (MIX-79).
                        Err(fault) => {
                            tracing::error!(round = id.round, "a round is not signed: {fault}");
                            self.apply_input(Input::Lost(id));
                        }
                    }
                }
            }
        }
        lost
    }

    /// Drops waiting jobs of finished rounds, except those that check traps, which run after their
    /// round.
    fn forget_jobs(&mut self) {
        let live: BTreeSet<RoundId> = self.mix.rounds().collect();
        if self.live.iter().any(|id| !live.contains(id)) {
            self.pool.retain(|job| live.contains(&job.id()) || matches!(job, Job::Trap(_)));
        }
        self.live = live;
    }

    fn tally_frame(&self, peer: Neighbour, frame: &Frame) {
        match (peer, frame) {
            (Neighbour::Previous, Frame::Round(_, FrameBody::RepliesEnd { .. })) => {
                self.metrics.count(Metric::Returned);
            }
            (Neighbour::Coordinator, Frame::Round(id, FrameBody::Abort { reason, .. })) => {
                self.metrics.count(Metric::Aborted);
                server::ended_early(*id, *reason, None);
            }
            (Neighbour::Coordinator, Frame::Round(id, FrameBody::Alarm { .. })) => {
                self.metrics.count(Metric::Alarms);
                tracing::warn!(round = id.round, "own noise did not come back");
            }
            _ => {}
        }
    }
}
