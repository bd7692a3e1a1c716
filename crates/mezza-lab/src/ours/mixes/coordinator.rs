//! The coordinator of the lab: it agrees on a round with the mixes, sends a batch, and receives the
//! replies.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mezza::testing::clock::now;
use mezza::testing::connection::link::{
    self, FrameSender, FrameSizeClass, carry_frames, dial, make_parcel,
};
use mezza::testing::process::busy::{Busy, Phase};
use mezza::testing::tls::{Pin, TlsIdentity};
use mezza_core::PublicKey;
use mezza_lanes::Kernel;
use mezza_mixnet::config::Server;
use mezza_mixnet::onion::Layer;
use mezza_mixnet::wire::{Frame, FrameBody, Items, Settings};
use mezza_mixnet::{RoundId, Service};
use nix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::network::{self, LocalMixnet};
use super::onions::Onions;
use super::round::{MixSetup, PhaseCpu, RoundTiming};
use super::threads::ThreadReading;

/// Capacity of the event queue.
const EVENTS_MAX: usize = 256;
/// Time limit for a round.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long all mixes must have made no noise before a batch is sent.
const QUIET: Duration = Duration::from_millis(20);

/// The link of a frame: the control link of a mix, or the link of batches with the first mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Control(usize),
    Data,
}

/// The coordinator, its runtime and its mixes.
pub struct LabCoordinator {
    runtime: Runtime,
    inner: Inner,
}

struct Inner {
    network: LocalMixnet,
    kernel: &'static dyn Kernel,
    control: Vec<FrameSender>,
    data: FrameSender,
    frames: mpsc::Receiver<(From, Frame)>,
    /// CPU time of the coordinator's ends of its links.
    own: Arc<Busy>,
    /// The number of the last round.
    last: u64,
    seed: u64,
}

impl LabCoordinator {
    /// Starts mixes in a new folder below `root`, and connects to all of them.
    ///
    /// # Errors
    /// If a mix does not start.
    pub fn start(root: &Path, setup: MixSetup) -> Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build()?;
        let inner = runtime.block_on(Inner::start(&network::next_folder(root), setup))?;
        Ok(Self { runtime, inner })
    }

    /// Runs some rounds in a new network. The first round of a process is slower than later ones
    /// and is not counted.
    ///
    /// # Errors
    /// Mixes that do not start, or a failed round.
    pub fn measure_rounds(
        root: &Path,
        setup: MixSetup,
        users: u32,
        rounds: usize,
    ) -> Result<Vec<RoundTiming>> {
        let mut coordinator = Self::start(root, setup)?;
        coordinator.run_round(users)?;
        let timings = (0..rounds).map(|_| coordinator.run_round(users)).collect();
        coordinator.stop_mixes()?;
        timings
    }

    /// Runs one round.
    ///
    /// # Errors
    /// A round that ends early, or a wrong reply.
    pub fn run_round(&mut self, users: u32) -> Result<RoundTiming> {
        let round = self.inner.run_round(users);
        self.runtime.block_on(async { timeout(PATIENCE, round).await })?
    }

    /// Stops the mixes.
    ///
    /// # Errors
    /// The error of a failed mix.
    pub fn stop_mixes(self) -> Result<()> {
        let Inner { network, control, data, .. } = self.inner;
        drop((control, data));
        self.runtime.block_on(network.stop_mixes())
    }
}

impl Inner {
    async fn start(folder: &Path, setup: MixSetup) -> Result<Self> {
        let network = LocalMixnet::start(folder, &setup).await?;
        let identity = network.coordinator.identity()?;
        let (events, frames) = mpsc::channel(EVENTS_MAX);
        let own = Arc::new(Busy::default());
        let mut control = Vec::new();
        for (at, mix) in network.config.mixes.iter().enumerate() {
            let from = From::Control(at);
            control.push(connect_mix(&mix.server, from, &identity, &events, &own).await?);
        }
        let first = &network.config.mixes[0].server;
        let data = connect_mix(first, From::Data, &identity, &events, &own).await?;
        network.wait_linked().await?;
        let MixSetup { kernel, seed, .. } = setup;
        Ok(Self { network, kernel, control, data, frames, own, last: 0, seed })
    }

    async fn run_round(&mut self, users: u32) -> Result<RoundTiming> {
        let before = self.read_spent();
        let layers = self.agree_layers().await?;
        let id = layers[0].id;
        let onions = Onions::wrap_cells(
            self.kernel,
            &layers,
            users as usize,
            self.seed.wrapping_add(id.round),
        )?;
        self.wait_quiet().await;
        let ready = self.read_spent();
        let frames = make_batch(id, &onions.bytes, self.network.mixes.len())?;
        let threads = ThreadReading::now()?;
        let own = self.own.cpu_time(Phase::Link);
        let cpu = process_cpu()?;
        let begun = Instant::now();
        for frame in frames {
            self.data.send(frame).await.context("the link with the first mix is gone")?;
        }
        let mut replies = Vec::new();
        loop {
            match self.next_frame(id).await? {
                (From::Data, FrameBody::Replies(items)) => replies.extend_from_slice(&items.bytes),
                (From::Data, FrameBody::RepliesEnd { count }) => {
                    ensure!(count == users, "{count} replies to {users} onions");
                    break;
                }
                (from, body) => bail!("{from:?} sent {:#04x}", Frame::Round(id, body).kind()),
            }
        }
        let wall = begun.elapsed();
        let cpu = process_cpu()?.saturating_sub(cpu);
        let threads = ThreadReading::now()?.time_since(&threads);
        let own = self.own.cpu_time(Phase::Link).saturating_sub(own);
        let spent = subtract_spent(&self.read_spent(), &ready);
        onions.check_replies(self.kernel, &replies)?;
        let ahead = subtract_spent(&ready, &before);
        let making = onions.making;
        Ok(RoundTiming { wall, cpu, spent, ahead, own, threads, making })
    }

    /// Runs `NEW_ROUND` and `SIGN`. Returns the layers of a fresh round.
    async fn agree_layers(&mut self) -> Result<Vec<Layer>> {
        let (index, policy) =
            self.network.config.find_policy(Service::Conversation).context("no conversations")?;
        let clock = policy.round_at(now()).context("before the first round")?;
        self.last = clock.max(self.last + 1);
        let id = RoundId { service: Service::Conversation, round: self.last };
        let collect_ms = policy.collect_ms;
        let slots = policy.slots;
        let buckets = policy.buckets;
        let keys = self.ask_mixes(id, FrameBody::NewRound, |body| match body {
            FrameBody::RoundKey(key) => Some(key),
            _ => None,
        });
        let keys = keys.await?;
        let config = self.network.config.hash();
        let settings = Settings { config, id, collect_ms, slots, buckets, policy: index, keys };
        let signatures = self.ask_mixes(id, FrameBody::Sign(settings.clone()), |body| match body {
            FrameBody::Signature(signature) => Some(signature),
            _ => None,
        });
        let signatures = signatures.await?;
        let mut both = self.network.config.mix_keys().zip(&signatures);
        ensure!(both.all(|(key, its)| settings.signed_by(key, its)), "a signature is wrong");
        let layer = |(key, position): (&[u8; 32], u8)| Layer { id, position, key: PublicKey(*key) };
        Ok(settings.keys.iter().zip(0..).map(layer).collect())
    }

    /// Sends a frame to every mix. Returns the responses in the order of the mixes.
    async fn ask_mixes<T>(
        &mut self,
        id: RoundId,
        body: FrameBody,
        answer: impl Fn(FrameBody) -> Option<T>,
    ) -> Result<Vec<T>> {
        let frame = Frame::Round(id, body);
        for link in &self.control {
            link.send(make_parcel(frame.clone()).context("a frame that is too long")?).await.ok();
        }
        let mut answers: Vec<Option<T>> = self.control.iter().map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            let (from, body) = self.next_frame(id).await?;
            let kind = Frame::Round(id, body.clone()).kind();
            match (from, answer(body)) {
                (From::Control(at), Some(answer)) => answers[at] = Some(answer),
                _ => bail!("{from:?} answered {kind:#04x}"),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Receives the next frame of a round.
    async fn next_frame(&mut self, id: RoundId) -> Result<(From, FrameBody)> {
        loop {
            match self.frames.recv().await {
                Some((from, Frame::Round(of, body))) if of == id => return Ok((from, body)),
                // An alarm reports a failed round, so it ends the measurement.
                Some((from, Frame::Round(_, FrameBody::Alarm { .. }))) => {
                    bail!("{from:?}: an alarm")
                }
                // A late frame of an earlier round is ignored.
                Some(_) => {}
                None => bail!("all links are gone"),
            }
        }
    }

    fn read_spent(&self) -> Vec<PhaseCpu> {
        let of = |busy: &Busy| Phase::ALL.map(|phase| busy.cpu_time(phase));
        self.network.mixes.iter().map(|mix| of(&mix.metrics.busy)).collect()
    }

    /// Waits until no mix makes noise.
    async fn wait_quiet(&self) {
        let mixes = &self.network.mixes;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            tokio::time::sleep(QUIET / 10).await;
            if mixes.iter().any(|mix| mix.metrics.busy.is_at(Phase::Noise)) {
                since = Instant::now();
            }
        }
    }
}

/// Connects to a mix; its frames go to `events`.
async fn connect_mix(
    server: &Server,
    from: From,
    identity: &TlsIdentity,
    events: &mpsc::Sender<(From, Frame)>,
    own: &Arc<Busy>,
) -> Result<FrameSender> {
    let protocol = match from {
        From::Control(_) => link::CONTROL,
        From::Data => link::DATA,
    };
    let stream = dial(&server.address, protocol, Pin::new(server.key), Some(identity)).await?;
    let (outbox, parcels) = mpsc::channel(link::SERVER_FRAMES_MAX);
    let events = events.clone();
    let own = Arc::clone(own);
    tokio::spawn(async move {
        let carried =
            carry_frames(stream, FrameSizeClass::Long, parcels, &events, |frame| (from, frame));
        own.time_task(Phase::Link, carried).await
    });
    Ok(outbox)
}

/// Encodes the frames of a batch.
fn make_batch(id: RoundId, onions: &[u8], mixes: usize) -> Result<Vec<link::FrameBytes>> {
    let size = Service::Conversation.onion_bytes(mixes);
    let count = u32::try_from(onions.len() / size)?;
    let wide = u16::try_from(size)?;
    let items = Items::of_batch(onions, size).map(FrameBody::Onions);
    let start = FrameBody::BatchStart { count, size: wide };
    let bodies = std::iter::once(start).chain(items).chain([FrameBody::BatchEnd { count }]);
    bodies
        .map(|body| make_parcel(Frame::Round(id, body)).context("a frame that is too long"))
        .collect()
}

fn subtract_spent(after: &[PhaseCpu], before: &[PhaseCpu]) -> Vec<PhaseCpu> {
    let of = |(after, before): (&PhaseCpu, &PhaseCpu)| {
        std::array::from_fn(|phase| after[phase].saturating_sub(before[phase]))
    };
    after.iter().zip(before).map(of).collect()
}

fn process_cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza::testing::backend::kernel::choose_kernel;
    use mezza_mixnet::config::Mode;
    use mezza_mixnet::noise::Law;

    #[test]
    fn rounds_of_many_few_and_no_users_come_back_right() {
        let folder = tempfile::tempdir().unwrap();
        let law = Law { mode: Mode::Paper, mu: 4, scale: 0 };
        let setup = MixSetup { mixes: 3, users_max: 600, law, kernel: choose_kernel(), seed: 7 };
        let mut coordinator = LabCoordinator::start(folder.path(), setup).unwrap();
        for users in [600, 5, 0] {
            let outcome = coordinator.run_round(users).unwrap();
            let unwrapped: Duration =
                outcome.spent.iter().map(|mix| mix[Phase::Unwrap as usize]).sum();
            assert!(Duration::ZERO < unwrapped && unwrapped < outcome.cpu, "{outcome:?}");
            assert_eq!(outcome.spent.len(), 3);
            let noise = |at: usize| outcome.ahead[at][Phase::Noise as usize];
            assert!(noise(0) > Duration::ZERO && noise(2).is_zero(), "{outcome:?}");
        }
        coordinator.stop_mixes().unwrap();
    }
}
