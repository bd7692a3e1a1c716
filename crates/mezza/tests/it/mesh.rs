//! Real mesh nodes, each in a network namespace of its own, joined by cables and switches. No server, no
//! address set by hand. All of them share one clock, so that errors of a clock come from the environment.

mod ble;
mod courier;
mod doors;
mod listen;
mod net;
mod node;
pub mod notes;
mod share;
mod soak;

use std::fs;
use std::time::{Duration, Instant};

use net::Net;
use node::{FirstClock, MeshNode, until};

/// Nodes whose clocks are good, each hearing the one before and the one behind.
fn chain(net: &mut Net, folder: &std::path::Path, count: usize) -> Vec<MeshNode> {
    let node = |n, net: &mut Net| MeshNode::new(net, folder, &format!("n{n}"), FirstClock::GOOD);
    let mut nodes: Vec<_> = (1..=count).map(|n| node(n, net)).collect();
    for pair in nodes.windows(2) {
        net.cable(pair[0].space(), pair[1].space());
    }
    nodes.iter_mut().for_each(MeshNode::start);
    until("neighbours along the chain", || {
        let ends = [0, count - 1];
        (0..count).all(|n| nodes[n].around() == if ends.contains(&n) { 1 } else { 2 })
    });
    nodes
}

/// ```text
/// n1 ── n2 ── n3 ── n4 ── n5 ── n6 ── n7 ── n8        cables; no switch, no server, no route
///        from n1 to n4: three hops, also past n3     from n1 to n8: seven
///        that is killed and starts again
/// ```
#[test]
fn slow_a_chain_of_eight_delivers_over_three_and_seven_hops_and_survives_a_crash() {
    let Some(mut net) = Net::new("c") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = chain(&mut net, folder.path(), 8);
    let (_, near) = nodes[3].keygen();
    let (_, far) = nodes[7].keygen();
    let [near_listens, far_listens] = [nodes[3].listen(), nodes[7].listen()];
    nodes[0].reaches(&near_listens, &near, "three hops", &[]);
    nodes[0].reaches(&far_listens, &far, "seven hops", &[]);
    // What is larger than a datagram goes from stream to stream.
    nodes[0].reaches(&near_listens, &near, "three hops by streams", &["--bucket", "3"]);
    // What is sent while a link of the chain is dead waits at its neighbour, and crosses when it lives.
    nodes[2].kill();
    let taken = |node: &MeshNode| node.status().and_then(|s| s["taken"].as_u64()).unwrap_or(0);
    let before = taken(&nodes[1]);
    nodes[0].send(&near, "past a crash", &[]);
    until("its neighbour has the cell", || taken(&nodes[1]) > before);
    nodes[2].start();
    assert!(near_listens.hears("past a crash", Duration::from_secs(60)), "it crosses");
    let bundle = folder.path().join("b");
    let carried = nodes[0].run(&["mesh", "bundle", "export", bundle.to_str().unwrap()]);
    assert!(carried.status.success() && fs::read(bundle).unwrap().starts_with(b"MZB1"));
}

/// ```text
/// a1 a2 a3 a4 ── switch A ══(later)══ switch B ── b1 b2 b3 b4        B is 90 s ahead, and poor
/// ```
#[test]
fn slow_two_islands_ninety_seconds_apart_merge() {
    let Some(mut net) = Net::new("i") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut island = |letter: &str, clock| {
        let name = |n| format!("{letter}{n}");
        (1..=4).map(|n| MeshNode::new(&mut net, folder.path(), &name(n), clock)).collect::<Vec<_>>()
    };
    let mut a = island("a", FirstClock::GOOD);
    let mut b = island("b", FirstClock::poor(90_000));
    let spaces =
        |nodes: &[MeshNode]| nodes.iter().map(|n| n.space().to_owned()).collect::<Vec<_>>();
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
    let listens = b[3].listen();
    a[0].reaches(&listens, &card, "across the bridge", &[]);
}

/// ```text
/// g1 g2 g3 (good) ── switch ── slow (poor, 4 min behind: moved, receives)
///                       └───── fast (fair, 4 min ahead: is told so, exit 78)
/// ```
#[test]
fn slow_in_an_island_of_five_a_wrong_clock_is_moved_or_told() {
    let Some(mut net) = Net::new("w") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<_> = [
        ("g1", FirstClock::GOOD),
        ("g2", FirstClock::GOOD),
        ("g3", FirstClock::GOOD),
        ("slow", FirstClock::poor(-240_000)),
        ("fast", FirstClock { grade: "fair", off_ms: 240_000 }),
    ]
    .into_iter()
    .map(|(name, clock)| MeshNode::new(&mut net, folder.path(), name, clock))
    .collect();
    let spaces: Vec<_> = nodes.iter().map(|n| n.space().to_owned()).collect();
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
    let listens = nodes[3].listen();
    nodes[0].reaches(&listens, &card, "to a clock four minutes slow", &[]);
}

/// ```text
/// on time ─┬─ 200 s ahead        four devices that nobody set, and no network: each is ten minutes off for
///          ├─ 250 s behind       all it knows. They meet, and a message of one tick's life arrives.
///          └─  90 s ahead
/// ```
#[test]
fn four_clocks_that_nobody_set_meet() {
    let Some(mut net) = Net::new("f") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<_> = [0, 200_000, -250_000, 90_000]
        .into_iter()
        .enumerate()
        .map(|(n, off_ms)| {
            MeshNode::new(&mut net, folder.path(), &format!("n{n}"), FirstClock::poor(off_ms))
        })
        .collect();
    let spaces: Vec<_> = nodes.iter().map(|n| n.space().to_owned()).collect();
    net.switch("sw", &spaces.iter().map(String::as_str).collect::<Vec<_>>());
    let start = Instant::now();
    nodes.iter_mut().for_each(MeshNode::start);
    until("the last one runs", || nodes[3].status().is_some_and(|s| s["cur"].is_u64()));
    let (_, card) = nodes[3].keygen();
    let listens = nodes[3].listen();
    until("a message arrives", || {
        nodes[2].send(&card, "from 340 s ago", &[]);
        listens.hears("from 340 s ago", Duration::from_secs(2))
    });
    println!("a message arrived {:.1} s after the start", start.elapsed().as_secs_f64());
}

/// ```text
/// one, two (two homes, one interface) ── other        each hears both others, also what is large
/// ```
#[test]
fn mesh_79_two_homes_on_one_machine_hear_each_other() {
    let Some(mut net) = Net::new("h") else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = FirstClock::GOOD;
    let one = MeshNode::new(&mut net, folder.path(), "one", clock);
    let mut two = MeshNode::alone(folder.path(), "two", clock);
    two.space = Some(one.space().to_owned());
    let other = MeshNode::new(&mut net, folder.path(), "other", clock);
    net.cable(one.space(), other.space());
    let mut nodes = [one, two, other];
    nodes[0].start();
    until("the first one has the port", || {
        nodes[0].status().is_some_and(|s| s["links"][0].is_string())
    });
    nodes[1..].iter_mut().for_each(MeshNode::start);
    until("each hears both others", || nodes.iter().all(|node| node.around() == 2));
    let cards = nodes.each_ref().map(|node| node.keygen().1);
    let listeners = nodes.each_ref().map(MeshNode::listen);
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        for bucket in ["0", "3"] {
            let text = format!("{bucket} from {from} to {to}");
            nodes[from].reaches(&listeners[to], &cards[to], &text, &["--bucket", bucket]);
        }
    }
    // A device counts once, however many streams it has, and nobody is their own neighbour.
    assert!(nodes.iter().all(|node| node.status().unwrap()["around"] == 2));
    let lacks = |node: &MeshNode| {
        String::from_utf8(node.run(&["mesh", "status"]).stdout)
            .unwrap()
            .contains("streams  another program")
    };
    assert_eq!(nodes.each_ref().map(lacks), [false, true, false]);
    // The port is taken over when the first one ends.
    nodes[0].kill();
    until("the second one has the port", || !lacks(&nodes[1]));
}

/// ```text
/// n1 ── n2        the key of a minute is gone two and a half minutes later
/// ```
#[test]
fn slow_keys_are_erased_on_time() {
    let Some(mut net) = Net::new("k") else { return };
    let folder = tempfile::tempdir().unwrap();
    let nodes = chain(&mut net, folder.path(), 2);
    let (tree, card) = nodes[1].keygen();
    let copy = folder.path().join("envelope");
    let pass = nodes[1].home.join("pass");
    let [tree, card, copy, pass] =
        [&tree, &card, &copy, &pass].map(|path| path.to_str().unwrap().to_owned());
    let at = format!("tick:{}", nodes[0].status().unwrap()["cur"].as_u64().unwrap());
    let seal = ["hibe", "seal", "--card", &card, "--at", &at, "--out", &copy];
    let sealed = nodes[0].command(&seal).stdin(fs::File::open(&pass).unwrap()).output().unwrap();
    assert!(sealed.status.success());
    let words = ["hibe", "open", "--dir", &tree, "--passphrase-file", &pass, "--at", &at, &copy];
    let open = || nodes[1].run(&words).status.code();
    assert_eq!(open(), Some(0), "the key is there while its minute lasts");
    let listens = nodes[1].listen();
    std::thread::sleep(Duration::from_secs(155));
    drop(listens);
    assert_eq!(open(), Some(1), "the key is erased: a thief with the passphrase opens nothing");
}

/// ```text
/// n1 ── n2, and a second process beside n2 that finds the port taken and says so
/// ```
///
/// The implementation that the test is named after wrote texts and ids into its log.
#[test]
fn slow_embertalk_no_text_and_no_name_is_logged() {
    let Some(mut net) = Net::new("l") else { return };
    let folder = tempfile::tempdir().unwrap();
    let nodes = chain(&mut net, folder.path(), 2);
    let mut beside = MeshNode::alone(folder.path(), "beside", FirstClock::GOOD);
    beside.space = Some(nodes[1].space().to_owned());
    beside.start();
    until("a line in the log", || beside.log().contains("no streams on port 7106"));
    let (_, card) = nodes[1].keygen();
    nodes[0].reaches(&nodes[1].listen(), &card, "planted words", &[]);
    for node in nodes.iter().chain([&beside]) {
        let status = node.status().unwrap();
        let names = status["neighbours"].as_array().unwrap().iter().map(|n| n["name"].as_str());
        let log = node.log();
        assert!(!log.contains("planted") && !log.contains("mezzavoce:"), "{log}");
        assert!(names.flatten().all(|name| !log.contains(name)), "{log}");
    }
}
