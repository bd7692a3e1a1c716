use super::*;

#[test]
fn a_line_of_the_clock_is_read_and_a_poor_one_settles_nothing() {
    let line = json!({
        "event": "clock", "cur": 60_000_001, "anchor_tick": 60_000_000, "within_ms": 2_500,
        "grade": "good", "state": "alone", "around": 3,
    });
    let clock = read_clock(&line, 7);
    assert_eq!((clock.cur, clock.own, clock.within_ms), (60_000_001, 60_000_000, 2_500));
    assert!(clock.settled && clock.around == 3 && clock.boot_ms == 7 && clock.level == 2);
    let poor = read_clock(&json!({ "event": "clock", "cur": 5, "grade": "poor" }), 7);
    assert!(!poor.settled && poor.around == 0 && poor.within_ms == u64::MAX);
}

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use tokio::sync::mpsc as reports;

/// A node that the test plays: it reads requests from its socket, and answers them.
struct PlayedNode {
    socket: UnixListener,
    reports: reports::Receiver<ConnectionReport>,
    adapter: MeshAdapter<ConnectionReport>,
    /// The listener's connection, and its name.
    listener: Option<UnixStream>,
    name: u64,
    _folder: tempfile::TempDir,
}

impl PlayedNode {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.sock");
        let socket = UnixListener::bind(&path).unwrap();
        let (jobs, reports) = reports::channel(4_096);
        let place = MeshPlace { socket: path, life: Life::Minute };
        let clock = Clock::system();
        let reporter = Reporter::new(mezza_messenger::CarrierId::MESH, jobs);
        let adapter = MeshAdapter::new(Some(place), clock, reporter);
        Self { socket, reports, adapter, listener: None, name: 0, _folder: folder }
    }

    fn accept(&self) -> (UnixStream, Value) {
        let (stream, _) = self.socket.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        (stream, serde_json::from_str(&line).unwrap())
    }

    /// Accepts the listener, and confirms it.
    fn accept_listener(&mut self) {
        let (stream, asked) = self.accept();
        assert_eq!(asked["ask"], "listen");
        self.name = asked["name"].as_u64().unwrap();
        self.listener = Some(stream);
        self.tell(&json!({ "event": "listening" }));
        // Its clock is reported after that line was read.
        self.tell(&json!({ "event": "clock", "cur": 1 }));
        assert!(matches!(self.next_input(), MeshInput::Clock(_)));
    }

    fn tell(&mut self, line: &Value) {
        writeln!(self.listener.as_mut().unwrap(), "{line}").unwrap();
    }

    fn order(&mut self, ticket: u64) {
        let envelope = vec![7; 32];
        self.adapter.carry_out_order(MeshOutput::Send { ticket, life: 0, tick: 1, envelope });
    }

    /// Answers the request that sends a cell.
    fn answer(&self, ticket: u64, line: &Value) {
        let (mut stream, asked) = self.accept();
        assert_eq!(asked["follower"], json!({ "listener": self.name, "ticket": ticket }));
        writeln!(stream, "{line}").unwrap();
    }

    fn next_input(&mut self) -> MeshInput {
        loop {
            let ConnectionReport { serial, news, .. } = self.reports.blocking_recv().unwrap();
            match self.adapter.handle_report(serial, news) {
                Some(CarrierInput::Mesh(MeshInput::Away { .. })) | None => {}
                Some(CarrierInput::Mesh(input)) => return input,
                Some(other) => panic!("{other:?}"),
            }
        }
    }
}

/// Threads of this process whose name begins with `mesh`.
fn count_mesh_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("mesh ")).count()
}

#[test]
fn mesh_86_two_threads_follow_any_number_of_cells_each_to_its_one_end() {
    const CELLS: u64 = 200;
    let mut node = PlayedNode::new();
    // Without a device nothing is sent; before the node answers, a cell is refused at once.
    assert!(node.adapter.on_device_open().is_some());
    node.order(1_000);
    assert!(matches!(node.next_input(), MeshInput::Refused { ticket: 1_000 }));
    node.accept_listener();
    for ticket in 0..CELLS {
        node.order(ticket);
    }
    for ticket in 0..CELLS {
        node.answer(ticket, &json!({ "event": "accepted", "neighbours": 1 }));
    }
    assert!(count_mesh_threads() <= 2, "{}", count_mesh_threads());
    node.tell(&json!({ "event": "carried", "ticket": 7, "names": 3 }));
    assert!(matches!(node.next_input(), MeshInput::Announced { ticket: 7, names: 3 }));
    node.tell(&json!({ "event": "expired", "ticket": 7 }));
    assert!(matches!(node.next_input(), MeshInput::Expired { ticket: 7 }));
    // Progress of a cell that ended, or that is not ours, is dropped.
    for line in [
        json!({ "event": "expired", "ticket": 7 }),
        json!({ "event": "carried", "ticket": 7, "names": 4 }),
        json!({ "event": "expired", "ticket": 5_000 }),
        json!({ "event": "expired" }),
    ] {
        node.tell(&line);
    }
    // Faults end a cell by their kind.
    for (ticket, exit) in [(300, Exit::No), (301, Exit::Busy)] {
        node.order(ticket);
        let line = json!({ "error": "e", "next": "n", "exit": exit.number() });
        node.answer(ticket, &line);
    }
    assert!(matches!(node.next_input(), MeshInput::Expired { ticket: 300 }));
    assert!(matches!(node.next_input(), MeshInput::Refused { ticket: 301 }));
    // The node ends: each cell that is still on its way is refused once.
    node.listener = None;
    let mut refused = BTreeSet::new();
    while refused.len() < CELLS as usize - 1 {
        let MeshInput::Refused { ticket } = node.next_input() else { panic!("another end") };
        assert!(refused.insert(ticket) && ticket != 7 && ticket < CELLS);
    }
    // It comes back, and the next device begins without the cells of the former one.
    node.accept_listener();
    node.order(400);
    node.answer(400, &json!({ "event": "accepted", "neighbours": 0 }));
    node.adapter.on_device_gone();
    assert!(node.adapter.on_device_open().is_some());
    node.tell(&json!({ "event": "expired", "ticket": 400 }));
    node.accept_listener();
    node.tell(&json!({ "event": "expired", "ticket": 400 }));
    node.order(401);
    node.answer(401, &json!({ "event": "accepted", "neighbours": 0 }));
    node.tell(&json!({ "event": "expired", "ticket": 401 }));
    assert!(matches!(node.next_input(), MeshInput::Expired { ticket: 401 }));
}
