//! Namespaces, and the program in them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a link may take to come up on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three namespaces: two machines, and what is between them.
pub struct Net {
    names: [String; 3],
    folder: tempfile::TempDir,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn ip(args: &[&str]) -> bool {
    let done = Command::new("ip").args(args).stdin(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Waits until something is so.
pub fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Net {
    /// Both machines on one cable.
    pub fn joined(test: &str) -> Option<Self> {
        let net = Self::split(test)?;
        net.join();
        Some(net)
    }

    /// Each machine on its own cable to M.
    pub fn split(test: &str) -> Option<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let names = ["a", "b", "m"].map(|side| format!("mz{process}{number}{side}"));
        let folder = tempfile::tempdir().unwrap();
        let net = Self { names, folder };
        if !nix::unistd::geteuid().is_root()
            || !net.names.iter().all(|name| ip(&["netns", "add", name]))
        {
            println!(
                "SKIPPED link {test}: no network namespaces; apt install iproute2, run as root"
            );
            return None;
        }
        let [a, b, m] = net.names.each_ref().map(String::as_str);
        for (side, ns) in [("a", a), ("b", b)] {
            let own = format!("{side}0");
            let their = format!("m{side}");
            assert!(ip(&[
                "link", "add", &own, "netns", ns, "type", "veth", "peer", "name", &their, "netns",
                m
            ]));
            assert!(ip(&["-n", ns, "link", "set", "dev", &own, "up"]));
            assert!(ip(&["-n", m, "link", "set", "dev", &their, "up"]));
            assert!(ip(&["-n", ns, "link", "set", "lo", "up"]));
        }
        Some(net)
    }

    /// M is gone: both machines are on one cable, with the interfaces of before.
    pub fn join(&self) {
        let [a, b, _] = self.names.each_ref().map(String::as_str);
        for (side, ns) in [("a0", a), ("b0", b)] {
            assert!(ip(&["-n", ns, "link", "del", "dev", side]));
        }
        self.cable();
    }

    /// A cable between both machines, with the usual names.
    pub fn cable(&self) {
        let [a, b, _] = self.names.each_ref().map(String::as_str);
        let cable = ["netns", a, "type", "veth", "peer", "name", "b0", "netns", b];
        assert!(ip(&[&["link", "add", "a0"], &cable[..]].concat()));
        for (side, ns) in [("a0", a), ("b0", b)] {
            assert!(ip(&["-n", ns, "link", "set", "dev", side, "up"]));
        }
    }

    /// Both machines and M on one switch, which M is; M has the interface `sw0`.
    pub fn switched(test: &str) -> Option<Self> {
        let net = Self::split(test)?;
        net.ip(2, &["link", "add", "name", "sw0", "type", "bridge"]);
        for port in ["ma", "mb"] {
            net.ip(2, &["link", "set", "dev", port, "master", "sw0"]);
        }
        net.ip(2, &["link", "set", "sw0", "up"]);
        Some(net)
    }

    /// M is a router between both machines: 192.0.2.1/24 and 198.51.100.1/24.
    pub fn routed(test: &str) -> Option<Self> {
        let net = Self::split(test)?;
        for (side, port, router, own) in
            [(0, "ma", "192.0.2.254", "192.0.2.1"), (1, "mb", "198.51.100.254", "198.51.100.1")]
        {
            net.ip(2, &["addr", "add", &format!("{router}/24"), "dev", port]);
            net.ip(side, &["addr", "add", &format!("{own}/24"), "dev", ["a0", "b0"][side]]);
            net.ip(side, &["route", "add", "default", "via", router]);
        }
        net.within(2, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
        Some(net)
    }

    /// Runs `ip` on a machine, which must succeed.
    pub fn ip(&self, side: usize, args: &[&str]) {
        let all = [&["-n", &self.names[side]], args].concat();
        let output = Command::new("ip").args(all).output().unwrap();
        assert!(output.status.success(), "ip {args:?} on {side}: {output:?}");
    }

    /// Runs `ip` on a machine.
    pub fn try_ip(&self, side: usize, args: &[&str]) -> bool {
        ip(&[&["-n", &self.names[side]], args].concat())
    }

    /// The text of `ip` on a machine.
    pub fn ip_text(&self, side: usize, args: &[&str]) -> String {
        let all = [&["-n", &self.names[side]], args].concat();
        let output = Command::new("ip").args(all).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The name of a namespace.
    pub fn namespace(&self, side: usize) -> &str {
        &self.names[side]
    }

    /// From now on a machine runs with these settings; state and socket stay.
    pub fn configure(&self, side: usize, settings: &str) {
        let state = self.state(side);
        let socket = self.state(side).join("link.sock");
        let places =
            format!("state = \"{}\"\nsocket = \"{}\"\n", state.display(), socket.display());
        std::fs::write(self.settings(side), places + settings).unwrap();
    }

    /// Sends a datagram from M to port 4795 of a machine, over this interface of M.
    pub fn strike(&self, on: &'static str, to: std::net::Ipv6Addr, datagram: Vec<u8>) {
        self.within(2, move || {
            let number = nix::net::if_::if_nametoindex(on).unwrap();
            let socket = UdpSocket::bind("[::]:0").unwrap();
            let to = std::net::SocketAddrV6::new(to, 4_795, 0, number);
            socket.send_to(&datagram, to).unwrap();
        });
    }

    pub fn state(&self, side: usize) -> PathBuf {
        self.folder.path().join(["a", "b", "m"][side])
    }

    /// The record of the one pairing of a machine.
    pub fn record(&self, side: usize) -> PathBuf {
        let files = std::fs::read_dir(self.state(side).join("peers")).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|ending| ending == "st")).unwrap()
    }

    /// Gives a machine this name on links.
    pub fn name(&self, side: usize, byte: u8) {
        write_id(&self.state(side), byte);
    }

    /// An attacker in M with this name.
    pub fn intruder(&self, byte: u8) -> Intruder {
        let state = self.folder.path().join(format!("m{byte}"));
        write_id(&state, byte);
        Intruder { state }
    }

    /// From now on this machine keeps its state in memory.
    pub fn keep_in_memory(&self, side: usize) {
        let socket = self.state(side).join("link.sock");
        let text = format!("state = \"ram\"\nsocket = \"{}\"\n", socket.display());
        std::fs::write(self.settings(side), text).unwrap();
    }

    /// From now on the state of a machine belongs to another user.
    pub fn give_state(&self, side: usize, owner: u32) {
        for path in self.state_paths(side) {
            std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
        }
    }

    /// The owner of each file and folder of the state of a machine.
    pub fn owners(&self, side: usize) -> Vec<u32> {
        use std::os::unix::fs::MetadataExt;
        let paths = self.state_paths(side);
        paths.iter().map(|path| std::fs::symlink_metadata(path).unwrap().uid()).collect()
    }

    /// The state folder of a machine, and all that is in it.
    fn state_paths(&self, side: usize) -> Vec<PathBuf> {
        let mut paths = vec![self.state(side)];
        let mut at = 0;
        while let Some(path) = paths.get(at).cloned() {
            let inside = std::fs::read_dir(path).into_iter().flatten();
            paths.extend(inside.map(|entry| entry.unwrap().path()));
            at += 1;
        }
        paths
    }

    fn settings(&self, side: usize) -> PathBuf {
        self.folder.path().join(format!("{side}.toml"))
    }

    fn command(&self, side: usize, state: &PathBuf, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], env!("CARGO_BIN_EXE_mezza"), "link"]);
        let settings = self.settings(side);
        if settings.exists() {
            command.arg("--config").arg(settings).args(args);
        } else {
            command.arg("--state").arg(state).args(args);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command on a machine to its end: its code and all that it printed.
    pub fn run(&self, side: usize, args: &[&str]) -> (i32, String) {
        end(self.command(side, &self.state(side), args).spawn().unwrap())
    }

    /// Begins to pair on a machine; `answer` is what its user types.
    pub fn begin_pair(&self, side: usize, args: &[&str], answer: &[u8]) -> Child {
        let on = ["a0", "b0"][side];
        let all = [&["pair", on, "--name", "cam1", "--window", "30"], args].concat();
        let mut child = self.command(side, &self.state(side), &all).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(answer).unwrap();
        child
    }

    /// Pairs both machines; how both ended.
    pub fn pair(&self, args: [&[&str]; 2], answers: [&[u8]; 2]) -> [(i32, String); 2] {
        let both = [0, 1].map(|side| self.begin_pair(side, args[side], answers[side]));
        both.map(end)
    }

    /// Waits until frames pass.
    pub fn wait_echo(&self, a: &Tunnel, b: &Tunnel) {
        for (side, address) in [(0, "10.7.0.1/24"), (1, "10.7.0.2/24")] {
            ip(&["-n", &self.names[side], "addr", "add", address, "dev", "cam1"]);
        }
        assert!(until(PATIENCE, || self.udp_echo(0, 1, 10)), "{} {}", a.show(), b.show());
    }

    /// Runs `work` on a thread inside a namespace.
    pub fn within<T: Send + 'static>(
        &self,
        side: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let file = File::open(format!("/var/run/netns/{}", self.names[side])).unwrap();
        let thread = std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    /// Sends datagrams and hears each of them come back; true if none was lost.
    pub fn udp_echo(&self, from: usize, count: u32, bytes: usize) -> bool {
        let address = ["10.7.0.1", "10.7.0.2"];
        let echo = self.within(1 - from, move || UdpSocket::bind((address[1 - from], 0)));
        let Ok(echo) = echo else { return false };
        echo.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
        let to = echo.local_addr().unwrap();
        let echoing = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok((bytes, from)) = echo.recv_from(&mut buffer) {
                let _ = echo.send_to(&buffer[..bytes], from);
            }
        });
        let came_back = self.within(from, move || {
            let Ok(socket) = UdpSocket::bind((address[from], 0)) else { return 0 };
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let mut buffer = vec![0; 65_536];
            (0..count)
                .filter(|number| {
                    let mut sent = vec![*number as u8; bytes];
                    sent[..4].copy_from_slice(&number.to_be_bytes());
                    let _ = socket.send_to(&sent, to);
                    socket.recv(&mut buffer).is_ok_and(|got| buffer[..got] == sent)
                })
                .count()
        });
        echoing.join().unwrap();
        came_back == count as usize
    }

    /// Sends bytes over TCP and reads them back.
    pub fn tcp_echo(&self, from: usize, bytes: usize) -> bool {
        self.tcp_echo_within(from, bytes, Duration::from_secs(300))
    }

    /// The same; false if it takes longer than `limit` without a byte.
    pub fn tcp_echo_within(&self, from: usize, bytes: usize, limit: Duration) -> bool {
        let address = ["10.7.0.1", "10.7.0.2"];
        let listener =
            self.within(1 - from, move || TcpListener::bind((address[1 - from], 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let echoing = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            let mut reader = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut reader, &mut stream);
        });
        let equal = self.within(from, move || {
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            stream.set_write_timeout(Some(limit)).unwrap();
            let sent: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
            let mut writer = stream.try_clone().unwrap();
            let all = sent.clone();
            let writing = std::thread::spawn(move || {
                let _ = writer.write_all(&all);
                let _ = writer.shutdown(std::net::Shutdown::Write);
            });
            let mut got = Vec::new();
            // What is late is no equal copy.
            let begun = Instant::now();
            let mut part = vec![0; 1 << 16];
            while begun.elapsed() < limit {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => got.extend_from_slice(&part[..count]),
                }
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
            writing.join().unwrap();
            got == sent
        });
        echoing.join().unwrap();
        equal
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn write_id(state: &PathBuf, byte: u8) {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(state).unwrap();
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(state.join("id"));
    file.unwrap().write_all(&[2, 0, 0, 0, 0, byte]).unwrap();
}

/// An attacker with a state folder of its own.
pub struct Intruder {
    state: PathBuf,
}

impl Intruder {
    /// Pairs with a machine.
    pub fn begin_pair(&self, net: &Net, side: usize) -> Child {
        self.begin_pair_on(net, ["ma", "mb"][side])
    }

    /// Pairs on an interface of M.
    pub fn begin_pair_on(&self, net: &Net, on: &str) -> Child {
        let args = ["pair", on, "--name", "evil", "--window", "30"];
        net.command(2, &self.state, &args).spawn().unwrap()
    }
}

/// The end of a command: its code and all that it printed.
pub fn end(mut child: Child) -> (i32, String) {
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Pairs both machines, which must succeed.
pub fn pair_both(net: &Net, args: &[&str], answer: &[u8]) {
    for (code, text) in net.pair([args, args], [answer, answer]) {
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("paired"), "{text}");
    }
}

/// A daemon that runs.
pub struct Tunnel<'a> {
    net: &'a Net,
    side: usize,
    child: Child,
}

impl<'a> Tunnel<'a> {
    /// Its process stands still, or goes on.
    pub fn stop(&self, stands: bool) {
        let signal = if stands { Signal::SIGSTOP } else { Signal::SIGCONT };
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Starts it and waits until it answers.
    pub fn up(net: &'a Net, side: usize) -> Self {
        let mut command = net.command(side, &net.state(side), &["up"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let tunnel = Self { net, side, child };
        assert!(until(PATIENCE, || tunnel.run(&["show"]).0 == 0), "the daemon does not answer");
        tunnel
    }

    /// Runs a command beside it.
    pub fn run(&self, args: &[&str]) -> (i32, String) {
        self.net.run(self.side, args)
    }

    /// Begins a command beside it.
    pub fn begin(&self, args: &[&str]) -> Child {
        self.net.command(self.side, &self.net.state(self.side), args).spawn().unwrap()
    }

    /// Runs a command that has to succeed.
    pub fn ok(&self, args: &[&str]) {
        let (code, text) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {text}");
    }

    /// Waits until `show` has this value.
    pub fn wait(&self, key: &str, value: &serde_json::Value) {
        let found = until(PATIENCE, || self.show()[key] == *value);
        assert!(found, "{key} is not {value}: {}", self.show());
    }

    /// Returns the output of `show --json` for the link.
    pub fn show(&self) -> serde_json::Value {
        let (_, text) = self.run(&["show", "--json"]);
        serde_json::from_str(text.lines().next().unwrap_or("null")).unwrap_or_default()
    }

    /// Returns the output of `show NAME --json`.
    pub fn show_named(&self, name: &str) -> serde_json::Value {
        let (_, text) = self.run(&["show", name, "--json"]);
        serde_json::from_str(text.lines().next().unwrap_or("null")).unwrap_or_default()
    }

    /// Returns one line of `/proc/PID/status` for each thread of the daemon.
    pub fn status(&self, key: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let texts = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")));
        let line = |text: String| {
            let mut lines = text.lines().map(str::to_owned);
            let found = lines.find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
            found.unwrap_or_default()
        };
        texts.map(|text| line(text.unwrap())).collect()
    }

    /// Kill -9.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tunnel<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
