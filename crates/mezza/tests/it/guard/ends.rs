//! The ends of a guarded link: SEKA peers that have paired in memory, a client that dials through
//! the guard, and a responder behind a TCP listener.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mezza::testing::process::rng::OsRng;
use mezza_core::{CryptoRng, EphemeralKey, Machine as _, PortableBackend, Secret, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::{CoinEncoding, CoinKeyPair};
use mezza_guard::guard::GuardConnection;
use mezza_guard::keys::PairingKey;
use mezza_guard::wire::control::{Control, GuardMode, RefusalCode};
use mezza_seka::stream::{RecordType, Records};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::wire::{Ke1, Ke2, Ke3};
use mezza_seka::{
    LinkId, LinkRole, LinkSession, Pairing, PairingInput, PairingOutput, PairingSettings, Peer,
    PeerAddress, PeerInput, PeerOutput, StoreKey,
};

type Suite = DefaultSuite<PortableBackend>;
type Frames = <Suite as LinkSuite>::Frames;

const SOMEWHERE: PeerAddress = PeerAddress([1; 20]);
/// Time limit for each frame.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most connections for one handshake.
const DIALS: usize = 5;

/// A device while it pairs.
struct PairingEnd {
    pairing: Pairing<Suite>,
    role: LinkRole,
    sent: Vec<Vec<u8>>,
    is_done: bool,
    wants: u32,
}

impl PairingEnd {
    fn new(own: u8, role: LinkRole) -> Self {
        let name = LinkId::from_bytes([2, 0, 0, 0, 0, own]).expect("a name");
        let mut settings = PairingSettings::new(name, "cam1", u16::from(own));
        settings.role = Some(role);
        // Handshakes of a test follow each other at once.
        settings.peer_settings.exchange_ms = 0;
        let key = StoreKey::new(Secret::init_with(|key| key.fill(own)));
        let pairing = Pairing::open_window(settings, key, Time::from_ms(1_000), 1_000, &mut OsRng);
        Self { pairing, role, sent: Vec::new(), is_done: false, wants: 0 }
    }

    fn drain(&mut self, now: Time) {
        while let Some(output) = self.pairing.poll() {
            let input = match output {
                PairingOutput::Want => Some(PairingInput::Give(plain_key())),
                PairingOutput::Peer(PeerOutput::Want) => {
                    self.wants += 1;
                    // The initiator's next key is made with the guard, so none is drawn ahead.
                    let draws = self.role == LinkRole::Responder || self.wants == 1;
                    draws.then(|| PairingInput::Give(plain_key()))
                }
                PairingOutput::Peer(PeerOutput::Store { seq, .. }) => {
                    Some(PairingInput::Peer(PeerInput::Stored(seq)))
                }
                PairingOutput::Send { frame, .. } => {
                    self.sent.push(frame);
                    None
                }
                PairingOutput::Done => {
                    self.is_done = true;
                    None
                }
                PairingOutput::Failed(failure) => panic!("{failure}"),
                _ => None,
            };
            if let Some(input) = input {
                let _ = self.pairing.handle(input, now, &mut OsRng);
            }
        }
    }
}

fn plain_key() -> EphemeralKey {
    EphemeralKey::random::<PortableBackend>(&mut OsRng)
}

/// Pairs two devices. The first one is the initiator.
pub fn pair_devices() -> [LinkEnd; 2] {
    let mut ends =
        [PairingEnd::new(1, LinkRole::Initiator), PairingEnd::new(2, LinkRole::Responder)];
    for ms in (1_000..9_000).step_by(10) {
        let now = Time::from_ms(ms);
        for at in 0..2 {
            if ends[at].pairing.deadline().is_some_and(|due| due <= now) {
                ends[at].pairing.wake(now, &mut OsRng);
            }
            ends[at].drain(now);
            for frame in std::mem::take(&mut ends[at].sent) {
                let input = PairingInput::Datagram { frame, from: SOMEWHERE, on_link: true };
                let _ = ends[1 - at].pairing.handle(input, now, &mut OsRng);
                ends[1 - at].drain(now);
            }
        }
    }
    assert!(ends.iter().all(|end| end.is_done), "the devices did not pair");
    ends.map(|end| {
        let draws_keys = end.role == LinkRole::Responder;
        LinkEnd::new(end.pairing.into_peer().expect("a peer").0, draws_keys)
    })
}

/// One end of a link.
pub struct LinkEnd {
    peer: Peer<Suite>,
    now: Time,
    draws_keys: bool,
    sent: VecDeque<Vec<u8>>,
    sessions: Vec<LinkSession>,
}

impl LinkEnd {
    fn new(peer: Peer<Suite>, draws_keys: bool) -> Self {
        let now = Time::from_ms(20_000);
        let mut end = Self { peer, now, draws_keys, sent: VecDeque::new(), sessions: Vec::new() };
        end.drain();
        end.sent.clear();
        end
    }

    fn give(&mut self, input: PeerInput) -> bool {
        let done = self.peer.handle(input, self.now, &mut OsRng);
        self.drain();
        done.is_ok()
    }

    fn drain(&mut self) {
        while let Some(output) = self.peer.poll() {
            match output {
                PeerOutput::Want if self.draws_keys => {
                    let _ = self.peer.handle(PeerInput::Give(plain_key()), self.now, &mut OsRng);
                }
                PeerOutput::Store { seq, .. } => {
                    let _ = self.peer.handle(PeerInput::Stored(seq), self.now, &mut OsRng);
                }
                PeerOutput::Send { frame, .. } => self.sent.push_back(frame),
                PeerOutput::Install(session) => self.sessions.push(*session),
                _ => {}
            }
        }
    }

    /// Begins an exchange with this key. Returns KE1.
    pub fn begin(&mut self, key: EphemeralKey) -> Vec<u8> {
        self.now = self.now.plus_ms(1_000);
        self.sent.clear();
        self.sessions.clear();
        assert!(self.give(PeerInput::Give(key)), "a key is wanted");
        self.give(PeerInput::Rekey);
        let first = self.sent.pop_front().expect("KE1");
        assert_eq!((first.len(), first[1]), (Ke1::BYTES, Ke1::KIND));
        first
    }

    /// Handles a frame of the other end. Returns the answer.
    fn answer(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        self.sent.clear();
        self.give(PeerInput::Datagram { frame, from: SOMEWHERE });
        self.sent.pop_front()
    }

    /// Ends an attempt that got no answer.
    pub fn abandon(&mut self) {
        for _ in 0..12 {
            let end = self.now.plus_ms(20_000);
            let Some(due) = self.peer.deadline().filter(|due| *due < end) else { break };
            self.now = due.max(self.now);
            self.peer.wake(self.now, &mut OsRng);
            self.drain();
        }
        self.sent.clear();
    }
}

/// A device behind a guard.
pub struct GuardedClient {
    machine: GuardClient,
    /// The stored coins, as they are on the disk of the device.
    pub rows: BTreeMap<[u8; 32], Vec<u8>>,
    code: String,
    /// The random generator of the device.
    rng: Box<dyn CryptoRng>,
    now: Time,
    last: u64,
}

/// A connection through the guard whose key is made.
pub struct Dialled {
    pub socket: TcpStream,
    pub conn: GuardConnection,
    pub pair: CoinKeyPair,
}

impl Dialled {
    /// The key that must be in the frame.
    pub fn public(&self) -> [u8; 32] {
        self.pair.public_key(CoinEncoding::X25519)
    }
}

/// Why no key was made.
#[derive(Debug, PartialEq, Eq)]
pub enum NotDialled {
    Refused(RefusalCode),
    /// The guard sent a frame that breaks its rules.
    Violation,
    /// The connection ended.
    Closed,
}

impl GuardedClient {
    pub fn new(code: &str) -> Self {
        let pairing = PairingKey::from_code(code).expect("a code");
        let machine = GuardClient::new(pairing, CoinEncoding::X25519);
        let (rows, now) = (BTreeMap::new(), Time::from_ms(1));
        Self { machine, rows, code: code.into(), rng: Box::new(OsRng), now, last: 0 }
    }

    /// Replaces the generator of the device, as a tampered program does.
    pub fn tamper(&mut self, rng: impl CryptoRng + 'static) {
        self.rng = Box::new(rng);
    }

    /// The device starts again: only its rows are left.
    pub fn restart(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let last = self.last;
        *self = Self::new(&self.code.clone());
        for row in rows.values() {
            self.machine.load_coin(row).expect("a coin");
        }
        (self.rows, self.last) = (rows, last);
    }

    /// Connects to the guard and makes a key for a destination.
    pub fn dial(&mut self, guard: SocketAddr, dest: u16) -> Result<Dialled, NotDialled> {
        self.last += 1;
        let conn = GuardConnection(self.last);
        let mut socket = TcpStream::connect(guard).map_err(|_| NotDialled::Closed)?;
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let input = client::Input::Dial(conn, GuardMode::Coins, dest);
        self.machine.handle(input, self.now, &mut *self.rng).expect("a new connection");
        let (mut pair, mut is_ready) = (None, false);
        loop {
            while let Some(output) = self.machine.poll() {
                match output {
                    client::Output::Send(_, frame) => {
                        if socket.write_all(&frame).is_err() {
                            self.close(conn);
                            return Err(NotDialled::Closed);
                        }
                    }
                    client::Output::Store(coin) => {
                        self.rows.insert(*coin.commitment(), coin.encode().to_vec());
                    }
                    client::Output::Erase(h) => drop(self.rows.remove(&h)),
                    client::Output::Key(_, made) => pair = Some(made),
                    client::Output::Ready(_) => is_ready = true,
                    client::Output::Refused(_, code) => {
                        self.close(conn);
                        return Err(NotDialled::Refused(code));
                    }
                    client::Output::Close(_) => return Err(NotDialled::Violation),
                    client::Output::Gift(_) => {}
                }
            }
            if let (true, Some(_)) = (is_ready, &pair) {
                break;
            }
            let Some(frame) = read_frame(&mut socket) else {
                self.close(conn);
                return Err(NotDialled::Closed);
            };
            assert!(Control::is_kind(frame[1]), "a frame of the wire before READY");
            let input = client::Input::Frame(conn, frame);
            self.machine.handle(input, self.now, &mut *self.rng).expect("a known connection");
        }
        Ok(Dialled { socket, conn, pair: pair.expect("a key") })
    }

    /// Ends a connection.
    pub fn close(&mut self, conn: GuardConnection) {
        let _ = self.machine.handle(client::Input::Closed(conn), self.now, &mut OsRng);
        while self.machine.poll().is_some() {}
    }

    /// Runs a handshake. Returns a key of the session, 32 bytes.
    pub fn handshake(&mut self, end: &mut LinkEnd, guard: SocketAddr, dest: u16) -> [u8; 32] {
        let dialled = self.dial_patiently(guard, dest);
        self.exchange(end, dialled)
    }

    /// Connects to the guard and makes a key. A guard closes connections that take too long, and a
    /// device then connects again.
    pub fn dial_patiently(&mut self, guard: SocketAddr, dest: u16) -> Dialled {
        for _ in 1..DIALS {
            match self.dial(guard, dest) {
                Err(NotDialled::Closed) => {}
                done => return done.expect("a key"),
            }
        }
        self.dial(guard, dest).expect("a key")
    }

    /// Runs the exchange on a connection whose key is made.
    pub fn exchange(&mut self, end: &mut LinkEnd, dialled: Dialled) -> [u8; 32] {
        let Dialled { mut socket, conn, pair } = dialled;
        let first = end.begin(pair.into_ephemeral());
        socket.write_all(&first).expect("sent");
        let second = read_frame(&mut socket).expect("KE2");
        assert_eq!(second[1], Ke2::KIND);
        let third = end.answer(second).expect("KE3");
        self.machine.handle(client::Input::Answered(conn), self.now, &mut OsRng).expect("known");
        while let Some(output) = self.machine.poll() {
            if let client::Output::Erase(h) = output {
                self.rows.remove(&h);
            }
        }
        socket.write_all(&third).expect("sent");
        let record = read_frame(&mut socket).expect("a record");
        let session = end.sessions.pop().expect("a session");
        let attempt = session.attempt();
        let mut records = Records::<Frames>::new(session);
        let (_, text) = records.open(&record).expect("a record under the same key");
        assert_eq!(&text[..], b"up");
        // Records pass in both directions after the handshake.
        let answer = records.seal(RecordType::Data, b"down").expect("sealed");
        socket.write_all(&answer).expect("sent");
        assert_eq!(
            read_frame(&mut socket).map(|frame| frame[1]),
            Some(0x21),
            "the end of the link"
        );
        end.give(PeerInput::Fresh(attempt));
        self.close(conn);
        *records.session().export_key("test of a guard").expose()
    }
}

/// Facts that a responder has seen.
#[derive(Debug)]
pub enum Seen {
    /// The key of a KE1.
    Key([u8; 32]),
    /// A key of an accepted session.
    Agreed([u8; 32]),
}

/// Serves a link behind a listener on its own thread.
pub fn serve_link(mut end: LinkEnd) -> (u16, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (seen, facts) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let _ = serve_socket(&mut end, &mut socket, &seen);
        }
    });
    (port, facts)
}

fn serve_socket(end: &mut LinkEnd, socket: &mut TcpStream, seen: &Sender<Seen>) -> Option<()> {
    let first = read_frame(socket)?;
    end.now = end.now.plus_ms(1_000);
    end.sessions.clear();
    seen.send(Seen::Key(first.get(40..72)?.try_into().ok()?)).ok()?;
    let second = end.answer(first)?;
    socket.write_all(&second).ok()?;
    let third = read_frame(socket).filter(|frame| frame[1] == Ke3::KIND)?;
    end.answer(third);
    let session = end.sessions.pop()?;
    let attempt = session.attempt();
    let mut records = Records::<Frames>::new(session);
    socket.write_all(&records.seal(RecordType::Data, b"up").ok()?).ok()?;
    let (_, text) = records.open(&read_frame(socket)?).ok()?;
    assert_eq!(&text[..], b"down");
    end.give(PeerInput::Fresh(attempt));
    seen.send(Seen::Agreed(*records.session().export_key("test of a guard").expose())).ok()?;
    socket.write_all(&Records::<Frames>::close()).ok()
}

/// Reads one frame, or `None` at the end of the connection.
pub fn read_frame(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 2];
    socket.read_exact(&mut frame).ok()?;
    let rest = match frame[1] {
        Ke1::KIND | Ke2::KIND => 86,
        Ke3::KIND => 54,
        0x21 => 0,
        _ => {
            let mut length = [0; 2];
            socket.read_exact(&mut length).ok()?;
            frame.extend(length);
            usize::from(u16::from_be_bytes(length))
        }
    };
    let at = frame.len();
    frame.resize(at + rest, 0);
    socket.read_exact(&mut frame[at..]).ok()?;
    Some(frame)
}
