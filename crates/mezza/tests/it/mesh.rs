//! Real mesh nodes, each in a network namespace of its own, joined by cables and switches. No server, no
//! address set by hand. All of them share one clock, so that errors of a clock come from the environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use serde_json::Value;

/// How long anything may take: loaded machines are slow.
const PATIENCE: Duration = Duration::from_secs(90);

fn ip(args: &str) -> bool {
    let run = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Namespaces, removed in the end.
struct Net {
    tag: String,
    spaces: Vec<String>,
    cables: u32,
}

impl Net {
    /// `None`, with the reason, where namespaces cannot be made.
    fn new(test: &str) -> Option<Self> {
        let tag = format!("mz{}{test}", std::process::id());
        let mut net = Self { tag, spaces: Vec::new(), cables: 0 };
        if geteuid().is_root() && net.space("probe").is_some() {
            return Some(net);
        }
        println!("SKIPPED mesh in namespaces: no right to make any; run as root with iproute2");
        None
    }

    fn space(&mut self, name: &str) -> Option<String> {
        let space = format!("{}{name}", self.tag);
        (ip(&format!("netns add {space}")) && ip(&format!("-n {space} link set lo up"))).then(
            || {
                self.spaces.push(space.clone());
                space
            },
        )
    }

    /// A cable between two namespaces; the names of its ends.
    fn cable(&mut self, a: &str, b: &str) -> [String; 2] {
        self.cables += 1;
        let ends = ["a", "b"].map(|end| format!("m{}{end}", self.cables));
        let [one, other] = &ends;
        assert!(ip(&format!("link add {one} netns {a} type veth peer name {other} netns {b}")));
        for (space, end) in [(a, one), (b, other)] {
            assert!(ip(&format!("-n {space} link set {end} up")));
        }
        ends
    }

    /// A switch: a namespace with a bridge, and a cable to each of these.
    fn switch(&mut self, name: &str, members: &[&str]) -> String {
        let space = self.space(name).unwrap();
        assert!(ip(&format!("-n {space} link add br0 type bridge mcast_snooping 0")));
        assert!(ip(&format!("-n {space} link set br0 up")));
        for member in members {
            self.plug(&space, member);
        }
        space
    }

    fn plug(&mut self, switch: &str, member: &str) {
        let [end, _] = self.cable(switch, member);
        assert!(ip(&format!("-n {switch} link set {end} master br0")));
    }

    /// A cable between two switches.
    fn join(&mut self, one: &str, other: &str) {
        let [a, b] = self.cable(one, other);
        assert!(ip(&format!("-n {one} link set {a} master br0")));
        assert!(ip(&format!("-n {other} link set {b} master br0")));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            ip(&format!("netns del {space}"));
        }
    }
}

/// A node of the mesh: a namespace, a home, a process.
struct MeshNode {
    space: String,
    home: PathBuf,
    env: Vec<(&'static str, String)>,
    child: Option<Child>,
}

impl MeshNode {
    fn new(net: &mut Net, folder: &Path, name: &str, clock: (&str, i64)) -> Self {
        let space = net.space(name).unwrap();
        let env = vec![
            ("MEZZA_TEST_CLOCK_GRADE", clock.0.to_owned()),
            ("MEZZA_TEST_RTC_OFFSET_MS", clock.1.to_string()),
        ];
        Self { space, home: folder.join(name), env, child: None }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space, env!("CARGO_BIN_EXE_mezza"), "--home"]);
        command.arg(&self.home).args(words).envs(self.env.iter().cloned());
        command
    }

    fn start(&mut self) {
        let run =
            self.command(&["mesh", "run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(run.unwrap());
    }

    /// The process is killed: what it held in memory is gone.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    fn status(&self) -> Option<Value> {
        let output = self.run(&["mesh", "status", "--json"]);
        let text = String::from_utf8(output.stdout).ok()?;
        serde_json::from_str(text.lines().next()?).ok()
    }

    fn around(&self) -> usize {
        self.status().and_then(|s| s["neighbours"].as_array().map(Vec::len)).unwrap_or(0)
    }

    /// A tree in this home, and its card.
    fn keygen(&self) -> (PathBuf, PathBuf) {
        let (tree, pass) = (self.home.join("tree"), self.home.join("pass"));
        mezza::testing::process::home::private::folder(&self.home).unwrap();
        mezza::testing::process::home::private::replace(&pass, b"correct horse battery staple six")
            .unwrap();
        let words = [
            "hibe",
            "keygen",
            "--dir",
            tree.to_str().unwrap(),
            "--passphrase-file",
            pass.to_str().unwrap(),
        ];
        let made = self.run(&words);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (tree.clone(), tree.join("card"))
    }

    /// Listens for one message.
    fn listen(&self) -> Child {
        let (tree, pass) = (self.home.join("tree"), self.home.join("pass"));
        let words = [
            "mesh",
            "listen",
            "--once",
            "--dir",
            tree.to_str().unwrap(),
            "--passphrase-file",
            pass.to_str().unwrap(),
        ];
        self.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn send(&self, card: &Path, text: &str) -> Output {
        use std::io::Write;
        let words = ["mesh", "send", "--wait", "accepted", "--card", card.to_str().unwrap()];
        let mut command = self.command(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for MeshNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn until(what: &str, mut yes: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !yes() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Whether the listener ends within this time.
fn ends(listener: &mut Child, within: Duration) -> bool {
    let end = Instant::now() + within;
    while listener.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

/// Whether a listener printed the text before patience ended.
fn heard(mut listener: Child, text: &str) -> bool {
    if !ends(&mut listener, PATIENCE) {
        listener.kill().unwrap();
    }
    let output = listener.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(text)
}

/// Sends until the listener has it, three times at most: a cell that is not heard within its minute is
/// lost, as one that is sent at the end of it.
fn arrives(from: &MeshNode, to: &MeshNode, card: &Path, text: &str) {
    let mut listener = to.listen();
    until("the node of the listener", || to.status().is_some());
    for _ in 0..3 {
        let sent = from.send(card, text);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        if ends(&mut listener, PATIENCE / 3) {
            break;
        }
    }
    assert!(heard(listener, text), "{text} did not arrive");
}

/// ```text
/// n1 ── n2 ── n3 ── n4 ── n5 ── n6 ── n7 ── n8        cables; no switch, no server, no route
///        from n1 to n4: three hops                     from n1 to n8: seven
/// ```
#[test]
fn a_chain_of_eight_delivers_over_three_and_over_seven_hops() {
    let Some(mut net) = Net::new("c") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<_> = (1..=8)
        .map(|n| MeshNode::new(&mut net, folder.path(), &format!("n{n}"), ("good", 0)))
        .collect();
    for pair in 0..7 {
        let [a, b] = [pair, pair + 1].map(|n| nodes[n].space.clone());
        net.cable(&a, &b);
    }
    nodes.iter_mut().for_each(MeshNode::start);
    until("neighbours along the chain", || {
        (0..8).all(|n| nodes[n].around() == if n == 0 || n == 7 { 1 } else { 2 })
    });
    let (_, near) = nodes[3].keygen();
    let (_, far) = nodes[7].keygen();
    arrives(&nodes[0], &nodes[3], &near, "three hops");
    arrives(&nodes[0], &nodes[7], &far, "seven hops");
    // Messages wait for nobody's server: there is none.
    let nobody =
        nodes[0].run(&["mesh", "bundle", "export", folder.path().join("b").to_str().unwrap()]);
    assert!(
        nobody.status.success() && fs::read(folder.path().join("b")).unwrap().starts_with(b"MZB1")
    );
}

/// ```text
/// a1 a2 a3 a4 ── switch A ══(later)══ switch B ── b1 b2 b3 b4        B is 90 s ahead, and poor
/// ```
#[test]
fn two_islands_ninety_seconds_apart_merge() {
    let Some(mut net) = Net::new("i") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut island = |letter: &str, clock| {
        let name = |n| format!("{letter}{n}");
        (1..=4).map(|n| MeshNode::new(&mut net, folder.path(), &name(n), clock)).collect::<Vec<_>>()
    };
    let (mut a, mut b) = (island("a", ("good", 0)), island("b", ("poor", 90_000)));
    let spaces = |nodes: &[MeshNode]| nodes.iter().map(|n| n.space.clone()).collect::<Vec<_>>();
    let [left, right] = [(&a, "sa"), (&b, "sb")].map(|(nodes, name)| {
        let spaces = spaces(nodes);
        net.switch(name, &spaces.iter().map(String::as_str).collect::<Vec<_>>())
    });
    a.iter_mut().chain(&mut b).for_each(MeshNode::start);
    until("both islands", || a.iter().chain(&b).all(|node| node.around() == 3));
    net.join(&left, &right);
    until("all eight hear each other", || a.iter().chain(&b).all(|node| node.around() == 7));
    let moved = |node: &MeshNode| node.status().and_then(|s| s["moved_ms"].as_i64()).unwrap_or(0);
    until("the fast island goes back", || {
        b.iter().all(|node| (moved(node) + 90_000).abs() < 1_500)
    });
    assert!(a.iter().all(|node| moved(node).abs() < 1_500), "good clocks stay");
    let (_, card) = b[3].keygen();
    arrives(&a[0], &b[3], &card, "across the bridge");
}

/// ```text
/// g1 g2 g3 (good) ── switch ── slow (poor, 4 min behind: moved, receives)
///                       └───── fast (fair, 4 min ahead: is told so, exit 78)
/// ```
#[test]
fn in_an_island_of_five_a_wrong_clock_is_moved_or_told() {
    let Some(mut net) = Net::new("w") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<_> = [
        ("g1", ("good", 0)),
        ("g2", ("good", 0)),
        ("g3", ("good", 0)),
        ("slow", ("poor", -240_000)),
        ("fast", ("fair", 240_000)),
    ]
    .into_iter()
    .map(|(name, clock)| MeshNode::new(&mut net, folder.path(), name, clock))
    .collect();
    let spaces: Vec<_> = nodes.iter().map(|n| n.space.clone()).collect();
    net.switch("sw", &spaces.iter().map(String::as_str).collect::<Vec<_>>());
    nodes.iter_mut().for_each(MeshNode::start);
    until("five", || nodes.iter().all(|node| node.around() == 4));
    let word = |node: &MeshNode, key: &str| {
        node.status().and_then(|s| s[key].as_str().map(str::to_owned)).unwrap_or_default()
    };
    until("the slow one agrees", || word(&nodes[3], "state") == "agreed");
    until("the fast one doubts", || word(&nodes[4], "state") == "doubtful");
    let told = nodes[4].run(&["mesh", "clock"]);
    assert_eq!(told.status.code(), Some(78));
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(text.contains("ahead of") && text.contains("--trust-neighbours"), "{text}");
    let (_, card) = nodes[3].keygen();
    arrives(&nodes[0], &nodes[3], &card, "to a clock four minutes slow");
}

/// ```text
/// n1 ── n2        the key of a minute is gone two and a half minutes later
/// ```
#[test]
fn keys_are_erased_on_time() {
    let Some(mut net) = Net::new("k") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<_> = (1..=2)
        .map(|n| MeshNode::new(&mut net, folder.path(), &format!("n{n}"), ("good", 0)))
        .collect();
    let [a, b] = [0, 1].map(|n: usize| nodes[n].space.clone());
    net.cable(&a, &b);
    nodes.iter_mut().for_each(MeshNode::start);
    until("two", || nodes.iter().all(|node| node.around() == 1));
    let (tree, card) = nodes[1].keygen();
    let copy = folder.path().join("envelope");
    let sealed = |words: &[&str]| {
        let mut command = nodes[0].command(words);
        let text = fs::File::open(nodes[1].home.join("pass")).unwrap();
        assert!(command.stdin(text).output().unwrap().status.success());
    };
    let tick = nodes[0].status().unwrap()["cur"].as_u64().unwrap();
    let at = format!("tick:{tick}");
    sealed(&[
        "hibe",
        "seal",
        "--card",
        card.to_str().unwrap(),
        "--at",
        &at,
        "--out",
        copy.to_str().unwrap(),
    ]);
    let pass = nodes[1].home.join("pass");
    let open = || {
        let words = [
            "hibe",
            "open",
            "--dir",
            tree.to_str().unwrap(),
            "--passphrase-file",
            pass.to_str().unwrap(),
            "--at",
            &at,
            copy.to_str().unwrap(),
        ];
        nodes[1].run(&words).status.code()
    };
    assert_eq!(open(), Some(0), "the key is there while its minute lasts");
    let mut listener = nodes[1].listen();
    std::thread::sleep(Duration::from_secs(155));
    listener.kill().unwrap();
    listener.wait().unwrap();
    assert_eq!(
        open(),
        Some(1),
        "the key is erased: even a thief who has the passphrase opens nothing"
    );
}
