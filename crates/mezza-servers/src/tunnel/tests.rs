//! Data threads with a real session, in a network namespace.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mezza_core::{EphemeralKey, Machine, Secret, Time};
use mezza_seka::limits::TAG_BYTES;
use mezza_seka::suite::{FrameKey, LinkSuite};
use mezza_seka::{
    LinkId, LinkRole, LinkSession, Pairing, PairingInput, PairingOutput, PairingSettings,
    PeerAddress, PeerInput, PeerOutput, StoreKey,
};
use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc;

use super::address::Endpoint;
use super::carrier::{Batch, Carrier};
use super::config::CarrierKind;
use super::shared::{LinkShared, OpenEntry, Road, SessionTable, Welcome};
use super::tap::Tap;
use super::{Suite, receive, transmit};
use mezza_host::backend::AwsLc;
use mezza_host::process::rng::OsRng;

/// Time limit for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interface of the test.
const TAP: &str = "mzkeys";
/// The port of the test, in a namespace of its own.
const PORT: u16 = 4_795;
/// Bytes of a frame of a row.
const ROW_FRAME_BYTES: usize = 1_400;

/// Number of frame keys that data threads hold.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The product's frame key; counts its instances.
struct CountedKey(<Suite as LinkSuite>::Frames);

impl FrameKey for CountedKey {
    fn from_subkey(subkey: &Secret<32>) -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Self(FrameKey::from_subkey(subkey))
    }

    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES] {
        self.0.seal(iv, aad, text)
    }

    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.0.open(iv, aad, text, tag)
    }
}

impl Drop for CountedKey {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A device that pairs.
struct Device {
    pairing: Pairing<Suite>,
    sent: Vec<Vec<u8>>,
    session: Option<LinkSession>,
}

impl Device {
    fn new(byte: u8, role: LinkRole) -> Self {
        let own = LinkId::from_bytes([2, 0, 0, 0, 0, byte]).expect("a unicast name");
        let mut settings = PairingSettings::new(own, "cam1", byte.into());
        settings.role = Some(role);
        let key = StoreKey::new(Secret::random(&mut OsRng));
        let pairing = Pairing::open_window(settings, key, Time::from_ms(0), 0, &mut OsRng);
        Self { pairing, sent: Vec::new(), session: None }
    }

    fn drain(&mut self, now: Time) {
        while let Some(output) = self.pairing.poll() {
            let answer = match output {
                PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                    PairingInput::Give(EphemeralKey::random::<AwsLc>(&mut OsRng))
                }
                PairingOutput::Peer(PeerOutput::Store { seq, .. }) => {
                    PairingInput::Peer(PeerInput::Stored(seq))
                }
                PairingOutput::Peer(PeerOutput::Install(session)) => {
                    self.session = Some(*session);
                    continue;
                }
                PairingOutput::Send { frame, .. } => {
                    self.sent.push(frame);
                    continue;
                }
                _ => continue,
            };
            let _ = self.pairing.handle(answer, now, &mut OsRng);
        }
    }
}

/// Pairs two devices. Returns the session at both ends.
fn paired_sessions() -> [Arc<LinkSession>; 2] {
    let mut devices = [Device::new(1, LinkRole::Initiator), Device::new(2, LinkRole::Responder)];
    for ms in (0..4_000).step_by(10) {
        let now = Time::from_ms(ms);
        for device in &mut devices {
            device.pairing.wake(now, &mut OsRng);
            device.drain(now);
        }
        for from in 0..2 {
            for frame in std::mem::take(&mut devices[from].sent) {
                let address = PeerAddress::default();
                let input = PairingInput::Datagram { frame, from: address, on_link: true };
                let _ = devices[1 - from].pairing.handle(input, now, &mut OsRng);
                devices[1 - from].drain(now);
            }
        }
    }
    devices.map(|device| Arc::new(device.session.expect("an exchange was accepted")))
}

fn ip(args: &[&str]) -> bool {
    let done = Command::new("ip").args(args).stdin(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// Makes a link whose frames return to it: it seals as one end of a session and opens as the other.
fn looped_link() -> Option<Arc<LinkShared>> {
    let tap = Tap::make(TAP, 1_400, [2, 0, 0, 0, 0, 9]).ok()?;
    let carrier = Arc::new(Carrier::open("lo", CarrierKind::Udp, PORT).expect("a socket"));
    let table = Arc::new(SessionTable::from_pointee(Welcome::default()));
    let home = Endpoint::from_socket(([0, 0, 0, 0, 0, 0, 0, 1], PORT).into(), carrier.interface());
    let link = Arc::new(LinkShared::new(1, tap, 1_300, Arc::default()));
    link.endpoint.store(Some(Arc::new(home)));
    link.road.store(Some(Arc::new(Road { carrier, table })));
    Some(link)
}

/// Sends frames as a row on one carrier and reads them on the other after all are sent. Returns the
/// number of frames and of reads.
fn pass_row(carriers: [&Carrier; 2], to: &Endpoint, count: usize) -> (usize, usize) {
    let numbered = |number: usize| {
        let mut frame = [0x5a; ROW_FRAME_BYTES];
        frame[..8].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let row: Vec<u8> = (0..count).flat_map(numbered).collect();
    carriers[0].send_row(to, &row, ROW_FRAME_BYTES).expect("the row leaves");
    let mut buffer = vec![0; carriers[1].read_bytes()];
    let mut batch = Batch::default();
    let mut arrived = 0;
    let mut reads = 0;
    while arrived < count && carriers[1].read(&mut buffer, &mut batch).is_ok() {
        for frame in &batch.frames {
            assert_eq!(buffer[frame.range.clone()], numbered(arrived), "frame {arrived}");
            arrived += 1;
        }
        reads += 1;
    }
    (arrived, reads)
}

/// Runs a test in a network namespace of its own.
fn apart(test: impl FnOnce() + Send + 'static) {
    let judged = std::thread::spawn(|| {
        if unshare(CloneFlags::CLONE_NEWNET).is_ok() && ip(&["link", "set", "lo", "up"]) {
            return test();
        }
        println!("SKIPPED carriers: no network namespaces; apt install iproute2, run as root");
    });
    judged.join().expect("the test ends");
}

#[test]
fn seka_96_a_row_over_ethernet_waits_for_its_reader_and_comes_in_few_reads() {
    apart(|| {
        let cards =
            ["add", "ca", "type", "veth", "peer", "name", "cb", "address", "02:00:00:00:00:0b"];
        assert!(ip(&[&["link"], &cards[..]].concat()));
        assert!(["ca", "cb"].iter().all(|card| ip(&["link", "set", card, "up"])));
        let open = |card| Carrier::open(card, CarrierKind::Ether, 0).expect("a socket");
        let carriers = [open("ca"), open("cb")];
        let to = Endpoint::Ether([2, 0, 0, 0, 0, 11]);
        // A thousand frames are more than the kernel's usual queue, of about ninety.
        let (arrived, reads) = pass_row(carriers.each_ref(), &to, 1_000);
        assert_eq!(arrived, 1_000);
        assert!(reads <= 20, "{reads} reads");
    });
}

#[test]
fn seka_96_datagrams_that_are_not_joined_come_in_few_reads() {
    apart(|| {
        let open = |port| Carrier::open("lo", CarrierKind::Udp, port).expect("a socket");
        let carriers = [open(PORT), open(PORT + 1)];
        let home = [0, 0, 0, 0, 0, 0, 0, 1];
        let to = Endpoint::from_socket((home, PORT + 1).into(), carriers[1].interface());
        carriers[0].stop_joining("the test says so");
        let (arrived, reads) = pass_row(carriers.each_ref(), &to, 256);
        assert_eq!(arrived, 256);
        assert!(reads <= 16, "{reads} reads");
    });
}

/// No frame arrives on an idle link that would wake the threads.
#[test]
fn seka_44_data_threads_wipe_the_keys_of_a_session_that_ended() {
    let judged = std::thread::spawn(|| {
        let is_apart =
            unshare(CloneFlags::CLONE_NEWNET).is_ok() && ip(&["link", "set", "lo", "up"]);
        let Some(link) = is_apart.then(looped_link).flatten() else {
            println!("SKIPPED keys: no network namespaces; apt install iproute2, run as root");
            return;
        };
        let road = link.road.load_full().expect("a carrier");
        let [one, two] = paired_sessions();
        let ended: [Weak<LinkSession>; 2] = [&one, &two].map(Arc::downgrade);
        link.welcome_session(OpenEntry { link: Arc::clone(&link), session: two });
        let (events, _heard) = mpsc::channel(64);
        let carrier = Arc::clone(&road.carrier);
        let table = Arc::clone(&road.table);
        let of_receiver = events.clone();
        std::thread::spawn(move || {
            receive::receive_frames::<CountedKey>(carrier, table, of_receiver);
        });
        let of_sender = Arc::clone(&link);
        std::thread::spawn(move || transmit::transmit_frames::<CountedKey>(of_sender, events));
        link.send_under(Some(one));
        // The kernel sends router requests on a new interface, so each thread holds a key.
        assert!(until(|| HELD.load(Ordering::Relaxed) == 2), "no frame passed");
        let silence = format!("/proc/sys/net/ipv6/conf/{TAP}/disable_ipv6");
        std::fs::write(silence, "1").expect("a silent interface");

        link.send_under(None);
        road.table.store(Arc::default());
        let is_wiped = || {
            HELD.load(Ordering::Relaxed) == 0
                && ended.iter().all(|session| session.strong_count() == 0)
        };
        assert!(until(is_wiped), "{HELD:?} {:?}", ended.each_ref().map(Weak::strong_count));
        road.carrier.close();
        assert!(ip(&["link", "del", TAP]));
    });
    judged.join().expect("the test ends");
}
