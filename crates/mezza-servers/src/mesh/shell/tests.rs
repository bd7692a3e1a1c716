use std::sync::{Arc, Mutex};

use mezza_host::clock::SystemStart;
use mezza_mesh::MeshNetwork;
use mezza_mesh::cell::MeshCell;
use mezza_mesh::epoch::CellLife;
use mezza_mesh::node::{Bringer, NodeSettings};
use tokio::sync::mpsc;

use super::*;
use crate::mesh::link::LinkSender;
use crate::mesh::links::LinkChoice;

const START: Time = Time::from_ms(1_800_000_000_000);

/// A node without links, on a system whose clocks and files the test controls.
struct Lone {
    shell: MeshShell,
    now: Arc<Mutex<Moment>>,
    folder: tempfile::TempDir,
}

impl Lone {
    fn new(bent: BentClock) -> Self {
        Self::with_cells(bent, Vec::new())
    }

    /// Returns a node whose disk has copies of these cells.
    fn with_cells(bent: BentClock, cells: Vec<MeshCell>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut store = CellStore::open(&folder.path().join("cells")).unwrap();
        let keep = |cell: MeshCell| {
            let bytes = cell.bytes().to_vec();
            CopyChange::Keep { id: cell.id(), bringer: Bringer::Neighbour(1), bytes }
        };
        store.apply_changes(cells.into_iter().map(keep).collect(), &mut OsRng).unwrap();
        let now = Arc::new(Mutex::new(Moment { wall: START, boot: Time::from_ms(60_000) }));
        let shared = Arc::clone(&now);
        let clock = Clock::from_fn(move || *shared.lock().unwrap());
        let [stamp, hardware] = ["stamp", "rtc"].map(|name| folder.path().join(name));
        let own = NodeClock {
            bent,
            system: SystemClock::unknown(clock.read(), SystemStart::draw()),
            files: ClockFiles { stamp, hardware },
            kernel: KernelClock::of_command(vec![
                "cat".into(),
                folder.path().join("kernel").into(),
            ]),
            clock,
        };
        let choice = LinkChoice { interfaces: Vec::new(), port: 0, casts: false };
        let (sender, _) = mpsc::channel(1);
        let links = Links::new(choice, LinkSender::new(sender), None);
        let network = MeshNetwork::new("open", None);
        let node = Node::new(NodeSettings::default(), network, own.clock.boot());
        let mut lone = Self { shell: MeshShell::new(node, own, links, Some(store)), now, folder };
        lone.shell.look_around();
        lone
    }

    /// Advances the time by `passed_ms` and moves the wall clock by `moved_ms`; then the node looks
    /// around.
    fn pass(&mut self, passed_ms: u64, moved_ms: i64) {
        let mut now = self.now.lock().unwrap();
        let wall = now.wall.plus_ms(passed_ms).as_ms().saturating_add_signed(moved_ms);
        *now = Moment { wall: Time::from_ms(wall), boot: now.boot.plus_ms(passed_ms) };
        drop(now);
        self.shell.look_around();
    }

    /// Simulates that a network set the clock, which then showed `at`.
    fn synchronise(&self, at: Time) {
        let file = std::fs::File::create(self.folder.path().join("stamp")).unwrap();
        let since = std::time::Duration::from_millis(at.as_ms());
        file.set_modified(std::time::UNIX_EPOCH + since).unwrap();
    }

    /// Sets the word that the program printing the kernel's state prints.
    fn kernel_says(&self, word: &str) {
        std::fs::write(self.folder.path().join("kernel"), word).unwrap();
    }

    /// Returns the number of copies on the disk.
    fn copies(&self) -> usize {
        CellStore::open(&self.folder.path().join("cells")).unwrap().load_cells().unwrap().len()
    }

    fn status(&self) -> mezza_mesh::node::NodeStatus {
        self.shell.node.status(self.shell.clock.boot())
    }

    fn within_ms(&self) -> u64 {
        control::describe_status(&self.status(), &[], false)["within_ms"].as_u64().unwrap()
    }
}

/// The clock of a device without a battery shows another year, so every cell seems expired. The
/// copies are deleted only after a source has confirmed the time.
#[tokio::test]
async fn mesh_84_a_clock_that_may_be_wrong_deletes_no_copy() {
    let old = (START.minus_ms(30 * Time::DAY_MS).as_ms() / 30_000) as u32;
    let payload = [&[0x10, old as u8][..], &[7; 504]].concat();
    let cell = MeshCell::new(CellLife::HalfDay, old, &payload).unwrap();
    let mut lone = Lone::with_cells(BentClock::default(), vec![cell]);
    for _ in 0..10 {
        lone.pass(60_000, 0);
    }
    assert_eq!((lone.within_ms(), lone.copies()), (600_000, 1));
    lone.synchronise(START.plus_ms(630_000));
    lone.pass(60_000, 0);
    lone.pass(60_000, 0);
    assert!(lone.within_ms() < 10_000);
    assert_eq!(lone.copies(), 0);
}

/// A node without any source for the accuracy of its clock, over a day without a network.
#[tokio::test]
async fn mesh_71_a_day_without_a_network_costs_nine_seconds() {
    let mut lone = Lone::new(BentClock::default());
    assert_eq!((lone.within_ms(), lone.status().grade), (600_000, Grade::Poor));
    lone.synchronise(START.plus_ms(30_000));
    lone.pass(60_000, 0);
    assert_eq!((lone.within_ms(), lone.status().grade), (2_503, Grade::Good));
    for _ in 0..24 * 60 {
        lone.pass(60_000, 0);
    }
    assert_eq!((lone.within_ms(), lone.status().grade), (11_143, Grade::Good));
}

/// The clock is set by hand ten seconds after a network set it. The node sees both changes at once.
#[tokio::test]
async fn mesh_71_a_node_counts_a_step_after_the_source() {
    let mut lone = Lone::new(BentClock::default());
    lone.synchronise(START.plus_ms(10_000));
    lone.pass(20_000, 90_000);
    assert_eq!((lone.within_ms(), lone.status().grade), (92_500, Grade::Fair));
    lone.pass(1_000, -90_000);
    assert_eq!(lone.within_ms(), 92_500);
}

#[tokio::test]
async fn mesh_73_a_person_names_the_grade_of_a_running_node() {
    let mut lone = Lone::new(BentClock { offset_ms: 0, grade: Some(Grade::Poor) });
    assert_eq!(lone.within_ms(), 600_000);
    lone.shell.clock_asked(Some("fair"), false).unwrap();
    assert_eq!(lone.within_ms(), 150_000);
    for _ in 0..24 * 60 {
        lone.pass(60_000, 0);
    }
    assert_eq!(lone.within_ms(), 158_640);
    lone.pass(1_000, 30_000);
    assert_eq!(lone.within_ms(), 180_000);
    assert!(lone.shell.clock_asked(Some("excellent"), false).is_err());
}

#[tokio::test]
async fn mesh_71_a_bent_clock_may_be_off_by_so_much_more() {
    let mut lone = Lone::new(BentClock { offset_ms: -40_000, grade: None });
    lone.synchronise(START);
    lone.pass(60_000, 0);
    assert_eq!(lone.within_ms(), 42_506);
}

/// A system whose clock is kept by another program than systemd-timesyncd. Then the clock is set by hand, and the
/// kernel counts it as unsynchronised.
#[tokio::test]
async fn mesh_74_the_kernel_says_whether_its_clock_is_synchronised() {
    let mut lone = Lone::new(BentClock::default());
    let seen = |lone: &mut Lone| {
        while lone.shell.own.kernel.is_asking() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            lone.pass(1_000, 0);
        }
    };
    seen(&mut lone);
    assert_eq!(lone.within_ms(), 600_000, "the program fails");
    for (word, within_ms) in [("no\n", 600_000), ("yes\n", 18_500)] {
        lone.kernel_says(word);
        lone.pass(11 * Time::MINUTE_MS, 0);
        seen(&mut lone);
        assert!(lone.within_ms().abs_diff(within_ms) <= 1_000, "{word}: {}", lone.within_ms());
    }
    lone.kernel_says("no");
    lone.pass(1_000, 90_000);
    lone.pass(11 * Time::MINUTE_MS, 0);
    seen(&mut lone);
    assert!(lone.within_ms().abs_diff(108_500) <= 1_000, "set by hand: {}", lone.within_ms());
}

/// A program floods more cells than connections have room for, and receives the progress of each over the one
/// connection on which it listens.
#[tokio::test]
async fn mesh_86_a_listener_follows_more_cells_than_there_are_connections() {
    const CELLS: u64 = 2 * SENDERS_MAX as u64;
    let mut lone = Lone::new(BentClock::default());
    lone.synchronise(START.plus_ms(30_000));
    lone.pass(60_000, 0);
    let (answer, mut lines) = ControlAnswer::make_channel();
    lone.shell.answer_request(ControlRequest { asked: MeshAsk::Listen { name: Some(5) }, answer });
    let ask = |lone: &mut Lone, ticket: u64, listener: Option<u64>| {
        let tick = (lone.now.lock().unwrap().wall.as_ms() / 30_000) as u32;
        let payload = [&[0x10, tick as u8, ticket as u8][..], &[ticket as u8; 503]].concat();
        let (answer, mut lines) = ControlAnswer::make_channel();
        let follower = listener.map(|listener| CellFollower { listener, ticket });
        let envelope = control::encode_base64(&payload);
        let asked = MeshAsk::Send { life: 2, tick, envelope, follower };
        lone.shell.answer_request(ControlRequest { asked, answer });
        // The response is dropped for followed cells; the other ones keep their connection.
        (lines.try_recv(), lines)
    };
    for ticket in 0..CELLS {
        let (line, _) = ask(&mut lone, ticket, Some(5));
        assert_eq!(line.unwrap()["event"], "accepted", "cell {ticket}");
        lone.pass(500, 0);
    }
    let (refused, _) = ask(&mut lone, CELLS, Some(6));
    assert!(refused.unwrap()["error"].as_str().unwrap().contains("listens"));
    // Programs with a connection for each cell have their own bound.
    lone.pass(1_000, 0);
    let (accepted, _own) = ask(&mut lone, CELLS, None);
    assert_eq!(accepted.unwrap()["event"], "accepted");
    // Two days later all are over, and the listener knows it of each of its own.
    for _ in 0..48 {
        lone.pass(3_600_000, 0);
        lone.shell.wake(Time::default());
        lone.shell.drain_outputs();
    }
    let mut over = std::collections::BTreeSet::new();
    while over.len() < CELLS as usize {
        lone.shell.drain_outputs();
        let line = lines.try_recv().expect("a line for each cell");
        if line["event"] == "expired" {
            assert!(over.insert(line["ticket"].as_u64().unwrap()));
        }
    }
    assert!(lone.shell.senders.len() <= 1);
}
