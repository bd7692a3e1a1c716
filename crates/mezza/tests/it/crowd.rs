//! Two thousand connections from one address that say nothing, and somebody else who comes.
//!
//! ```text
//! 127.0.0.1  2,000 silent sockets ==> +--------+
//!                                     | server |  with 1,024 file descriptors
//! 127.0.0.2  one client ============> +--------+
//! ```

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza::testing::connection::link::{CLIENT, CONTROL, STORE};
use mezza::testing::servers::mixnet::demo::DemoFiles;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::network;
use mezza::testing::servers::relay;
use mezza::testing::tls::{Pin, client_config, link_client_config};
use mezza_mixnet::config::Config;
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::mixnet::town::start_with_files;
use crate::program::{Program, free_port, ok};

/// Sockets that say nothing.
const SILENT: usize = 2_000;
/// File descriptors of the server.
const FILES: u64 = 1_024;
/// How long somebody else may wait.
const WAIT: Duration = Duration::from_secs(1);
/// When somebody who was turned away tries again. Both addresses are of one site, and a newcomer of
/// a site that holds every handshake is turned away until one of them is a second old.
const AGAIN: Duration = Duration::from_millis(50);
/// The machine of the test may stand still for a while: one of so many tries is in time.
const TRIES: u64 = 3;

/// Room for the sockets of the crowd in this process; without it the reason is printed.
fn has_room() -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < 2 * SILENT as u64 {
        println!("SKIPPED crowd: {hard} open files are allowed; raise it with `ulimit -Hn 8192`");
        return false;
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    }
    true
}

/// The silent ones. Where a server takes no more of them in the rest stays outside: waiting for all of
/// them would be waiting until the first ones are hung up on.
fn crowd(address: SocketAddr) -> Vec<TcpStream> {
    // Longer than the system waits before it knocks again at a server that is busy.
    let patience = Duration::from_millis(1_500);
    (0..SILENT).map_while(|_| TcpStream::connect_timeout(&address, patience).ok()).collect()
}

/// Comes from another address, says something, and hears a byte.
async fn visit(address: SocketAddr, tls: Arc<ClientConfig>, word: &[u8]) -> io::Result<u8> {
    let socket = TcpSocket::new_v4()?;
    socket.bind("127.0.0.2:0".parse().unwrap())?;
    let stream = socket.connect(address).await?;
    let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let mut stream = TlsConnector::from(tls).connect(name, stream).await?;
    stream.write_all(word).await?;
    stream.flush().await?;
    stream.read_u8().await
}

/// Visits until it hears a byte.
async fn persist(address: SocketAddr, tls: &Arc<ClientConfig>, word: &[u8]) -> u8 {
    loop {
        if let Ok(heard) = visit(address, Arc::clone(tls), word).await {
            return heard;
        }
        sleep(AGAIN).await;
    }
}

/// While the crowd stands there, somebody else is let in within a second.
fn assert_open(what: &str, address: &str, tls: &Arc<ClientConfig>, word: impl Fn(u64) -> Vec<u8>) {
    let address = address.parse().unwrap();
    let crowd = crowd(address);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let visits = (0..TRIES).map(|at| {
        let began = Instant::now();
        let word = word(at);
        let visited = async { timeout(WAIT, persist(address, tls, &word)).await };
        let heard = runtime.block_on(visited).is_ok();
        println!("{what}: {} silent, heard {heard} in {:?}", crowd.len(), began.elapsed());
        heard
    });
    assert!(visits.into_iter().any(|heard| heard), "{what}: nobody else came in");
}

#[test]
fn msg_70_slow_a_crowd_of_one_address_keeps_nobody_else_out_of_a_relay() {
    if !has_room() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = &folder.path().join("home");
    ok(home, &["relay", "init"]);
    let key = relay::read_key(&home.join("relay")).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let relay = Program::with_files(home, FILES, &["relay", "run", "--listen", &address], &[]);
    crate::program::until("the relay", || relay.out().contains("relay "));
    assert_open("relay", &address, &client_config(Pin::new(key.0)).unwrap(), |_| Vec::new());
}

/// A server of a network alone, and the crowd. `word` is what the visitor says, who proves the
/// entry's key where `own` says so.
fn mixnet_server(
    name: &str,
    protocol: &'static [u8],
    own: bool,
    word: impl Fn(&Config, u64) -> Frame,
) {
    if !has_room() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let signed = network::read_config(&files.config_path()).unwrap();
    let config = signed.config();
    let key = match name {
        "entry" => config.coordinator.key,
        "bucket" => config.bucket.key,
        _ => config.mixes[0].server.key,
    };
    let identity = |path: &Path| ServerKey::load(path).unwrap().identity().unwrap();
    let own = own.then(|| identity(&files.key_path("entry")));
    let tls = link_client_config(Pin::new(key), protocol, own.as_ref()).unwrap();
    let (server, address) = start_with_files(&files, folder.path(), name, FILES);
    assert_open(name, &address, &tls, |at| word(config, at).encode().unwrap());
    drop(server);
}

fn round(config: &Config, service: Service, ahead: u64) -> RoundId {
    let (_, policy) = config.find_policy(service).unwrap();
    RoundId { service, round: policy.round_at(mezza::testing::clock::now()).unwrap() + 1 + ahead }
}

#[test]
fn mix_60_slow_a_crowd_of_one_address_keeps_nobody_else_out_of_an_entry() {
    mixnet_server("entry", CLIENT, false, |_, _| Frame::FetchConfig { from: [0; 32] });
}

#[test]
fn mix_60_a_crowd_of_one_address_keeps_the_entry_in_touch_with_a_mix() {
    mixnet_server("mix0", CONTROL, true, |config, at| {
        Frame::Round(round(config, Service::Conversation, at), FrameBody::NewRound)
    });
}

#[test]
fn mix_60_a_crowd_of_one_address_keeps_the_entry_in_touch_with_a_bucket_store() {
    mixnet_server("bucket", STORE, true, |config, at| {
        Frame::Round(round(config, Service::Call, at), FrameBody::Fetch { bucket: 1 })
    });
}
