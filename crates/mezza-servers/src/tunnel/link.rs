//! One link of the daemon: its state machine, and the threads to which it publishes sessions.

use std::sync::Arc;

use mezza_core::{EphemeralKey, Machine, Time};
use mezza_seka::suite::LinkSuite;
use mezza_seka::{
    DeliveryReport, FrameTarget, LinkSession, Peer, PeerAddress, PeerEvent, PeerInput, PeerOutput,
    Sealer,
};

use super::Suite;
use super::address::Endpoint;
use super::config::LinkPlan;
use super::netlink;
use super::shared::{Counters, Drop, LinkShared, OpenEntry, Road};
use super::store::{RecordWrite, StoreThread};
use mezza_host::api::Fault;
use mezza_host::backend::AwsLc;
use mezza_host::process::rng::OsRng;

/// The frame keys of the product.
type Frames = <Suite as LinkSuite>::Frames;

/// How often the peer gets a report on received frames, ms.
const REPORT_MS: u64 = 2_000;
/// A peer is silent if sent frames get no response for this time, ms: a peer reports every 2 s.
const SILENCE_MS: u64 = 15_000;
/// Minimum number of frames that a reported share must cover.
const SHARE_FRAMES_MIN: u32 = 20;
/// Below this percentage the path, or the offload, loses frames.
pub(super) const SHARE_PERCENT_MIN: u8 = 50;

/// A link that runs, or is suspended until it can.
pub(crate) struct Link {
    /// The number of the link on this machine.
    pub number: u16,
    /// The machine of the link.
    pub peer: Peer<Suite>,
    /// The interface as the link's threads use it; `None` while the link is suspended.
    pub shared: Option<Arc<LinkShared>>,
    /// The counters, which outlive the interface.
    pub counters: Arc<Counters>,
    /// The settings of the link.
    pub plan: LinkPlan,
    /// The reason why the link is suspended; `None` if it runs.
    pub aside: Option<Aside>,
    /// Open sessions, the newest last.
    pub open: Vec<OpenEntry>,
    /// Time when the daemon loaded the link.
    pub since: Time,
    /// Duration of the last exchange, ms.
    pub exchange_ms: Option<u64>,
    /// Proven facts about the traffic of the present session.
    pub traffic: Passing,
}

/// The state of a suspended link.
pub(crate) struct Aside {
    /// The reason why the link cannot run.
    pub fault: Fault,
    /// Time of the next try.
    pub next: Time,
    /// The pause after the next try if that fails as well, ms.
    pub pause_ms: u64,
}

/// Proven facts about the traffic of a link.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// Our last packet number at the last check.
    sent: u32,
    /// The peer's last packet number at the last check.
    received: u32,
    /// Time of the first frame sent since the peer's last frame.
    unanswered_since: Option<Time>,
    /// Received frames of the interface at the last report to the peer.
    reported: u64,
    report_due: Time,
    /// The last report of the peer, and the session that it covers.
    last: Option<(u32, DeliveryReport)>,
    /// The share of frames sent between the peer's last two reports that arrived, percent.
    pub delivered_percent: Option<u8>,
    /// True if the peer sends nothing while we send.
    pub is_silent: bool,
    /// Number of frames that this machine refused to send.
    refused: u64,
    /// Time of the last refused frame.
    refused_at: Option<Time>,
}

/// Work that is left for the daemon after the outputs of a link were carried out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The table of open sessions changed.
    pub sessions: bool,
    /// Events for the user.
    pub events: Vec<PeerEvent>,
}

impl Link {
    pub(super) fn new(peer: Peer<Suite>, plan: LinkPlan, now: Time) -> Self {
        Self {
            number: peer.record().link,
            peer,
            shared: None,
            counters: Arc::default(),
            plan,
            aside: None,
            open: Vec::new(),
            since: now,
            exchange_ms: None,
            traffic: Passing::default(),
        }
    }

    /// Removes the link's interface, which ends the thread that reads it.
    ///
    /// # Errors
    /// The kernel's refusal; the link is removed anyway.
    pub(super) fn end_interface(&self) -> Result<(), Fault> {
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.send_under(None);
        // An interface of this name made by another program is not removed.
        if shared.tap.is_there() { netlink::delete_interface(shared.tap.name()) } else { Ok(()) }
    }

    /// Returns the carrier of the link, if any.
    pub(super) fn road(&self) -> Option<Arc<Road>> {
        self.shared.as_ref()?.road.load_full()
    }

    /// Passes an input to the machine. Returns false if the machine refused it and changed nothing.
    pub(super) fn apply_input(&mut self, input: PeerInput, now: Time) -> bool {
        self.peer.handle(input, now, &mut OsRng).is_ok()
    }

    /// Handles a frame of the exchange. The machine decides if its source gets a response
    /// (SEKA-76).
    pub(super) fn apply_frame(&mut self, frame: Vec<u8>, from: Endpoint, now: Time) {
        self.apply_input(PeerInput::Datagram { frame, from: from.stored_address() }, now);
    }

    /// Checks the packet numbers of the present session, by which the machine renews it and `show`
    /// reports the peer.
    pub(super) fn check_traffic(&mut self, now: Time) {
        self.traffic.count_refused(self.counters.drops(Drop::Firewall), now);
        let Some(shared) = self.shared.clone() else { return };
        let Some(session) = shared.sending.load_full() else {
            self.traffic.unanswered_since = None;
            self.traffic.is_silent = false;
            return;
        };
        let usage = session.usage();
        self.apply_input(PeerInput::Used(usage), now);
        let was_silent = self.traffic.is_silent;
        self.traffic.count_packets(usage.sent, usage.received, now);
        if self.traffic.is_silent && !was_silent {
            // The peer may have a new address, and its notice was lost. An exchange without a
            // response is repeated to all devices on the link (SEKA-79, SEKA-95).
            self.apply_input(PeerInput::Rekey, now);
        }
        self.read_report(&shared);
        self.send_report(&session, now);
    }

    /// Reads the peer's report on our frames. If few arrived, stops joining datagrams for good:
    /// some kernels and cards damage all but the first datagram of a call.
    fn read_report(&mut self, shared: &LinkShared) {
        let Some(report) = shared.report.load_full().map(|report| *report) else { return };
        if self.traffic.last == Some(report) {
            return;
        }
        let share = self.traffic.take_report(report.0, report.1);
        let is_low = share.is_some_and(|percent| percent < SHARE_PERCENT_MIN);
        let offload = self.plan.offload;
        if let (true, true, Some(road)) = (is_low, offload, shared.road.load_full()) {
            road.carrier.stop_joining("most of the frames that are sent do not arrive");
        }
    }

    /// Sends the peer a report while frames of its interface arrive. Reports and keep-alives do not
    /// count, or two idle ends would respond to each other endlessly.
    fn send_report(&mut self, session: &LinkSession, now: Time) {
        let [_, arrived, ..] = self.counters.totals();
        if arrived == self.traffic.reported || now < self.traffic.report_due {
            return;
        }
        self.traffic.reported = arrived;
        self.traffic.report_due = now.plus_ms(REPORT_MS);
        if let Some(frame) = text_frame(session, &session.delivery_report().encode()) {
            self.send_frame(FrameTarget::Known, &frame);
        }
    }

    /// Carries out the outputs of the machine in order.
    pub(super) fn settle_outputs(&mut self, store: &StoreThread, now: Time) -> Carried {
        let mut carried = Carried::default();
        while let Some(output) = self.peer.poll() {
            match output {
                PeerOutput::Want => {
                    let ephemeral = EphemeralKey::random::<AwsLc>(&mut OsRng);
                    self.apply_input(PeerInput::Give(ephemeral), now);
                }
                PeerOutput::Store { seq, sealed } => {
                    store.write(RecordWrite { link: self.number, seq, sealed });
                }
                PeerOutput::Send { to, frame } => self.send_frame(to, &frame),
                PeerOutput::Moved(address) => self.move_to(address),
                PeerOutput::Install(session) => self.install_session(session),
                PeerOutput::Use(attempt) => {
                    self.traffic.begin_session();
                    let session = self.find_session(attempt);
                    if let Some(shared) = &self.shared {
                        shared.send_under(session);
                    }
                }
                PeerOutput::KeepAlive { attempt, to } => self.keep_alive(attempt, to),
                PeerOutput::Retire(attempt) => {
                    self.retire_session(attempt);
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

    /// Makes an accepted session ready to receive.
    fn install_session(&mut self, session: Box<LinkSession>) {
        let Some(link) = self.shared.clone() else { return };
        let entry = OpenEntry { link: Arc::clone(&link), session: Arc::from(session) };
        // Welcome the session before any frame lets the peer use it, so that none of the peer's
        // frames is lost.
        link.welcome_session(entry.clone());
        self.open.push(entry);
    }

    fn retire_session(&mut self, attempt: u32) {
        self.open.retain(|entry| entry.session.attempt() != attempt);
        let Some(shared) = &self.shared else { return };
        let sending = shared.sending.load_full();
        if sending.is_some_and(|session| session.attempt() == attempt) {
            shared.send_under(None);
        }
    }

    fn find_session(&self, attempt: u32) -> Option<Arc<LinkSession>> {
        let mut entries = self.open.iter().rev();
        let entry = entries.find(|entry| entry.session.attempt() == attempt)?;
        Some(Arc::clone(&entry.session))
    }

    /// Stores the address at which the peer has proved its presence.
    fn move_to(&self, address: PeerAddress) {
        let (Some(shared), Some(road)) = (&self.shared, self.road()) else { return };
        if let Some(endpoint) = Endpoint::from_stored(&address, road.carrier.interface()) {
            shared.endpoint.store(Some(Arc::new(endpoint)));
        }
    }

    fn send_frame(&self, to: FrameTarget, frame: &[u8]) {
        // Without the carrier's interface the frame is dropped; the machine repeats it.
        let Some(road) = self.road() else { return };
        for to in self.resolve_target(&road, to) {
            if let Err(error) = road.carrier.send(&to, frame) {
                self.counters.count_dropped(Drop::of_error(&error));
            }
        }
    }

    /// Returns the addresses of a target. Without a known address, all devices on the link are
    /// addressed.
    fn resolve_target(&self, road: &Road, to: FrameTarget) -> Vec<Endpoint> {
        let interface = road.carrier.interface();
        let everybody = road.carrier.all_nodes();
        let known = self.shared.as_ref().and_then(|shared| shared.endpoint.load_full());
        let known = known.map(|known| *known);
        let set =
            self.plan.endpoints.iter().map(|address| Endpoint::from_socket(*address, interface));
        match to {
            FrameTarget::Known => known.or(everybody).into_iter().collect(),
            FrameTarget::Source(address) => {
                Endpoint::from_stored(&address, interface).into_iter().collect()
            }
            FrameTarget::Search => {
                let mut all: Vec<Endpoint> = known.into_iter().collect();
                for other in set.chain(everybody) {
                    if !all.contains(&other) {
                        all.push(other);
                    }
                }
                all
            }
        }
    }

    /// Sends an empty frame, which shows the peer that we use the session.
    fn keep_alive(&self, attempt: u32, to: FrameTarget) {
        let Some(session) = self.find_session(attempt) else { return };
        if let Some(frame) = empty_frame(&session) {
            self.send_frame(to, &frame);
        }
    }
}

impl Passing {
    /// Resets the counts for a new session, whose packet numbers start at zero.
    fn begin_session(&mut self) {
        (self.sent, self.received) = (0, 0);
    }

    /// Records the packet numbers of the present session.
    fn count_packets(&mut self, sent: u32, received: u32, now: Time) {
        if received > self.received {
            self.unanswered_since = None;
        } else if sent > self.sent && self.unanswered_since.is_none() {
            self.unanswered_since = Some(now);
        }
        (self.sent, self.received) = (sent, received);
        let silent = |since: Time| now.since_ms(since) >= SILENCE_MS;
        self.is_silent = self.unanswered_since.is_some_and(silent);
    }

    /// Records how many frames the firewall of this machine has refused.
    fn count_refused(&mut self, refused: u64, now: Time) {
        if refused > self.refused {
            self.refused_at = Some(now);
        }
        self.refused = refused;
    }

    /// Returns true if this machine refused to send recently, so that silence does not count
    /// against the peer (SEKA-94).
    pub(super) fn is_refused_here(&self, now: Time) -> bool {
        self.refused_at.is_some_and(|at| now.since_ms(at) < SILENCE_MS)
    }

    /// Stores a report. Returns the share since the last report, or `None` if too few frames were
    /// sent.
    fn take_report(&mut self, attempt: u32, delivery: DeliveryReport) -> Option<u8> {
        let before = self.last.filter(|(of, _)| *of == attempt).map(|(_, last)| last);
        let since = delivery.since(&before.unwrap_or_default());
        // Too few frames for a share: they count with the next report.
        if since.next < SHARE_FRAMES_MIN {
            return None;
        }
        self.last = Some((attempt, delivery));
        self.delivered_percent = since.arrived_percent();
        self.delivered_percent
    }
}

/// Returns a frame without content, or `None` at the limit of packet numbers.
pub(super) fn empty_frame(session: &LinkSession) -> Option<Vec<u8>> {
    text_frame(session, &[0])
}

/// Returns a frame with this text, or `None` at the limit of packet numbers.
fn text_frame(session: &LinkSession, text: &[u8]) -> Option<Vec<u8>> {
    let packet = session.reserve_packets(1)?;
    let mut frame = vec![0; mezza_seka::wire::DATA_OVERHEAD_BYTES - 1 + text.len()];
    let at = mezza_seka::wire::DATA_HEADER_BYTES;
    frame[at..at + text.len()].copy_from_slice(text);
    Sealer::<Frames>::default().seal(session, packet, &mut frame);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_needs_frames_and_counts_from_the_report_before() {
        let mut passing = Passing::default();
        let report = |opened, next| DeliveryReport { opened, next, forged: 0 };
        assert_eq!(passing.take_report(7, report(5, 10)), None);
        assert_eq!(passing.take_report(7, report(50, 100)), Some(50));
        assert_eq!(passing.take_report(7, report(60, 200)), Some(10));
        // A new session counts from the beginning.
        assert_eq!(passing.take_report(8, report(40, 40)), Some(100));
        assert_eq!(passing.delivered_percent, Some(100));
    }

    #[test]
    fn seka_94_a_refusal_of_this_machine_is_shown_while_it_lasts() {
        let mut passing = Passing::default();
        let at = |s: u64| Time::from_ms(s * 1_000);
        passing.count_refused(0, at(1));
        assert!(!passing.is_refused_here(at(1)));
        passing.count_refused(3, at(2));
        (3..10).for_each(|s| passing.count_refused(3, at(s)));
        assert!(passing.is_refused_here(at(10)));
        assert!(!passing.is_refused_here(at(17)));
    }

    #[test]
    fn seka_95_frames_without_any_answer_are_silence() {
        let mut passing = Passing::default();
        let at = |s: u64| Time::from_ms(s * 1_000);
        passing.count_packets(5, 5, at(0));
        // An idle link is not silent.
        (1..100).for_each(|s| passing.count_packets(5, 5, at(s)));
        assert!(!passing.is_silent);
        passing.count_packets(6, 5, at(100));
        passing.count_packets(9, 5, at(114));
        assert!(!passing.is_silent);
        passing.count_packets(9, 5, at(115));
        assert!(passing.is_silent);
        passing.count_packets(9, 6, at(116));
        assert!(!passing.is_silent);
    }
}
