//! Two network namespaces on one cable, and tunnels between them.
//!
//! ```text
//!  namespace A                                  namespace B
//!  va 10.9.0.1 ------------- veth ------------- vb 10.9.0.2
//!  lk0 10.7.0.1 ======== mezza link ========== lk0 10.7.0.2
//!  wga 10.8.0.1 ======= wireguard-go ========= wgb 10.8.0.2      (and so on)
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::unistd::Pid;

use crate::process::PROGRAM;

/// Time limit for a tunnel to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a cable: an interface in a namespace.
#[derive(Clone, Copy, Debug)]
pub struct CableEnd {
    /// The number of the namespace.
    pub side: usize,
    /// The name of the interface.
    pub card: &'static str,
}

/// Network namespaces: the two machines first, then the namespaces between them.
pub struct Namespaces {
    names: Vec<String>,
    folder: PathBuf,
    children: Vec<Child>,
    /// Processes of our own tunnels.
    tunnels: Vec<u32>,
}

/// Runs a command that must succeed. Returns its output.
pub fn run_checked(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn run_ip(args: &[&str]) -> Result<()> {
    run_checked(Command::new("ip").args(args)).map(drop)
}

impl Namespaces {
    /// Makes two namespaces on one cable.
    ///
    /// # Errors
    /// Without root, or without `ip`.
    pub fn new(folder: &Path) -> Result<Self> {
        let net = Self::make_apart(folder, 2)?;
        net.lay_cable(CableEnd { side: 0, card: "va" }, CableEnd { side: 1, card: "vb" })?;
        for (side, name, address) in [(0, "va", "10.9.0.1/24"), (1, "vb", "10.9.0.2/24")] {
            net.ip(side, &["addr", "add", address, "dev", name])?;
        }
        Ok(net)
    }

    /// Makes `count` namespaces without a cable between them.
    ///
    /// # Errors
    /// Without root, or without `ip`.
    pub fn make_apart(folder: &Path, count: usize) -> Result<Self> {
        let process = std::process::id();
        let names = ["a", "b", "c", "d"].iter().take(count);
        let names = names.map(|side| format!("lab{process}{side}")).collect();
        let net =
            Self { names, folder: folder.to_path_buf(), children: Vec::new(), tunnels: Vec::new() };
        for name in &net.names {
            run_ip(&["netns", "add", name])?;
            run_ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(net)
    }

    /// Makes a cable between two namespaces, with these interface names.
    ///
    /// # Errors
    /// If the kernel refuses the cable.
    pub fn lay_cable(&self, one: CableEnd, other: CableEnd) -> Result<()> {
        let [a, b] = [one, other].map(|end| self.names[end.side].as_str());
        let peer = ["type", "veth", "peer", "name", other.card, "netns", b];
        run_ip(&[&["link", "add", one.card, "netns", a], &peer[..]].concat())?;
        [one, other]
            .into_iter()
            .try_for_each(|end| self.ip(end.side, &["link", "set", "dev", end.card, "up"]))
    }

    /// Runs `ip` in a namespace.
    ///
    /// # Errors
    /// The error text of `ip`.
    pub fn ip(&self, side: usize, args: &[&str]) -> Result<()> {
        run_ip(&[&["-n", &self.names[side]], args].concat())
    }

    /// Runs `work` on a thread inside a namespace, and waits for its result.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the thread panicked.
    pub fn run_within<T: Send + 'static>(
        &self,
        side: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let file = File::open(Path::new("/var/run/netns").join(&self.names[side]))?;
        let thread = std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET)?;
            anyhow::Ok(work())
        });
        thread.join().map_err(|_| anyhow!("a thread of the measurement panicked"))?
    }

    /// Makes a command that runs inside a namespace.
    pub fn make_command(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], program]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a process that is killed when the namespaces are dropped.
    ///
    /// # Errors
    /// If the process does not start.
    pub fn spawn_child(&mut self, mut command: Command) -> Result<()> {
        self.children.push(command.spawn()?);
        Ok(())
    }

    /// Starts a tunnel of ours, which is killed when the namespaces are dropped.
    ///
    /// # Errors
    /// If the tunnel does not start.
    pub fn spawn_tunnel(&mut self, command: Command) -> Result<()> {
        self.spawn_child(command)?;
        self.tunnels.extend(self.children.last().map(Child::id));
        Ok(())
    }

    /// Kills a tunnel of ours immediately, and starts a new one in its place. `number` counts the
    /// tunnels in start order.
    ///
    /// # Errors
    /// If there is no such tunnel, or the new one does not start.
    pub fn replace_tunnel(&mut self, number: usize, mut command: Command) -> Result<()> {
        let old = *self.tunnels.get(number).context("no such tunnel")?;
        let mut children = self.children.iter_mut();
        let child = children.find(|child| child.id() == old).context("no such process")?;
        child.kill()?;
        child.wait()?;
        *child = command.spawn()?;
        self.tunnels[number] = child.id();
        Ok(())
    }

    /// Returns the process numbers of our tunnels, in start order.
    pub fn tunnels(&self) -> &[u32] {
        &self.tunnels
    }

    /// Restricts all threads of our tunnels to the first `cores` of this machine.
    ///
    /// # Errors
    /// If a process has ended.
    pub fn pin_cores(&self, cores: usize) -> Result<()> {
        let mut set = CpuSet::new();
        (0..cores).try_for_each(|core| set.set(core))?;
        for process in &self.tunnels {
            for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let thread = task?.file_name().to_string_lossy().parse()?;
                sched_setaffinity(Pid::from_raw(thread), &set)?;
            }
        }
        Ok(())
    }

    /// Makes the command `mezza link --state STATE ARGS`, to run inside a namespace. It runs this
    /// program through a symbolic link named `mezza`.
    ///
    /// # Errors
    /// If the symbolic link cannot be made.
    pub fn mezza_command(&self, side: usize, state: &str, args: &[&str]) -> Result<Command> {
        let program = self.folder.join(PROGRAM);
        if !program.exists() {
            std::os::unix::fs::symlink(std::env::current_exe()?, &program)?;
        }
        let mut command = self.make_command(side, program.to_str().context("a path")?);
        command.arg("link").arg("--state").arg(self.state_path(side, state)).args(args);
        Ok(command)
    }

    /// Returns the folder of the measurement's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the control socket of a daemon of ours.
    pub fn socket_path(&self, side: usize, name: &str) -> PathBuf {
        self.state_path(side, name).join("link.sock")
    }

    /// Returns the frames that the queue of an interface dropped.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn queue_drops(&self, side: usize, name: &str) -> Result<f64> {
        let told = run_checked(
            Command::new("ip")
                .args(["-n", &self.names[side], "-s", "-j", "link", "show", name])
                .stdout(Stdio::piped()),
        )?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        told[0]["stats64"]["tx"]["dropped"].as_f64().context("an interface without counts")
    }

    fn state_path(&self, side: usize, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{side}"))
    }

    /// Pairs, starts and addresses a tunnel of ours with these settings.
    ///
    /// # Errors
    /// If the tunnel does not come up.
    pub fn start_link(
        &mut self,
        name: &str,
        carrier: &str,
        subnet: &str,
        settings: &str,
    ) -> Result<()> {
        let mut pairs = Vec::new();
        for (side, on) in [(0, "va"), (1, "vb")] {
            let args = ["pair", on, "--name", name, "--carrier", carrier];
            pairs.push(self.mezza_command(side, name, &args)?.spawn()?);
        }
        for mut pair in pairs {
            if !pair.wait()?.success() {
                bail!("{name} does not pair");
            }
        }
        for side in 0..2 {
            let file = self.folder.join(format!("{name}{side}.toml"));
            std::fs::write(&file, format!("[link.{name}]\n{settings}"))?;
            let file = file.to_str().context("a path")?.to_owned();
            let up = self.mezza_command(side, name, &["--config", &file, "up"])?;
            self.spawn_tunnel(up)?;
        }
        self.address_tunnel(name, name, subnet)
    }

    /// Starts a tunnel of ours without a limit on exchanges. With `frames` "none" its frames are
    /// unprotected, which shows the cost of protection.
    ///
    /// # Errors
    /// If the tunnel does not come up.
    pub fn start_special(
        &mut self,
        name: &str,
        frames: &str,
        subnet: &str,
        port: u16,
    ) -> Result<()> {
        let settings = format!("[link.{name}]\nlisten = {port}\n");
        let mut files = Vec::new();
        for side in 0..2 {
            let file = self.folder.join(format!("{name}{side}.toml"));
            std::fs::write(&file, &settings)?;
            files.push(file.to_str().context("a path")?.to_owned());
        }
        let mut pairs = Vec::new();
        for (side, on) in [(0, "va"), (1, "vb")] {
            let args = ["--config", &files[side], "pair", on, "--name", name];
            pairs.push(self.mezza_command(side, name, &args)?.spawn()?);
        }
        for mut pair in pairs {
            pair.wait()?;
        }
        let program = std::env::current_exe()?;
        let program = program.to_str().context("a path")?.to_owned();
        for (side, file) in files.iter().enumerate() {
            let mut up = self.make_command(side, &program);
            up.arg("tunnel").arg(self.state_path(side, name)).arg(file).arg(frames);
            self.spawn_tunnel(up)?;
        }
        self.address_tunnel(name, name, subnet)
    }

    /// Gives both ends of a tunnel their addresses, and waits until the tunnel carries packets.
    ///
    /// # Errors
    /// If no packet passes in time.
    pub fn address_tunnel(&self, one: &str, two: &str, subnet: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        for (side, device) in [(0, one), (1, two)] {
            let address = format!("{subnet}.{}/24", side + 1);
            loop {
                let added =
                    run_ip(&["-n", &self.names[side], "addr", "replace", &address, "dev", device])
                        .and_then(|()| {
                            run_ip(&["-n", &self.names[side], "link", "set", device, "up"])
                        });
                match added {
                    Ok(()) => break,
                    Err(error) if Instant::now() > end => return Err(error),
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        }
        let to = format!("{subnet}.2");
        while Instant::now() < end {
            let mut ping = self.make_command(0, "ping");
            if ping.args(["-c", "1", "-W", "1", &to]).status().is_ok_and(|status| status.success())
            {
                return Ok(());
            }
        }
        bail!("nothing passes {one}")
    }

    /// Returns the output of `show --json` for a link of ours.
    ///
    /// # Errors
    /// If the daemon does not respond.
    pub fn read_shown(&self, side: usize, name: &str) -> Result<serde_json::Value> {
        let text = run_checked(
            self.mezza_command(side, name, &["show", "--json"])?.stdout(Stdio::piped()),
        )?;
        Ok(serde_json::from_str(text.lines().next().unwrap_or("null"))?)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = run_ip(&["netns", "del", name]);
        }
    }
}
