//! One link of the daemon: its machine, and the threads that its machine publishes sessions to.

use std::sync::Arc;

use mezza_core::{EphemeralKey, Machine, Time};
use mezza_seka::suite::LinkSuite;
use mezza_seka::{LinkSession, Peer, PeerEvent, PeerInput, PeerOutput, Sealer};

use super::Suite;
use super::address::Endpoint;
use super::config::LinkPlan;
use super::shared::{Drop, LinkShared, OpenEntry};
use super::store::{RecordWrite, StoreThread};
use mezza_host::backend::AwsLc;
use mezza_host::process::rng::OsRng;

/// The frames of the product.
type Frames = <Suite as LinkSuite>::Frames;

/// A link that runs.
pub(crate) struct Link {
    /// Its machine.
    pub peer: Peer<Suite>,
    /// What its threads see.
    pub shared: Arc<LinkShared>,
    /// How it is run.
    pub plan: LinkPlan,
    /// Open sessions, the newest last.
    pub open: Vec<OpenEntry>,
    /// When it came up.
    pub since: Time,
    /// The last exchange, from its first frame to its end, ms.
    pub exchange_ms: Option<u64>,
    /// Where the frame came from whose answer waits for the disk.
    reply_to: Option<Endpoint>,
}

/// What the daemon has to do after outputs were carried out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The table of open sessions changed.
    pub sessions: bool,
    /// Something for people.
    pub events: Vec<PeerEvent>,
}

impl Link {
    pub(super) fn new(
        peer: Peer<Suite>,
        shared: Arc<LinkShared>,
        plan: LinkPlan,
        now: Time,
    ) -> Self {
        Self { peer, shared, plan, open: Vec::new(), since: now, exchange_ms: None, reply_to: None }
    }

    /// Gives the machine an input; what it refuses changes nothing.
    pub(super) fn input(&mut self, input: PeerInput, now: Time) -> bool {
        self.peer.handle(input, now, &mut OsRng).is_ok()
    }

    /// A frame of the exchange. The answer goes to where it came from, now or after the write.
    pub(super) fn frame(&mut self, frame: Vec<u8>, from: Endpoint, now: Time) {
        let before = self.reply_to.replace(from);
        if !self.input(PeerInput::Datagram(frame), now) {
            self.reply_to = before;
        }
    }

    /// How far the packet numbers of the present session are.
    pub(super) fn tell_used(&mut self, now: Time) {
        if let Some(session) = self.shared.sending.load_full() {
            let (attempt, sent, received) = (session.attempt(), session.sent(), session.received());
            self.input(PeerInput::Used { attempt, sent, received }, now);
        }
    }

    /// Carries out what the machine wants, in order.
    pub(super) fn settle(&mut self, store: &StoreThread, now: Time) -> Carried {
        let mut carried = Carried::default();
        while let Some(output) = self.peer.poll() {
            match output {
                PeerOutput::Want => {
                    let ephemeral = EphemeralKey::random::<AwsLc>(&mut OsRng);
                    self.input(PeerInput::Give(ephemeral), now);
                }
                PeerOutput::Store { seq, sealed } => {
                    store.write(RecordWrite { link: self.shared.number, seq, sealed });
                }
                PeerOutput::Send(frame) => self.send(&frame),
                PeerOutput::Install(session) => self.install(session),
                PeerOutput::Use(attempt) => self.shared.send_under(self.session(attempt)),
                PeerOutput::KeepAlive(attempt) => self.keep_alive(attempt),
                PeerOutput::Retire(attempt) => {
                    self.retire(attempt);
                    carried.sessions = true;
                }
                PeerOutput::Tell(event) => {
                    if let PeerEvent::Accepted(ms) = event {
                        self.exchange_ms = Some(ms);
                    }
                    carried.events.push(event);
                }
            }
        }
        carried
    }

    /// The session was accepted, by frames from where the last one came.
    fn install(&mut self, session: Box<LinkSession>) {
        if let Some(endpoint) = self.reply_to.take() {
            self.shared.endpoint.store(Some(Arc::new(endpoint)));
            self.input(PeerInput::Heard(endpoint.stored()), self.since);
        }
        let (link, session) = (Arc::clone(&self.shared), Arc::from(session));
        let entry = OpenEntry { link, session };
        // Before a frame leaves that lets the peer use the session: none of the peer's is lost.
        self.shared.welcome(entry.clone());
        self.open.push(entry);
    }

    fn retire(&mut self, attempt: u32) {
        self.open.retain(|entry| entry.session.attempt() != attempt);
        let sending = self.shared.sending.load_full();
        if sending.is_some_and(|session| session.attempt() == attempt) {
            self.shared.send_under(None);
        }
    }

    fn session(&self, attempt: u32) -> Option<Arc<LinkSession>> {
        let mut entries = self.open.iter().rev();
        let entry = entries.find(|entry| entry.session.attempt() == attempt)?;
        Some(Arc::clone(&entry.session))
    }

    fn send(&self, frame: &[u8]) {
        let known = self.shared.endpoint.load();
        let everybody = self.shared.carrier.everybody();
        let to = self.reply_to.or_else(|| known.as_deref().copied()).unwrap_or(everybody);
        if self.shared.carrier.send(&to, frame).is_err() {
            self.shared.counters.dropped(Drop::Queue);
        }
    }

    /// An empty frame, so that the peer hears us under the session.
    fn keep_alive(&self, attempt: u32) {
        let Some(session) = self.session(attempt) else { return };
        if let Some(frame) = empty_frame(&session) {
            self.send(&frame);
        }
    }
}

/// A frame without content; `None` at the limit of packet numbers.
pub(super) fn empty_frame(session: &LinkSession) -> Option<Vec<u8>> {
    let packet = session.reserve(1)?;
    let mut frame = vec![0; mezza_seka::wire::DATA_OVERHEAD_BYTES];
    Sealer::<Frames>::default().seal(session, packet, &mut frame);
    Some(frame)
}
