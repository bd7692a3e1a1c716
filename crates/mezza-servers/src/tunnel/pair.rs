//! A pairing in progress, in the daemon or in `mezza link pair` without a daemon.

use std::sync::Arc;

use mezza_core::{EphemeralKey, Machine, Time};
use mezza_seka::session::index_of;
use mezza_seka::suite::LinkSuite;
use mezza_seka::{
    FrameTarget, LinkId, LinkSession, Opener, Pairing, PairingFailure, PairingInput, PairingOutput,
    PairingSettings, Peer, PeerInput, PeerOutput, StoreKey,
};
use serde_json::json;

use super::Suite;
use super::address::Endpoint;
use super::carrier::Carrier;
use super::config::CarrierKind;
use super::control::PairAsk;
use super::link::empty_frame;
use super::store::{RecordWrite, StoreThread};
use mezza_host::api::{Exit, Fault};
use mezza_host::backend::AwsLc;
use mezza_host::process::control::ControlAnswer;
use mezza_host::process::rng::OsRng;

/// How long a responder still responds to frames of the first exchange after accepting it, ms.
const LINGER_MS: u64 = 4_000;
/// How long an initiator waits for the peer's first frame: all repeats of KE3 (seka, Limits), ms.
const CONFIRM_MS: u64 = 12_000;

/// An open pairing window.
pub(crate) struct PairingRun {
    machine: Pairing<Suite>,
    /// The request.
    pub ask: PairAsk,
    /// The carrier of the interface.
    pub carrier: Arc<Carrier>,
    /// The number of the new link.
    pub link: u16,
    /// The port of UDP.
    pub listen: u16,
    /// The digits shown to the user.
    pub digits: Option<String>,
    to: Option<Endpoint>,
    answer: ControlAnswer,
    /// The device that was found.
    pub found: Option<LinkId>,
    /// Sessions of the first exchange.
    sessions: Vec<(LinkSession, Opener<<Suite as LinkSuite>::Frames>)>,
    /// Time when the first exchange was accepted.
    done: Option<Time>,
    /// True if a frame of the peer under the first session arrived.
    confirmed: bool,
}

/// A request to pair, and the means to carry it out.
pub(super) struct PairingRequest {
    pub ask: PairAsk,
    pub carrier: Arc<Carrier>,
    /// The channel to the command that requested the pairing.
    pub answer: ControlAnswer,
    /// Seals the record of the pairing.
    pub key: StoreKey,
    /// The address of the other device; `None`: all devices on the link.
    pub to: Option<Endpoint>,
}

impl PairingRun {
    pub(super) fn begin(
        request: PairingRequest,
        settings: PairingSettings,
        now: Time,
        wall: Time,
    ) -> Self {
        let PairingRequest { ask, carrier, answer, key, to } = request;
        let link = settings.link;
        let machine = Pairing::open_window(settings, key, now, wall.as_ms(), &mut OsRng);
        Self {
            machine,
            ask,
            carrier,
            link,
            listen: 0,
            digits: None,
            to,
            answer,
            found: None,
            sessions: Vec::new(),
            done: None,
            confirmed: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let end = self.done.map(|at| at.plus_ms(self.linger_ms()));
        [self.machine.deadline(), end].into_iter().flatten().min()
    }

    pub(super) fn wake(&mut self, now: Time) {
        if self.answer.is_closed() && self.done.is_none() {
            self.apply_input(PairingInput::Cancel, now);
        }
        self.machine.wake(now, &mut OsRng);
    }

    pub(super) fn apply_input(&mut self, input: PairingInput, now: Time) {
        let _ = self.machine.handle(input, now, &mut OsRng);
    }

    /// Handles a frame of the carrier: of pairing, of the exchange, or the first one of the new
    /// session.
    pub(super) fn apply_frame(&mut self, mut frame: Vec<u8>, from: Endpoint, now: Time) {
        let Some(index) = index_of(&frame) else {
            let input = PairingInput::Datagram {
                frame,
                from: from.stored_address(),
                on_link: from.is_on_link(),
            };
            return self.apply_input(input, now);
        };
        let of = self.sessions.iter_mut().find(|(session, _)| session.own_index() == index);
        let Some((session, opener)) = of else { return };
        if opener.open(session, &mut frame).is_ok() {
            self.confirmed = true;
            let attempt = session.attempt();
            self.apply_input(PairingInput::Peer(PeerInput::Fresh(attempt)), now);
        }
    }

    pub(super) fn apply_stored(&mut self, seq: u64, ok: bool, now: Time) {
        let input = if ok { PeerInput::Stored(seq) } else { PeerInput::StoreFailed(seq) };
        self.apply_input(PairingInput::Peer(input), now);
    }

    /// Carries out the outputs of the machine. Returns a fault if the window closed without a
    /// pairing. `known` returns the name of the link that a device is paired as.
    pub(super) fn settle_outputs(
        &mut self,
        store: &StoreThread,
        known: &dyn Fn(&LinkId) -> String,
        now: Time,
    ) -> Option<Fault> {
        while let Some(output) = self.machine.poll() {
            match output {
                PairingOutput::Want => self.provide_ephemeral(now),
                PairingOutput::Send { to, frame } => {
                    let interface = self.carrier.interface();
                    let to = to.and_then(|to| Endpoint::from_stored(&to, interface)).or(self.to);
                    if let Some(to) = to.or_else(|| self.carrier.all_nodes()) {
                        let _ = self.carrier.send(&to, &frame);
                    }
                }
                PairingOutput::Found(id) => {
                    self.found = Some(id);
                    self.answer.send_line(&json!({ "event": "found", "peer": id.to_string() }));
                }
                PairingOutput::Digits(digits) => {
                    let digits = digits.to_string();
                    self.digits = Some(digits.clone());
                    self.answer.send_line(&json!({ "event": "digits", "digits": digits }));
                }
                PairingOutput::Peer(output) => self.perform_output(output, store, now),
                PairingOutput::Done => self.done = Some(now),
                PairingOutput::Failed(failure) => {
                    return Some(describe_failure(failure, &self.ask, self.found.as_ref(), known));
                }
            }
        }
        None
    }

    fn provide_ephemeral(&mut self, now: Time) {
        let ephemeral = EphemeralKey::random::<AwsLc>(&mut OsRng);
        self.apply_input(PairingInput::Give(ephemeral), now);
    }

    fn perform_output(&mut self, output: PeerOutput, store: &StoreThread, now: Time) {
        match output {
            PeerOutput::Want => self.provide_ephemeral(now),
            PeerOutput::Store { seq, sealed } => {
                store.write(RecordWrite { link: self.link, seq, sealed });
            }
            PeerOutput::Install(session) => self.sessions.push((*session, Opener::default())),
            PeerOutput::KeepAlive { attempt, to } => self.keep_alive(attempt, to),
            _ => {}
        }
    }

    fn keep_alive(&self, attempt: u32, to: FrameTarget) {
        let session = self.sessions.iter().find(|(session, _)| session.attempt() == attempt);
        let frame = session.and_then(|(session, _)| empty_frame(session));
        let to = match to {
            FrameTarget::Source(address) => {
                Endpoint::from_stored(&address, self.carrier.interface())
            }
            FrameTarget::Known | FrameTarget::Search => self.peer_address(),
        };
        if let (Some(frame), Some(to)) = (frame, to) {
            let _ = self.carrier.send(&to, &frame);
        }
    }

    /// Returns the address of the peer, if known.
    fn peer_address(&self) -> Option<Endpoint> {
        let stored = self.machine.peer_address()?;
        Endpoint::from_stored(&stored, self.carrier.interface())
    }

    /// Returns true if the pairing is complete and its first exchange needs no more responses.
    pub(super) fn is_over(&self, now: Time) -> bool {
        let knows = self.is_confirmed() && self.machine.is_initiator();
        // The first state must leave the second slot of the file before the link runs.
        let is_flushed = self.machine.is_flushed();
        self.done.is_some_and(|at| (knows && is_flushed) || now.since_ms(at) >= self.linger_ms())
    }

    fn linger_ms(&self) -> u64 {
        if self.machine.is_initiator() { CONFIRM_MS } else { LINGER_MS }
    }

    /// Returns true if the peer has proved that it accepted as well: a responder knows this by KE3.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed || !self.machine.is_initiator()
    }

    /// Returns true if the pairing addresses all devices on the link, over UDP.
    pub(super) fn asks_everybody_over_udp(&self) -> bool {
        self.to.is_none() && self.ask.carrier == CarrierKind::Udp
    }

    /// Returns the channel for the lines to the user.
    pub(super) fn answer(&self) -> ControlAnswer {
        self.answer.clone()
    }

    /// Returns the peer of a completed pairing.
    pub(super) fn into_peer(self) -> Option<(Box<Peer<Suite>>, Endpoint, ControlAnswer)> {
        let interface = self.carrier.interface();
        let (peer, address) = self.machine.into_peer()?;
        let endpoint = Endpoint::from_stored(&address, interface)?;
        Some((Box::new(peer), endpoint, self.answer))
    }

    /// Sends the fault as the last line of the response.
    pub(super) fn send_fault(&self, fault: &Fault) {
        self.answer.send_fault(fault);
    }
}

/// Describes why no device was paired.
fn describe_failure(
    failure: PairingFailure,
    ask: &PairAsk,
    found: Option<&LinkId>,
    known: &dyn Fn(&LinkId) -> String,
) -> Fault {
    let on = &ask.on;
    let first = found.map_or_else(|| "somebody".to_owned(), ToString::to_string);
    let again = "run `mezza link pair` again";
    match failure {
        PairingFailure::Conflict => Fault::new(
            Exit::No,
            format!("two devices answered on {on} ({first} and another one); nothing was paired"),
            format!("switch one off, or name the right one with --peer {first}, and {again}"),
        ),
        PairingFailure::OwnName => Fault::new(
            Exit::No,
            format!("a frame on {on} has our own name; nothing was paired"),
            "look for a loop or a device with a copy of this state folder",
        ),
        PairingFailure::Known(id) => Fault::new(
            Exit::No,
            format!("{id} is already paired as {}", known(&id)),
            "add --replace, with its name, to forget that pairing",
        ),
        PairingFailure::LowOrder | PairingFailure::Commitment => Fault::new(
            Exit::No,
            format!("{first} does not keep to the protocol: {failure}; nothing was paired"),
            "try in another place",
        ),
        PairingFailure::Digits => Fault::new(
            Exit::No,
            "the digits differ: somebody is in between. Nothing was kept",
            "try in another place",
        ),
        PairingFailure::Store => Fault::new(
            Exit::CannotWrite,
            "the pairing cannot be written; nothing was kept",
            "free some space, or name another --state",
        ),
        PairingFailure::Cancelled => Fault::new(Exit::No, "given up; nothing was kept", again),
        PairingFailure::Timeout => Fault::new(
            Exit::Busy,
            format!("nobody answered on {on} within {} s", ask.window_s),
            "run `mezza link pair` on the other device at the same time",
        ),
    }
}
