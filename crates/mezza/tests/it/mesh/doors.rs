//! The port of streams, tried from everywhere.

use std::fs;
use std::process::{Command, Output};

use super::net::{Net, ip};
use super::node::{FirstClock, MeshNode, until};

/// Opens a TCP connection from a namespace; it is given up after three seconds.
fn dial(space: &str, host: &str, port: u16) -> Output {
    let script = format!("exec 3<>/dev/tcp/{host}/{port}");
    let words = ["netns", "exec", space, "timeout", "3", "bash", "-c", &script];
    Command::new("ip").args(words).output().unwrap()
}

fn is_refused(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("refused")
}

fn address(space: &str, end: &str, address: &str) {
    assert!(ip(&format!("-n {space} addr add {address}/24 dev {end}")));
}

/// ```text
/// far ── router ── n (mesh run --if its end to the router) ── side
/// ```
/// A neighbour reaches the port of streams. A host behind a router does not, nor one on an interface that
/// was not chosen; both reach the machine otherwise.
#[test]
fn mesh_75_streams_are_open_to_hosts_of_the_link_alone() {
    let Some(mut net) = Net::new("d") else { return };
    let folder = tempfile::tempdir().unwrap();
    let node = MeshNode::new(&mut net, folder.path(), "n", FirstClock::GOOD);
    let n = node.space().to_owned();
    let [router, far, side] = ["r", "f", "s"].map(|name| net.space(name).unwrap());
    let [chosen, near] = net.cable(&n, &router);
    let [other, beside] = net.cable(&n, &side);
    let [beyond, remote] = net.cable(&router, &far);
    address(&n, &chosen, "10.9.1.1");
    address(&router, &near, "10.9.1.2");
    address(&router, &beyond, "10.9.2.1");
    address(&far, &remote, "10.9.2.2");
    address(&n, &other, "10.9.3.1");
    address(&side, &beside, "10.9.3.2");
    assert!(ip(&format!("netns exec {router} sysctl -qw net.ipv4.ip_forward=1")));
    assert!(ip(&format!("-n {n} route add 10.9.2.0/24 via 10.9.1.2")));
    assert!(ip(&format!("-n {far} route add default via 10.9.2.1")));
    assert!(ip(&format!("-n {side} route add default via 10.9.3.1")));
    let mut node = node.with(&["--if", &chosen]);
    node.start();
    until("a neighbour reaches the port", || dial(&router, "10.9.1.1", 7_106).status.success());
    // The route is there: a closed port is refused, and that is heard.
    assert!(is_refused(&dial(&far, "10.9.1.1", 7_107)), "far away");
    assert!(!dial(&far, "10.9.1.1", 7_106).status.success(), "far away, the port of streams");
    for host in ["10.9.3.1", "10.9.1.1"] {
        assert!(is_refused(&dial(&side, host, 7_106)), "an interface that was not chosen: {host}");
    }
    let log = folder.path().join("n.log");
    assert!(!fs::read_to_string(log).unwrap().contains("no streams"), "its own port is free");
}
