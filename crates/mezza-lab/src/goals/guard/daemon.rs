//! T6: frames through a running guard, beside a plain relay and beside no relay.
//!
//! ```text
//! client ------------------------------> responder
//! client ---> two threads that copy ---> responder
//! client ---> mezza guard run ---------> responder
//! ```
//! Client, responder and plain relay are threads of this program. The guard is a process with tick 0,
//! its ledger in memory, and it checks each frame of a handshake. It reads no record: it cuts them
//! and checks their lengths.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mezza::testing::process::home::private;
use mezza::testing::process::rng::OsRng;
use mezza_core::{Machine as _, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::CoinEncoding;
use mezza_guard::guard::GuardConnection;
use mezza_guard::keys::PairingKey;
use mezza_guard::wire::RECORD;
use mezza_guard::wire::control::{GuardMode, RefusalCode};
use mezza_seka::wire::{Ke1, Ke2, Ke3, VERSION};
use sha2::{Digest as _, Sha256};

use crate::bench::Bench;
use crate::clock::{median, to_ns};
use crate::limit::Limit;
use crate::process::{PROGRAM, Program};
use crate::row::Row;

/// The cost of a running guard.
pub const LIMITS: [Limit; 3] = [
    Limit::at_most("T6", "KE1 to KE2, guard adds / plain relay adds", 2.5, "x"),
    Limit::at_most("T6", "round trip of a record, guard adds / plain relay adds", 2.5, "x"),
    Limit::at_most("T6", "records in both directions, guard's time / plain relay's", 2.5, "x"),
];

/// Bytes of a record in a round trip, and of a record of a stream.
const RECORD_BYTES: [usize; 2] = [1_024, 16_384];
/// Rounds, in each of which the three paths take turns.
const ROUNDS: usize = 20;
/// Time after which the threads of a new connection wait for bytes.
const SETTLED: Duration = Duration::from_millis(2);
/// Time limit for the next byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// A folder in memory, if the system has one.
const MEMORY: &str = "/dev/shm";

/// Number of the cipher suite in a handshake frame.
const SUITE: u8 = 2;
/// Offset of the session id, of the counter and of the key in a handshake frame.
const SESSION_AT: usize = 20;
const COUNTER_AT: usize = 36;
const KEY_AT: usize = 40;

/// Measures T6.
pub fn measure_daemon(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut paths = Paths::start()?;
    let handshakes = bench.profile.pick(2, 10, 30);
    let trips = bench.profile.pick(5, 100, 300);
    let records = bench.profile.pick(20, 500, 2_000);
    let mut first = [const { Vec::new() }; 3];
    let mut trip = [const { Vec::new() }; 3];
    let mut stream = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for path in Path3::ALL {
            let mut wire = None;
            for _ in 0..handshakes {
                // The guard serves one connection to a destination at a time.
                drop(wire.take());
                let (socket, us) = paths.shake_hands(path)?;
                first[path as usize].push(us);
                wire = Some(socket);
            }
            let mut wire = wire.context("no handshake")?;
            for _ in 0..trips {
                trip[path as usize].push(time_trip(&mut wire)?);
            }
            stream[path as usize].push(time_stream(wire, records)?);
        }
    }
    let figures = [("first", &first), ("trip", &trip), ("stream", &stream)];
    for (name, samples) in figures {
        for path in Path3::ALL {
            let text = format!("{name} {}", path.name());
            bench.note_count("ours", &text, "us", median(&samples[path as usize]))?;
        }
    }
    let row = |limit: &Limit, samples: &[Vec<f64>; 3]| {
        let [none, relay, guard] = [0, 1, 2].map(|path: usize| median(&samples[path]));
        limit.make_row((guard - none) / (relay - none)).with_detail(format!(
            "median {none:.1} us without a relay, {relay:.1} with two threads that copy, {guard:.1} with the guard"
        ))
    };
    let [none, relay, guard] = [0, 1, 2].map(|path: usize| median(&stream[path]));
    let rate = |us: f64| (records * RECORD_BYTES[1]) as f64 / us;
    let streams = LIMITS[2].make_row(guard / relay).with_detail(format!(
        "{:.0} MB/s each way without a relay, {:.0} with two threads that copy, {:.0} with the guard",
        rate(none),
        rate(relay),
        rate(guard)
    ));
    Ok(vec![row(&LIMITS[0], &first), row(&LIMITS[1], &trip), streams])
}

/// A path from the client to the responder.
#[derive(Clone, Copy)]
enum Path3 {
    Direct,
    PlainRelay,
    Guard,
}

impl Path3 {
    const ALL: [Self; 3] = [Self::Direct, Self::PlainRelay, Self::Guard];

    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::PlainRelay => "plain relay",
            Self::Guard => "guard",
        }
    }
}

/// The three paths, and the client of the guard.
struct Paths {
    responder: SocketAddr,
    relay: SocketAddr,
    guard: SocketAddr,
    client: GuardClient,
    dest: u16,
    /// The counter of the last handshake through the guard.
    last: u32,
    /// Connections that the client has dialled.
    dials: u64,
    _program: Program,
    _folder: tempfile::TempDir,
}

impl Paths {
    fn start() -> Result<Self> {
        let responder = start_responder()?;
        let relay = start_relay(responder)?;
        let memory = Path::new(MEMORY);
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
        let home = folder.path().join("home");
        run_mezza(&home, &["guard", "init"])?;
        let settings = "tick_ms = 0\ndial_burst = 1000000\ndial_pause_s = 1\n";
        private::replace(&home.join("guard/guard.toml"), settings.as_bytes())?;
        let code_file = folder.path().join("code");
        let code_path = code_file.to_str().context("a path in UTF-8")?;
        run_mezza(&home, &["guard", "pair", "--code-file", code_path])?;
        let target = responder.to_string();
        let added = run_mezza(&home, &["guard", "dest", "add", "responder", &target, "--json"])?;
        let added: serde_json::Value = serde_json::from_str(added.trim())?;
        let dest = added["number"].as_u64().and_then(|number| u16::try_from(number).ok());
        let guard = free_address()?;
        let args = ["guard", "run", "--listen", &guard.to_string()];
        let mut program = Program::start(&home, &folder.path().join("guard"), &args, &[])?;
        program.wait_until("the guard", |_| TcpStream::connect(guard).ok())?;
        let code = std::fs::read_to_string(&code_file)?;
        let pairing = PairingKey::from_code(code.trim())?;
        Ok(Self {
            responder,
            relay,
            guard,
            client: GuardClient::new(pairing, CoinEncoding::X25519),
            dest: dest.context("the number of the destination")?,
            last: 0,
            dials: 0,
            _program: program,
            _folder: folder,
        })
    }

    /// Runs a handshake. Returns its connection, and the time from KE1 to KE2 in us.
    fn shake_hands(&mut self, path: Path3) -> Result<(TcpStream, f64)> {
        // The guard bounds how far a counter moves, so it counts the handshakes that it sees.
        self.last += u32::from(matches!(path, Path3::Guard));
        let (mut wire, key) = match path {
            Path3::Direct => (open_wire(self.responder)?, [7; 32]),
            Path3::PlainRelay => (open_wire(self.relay)?, [7; 32]),
            Path3::Guard => loop {
                if let Some(dialled) = self.dial_guard()? {
                    break dialled;
                }
                // The guard has not seen the end of the last connection yet.
                thread::sleep(Duration::from_millis(1));
            },
        };
        let first = make_ke1(&key, self.last);
        // The threads of each path have started and wait.
        thread::sleep(SETTLED);
        let began = Instant::now();
        wire.write_all(&first)?;
        let mut second = [0; Ke2::BYTES];
        wire.read_exact(&mut second).context("no KE2")?;
        let us = to_ns(began.elapsed()) / 1e3;
        if matches!(path, Path3::Guard) {
            self.tell_client(client::Input::Answered)?;
            self.tell_client(client::Input::Closed)?;
        }
        wire.write_all(&make_ke3(&first))?;
        // A handshake counts as accepted after the first record of the responder.
        time_trip(&mut wire)?;
        Ok((wire, us))
    }

    /// Tells the client about its newest connection. What it answers is of no use here.
    fn tell_client(&mut self, input: fn(GuardConnection) -> client::Input) -> Result<()> {
        self.client.handle(input(GuardConnection(self.dials)), Time::from_ms(1), &mut OsRng)?;
        while self.client.poll().is_some() {}
        Ok(())
    }

    /// Dials the responder through the guard. Returns the connection, and the key that the coin of the
    /// guard gives, or `None` if the guard is busy with the last connection.
    fn dial_guard(&mut self) -> Result<Option<(TcpStream, [u8; 32])>> {
        self.dials += 1;
        let mut wire = open_wire(self.guard)?;
        let conn = GuardConnection(self.dials);
        let now = Time::from_ms(1);
        let dial = client::Input::Dial(conn, GuardMode::Coins, self.dest);
        self.client.handle(dial, now, &mut OsRng)?;
        let mut key = None;
        loop {
            while let Some(output) = self.client.poll() {
                match output {
                    client::Output::Send(_, frame) => wire.write_all(&frame)?,
                    client::Output::Key(_, pair) => {
                        key = Some(pair.public_key(CoinEncoding::X25519));
                    }
                    client::Output::Ready(_) => return Ok(Some((wire, key.context("no coin")?))),
                    client::Output::Refused(_, RefusalCode::Busy) => {
                        self.tell_client(client::Input::Closed)?;
                        return Ok(None);
                    }
                    client::Output::Refused(_, code) => bail!("the guard refuses: {code:?}"),
                    client::Output::Close(_) => bail!("the guard closed the connection"),
                    client::Output::Store(_)
                    | client::Output::Erase(_)
                    | client::Output::Gift(_) => {}
                }
            }
            let frame = read_control(&mut wire)?;
            self.client.handle(client::Input::Frame(conn, frame), now, &mut OsRng)?;
        }
    }
}

/// Runs a command of `mezza` to its end. Returns its output.
fn run_mezza(home: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(PROGRAM).env_clear().arg("--home").arg(home).args(args).stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        bail!("{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn open_wire(to: SocketAddr) -> Result<TcpStream> {
    let wire = TcpStream::connect(to)?;
    wire.set_nodelay(true)?;
    wire.set_read_timeout(Some(PATIENCE))?;
    Ok(wire)
}

/// Reads a frame of the guard: `version u8 | kind u8 | length u16 | body`.
fn read_control(wire: &mut TcpStream) -> Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    wire.read_exact(&mut frame).context("the guard closed the connection")?;
    let body = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
    frame.resize(4 + body, 0);
    wire.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Bytes 0 to 20 of a handshake frame: version, kind, suite, flags, index, link, attempt, and the
/// names of both ends.
fn make_header(kind: u8, counter: u32) -> Vec<u8> {
    let mut frame = vec![VERSION, kind, SUITE, 0, 0, 0, 1, counter.to_be_bytes()[3]];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame
}

/// Makes a KE1 that a guard lets pass. Its MAC is arbitrary, since the guard lacks the key.
fn make_ke1(key: &[u8; 32], counter: u32) -> Vec<u8> {
    let mut frame = make_header(Ke1::KIND, counter);
    let mut session = Sha256::new();
    session.update(b"seka1 s");
    session.update(&frame[8..14]);
    session.update(key);
    frame.extend_from_slice(&session.finalize()[..16]);
    frame.extend_from_slice(&counter.to_be_bytes());
    frame.extend_from_slice(key);
    frame.resize(Ke1::BYTES, 9);
    frame
}

/// Makes the KE2 that answers a KE1.
fn make_ke2(first: &[u8]) -> Vec<u8> {
    let mut frame = first.to_vec();
    frame[1] = Ke2::KIND;
    frame[8..14].copy_from_slice(&first[14..20]);
    frame[14..20].copy_from_slice(&first[8..14]);
    // The base point of the curve.
    frame[KEY_AT..KEY_AT + 32].fill(0);
    frame[KEY_AT] = 9;
    frame
}

/// Makes the KE3 that ends the handshake of a KE1.
fn make_ke3(first: &[u8]) -> Vec<u8> {
    let counter = first[COUNTER_AT..KEY_AT].try_into().map_or(0, u32::from_be_bytes);
    let mut frame = make_header(Ke3::KIND, counter);
    frame.extend_from_slice(&first[SESSION_AT..KEY_AT]);
    frame.resize(Ke3::BYTES, 9);
    frame
}

fn make_record(bytes: usize) -> Vec<u8> {
    let mut record = vec![VERSION, RECORD];
    record.extend_from_slice(&(bytes as u16).to_be_bytes());
    record.resize(4 + bytes, 5);
    record
}

/// Measures one round trip of a record in us.
fn time_trip(wire: &mut TcpStream) -> Result<f64> {
    let mut record = make_record(RECORD_BYTES[0]);
    let began = Instant::now();
    wire.write_all(&record)?;
    wire.read_exact(&mut record)?;
    Ok(to_ns(began.elapsed()) / 1e3)
}

/// Measures the time in us in which so many records go out and come back.
fn time_stream(mut wire: TcpStream, records: usize) -> Result<f64> {
    let record = make_record(RECORD_BYTES[1]);
    let mut back = wire.try_clone()?;
    let bytes = record.len();
    let began = Instant::now();
    let reader = thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; bytes];
        (0..records).try_for_each(|_| back.read_exact(&mut buffer))
    });
    for _ in 0..records {
        wire.write_all(&record)?;
    }
    match reader.join() {
        Ok(done) => done.context("a record did not come back")?,
        Err(_) => bail!("the reader of records ended"),
    }
    Ok(to_ns(began.elapsed()) / 1e3)
}

/// Starts a responder, which answers handshakes and sends records back. Returns its address.
fn start_responder() -> Result<SocketAddr> {
    serve_connections(|mut wire| {
        let mut first = [0; Ke1::BYTES];
        wire.read_exact(&mut first)?;
        wire.write_all(&make_ke2(&first))?;
        let mut third = [0; Ke3::BYTES];
        wire.read_exact(&mut third)?;
        let mut back = wire.try_clone()?;
        copy_bytes(&mut wire, &mut back)
    })
}

/// Starts a relay that copies bytes with two threads for each connection. Returns its address.
fn start_relay(to: SocketAddr) -> Result<SocketAddr> {
    serve_connections(move |mut from| {
        let mut next = TcpStream::connect(to)?;
        next.set_nodelay(true)?;
        let mut answers = next.try_clone()?;
        let mut back = from.try_clone()?;
        let answering = thread::spawn(move || copy_bytes(&mut answers, &mut back));
        copy_bytes(&mut from, &mut next)?;
        let _ = answering.join();
        Ok(())
    })
}

/// Serves each connection of a free port on a thread of its own. Returns the address.
fn serve_connections(
    serve: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for wire in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || wire.set_nodelay(true).and_then(|()| serve(wire)));
        }
    });
    Ok(address)
}

/// Copies bytes to their end, and passes the end on.
fn copy_bytes(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(Shutdown::Write),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
