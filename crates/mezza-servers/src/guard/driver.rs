//! The driver of the machine: it hands over frames, makes records durable, and carries out outputs.
//!
//! ```text
//! events, up to 64 at once --> machine --> outputs: records in one durable write, then the rest in order
//! ```

mod ask;
mod pair;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mezza_core::{Machine as _, Time};
use mezza_guard::guard::{CloseReason, Guard, GuardConnection, GuardSide, Input, Opening, Output};
use mezza_guard::keys::GuardClientId;
use mezza_guard::ledger::LedgerRecord;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::ControlRequest;
use mezza_host::process::drive::Shell;
use mezza_host::process::limiter::ConnectionPermit;
use mezza_host::process::lock::Lock;
use mezza_host::process::rng::OsRng;

use super::control::{EventLog, GuardAsk};
use super::dial::{self, DialBudget};
use super::folder::GuardFolder;
use super::ledger::LedgerFile;
use super::peers::PeerList;
use super::settings::GuardConfig;
use super::side::{SideContext, SideEvent};
use ask::WaitingAnswer;
use pair::Pair;

/// Events that wait for the driver.
pub(crate) const EVENTS_MAX: usize = 256;
/// Events that are handled before one durable write.
const BATCH_MAX: usize = 64;

/// The origin of an accepted connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AcceptedFrom {
    /// A client.
    Inside,
    /// A peer of a client.
    Wire(GuardClientId),
}

/// Events of the driver's task.
#[derive(Debug)]
pub(crate) enum ShellEvent {
    /// A side sent a frame or ended.
    Side(SideEvent),
    /// A listener accepted a connection.
    Accepted { from: AcceptedFrom, socket: TcpStream, address: IpAddr, permit: ConnectionPermit },
    /// A requested connection was made, or `None` if it failed.
    Dialled(GuardConnection, Option<TcpStream>),
    /// A request came over the control socket.
    Asked(ControlRequest<GuardAsk>),
}

impl From<ControlRequest<GuardAsk>> for ShellEvent {
    fn from(request: ControlRequest<GuardAsk>) -> Self {
        Self::Asked(request)
    }
}

/// The driver of a guard.
pub(crate) struct GuardShell {
    pub(crate) machine: Guard,
    pub(crate) ledger: LedgerFile,
    pub(crate) folder: GuardFolder,
    pub(crate) peers: PeerList,
    pub(crate) config: GuardConfig,
    pub(crate) context: SideContext,
    /// Held until the guard ends.
    _lock: Lock,
    budget: DialBudget,
    pairs: BTreeMap<GuardConnection, Pair>,
    /// The number of the last connection; 0 stands for the owner.
    last: u64,
    events: EventLog,
    outputs: Vec<Output>,
    /// Readers that wait until the consequences of their frames are carried out.
    read_on: Vec<oneshot::Sender<()>>,
    answers: Vec<WaitingAnswer>,
}

/// The parts of a driver that its start has made.
pub(crate) struct ShellParts {
    pub(crate) machine: Guard,
    pub(crate) ledger: LedgerFile,
    pub(crate) folder: GuardFolder,
    pub(crate) peers: PeerList,
    pub(crate) config: GuardConfig,
    pub(crate) context: SideContext,
    pub(crate) lock: Lock,
}

impl GuardShell {
    /// Makes the driver of a started machine.
    pub(crate) fn new(parts: ShellParts) -> Self {
        let ShellParts { machine, ledger, folder, peers, config, context, lock } = parts;
        Self {
            machine,
            ledger,
            folder,
            peers,
            budget: DialBudget::new(config.dial_burst, config.dial_pause_s),
            config,
            context,
            _lock: lock,
            pairs: BTreeMap::new(),
            last: 0,
            events: EventLog::default(),
            outputs: Vec::new(),
            read_on: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn boot(&self) -> Time {
        self.context.clock.boot()
    }

    /// Hands an input to the machine. Returns false if the machine refuses it.
    fn give(&mut self, input: Input) -> bool {
        let done = self.machine.handle(input, self.boot(), &mut OsRng);
        self.collect_outputs();
        done.is_ok()
    }

    fn collect_outputs(&mut self) {
        while let Some(output) = self.machine.poll() {
            self.outputs.push(output);
        }
    }

    fn apply_event(&mut self, event: ShellEvent) {
        match event {
            ShellEvent::Side(SideEvent::Frame { conn, side, frame, read_on }) => {
                self.give(Input::Frame(conn, side, frame));
                self.read_on.push(read_on);
            }
            ShellEvent::Side(SideEvent::Ended { conn, side }) => {
                self.give(Input::Closed(conn, side));
            }
            ShellEvent::Accepted { from, socket, address, permit } => {
                self.open_pair(from, socket, address, permit);
            }
            ShellEvent::Dialled(conn, Some(socket)) => self.complete_pair(conn, socket),
            ShellEvent::Dialled(conn, None) => {
                self.give(Input::DialFailed(conn));
            }
            ShellEvent::Asked(request) => self.answer_request(request),
        }
    }

    fn open_pair(
        &mut self,
        from: AcceptedFrom,
        socket: TcpStream,
        address: IpAddr,
        permit: ConnectionPermit,
    ) {
        self.last += 1;
        let conn = GuardConnection(self.last);
        let (side, opening) = match from {
            AcceptedFrom::Inside => (GuardSide::Inside, Opening::Inside),
            AcceptedFrom::Wire(client) => {
                (GuardSide::Wire, Opening::Wire(client, number_address(address)))
            }
        };
        // A refused connection is closed when the socket is dropped.
        if !self.give(Input::Opened(conn, opening)) {
            return;
        }
        let mut pair = Pair::new(side, Some(Arc::new(permit)));
        pair.add_side(&self.context, conn, side, socket);
        self.pairs.insert(conn, pair);
    }

    /// Adds the requested side of a pair. The side is there before the machine sends to it.
    fn complete_pair(&mut self, conn: GuardConnection, socket: TcpStream) {
        // The session ended while the connection was being made; the socket is closed here.
        let Some(pair) = self.pairs.get_mut(&conn) else { return };
        let side = pair.missing_side();
        pair.add_side(&self.context, conn, side, socket);
        self.give(Input::Dialled(conn));
    }

    /// Makes all records of the outputs durable. Returns the connections whose outputs must not be
    /// carried out, because a record that they depend on is not durable.
    fn write_records(&mut self, outputs: &[Output]) -> BTreeSet<GuardConnection> {
        let persisted = |output: &Output| match output {
            Output::Persist(conn, record) => Some((*conn, *record)),
            _ => None,
        };
        let records: Vec<LedgerRecord> =
            outputs.iter().filter_map(persisted).map(|(_, record)| record).collect();
        // Records of an earlier failed write are in memory, so that any output may depend on them.
        let was_stale = self.ledger.is_stale();
        if records.is_empty() && !was_stale {
            return BTreeSet::new();
        }
        // Giving up this thread for a moment costs more than all else that a frame needs.
        let written = block_in_place(|| self.ledger.append(&records, self.machine.ledger()));
        let Err(fault) = written else { return BTreeSet::new() };
        tracing::error!(target: "mezza", "{fault}");
        if was_stale {
            outputs.iter().filter_map(connection_of).collect()
        } else {
            outputs.iter().filter_map(persisted).map(|(conn, _)| conn).collect()
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            // Durable already.
            Output::Persist(..) => {}
            Output::Send(conn, side, frame) => {
                let sent = self.pairs.get(&conn).is_none_or(|pair| pair.send_frame(side, frame));
                // A side that takes no frames ends the pair, because no queue may grow.
                if !sent {
                    self.give(Input::Closed(conn, side));
                }
            }
            Output::Dial(conn, dest) => self.dial_destination(conn, dest),
            Output::DialClient(conn, client) => self.dial_client(conn, client),
            Output::Pump(conn) => {
                if let Some(pair) = self.pairs.get(&conn) {
                    pair.begin_pump();
                }
            }
            Output::Close(conn, reason) => {
                log_end(conn, reason);
                if let Some(pair) = self.pairs.remove(&conn) {
                    pair.end();
                }
            }
            Output::Event(event) => self.events.add(&event),
        }
    }

    fn dial_destination(&mut self, conn: GuardConnection, dest: u16) {
        let now = self.boot();
        let found = self.peers.dest.values().find(|entry| entry.number == dest);
        let target = found.map(|entry| (entry.host.clone(), entry.port));
        // The number of connections in a time is a channel of the client (GUARD-51).
        let target = target.filter(|_| self.budget.take_one(dest, now));
        let Some((host, port)) = target else {
            tracing::info!(target: "mezza", dest, "a connection is refused: too many of them");
            self.give(Input::DialFailed(conn));
            return;
        };
        self.spawn_dial(conn, host, port, self.config.tick_ms);
    }

    fn dial_client(&mut self, conn: GuardConnection, client: GuardClientId) {
        let entry = self.peers.client.get(&super::peers::format_id(client));
        let Some(addr) = entry.and_then(|entry| entry.addr) else {
            self.give(Input::DialFailed(conn));
            return;
        };
        self.spawn_dial(conn, addr.ip().to_string(), addr.port(), 0);
    }

    fn spawn_dial(&self, conn: GuardConnection, host: String, port: u16, tick_ms: u64) {
        let events = self.context.events.clone();
        let now = self.boot();
        tokio::spawn(async move {
            dial::wait_for_tick(tick_ms, now).await;
            let socket = dial::connect(&host, port).await.ok();
            let _ = events.send(ShellEvent::Dialled(conn, socket)).await;
        });
    }
}

impl Shell for GuardShell {
    type Event = ShellEvent;

    /// Boot time: refusals count for 24 hours of it, and no user can set it.
    fn now(&self) -> Time {
        self.boot()
    }

    fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    fn wake(&mut self, now: Time) {
        self.machine.wake(now, &mut OsRng);
        self.collect_outputs();
    }

    fn handle_event(&mut self, event: ShellEvent) {
        self.apply_event(event);
    }

    fn events_at_once(&self) -> usize {
        BATCH_MAX
    }

    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        while !self.outputs.is_empty() {
            let outputs = std::mem::take(&mut self.outputs);
            let failed = self.write_records(&outputs);
            self.finish_answers(&failed);
            for output in outputs {
                let is_end = matches!(output, Output::Close(..) | Output::Event(_));
                // A frame must not leave before the record that covers it is durable (GUARD-37).
                if is_end || connection_of(&output).is_none_or(|conn| !failed.contains(&conn)) {
                    self.carry_out(output);
                }
            }
            for conn in failed {
                self.give(Input::Closed(conn, GuardSide::Inside));
            }
        }
        self.finish_answers(&BTreeSet::new());
        // Dropping the senders lets the readers continue.
        self.read_on.clear();
        Ok(())
    }

    fn stop(&mut self) {
        for conn in self.pairs.keys().copied().collect::<Vec<_>>() {
            self.give(Input::Closed(conn, GuardSide::Inside));
        }
    }
}

/// Returns the connection of an output, or `None` for events.
fn connection_of(output: &Output) -> Option<GuardConnection> {
    match output {
        Output::Send(conn, ..)
        | Output::Dial(conn, _)
        | Output::DialClient(conn, _)
        | Output::Persist(conn, _)
        | Output::Pump(conn)
        | Output::Close(conn, _) => Some(*conn),
        Output::Event(_) => None,
    }
}

/// Returns the number of an address: IPv6 addresses of one /64 have the same.
fn number_address(address: IpAddr) -> u64 {
    match address.to_canonical() {
        // No IPv6 source begins with ffff.
        IpAddr::V4(v4) => 0xffff_0000_0000_0000 | u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

fn log_end(conn: GuardConnection, reason: CloseReason) {
    // Numbers only: a log must not hold an address (GUARD-34).
    let conn = conn.0;
    match reason {
        CloseReason::Ended => {}
        CloseReason::Refused(code) => {
            tracing::info!(target: "mezza", conn, "refused: {code:?}");
        }
        CloseReason::Frame(error) => {
            tracing::warn!(target: "mezza", conn, "closed: {error}; update client and guard if they differ");
        }
        CloseReason::Firewall(error) => tracing::warn!(target: "mezza", conn, "closed: {error}"),
        CloseReason::Control => {
            tracing::info!(target: "mezza", conn, "closed: not a client of this guard, or a wrong frame");
        }
        CloseReason::Timeout => tracing::info!(target: "mezza", conn, "closed: no answer in 10 s"),
    }
}

/// Makes the fault of a record that could not be written.
fn not_durable() -> Fault {
    let text = "the ledger cannot be written, so nothing was changed";
    Fault::new(Exit::CannotWrite, text, "make room on the disk, and run the command again")
}
