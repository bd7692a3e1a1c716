//! Two devices on loopback UDP: they pair, restart from their files, and exchange texts under a key that
//! a timer renews.
//!
//! `cargo run -p mezza-seka --example peer_over_udp` takes about three seconds. `Side` is the program around
//! the machine: a socket, a clock, a source of randomness, and a file of two slots of 256 bytes. Each
//! side runs in its own thread.
//!
//! The example leaves three things out. Both sockets are connected, so every address is the default one:
//! a real carrier encodes the source of each datagram in a `PeerAddress`. The seeds are fixed: a program
//! uses the generator of the operating system. The store key lives in memory only.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a demonstration that prints, and floor rules leave the clock to the program"
)]

use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time};
use mezza_seka::record::SEALED_BYTES;
use mezza_seka::session::index_of;
use mezza_seka::suite::{LinkSuite, default::DefaultSuite};
use mezza_seka::{
    LinkId, LinkRole, LinkSession, Opener, Pairing, PairingInput, PairingOutput, PairingSettings,
    Peer, PeerAddress, PeerInput, PeerOutput, PeerRecord, PeerSettings, Sealer, StoreKey,
};
use mezza_sim::SimRng;

type Suite = DefaultSuite<PortableBackend>;
type Frames = <Suite as LinkSuite>::Frames;

/// Sessions that the example runs through: the first one, and one after a timer renewed the key.
const SESSIONS: usize = 2;

/// One device: everything that a machine may not touch itself.
struct Side {
    role: LinkRole,
    socket: UdpSocket,
    file: File,
    /// The slot of the newest record, 0 or 1.
    newest: usize,
    store_key: StoreKey,
    rng: SimRng,
    start: Instant,
    sessions: Vec<(LinkSession, Opener<Frames>)>,
}

impl Side {
    fn new(role: LinkRole, socket: UdpSocket, folder: &Path) -> Self {
        let path = folder.join(format!("{role:?}"));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(path);
        let file = file.expect("a new file");
        file.set_len(2 * SEALED_BYTES as u64).expect("space for two slots");
        let mut rng = SimRng::new(7, role as u64);
        let store_key = StoreKey::new(Secret::random(rng.rng()));
        let start = Instant::now();
        Self { role, socket, file, newest: 0, store_key, rng, start, sessions: vec![] }
    }

    fn now(&self) -> Time {
        Time::from_ms(self.start.elapsed().as_millis() as u64)
    }

    /// Waits for a datagram until the deadline of the machine, at most for a second.
    fn receive(&self, deadline: Option<Time>) -> Option<Vec<u8>> {
        let wait_ms = deadline.map_or(1_000, |due| due.since_ms(self.now())).clamp(1, 1_000);
        let wait = Duration::from_millis(wait_ms);
        self.socket.set_read_timeout(Some(wait)).expect("a positive timeout");
        let mut buffer = [0; 2_048];
        // An error is a timeout, or a report that the other side is closed. The machine has timers for both.
        let bytes = self.socket.recv(&mut buffer).ok()?;
        Some(buffer[..bytes].to_vec())
    }

    /// Writes a record to the older slot and syncs it. Returns the answer for the machine.
    fn store_record(&mut self, seq: u64, sealed: &[u8]) -> PeerInput {
        // A crash during the write damages this slot only. The other one still holds a record.
        let older = 1 - self.newest;
        let written = self.file.write_all_at(sealed, (older * SEALED_BYTES) as u64);
        if written.and_then(|()| self.file.sync_all()).is_err() {
            return PeerInput::StoreFailed(seq);
        }
        self.newest = older;
        PeerInput::Stored(seq)
    }

    /// Carries out one output. Returns the input that answers it, if any.
    fn carry_out(&mut self, output: PeerOutput) -> Option<PeerInput> {
        match output {
            PeerOutput::Want => {
                let ephemeral = EphemeralKey::random::<PortableBackend>(self.rng.rng());
                return Some(PeerInput::Give(ephemeral));
            }
            PeerOutput::Store { seq, sealed } => return Some(self.store_record(seq, &sealed[..])),
            PeerOutput::Send { frame, .. } => self.send(&frame),
            PeerOutput::Install(session) => self.sessions.push((*session, Opener::default())),
            PeerOutput::Retire(attempt) => self.sessions.retain(|(s, _)| s.attempt() != attempt),
            PeerOutput::Tell(event) => {
                println!("{:>5} {:?}: {event:?}", self.now().as_ms(), self.role);
            }
            // The responder ends an exchange with an empty frame. The initiator uses the new session once
            // that frame opens.
            PeerOutput::KeepAlive { attempt, .. } => return Some(self.send_text(attempt, "")),
            PeerOutput::Use(_) | PeerOutput::Moved(_) => {}
        }
        None
    }

    fn send(&self, frame: &[u8]) {
        // A datagram may be lost anyway: the machine repeats each frame of an exchange.
        let _ = self.socket.send(frame);
    }

    /// Sends a text under a session. Returns the usage of the session for the machine.
    fn send_text(&mut self, attempt: u32, text: &str) -> PeerInput {
        let found = self.sessions.iter().find(|(session, _)| session.attempt() == attempt);
        let (session, _) = found.expect("an open session");
        // DATA: a header of 8 bytes, a byte of flags, the text, a tag of 16 bytes.
        let mut frame = [&[0; 8 + 1], text.as_bytes(), &[0; 16]].concat();
        let packet = session.reserve_packets(1).expect("far from the limit");
        Sealer::<Frames>::default().seal(session, packet, &mut frame);
        self.send(&frame);
        PeerInput::Used(session.usage())
    }

    /// Opens a DATA frame. Returns its session and its text, or `None` for a frame to drop.
    fn open_text(&mut self, mut frame: Vec<u8>) -> Option<(u32, String)> {
        let index = index_of(&frame)?;
        // Any sender can write any index and any bytes. Only a frame that opens counts.
        let found = self.sessions.iter_mut().find(|(session, _)| session.own_index() == index);
        let (session, opener) = found?;
        let (_, text) = opener.open(session, &mut frame).ok()?;
        let text = String::from_utf8_lossy(text.get(1..)?).into_owned();
        Some((session.attempt(), text))
    }

    /// Pairs with the other side. The record is in both slots of the file at the end.
    fn pair(&mut self) {
        let own = LinkId::from_bytes([2, 0, 0, 0, 0, self.role as u8 + 1]).expect("a unicast id");
        let mut settings = PairingSettings::new(own, "loopback", 1);
        settings.role = Some(self.role);
        let key = self.store_key.duplicate();
        let began = self.now();
        let mut pairing = Pairing::<Suite>::open_window(settings, key, began, 0, self.rng.rng());
        while !pairing.is_flushed() {
            if let Some(frame) = self.receive(pairing.deadline()) {
                let from = PeerAddress::default();
                let input = PairingInput::Datagram { frame, from, on_link: true };
                // A refused frame leaves the machine unchanged. An unknown sender may send anything.
                let _ = pairing.handle(input, self.now(), self.rng.rng());
            }
            pairing.wake(self.now(), self.rng.rng());
            while let Some(output) = pairing.poll() {
                let answer = match output {
                    PairingOutput::Want => self.carry_out(PeerOutput::Want),
                    PairingOutput::Peer(output) => self.carry_out(output),
                    PairingOutput::Send { frame, .. } => {
                        self.send(&frame);
                        None
                    }
                    PairingOutput::Failed(failure) => panic!("{failure}"),
                    output => {
                        println!("{:>5} {:?}: {output:?}", self.now().as_ms(), self.role);
                        None
                    }
                };
                let answer = match answer {
                    Some(PeerInput::Give(ephemeral)) => PairingInput::Give(ephemeral),
                    Some(answer) => PairingInput::Peer(answer),
                    None => continue,
                };
                let _ = pairing.handle(answer, self.now(), self.rng.rng());
            }
        }
    }

    /// Starts again from the file, and runs until a text was exchanged in each of the sessions.
    fn run_peer(&mut self) {
        self.sessions.clear();
        let mut slots = [[0; SEALED_BYTES]; 2];
        for (slot, place) in slots.iter_mut().zip([0, SEALED_BYTES as u64]) {
            self.file.read_exact_at(slot, place).expect("a file of two slots");
        }
        let newest = PeerRecord::open_newest(&self.store_key, [&slots[0], &slots[1]]);
        let (seq, place, record) = newest.expect("a record that opens");
        self.newest = place;
        let settings = PeerSettings { rekey_ms: 500, ..PeerSettings::default() };
        let key = self.store_key.duplicate();
        let mut peer =
            Peer::<Suite>::restore(seq, record, key, settings, self.now()).expect("this suite");
        println!("{:>5} {:?}: restarted from write {seq}", self.now().as_ms(), self.role);
        let mut input = Some(PeerInput::Carrier(true));
        let mut opened = 0;
        while opened < SESSIONS {
            // The machine repeats frames of an exchange, but a lost text stays lost.
            assert!(self.now() < Time::from_ms(30_000), "a text was lost: run the example again");
            if let Some(input) = input.take() {
                // As in `pair`: a refused frame leaves the machine unchanged.
                let _ = peer.handle(input, self.now(), self.rng.rng());
            }
            peer.wake(self.now(), self.rng.rng());
            self.drain_peer(&mut peer);
            input = self.receive(peer.deadline()).and_then(|frame| {
                if index_of(&frame).is_none() {
                    return Some(PeerInput::Datagram { frame, from: PeerAddress::default() });
                }
                let (attempt, text) = self.open_text(frame)?;
                if !text.is_empty() {
                    println!(
                        "{:>5} {:?}: \"{text}\" in session {attempt}",
                        self.now().as_ms(),
                        self.role
                    );
                    opened += 1;
                    if self.role == LinkRole::Responder {
                        self.send_text(attempt, "hello to you");
                    }
                }
                Some(PeerInput::Fresh(attempt))
            });
        }
    }

    /// Carries out all outputs of a peer in their order.
    fn drain_peer(&mut self, peer: &mut Peer<Suite>) {
        while let Some(output) = peer.poll() {
            let answer = match output {
                PeerOutput::Use(attempt) if self.role == LinkRole::Initiator => {
                    Some(self.send_text(attempt, "hello"))
                }
                output => self.carry_out(output),
            };
            if let Some(answer) = answer {
                let _ = peer.handle(answer, self.now(), self.rng.rng());
            }
        }
    }
}

fn main() {
    let folder = std::env::temp_dir().join(format!("peer_over_udp_{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
    sockets[0].connect(addresses[1]).expect("a loopback address");
    sockets[1].connect(addresses[0]).expect("a loopback address");
    let [one, two] = sockets;
    let mut initiator = Side::new(LinkRole::Initiator, one, &folder);
    let mut responder = Side::new(LinkRole::Responder, two, &folder);
    // The first scope ends when both records are durable, and only then both sides restart.
    std::thread::scope(|scope| {
        scope.spawn(|| initiator.pair());
        scope.spawn(|| responder.pair());
    });
    std::thread::scope(|scope| {
        scope.spawn(|| initiator.run_peer());
        scope.spawn(|| responder.run_peer());
    });
    std::fs::remove_dir_all(&folder).expect("our own folder");
}
