//! The connection to the entry server of a mixnet, kept open as long as the client's machine
//! requires.
//!
//! ```text
//! Dial --TLS with the key of the config--> Up .. frames .. Down        (the machine draws the times)
//! Job  --> a thread that may wait --> Done | Lost
//! ```

mod line;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_core::Time;
use mezza_messenger::CarrierInput;
use mezza_messenger::carriers::mixnet::{MixnetCover, MixnetInput, MixnetLine, MixnetOutput};
use mezza_mixnet::client::{ClientJob as Work, ROW_BYTES_MAX};
use mezza_mixnet::wire::Frame;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};
use tokio::time::sleep;

use super::pace::Pace;
use super::{Adapter, ConnectionEvent, ConnectionReport, Reporter};
use line::Line;
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::backend::AwsLc;
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::clock::Clock;
use mezza_host::connection::link::{self, CLIENT_FRAMES_MAX, End, FrameSizeClass};
use mezza_host::process::rng::OsRng;
use mezza_host::store::record::{KEY_BYTES_MAX, TEXT_BYTES_MAX};
use mezza_host::tls::Pin;

/// The vault accepts every row that the client stores (MIX-44).
const _: () = assert!(ROW_BYTES_MAX + KEY_BYTES_MAX + 5 <= TEXT_BYTES_MAX);

/// A connection that the device has ordered.
pub(super) struct PlannedDial {
    at: Time,
    hello: Frame,
    address: String,
    /// The key that the config names; `None`: any key.
    key: Option<[u8; 32]>,
}

/// The connection of one node to its network.
pub(crate) struct MixnetAdapter<E> {
    reporter: Reporter<E>,
    clock: Clock,
    /// Shared by successive connections: an entry server may close one and be dialled again.
    pace: Arc<Pace>,
    line: Option<Arc<Line>>,
    /// The task of the last dial; dropping the adapter aborts it.
    keeper: JoinSet<()>,
    /// Why the entry server is not the one that the config names, in words for the user.
    trouble: Option<String>,
    /// The rounds of a locked device.
    cover: Option<Box<MixnetCover<AwsLc>>>,
    /// The dial that waits for the user's decision about a restored vault.
    pub(super) withheld: Option<PlannedDial>,
}

impl<E: From<ConnectionReport> + Send + 'static> MixnetAdapter<E> {
    /// Makes the adapter, without a connection.
    pub(super) fn new(clock: Clock, reporter: Reporter<E>) -> Self {
        let pace = Arc::new(Pace::new());
        let keeper = JoinSet::new();
        let line = None;
        let trouble = None;
        let cover = None;
        let withheld = None;
        Self { reporter, clock, pace, line, keeper, trouble, cover, withheld }
    }

    /// Lets the line and the rounds of a locked device continue (MIX-78).
    pub(super) fn begin_cover(&mut self, cover: MixnetCover<AwsLc>) {
        self.cover = Some(Box::new(cover));
        self.drive_cover(|_, _| ());
    }

    /// Returns the line, which the unlocked device continues.
    pub(super) fn take_line(&mut self) -> Option<MixnetLine> {
        let now = self.clock.date();
        self.cover.take().map(|cover| cover.into_line(now))
    }

    /// Returns the time of the next work of a locked device's rounds.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.cover.as_ref()?.deadline()
    }

    /// Does the due work of a locked device's rounds.
    pub(super) fn wake(&mut self) {
        self.drive_cover(|cover, now| cover.wake(now, &mut OsRng));
    }

    /// Runs `work` on the rounds of a locked device, and carries out the resulting orders.
    fn drive_cover(&mut self, work: impl FnOnce(&mut MixnetCover<AwsLc>, Time)) {
        let now = self.clock.date();
        let Some(cover) = &mut self.cover else { return };
        work(cover, now);
        while let Some(order) = self.cover.as_mut().and_then(|cover| cover.poll()) {
            self.carry_out_order(order, false);
        }
    }

    /// Passes an input to the device, or to the rounds of a locked device.
    fn deliver_input(&mut self, input: MixnetInput) -> Option<CarrierInput> {
        if self.cover.is_none() {
            return Some(input.into());
        }
        self.drive_cover(|cover, now| cover.handle(input, now, &mut OsRng));
        None
    }

    /// Carries out an order of the device for the mixnet. While the vault is `doubted`, nothing is
    /// dialled: its budget lacks charges that the mixnet has seen (MSG-63).
    pub(super) fn carry_out_order(&mut self, order: MixnetOutput, doubted: bool) {
        match order {
            MixnetOutput::Frame(_) | MixnetOutput::Job(_) if doubted => {}
            MixnetOutput::Connect { at, hello, address, key } => {
                let dial = PlannedDial { at, hello, address, key };
                if doubted { self.withheld = Some(dial) } else { self.start_dial(dial) }
            }
            // The task then disconnects and reports `Down`.
            MixnetOutput::Disconnect => {
                self.line.take().into_iter().for_each(|line| line.close());
                self.withheld = None;
            }
            MixnetOutput::Frame(scheduled) => {
                let now = self.clock.date();
                if let Some(line) = &self.line {
                    line.push_frame(scheduled, now);
                }
            }
            MixnetOutput::Job(job) => self.run_job(job),
            MixnetOutput::Leave => self.on_device_gone(),
        }
    }

    /// Starts the dial that waited for the user's decision about a restored vault.
    pub(super) fn resume_restored(&mut self) {
        if let Some(dial) = self.withheld.take() {
            self.start_dial(dial);
        }
    }

    fn start_dial(&mut self, dial: PlannedDial) {
        self.keeper = JoinSet::new();
        let line = Arc::new(Line::new());
        self.line = Some(Arc::clone(&line));
        let wait = Duration::from_millis(dial.at.since_ms(self.clock.date()));
        let reporter = self.reporter.clone();
        let pace = Arc::clone(&self.pace);
        self.keeper.spawn(async move {
            sleep(wait).await;
            keep_connection(dial, &line, reporter, pace).await;
        });
    }

    fn run_job(&self, mut job: Work) {
        let reporter = self.reporter.clone();
        let id = job.id();
        tokio::spawn(async move {
            let work = task::spawn_blocking(move || {
                let done = job.run::<AwsLc>(choose_kernel());
                (job, done)
            });
            let input = match work.await {
                Ok((job, done)) => MixnetInput::Done(job, done),
                Err(_) => MixnetInput::Lost(id),
            };
            reporter.send_news(ConnectionEvent::Input(input.into())).await;
        });
    }
}

impl<E: From<ConnectionReport> + Send + 'static> Adapter for MixnetAdapter<E> {
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput> {
        match news {
            _ if serial != self.reporter.serial => None,
            ConnectionEvent::Trouble(text) => {
                self.trouble = text;
                None
            }
            ConnectionEvent::Input(CarrierInput::Mixnet(input)) => self.deliver_input(input),
            ConnectionEvent::Frame { frame, read_at } => {
                let age_ms = read_at.elapsed().as_millis() as u64;
                self.deliver_input(MixnetInput::Frame { frame: *frame, age_ms })
            }
            // Events of relays cannot come from this carrier.
            ConnectionEvent::Input(
                CarrierInput::Relay(_) | CarrierInput::Mesh(_) | CarrierInput::Link(_),
            )
            | ConnectionEvent::Up { .. }
            | ConnectionEvent::Down => None,
        }
    }

    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine> {
        words::mixnet::describe_health(self.trouble.as_deref(), facts).into_iter().collect()
    }

    /// Late reports of the dropped tasks bear an old serial number and are dropped.
    fn on_device_gone(&mut self) {
        *self = Self::new(self.clock.clone(), self.reporter.next_connection());
    }
}

/// Runs one connection, from the dial to its end.
async fn keep_connection<E: From<ConnectionReport>>(
    dial: PlannedDial,
    line: &Line,
    reporter: Reporter<E>,
    pace: Arc<Pace>,
) {
    let PlannedDial { hello, address, key, .. } = dial;
    let pin = key.map_or_else(Pin::any, Pin::new);
    let dialled = link::dial(&address, link::CLIENT, Arc::clone(&pin), None).await;
    // This dial's result replaces the trouble reported for an earlier one.
    let trouble = pin.other_key().map(|_| words::mixnet::other_key(&address));
    // A dial that only fetches configs does not test the entry's key, so a reported trouble stays.
    let say = async |trouble: Option<String>| {
        if key.is_some() || trouble.is_some() {
            reporter.send_news(ConnectionEvent::Trouble(trouble)).await;
        }
    };
    let report = |input: MixnetInput| reporter.send_news(ConnectionEvent::Input(input.into()));
    match dialled {
        Ok(stream) => {
            let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
            // The hello is sent at once: its time reveals nothing about the node.
            let hello =
                link::make_parcel(hello).is_some_and(|hello| outbox.try_send(hello).is_ok());
            debug_assert!(hello, "an empty queue takes one frame");
            let (frames, mut read) = mpsc::channel(CLIENT_FRAMES_MAX);
            let hand_on = async {
                say(trouble).await;
                report(MixnetInput::Up { trusted: key.is_some() }).await;
                while let Some((read_at, frame)) = read.recv().await {
                    pace.wait_for_frame().await;
                    let frame = Box::new(frame);
                    reporter.send_news(ConnectionEvent::Frame { frame, read_at }).await;
                }
            };
            let carry = async {
                let note = |frame: Frame| {
                    line.on_read(&frame);
                    (Instant::now(), frame)
                };
                let carried =
                    link::carry_frames(stream, FrameSizeClass::Long, parcels, &frames, note);
                let end = carried.await;
                drop(frames);
                // Closing the line ends the task that sends its frames.
                line.close();
                if end != End::Left {
                    tracing::info!(%end, "the line to the mixnet is down");
                }
            };
            tokio::join!(carry, hand_on, line.send_frames(outbox));
        }
        Err(error) => {
            say(trouble).await;
            tracing::debug!(%error, "the mixnet cannot be reached");
        }
    }
    report(MixnetInput::Down).await;
}
