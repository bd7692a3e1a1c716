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
use tokio::task::JoinHandle;

use super::pace::Pace;
use super::{ConnectionEvent, ConnectionReport};
use crate::backend::AwsLc;
use crate::backend::kernel::kernel;
use crate::connection::link::{
    self, CLIENT_FRAMES_MAX, End, FrameBytes, FrameSender, FrameSizeClass,
};
use crate::store::record::{KEY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::tls::Pin;

/// Whatever row the client wants stored, the vault takes it (MIX-44).
const _: () = assert!(ROW_BYTES_MAX + KEY_BYTES_MAX + 5 <= TEXT_BYTES_MAX);

/// The line of one node to its network.
pub(crate) struct EntryConnection<E> {
    jobs: mpsc::Sender<E>,
    serial: u64,
    /// Shared by successive connections, as an entry server may close one and be dialled again.
    pace: Arc<Pace>,
    outbox: Option<FrameSender>,
    keeper: Option<JoinHandle<()>>,
    /// Why the entry server is not who the config says, in words for people.
    trouble: Option<String>,
}

impl<E: From<ConnectionReport> + Send + 'static> EntryConnection<E> {
    /// No connection yet. Its reports bear `serial`.
    pub(crate) fn new(serial: u64, jobs: mpsc::Sender<E>) -> Self {
        Self {
            jobs,
            serial,
            pace: Arc::new(Pace::new()),
            outbox: None,
            keeper: None,
            trouble: None,
        }
    }

    /// The serial number of its reports.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Takes in what its reports say; what is for the device comes back.
    pub(crate) fn report(&mut self, news: ConnectionEvent) -> Option<CarrierInput> {
        match news {
            ConnectionEvent::Trouble(text) => {
                self.trouble = text;
                None
            }
            ConnectionEvent::Input(input) => Some(input),
            ConnectionEvent::Up { .. } | ConnectionEvent::Down => None,
        }
    }

    /// Why the entry server is not who the config says.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Carries out what the machine wants.
    pub(crate) fn order(&mut self, order: MixnetOutput) {
        match order {
            MixnetOutput::Connect { address, key } => self.dial(address, key),
            // The task writes what is left, hangs up and says `Down`.
            MixnetOutput::Disconnect => self.outbox = None,
            MixnetOutput::Frame(frame) => self.send(frame),
            MixnetOutput::Job(job) => self.run(job),
            // The whole of this connection goes when a network is left.
            MixnetOutput::Leave => {}
        }
    }

    fn dial(&mut self, address: String, key: Option<[u8; 32]>) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
        self.outbox = Some(outbox);
        let teller = Teller { jobs: self.jobs.clone(), serial: self.serial };
        let pace = Arc::clone(&self.pace);
        self.keeper = Some(tokio::spawn(keep((address, key), parcels, teller, pace)));
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
        let teller = Teller { jobs: self.jobs.clone(), serial: self.serial };
        let id = job.id();
        tokio::spawn(async move {
            let work = tokio::task::spawn_blocking(move || {
                let done = job.run::<AwsLc>(kernel());
                (job, done)
            });
            let input = match work.await {
                Ok((job, done)) => MixnetInput::Done(job, done),
                Err(_) => MixnetInput::Lost(id),
            };
            teller.tell(input).await;
        });
    }
}

impl<E> Drop for EntryConnection<E> {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
    }
}

/// Tells the node's task.
struct Teller<E> {
    jobs: mpsc::Sender<E>,
    serial: u64,
}

impl<E: From<ConnectionReport>> Teller<E> {
    async fn tell(&self, input: MixnetInput) {
        self.report(ConnectionEvent::Input(input.into())).await;
    }

    async fn report(&self, news: ConnectionEvent) {
        let report = ConnectionReport { serial: self.serial, news };
        // Sending fails after the node has ended; the report is then useless.
        drop(self.jobs.send(report.into()).await);
    }
}

/// One connection, from the dial to its end.
async fn keep<E: From<ConnectionReport>>(
    (address, key): (String, Option<[u8; 32]>),
    parcels: mpsc::Receiver<FrameBytes>,
    teller: Teller<E>,
    pace: Arc<Pace>,
) {
    let pin = key.map_or_else(Pin::any, Pin::new);
    let dialled = link::dial(&address, link::CLIENT, Arc::clone(&pin), None).await;
    // What was said of an earlier dial is over, however this one ends.
    let trouble = pin.other_key().map(|_| {
        format!(
            "{address} shows another key than the config of the network names: it serves another \
             network, or somebody is in between"
        )
    });
    teller.report(ConnectionEvent::Trouble(trouble)).await;
    match dialled {
        Ok(stream) => {
            teller.tell(MixnetInput::Up { trusted: key.is_some() }).await;
            let (frames, mut heard) = mpsc::channel(CLIENT_FRAMES_MAX);
            let hear = async {
                while let Some(frame) = heard.recv().await {
                    pace.frame().await;
                    teller.tell(MixnetInput::Frame(frame)).await;
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
    teller.tell(MixnetInput::Down).await;
}
