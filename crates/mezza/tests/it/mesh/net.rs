//! Network namespaces joined by cables and switches.

use std::process::{Command, Stdio};

use nix::unistd::geteuid;

pub fn ip(args: &str) -> bool {
    let run = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Namespaces, removed in the end.
pub struct Net {
    tag: String,
    spaces: Vec<String>,
    cables: u32,
}

impl Net {
    /// `None`, with the reason, where namespaces cannot be made.
    pub fn new(test: &str) -> Option<Self> {
        let tag = format!("mz{}{test}", std::process::id());
        let mut net = Self { tag, spaces: Vec::new(), cables: 0 };
        if geteuid().is_root() && net.space("probe").is_some() {
            return Some(net);
        }
        println!("SKIPPED mesh in namespaces: no right to make any; run as root with iproute2");
        None
    }

    pub fn space(&mut self, name: &str) -> Option<String> {
        let space = format!("{}{name}", self.tag);
        (ip(&format!("netns add {space}")) && ip(&format!("-n {space} link set lo up"))).then(
            || {
                self.spaces.push(space.clone());
                space
            },
        )
    }

    /// A cable between two namespaces; the names of its ends.
    pub fn cable(&mut self, a: &str, b: &str) -> [String; 2] {
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
    pub fn switch(&mut self, name: &str, members: &[&str]) -> String {
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

    /// Pulls a cable out of a switch, or puts it back: the n-th that was laid, whose first end is there.
    pub fn set_cable(switch: &str, number: usize, up: bool) -> bool {
        let state = if up { "up" } else { "down" };
        ip(&format!("-n {switch} link set m{number}a {state}"))
    }

    /// A cable between two switches.
    pub fn join(&mut self, one: &str, other: &str) {
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
