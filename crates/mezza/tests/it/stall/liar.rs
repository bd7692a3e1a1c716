//! An entry that lies: it has the key of the true one, and stands in front of it.
//!
//! ```text
//! node <--TLS, the entry's key--> liar <--TLS--> entry
//! ```
//!
//! Unsigned fields are changed at random: when rounds close, that they were missed, how many took
//! part. Frames are held back, come out of their order, or come again.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mezza::testing::connection::link::{CLIENT, dial};
use mezza::testing::servers::mixnet::demo::DemoFiles;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::network;
use mezza::testing::tls::{Pin, link_server_config};
use mezza_mixnet::RoundId;
use mezza_mixnet::wire::{Frame, FrameBody, LinkDeframer, MissedReason, SignedSettings};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// Stands where the config has the entry.
pub struct Liar {
    road: Arc<Road>,
    /// Ends with the test.
    _runtime: Runtime,
}

/// The state that all connections share.
struct Road {
    /// Where the true entry listens, and its key.
    behind: String,
    key: [u8; 32],
    tls: TlsAcceptor,
    lies: AtomicBool,
    told: AtomicU64,
    rng: Mutex<ChaCha20Rng>,
}

impl Liar {
    /// Listens, and lies from now on.
    pub fn start(files: &DemoFiles, behind: &str) -> Self {
        let signed = network::read_config(&files.config_path()).unwrap();
        let entry = signed.config().coordinator.clone();
        let identity = ServerKey::load(&files.key_path("entry")).unwrap().identity().unwrap();
        let tls = TlsAcceptor::from(link_server_config(&identity, &[CLIENT], None).unwrap());
        let lies = AtomicBool::new(true);
        let told = AtomicU64::new(0);
        let rng = Mutex::new(ChaCha20Rng::seed_from_u64(46));
        let behind = behind.to_owned();
        let key = entry.key;
        let road = Arc::new(Road { behind, key, tls, lies, told, rng });
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(&entry.address)).unwrap();
        let shared = Arc::clone(&road);
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(between(Arc::clone(&shared), socket));
            }
        });
        Self { road, _runtime: runtime }
    }

    /// From now on it says what the true entry says; how many lies it told.
    pub fn stop(&self) -> u64 {
        self.road.lies.store(false, Ordering::SeqCst);
        self.road.told.load(Ordering::SeqCst)
    }
}

/// One connection, until either side hangs up.
async fn between(road: Arc<Road>, socket: TcpStream) {
    let Ok(node) = road.tls.accept(socket).await else { return };
    let Ok(entry) = dial(&road.behind, CLIENT, Pin::new(road.key), None).await else { return };
    let (mut from_node, to_node) = tokio::io::split(node);
    let (from_entry, mut to_entry) = tokio::io::split(entry);
    tokio::select! {
        _ = tokio::io::copy(&mut from_node, &mut to_entry) => {}
        _ = tell(&road, from_entry, to_node) => {}
    }
}

/// A frame of the entry server, on its way to a node.
async fn tell(
    road: &Road,
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut splitter = LinkDeframer::default();
    let mut buffer = vec![0; 16_384];
    let mut lies = Lies::default();
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let mut input = &buffer[..count];
        while let Some(bytes) = splitter.next_frame(&mut input).unwrap() {
            let frame = Frame::decode(&bytes).unwrap();
            let frames = if road.lies.load(Ordering::SeqCst) {
                let said = lies.of(frame.clone(), &mut road.rng.lock().unwrap());
                road.told.fetch_add(u64::from(said != [frame]), Ordering::SeqCst);
                said
            } else {
                vec![frame]
            };
            for frame in frames {
                to.write_all(&frame.encode().unwrap()).await?;
            }
        }
        to.flush().await?;
    }
}

/// The frames of one connection that may be lied about.
#[derive(Default)]
struct Lies {
    heard: Vec<(RoundId, SignedSettings)>,
    held: Vec<Frame>,
}

impl Lies {
    /// The lie for a node in place of a frame.
    fn of(&mut self, mut frame: Frame, rng: &mut ChaCha20Rng) -> Vec<Frame> {
        match &mut frame {
            Frame::Round(id, FrameBody::Settings(told)) => {
                self.heard.push((*id, told.clone()));
                if one_in(2, rng) {
                    told.closes_in_ms = about(told.closes_in_ms, rng);
                }
            }
            Frame::Round(id, FrameBody::Return { users, .. }) => {
                *users = rng.next_u32();
                if one_in(4, rng) {
                    frame = Frame::Round(*id, FrameBody::Missed(MissedReason::Full));
                }
            }
            Frame::Round(..) => {}
            // Frames outside of a round pass unchanged, so that the node is let in.
            _ => return vec![frame],
        }
        if one_in(8, rng) {
            self.held.push(frame);
            return Vec::new();
        }
        let mut frames = vec![frame];
        if one_in(4, rng) {
            frames.append(&mut self.held);
            frames.extend(self.again(rng));
        }
        frames
    }

    /// One of the last rounds, announced once more or said to be missed.
    fn again(&self, rng: &mut ChaCha20Rng) -> Option<Frame> {
        let back = rng.next_u32() as usize % 6;
        let (id, told) = self.heard.iter().rev().nth(back)?.clone();
        if one_in(2, rng) {
            return Some(Frame::Round(id, FrameBody::Missed(MissedReason::Late)));
        }
        let closes_in_ms = about(3_000, rng);
        Some(Frame::Round(id, FrameBody::Settings(SignedSettings { closes_in_ms, ..told })))
    }
}

fn one_in(n: u32, rng: &mut ChaCha20Rng) -> bool {
    rng.next_u32().is_multiple_of(n)
}

/// When a round would close, give or take some seconds.
fn about(ms: u32, rng: &mut ChaCha20Rng) -> u32 {
    (ms + rng.next_u32() % 6_000).saturating_sub(3_000)
}
