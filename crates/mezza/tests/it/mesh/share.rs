//! The store of a node that strangers fill: whoever brings most loses first.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mezza::testing::clock;
use mezza_mesh::cell::{CELL_BYTES, HEAD_BYTES, short_id};
use mezza_mesh::frame::{Beacon, Name};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::{CellLife, MeshCell, MeshNetwork, bundle};
use nix::sched::{CloneFlags, setns};

use super::net::{Net, ip};
use super::node::{FirstClock, MeshNode, until};

const PORT: u16 = 7_106;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 90, 1);
/// Bytes of a node's store.
const STORE_BYTES: u64 = 8 << 20;
/// Addresses of the liar, and names of each: all places of a link.
const ADDRESSES: u8 = 16;
const NAMES: u64 = 4;
/// Cells that each name has, of 1,024 bytes: together more than the store.
const CELLS_OF_NAME: u64 = 160;
/// A machine may be too slow for the minute of the cells so often.
const TRIES: u32 = 10;
/// Cells of 512 bytes that the bridge brings: less than the liar does from any one of its addresses.
const BRIDGED: u64 = 600;

/// Cell number `n` of a class, of this tick.
fn cell(class: u8, tick: u32, n: u64) -> MeshCell {
    let mut payload = vec![0; CELL_BYTES[usize::from(class)] - HEAD_BYTES];
    (payload[0], payload[1]) = (0x10 | class, tick as u8);
    payload[10..18].copy_from_slice(&n.to_be_bytes());
    MeshCell::new(CellLife::Minute, tick, &payload).unwrap()
}

/// The last tick whose cells live now, so that they live longest.
fn next_tick() -> u32 {
    u32::try_from(clock::now().as_ms() / 30_000).unwrap() + 1
}

/// A name of the liar, and its cells.
struct LiarName {
    socket: UdpSocket,
    name: Name,
    cells: Vec<MeshCell>,
    given: BTreeSet<u64>,
}

impl LiarName {
    fn new(address: u8, n: u64, tick: u32) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 9, 0, address), PORT));
        // Names of one address share its port and thus its socket.
        let socket = socket.unwrap();
        let name = 1_000 * u64::from(address) + n;
        let cells = (0..CELLS_OF_NAME).map(|c| cell(1, tick, name << 20 | c)).collect();
        Self { socket, name, cells, given: BTreeSet::new() }
    }

    fn send(&self, frame: &WireFrame<'_>) {
        let _ = self.socket.send_to(&frame.encode(), (GROUP, PORT));
    }

    /// Is there, and announces what nobody asked for yet.
    fn announce(&self) {
        let mut network = MeshNetwork::new("open", None);
        let now = clock::now();
        network.follow_clock(now.as_ms() * 1_000);
        let beacon = Beacon { stamp: now.as_ms() / 125, ..Beacon::default() };
        self.send(&WireFrame::Beacon { net: network.net(), name: self.name, beacon });
        let shorts = self.cells.iter().map(|cell| short_id(&cell.id()));
        let shorts: Vec<u64> =
            shorts.filter(|short| !self.given.contains(short)).take(144).collect();
        if !shorts.is_empty() {
            self.send(&WireFrame::Have { name: self.name, shorts });
        }
    }

    fn give(&mut self, asked: &[u64]) {
        for cell in &self.cells {
            let short = short_id(&cell.id());
            if asked.contains(&short) {
                self.send(&WireFrame::Data { name: self.name, cell: cell.bytes() });
                self.given.insert(short);
            }
        }
    }
}

/// A device with 16 addresses and 64 names that brings cells from all of them until it is told to end.
struct Liar {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn start(space: &str, tick: u32) -> Self {
        let space = File::open(Path::new("/var/run/netns").join(space)).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            // The thread alone moves; its sockets are of that namespace.
            setns(&space, CloneFlags::CLONE_NEWNET).unwrap();
            lie(tick, &stop);
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lie(tick: u32, stop: &AtomicBool) {
    let hears = UdpSocket::bind((GROUP, PORT)).unwrap();
    hears.join_multicast_v4(&GROUP, &Ipv4Addr::new(10, 9, 0, 2)).unwrap();
    hears.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let addresses = (2..2 + ADDRESSES).flat_map(|address| (0..NAMES).map(move |n| (address, n)));
    let mut names: Vec<LiarName> = Vec::new();
    for (address, n) in addresses {
        let name = match names.last().filter(|_| n > 0) {
            Some(same) => LiarName {
                socket: same.socket.try_clone().unwrap(),
                name: same.name + 1,
                cells: (0..CELLS_OF_NAME)
                    .map(|c| cell(1, tick, (same.name + 1) << 20 | c))
                    .collect(),
                given: BTreeSet::new(),
            },
            None => LiarName::new(address, n, tick),
        };
        names.push(name);
    }
    let mut announced = None;
    let mut buffer = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        if announced.is_none_or(|at: Instant| at.elapsed() > Duration::from_millis(500)) {
            names.iter().for_each(LiarName::announce);
            announced = Some(Instant::now());
        }
        let Ok(size) = hears.recv(&mut buffer) else { continue };
        if let Ok(WireFrame::Want { to, shorts, .. }) = WireFrame::decode(&buffer[..size])
            && let Some(name) = names.iter_mut().find(|name| name.name == to)
        {
            name.give(&shorts);
        }
    }
}

fn number(node: &MeshNode, key: &str) -> u64 {
    node.status().and_then(|status| status[key].as_u64()).unwrap_or(0)
}

/// Waits until something is so. Returns false if the cells of this tick are over before it is.
fn in_time(tick: u32, mut yes: impl FnMut() -> bool) -> bool {
    while next_tick() <= tick + 1 {
        if yes() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    false
}

/// ```text
/// bridge ── n ── liar (16 addresses, 64 names)        the bridge brings 600 cells, the liar more than fit
/// ```
///
/// The store is full, and each cell of the bridge is still in it.
#[test]
fn mesh_40_slow_a_full_store_loses_the_cells_of_whoever_brings_most() {
    let Some(mut net) = Net::new("q") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes =
        ["n", "bridge"].map(|name| MeshNode::new(&mut net, folder.path(), name, FirstClock::GOOD));
    let liar = net.space("liar").unwrap();
    net.cable(nodes[0].space(), nodes[1].space());
    let [end, far] = net.cable(nodes[0].space(), &liar);
    assert!(ip(&format!("-n {} addr add 10.9.0.1/16 dev {end}", nodes[0].space())));
    for address in 2..2 + ADDRESSES {
        assert!(ip(&format!("-n {liar} addr add 10.9.0.{address}/16 dev {far}")));
    }
    assert!(ip(&format!("-n {liar} route add {GROUP} dev {far}")));
    nodes.iter_mut().for_each(MeshNode::start);
    until("two nodes", || nodes.iter().all(|node| node.around() == 1));
    let [node, bridge] = &nodes;
    // A machine that is too slow for the minute of the cells gets another minute.
    let whole = (0..TRIES).any(|_| {
        // What is left of another try would count as the bridge's.
        assert!(in_time(next_tick() + 4, || nodes.iter().all(|node| number(node, "live") == 0)));
        let tick = next_tick();
        let cells: Vec<MeshCell> = (0..BRIDGED).map(|n| cell(0, tick, n)).collect();
        let file = folder.path().join("cells");
        fs::write(&file, bundle::encode(&cells)).unwrap();
        let imported = bridge.run(&["mesh", "bundle", "import", file.to_str().unwrap()]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        let crossed = in_time(tick, || number(node, "live") >= BRIDGED);
        let lies = Liar::start(&liar, tick);
        let full = in_time(tick, || number(node, "store_bytes") + 4_096 > STORE_BYTES);
        // More comes, and something has to go.
        std::thread::sleep(Duration::from_secs(2));
        let exported = node.run(&["mesh", "bundle", "export", file.to_str().unwrap()]);
        drop(lies);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        if !crossed || !full || next_tick() > tick + 1 {
            return false;
        }
        let left = fs::read(&file).unwrap();
        let left = bundle::decode(&left).unwrap();
        let ids: BTreeSet<_> = left.iter().map(MeshCell::id).collect();
        let bridged = cells.iter().filter(|cell| ids.contains(&cell.id())).count();
        assert_eq!(bridged as u64, BRIDGED, "of {} cells in the store", ids.len());
        true
    });
    assert!(whole, "{TRIES} times the minute of the cells was over");
}
