//! The connection to the entry server of a mixnet, kept as long as the client's machine wants.
//!
//! ```text
//! Dial --TLS with the key of the config--> Up .. frames .. Down        (the machine says when to dial)
//! Job  --> a thread that may wait --> Done | Lost
//! ```

use std::sync::Arc;

use mezza_messenger::CarrierInput;
use mezza_messenger::carriers::mixnet::{MixnetInput, MixnetOutput};
use mezza_mixnet::client::{ClientJob as Work, ROW_BYTES_MAX};
use mezza_mixnet::wire::Frame;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};

use super::pace::Pace;
use super::{Adapter, ConnectionEvent, ConnectionReport, Reporter};
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::backend::AwsLc;
use mezza_host::backend::kernel::kernel;
use mezza_host::connection::link::{
    self, CLIENT_FRAMES_MAX, End, FrameBytes, FrameSender, FrameSizeClass,
};
use mezza_host::store::record::{KEY_BYTES_MAX, TEXT_BYTES_MAX};
use mezza_host::tls::Pin;

/// Whatever row the client wants stored, the vault takes it (MIX-44).
const _: () = assert!(ROW_BYTES_MAX + KEY_BYTES_MAX + 5 <= TEXT_BYTES_MAX);

/// Where an entry server is, and its key if the config names one.
type Entry = (String, Option<[u8; 32]>);

/// The connection of one node to its network.
pub(crate) struct MixnetAdapter<E> {
    reporter: Reporter<E>,
    /// Shared by successive connections, as an entry server may close one and be dialled again.
    pace: Arc<Pace>,
    outbox: Option<FrameSender>,
    /// The task of the last dial, which ends with it.
    keeper: JoinSet<()>,
    /// Why the entry server is not who the config says, in words for people.
    trouble: Option<String>,
    /// The dial that waits for the person, as the vault was put back.
    pub(super) withheld: Option<Entry>,
}

impl<E: From<ConnectionReport> + Send + 'static> MixnetAdapter<E> {
    /// No connection yet.
    pub(super) fn new(reporter: Reporter<E>) -> Self {
        let (pace, outbox, keeper) = (Arc::new(Pace::new()), None, JoinSet::new());
        Self { reporter, pace, outbox, keeper, trouble: None, withheld: None }
    }

    /// Carries out what the device wants of the mixnet. While the vault is `doubted`, nothing is dialled:
    /// its charges are not those that the mixnet saw (MSG-63).
    pub(super) fn order(&mut self, order: MixnetOutput, doubted: bool) {
        match order {
            MixnetOutput::Connect { address, key } if doubted => {
                self.withheld = Some((address, key));
            }
            MixnetOutput::Frame(_) | MixnetOutput::Job(_) if doubted => {}
            MixnetOutput::Connect { address, key } => self.dial((address, key)),
            // The task writes what is left, hangs up and says `Down`.
            MixnetOutput::Disconnect => (self.outbox, self.withheld) = (None, None),
            MixnetOutput::Frame(frame) => self.send(frame),
            MixnetOutput::Job(job) => self.run(job),
            MixnetOutput::Leave => self.lock(),
        }
    }

    /// The person goes on with a vault that was put back.
    pub(super) fn resume(&mut self) {
        if let Some(entry) = self.withheld.take() {
            self.dial(entry);
        }
    }

    fn dial(&mut self, entry: Entry) {
        self.keeper = JoinSet::new();
        let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
        self.outbox = Some(outbox);
        let (reporter, pace) = (self.reporter.clone(), Arc::clone(&self.pace));
        self.keeper.spawn(keep(entry, parcels, reporter, pace));
    }

    /// Sends a frame to the entry server. If the server reads too slowly, the connection is closed.
    fn send(&mut self, frame: Frame) {
        let sent = link::parcel(frame)
            .zip(self.outbox.as_ref())
            .is_some_and(|(parcel, outbox)| outbox.try_send(parcel).is_ok());
        if !sent {
            self.outbox = None;
        }
    }

    fn run(&self, mut job: Work) {
        let reporter = self.reporter.clone();
        let id = job.id();
        tokio::spawn(async move {
            let work = task::spawn_blocking(move || {
                let done = job.run::<AwsLc>(kernel());
                (job, done)
            });
            let input = match work.await {
                Ok((job, done)) => MixnetInput::Done(job, done),
                Err(_) => MixnetInput::Lost(id),
            };
            reporter.tell(ConnectionEvent::Input(input.into())).await;
        });
    }
}

impl<E: From<ConnectionReport> + Send + 'static> Adapter for MixnetAdapter<E> {
    fn report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput> {
        match news {
            _ if serial != self.reporter.serial => None,
            ConnectionEvent::Trouble(text) => {
                self.trouble = text;
                None
            }
            ConnectionEvent::Input(input) => Some(input),
            ConnectionEvent::Up { .. } | ConnectionEvent::Down => None,
        }
    }

    fn health(&self, facts: &CarrierFacts) -> Vec<HealthLine> {
        words::mixnet::health(self.trouble.as_deref(), facts).into_iter().collect()
    }

    /// What its tasks still report bears a serial number that nobody has any more.
    fn lock(&mut self) {
        *self = Self::new(self.reporter.next());
    }
}

/// One connection, from the dial to its end.
async fn keep<E: From<ConnectionReport>>(
    (address, key): Entry,
    parcels: mpsc::Receiver<FrameBytes>,
    reporter: Reporter<E>,
    pace: Arc<Pace>,
) {
    let pin = key.map_or_else(Pin::any, Pin::new);
    let dialled = link::dial(&address, link::CLIENT, Arc::clone(&pin), None).await;
    // What was said of an earlier dial is over, however this one ends.
    let trouble = pin.other_key().map(|_| words::mixnet::other_key(&address));
    reporter.tell(ConnectionEvent::Trouble(trouble)).await;
    let tell = |input: MixnetInput| reporter.tell(ConnectionEvent::Input(input.into()));
    match dialled {
        Ok(stream) => {
            tell(MixnetInput::Up { trusted: key.is_some() }).await;
            let (frames, mut heard) = mpsc::channel(CLIENT_FRAMES_MAX);
            let hear = async {
                while let Some(frame) = heard.recv().await {
                    pace.frame().await;
                    tell(MixnetInput::Frame(frame)).await;
                }
            };
            let carry = async {
                let end =
                    link::carry(stream, FrameSizeClass::Long, parcels, &frames, |frame| frame)
                        .await;
                drop(frames);
                if end != End::Left {
                    tracing::info!(%end, "the line to the mixnet is down");
                }
            };
            tokio::join!(carry, hear);
        }
        Err(error) => tracing::debug!(%error, "the mixnet cannot be reached"),
    }
    tell(MixnetInput::Down).await;
}
