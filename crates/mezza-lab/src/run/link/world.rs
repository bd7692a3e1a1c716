//! A road in use: its namespaces, and the link over it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::cable::{MAPPING, SoftwareCable};
use super::road::{Family, Ground, Incident, Road};
use super::streams::is_echoed;
use crate::goals::seka::net::{CableEnd, Namespaces, run_checked};
use crate::goals::seka::tunnel;

/// The name of the link.
const LINK: &str = "lk0";
/// Time limit for a link to come up or to recover.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(100);
/// Time by which the idle period exceeds the lifetime of a mapping.
const BEYOND: Duration = Duration::from_secs(10);

/// A road that was built, with a link over it.
pub struct LinkWorld {
    net: Namespaces,
    /// The cable, if the road has a software cable.
    software: Option<SoftwareCable>,
    road: Road,
    /// The interface that carries the link, by side.
    on: [&'static str; 2],
}

impl LinkWorld {
    /// Builds a road.
    ///
    /// # Errors
    /// A requirement that this machine lacks.
    pub fn lay_road(folder: &Path, road: Road, seed: u64) -> Result<Self> {
        let count = if matches!(road.ground, Ground::Routers(_)) { 4 } else { 2 };
        let net = Namespaces::make_apart(folder, count)?;
        let mut world = Self { net, software: None, road, on: ["va", "vb"] };
        if road.family == Family::Ip4 {
            for side in 0..2 {
                world.set_sysctl(side, "ipv6/conf/all/disable_ipv6")?;
            }
        }
        world.lay_ground(seed)?;
        if road.incident == Incident::Card && world.set_checksums("on").is_err() {
            bail!("`ethtool` is not here; apt install ethtool");
        }
        Ok(world)
    }

    /// Brings a link up on the road, and causes the road's incident.
    ///
    /// # Errors
    /// A link that does not come up, or that carries nothing afterwards.
    pub fn bring_up(&mut self) -> Result<()> {
        let folder = self.net.folder().to_path_buf();
        self.pair_sides(&folder)?;
        if let (Some(cable), Ground::Software(faults)) = (&self.software, self.road.ground)
            && faults.translates
        {
            cable.start_translating();
        }
        self.start_daemons(&folder)?;
        self.wait_until_it_carries(0)?;
        self.meet_incident()
    }

    /// Starts wireguard-go in addition to the link, if the road has that measurement. Returns its
    /// addresses, by side.
    ///
    /// # Errors
    /// If wireguard-go is absent, or its tunnel does not come up.
    pub fn start_wireguard(&mut self) -> Result<Option<[IpAddr; 2]>> {
        let Some(mtu) = self.road.wireguard_mtu() else { return Ok(None) };
        let far: Ipv4Addr = tunnel::wireguard_go_over(&mut self.net, mtu)?.parse()?;
        let [a, b, c, _] = far.octets();
        Ok(Some([IpAddr::V4(Ipv4Addr::new(a, b, c, 1)), IpAddr::V4(far)]))
    }

    /// Returns the namespaces.
    pub fn net(&self) -> &Namespaces {
        &self.net
    }

    /// Returns the payload bytes of a datagram on this road.
    pub fn datagram_bytes(&self) -> usize {
        self.road.datagram_bytes
    }

    /// Returns the address of a side on the bare path.
    pub fn bare_address(&self, side: usize) -> IpAddr {
        self.make_address(side, 9)
    }

    /// Returns the address of a side in the tunnel.
    pub fn inner_address(&self, side: usize) -> IpAddr {
        self.make_address(side, 7)
    }

    fn make_address(&self, side: usize, net: u8) -> IpAddr {
        let host = if side == 0 { 1 } else { 2 };
        match (self.road.family, self.road.ground) {
            (Family::Ip6, _) => {
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, u16::from(net), 0, 0, 0, u16::from(host)))
            }
            // With routers each side has its own network.
            (_, Ground::Routers(_)) if net == 9 => IpAddr::V4(Ipv4Addr::new(10, 9, host, 1)),
            _ => IpAddr::V4(Ipv4Addr::new(10, net, 0, host)),
        }
    }

    /// Writes 1 to a setting of a namespace.
    fn set_sysctl(&self, side: usize, name: &str) -> Result<()> {
        let path = Path::new("/proc/sys/net").join(name);
        Ok(self.net.run_within(side, move || std::fs::write(path, "1"))??)
    }

    fn lay_ground(&mut self, seed: u64) -> Result<()> {
        match self.road.ground {
            Ground::Cable(mtu) => {
                self.net.lay_cable(
                    CableEnd { side: 0, card: "va" },
                    CableEnd { side: 1, card: "vb" },
                )?;
                self.set_mtu(mtu)?;
            }
            Ground::Routers(mtu) => return self.lay_routers(mtu),
            Ground::Vlan => {
                self.net.lay_cable(
                    CableEnd { side: 0, card: "va" },
                    CableEnd { side: 1, card: "vb" },
                )?;
                self.on = ["va.5", "vb.5"];
                for (side, below) in ["va", "vb"].into_iter().enumerate() {
                    let name = self.on[side];
                    let kind = ["type", "vlan", "id", "5"];
                    self.net.ip(
                        side,
                        &[&["link", "add", "link", below, "name", name], &kind[..]].concat(),
                    )?;
                    self.net.ip(side, &["link", "set", "dev", name, "up"])?;
                }
            }
            Ground::Software(faults) => {
                self.software = Some(SoftwareCable::lay_between(&self.net, faults, seed)?);
            }
        }
        for side in 0..2 {
            self.add_address(side, self.bare_address(side), self.on[side])?;
        }
        Ok(())
    }

    /// Connects A, two routers, and B: only the cable between the routers is narrow, where neither
    /// machine sees its MTU.
    fn lay_routers(&self, mtu: u16) -> Result<()> {
        self.net.lay_cable(CableEnd { side: 0, card: "va" }, CableEnd { side: 2, card: "ra" })?;
        self.net.lay_cable(CableEnd { side: 2, card: "rc" }, CableEnd { side: 3, card: "rd" })?;
        self.net.lay_cable(CableEnd { side: 3, card: "rb" }, CableEnd { side: 1, card: "vb" })?;
        let narrow = mtu.to_string();
        for (side, name, address) in [
            (0, "va", "10.9.1.1/24"),
            (2, "ra", "10.9.1.254/24"),
            (2, "rc", "10.9.3.1/24"),
            (3, "rd", "10.9.3.2/24"),
            (3, "rb", "10.9.2.254/24"),
            (1, "vb", "10.9.2.1/24"),
        ] {
            self.net.ip(side, &["addr", "add", address, "dev", name])?;
        }
        for (side, name) in [(2, "rc"), (3, "rd")] {
            self.net.ip(side, &["link", "set", "dev", name, "mtu", &narrow])?;
            self.set_sysctl(side, "ipv4/ip_forward")?;
        }
        for (side, to, via) in [
            (0, "default", "10.9.1.254"),
            (1, "default", "10.9.2.254"),
            (2, "10.9.2.0/24", "10.9.3.2"),
            (3, "10.9.1.0/24", "10.9.3.1"),
        ] {
            self.net.ip(side, &["route", "add", to, "via", via])?;
        }
        Ok(())
    }

    /// Gives the interfaces of the cable this MTU.
    ///
    /// # Errors
    /// If the kernel refuses the MTU.
    pub fn set_mtu(&self, mtu: u16) -> Result<()> {
        let mtu = mtu.to_string();
        for (side, name) in ["va", "vb"].into_iter().enumerate() {
            self.net.ip(side, &["link", "set", "dev", name, "mtu", &mtu])?;
        }
        Ok(())
    }

    fn add_address(&self, side: usize, address: IpAddr, device: &str) -> Result<()> {
        let text = format!("{address}/{}", if address.is_ipv4() { 24 } else { 64 });
        let args = ["addr", "replace", &text, "dev", device];
        let without_checks: &[&str] = if address.is_ipv4() { &[] } else { &["nodad"] };
        self.net.ip(side, &[&args, without_checks].concat())
    }

    /// Pairs both sides, before the road affects the link.
    fn pair_sides(&self, folder: &Path) -> Result<()> {
        let is_far =
            matches!(self.road.ground, Ground::Routers(_)) || self.road.family == Family::Ip4;
        let begin = |side: usize| -> Result<Child> {
            let to = self.bare_address(1 - side).to_string();
            let far = ["--sas", "--to", &to];
            let mut command = self.net.mezza_command(
                side,
                "s",
                &["pair", self.on[side], "--name", LINK, "--carrier", self.road.carrier],
            )?;
            command.args(if is_far { &far[..] } else { &[] }).stdin(Stdio::piped());
            let log = std::fs::File::create(folder.join(format!("pair{side}.log")))?;
            let mut child = command.stderr(log).spawn()?;
            // The user confirms that the digits are equal.
            child.stdin.as_mut().context("no input")?.write_all(b"y\n")?;
            Ok(child)
        };
        for (side, mut child) in [begin(0)?, begin(1)?].into_iter().enumerate() {
            if !child.wait()?.success() {
                let log = std::fs::read_to_string(folder.join(format!("pair{side}.log")))?;
                bail!("both sides do not pair: {}", log.lines().last().unwrap_or("no log"));
            }
        }
        Ok(())
    }

    /// Starts both daemons, and gives the tunnel its addresses.
    fn start_daemons(&mut self, folder: &Path) -> Result<()> {
        for side in 0..2 {
            let bridge = if self.road.bridges { "bridge = \"br0\"\n" } else { "" };
            let settings = format!("[link.{LINK}]\n{bridge}{}", self.road.settings[side]);
            std::fs::write(folder.join(format!("link{side}.toml")), settings)?;
            if self.road.bridges {
                self.net.ip(side, &["link", "add", "br0", "type", "bridge"])?;
                self.net.ip(side, &["link", "set", "br0", "up"])?;
                self.add_address(side, self.inner_address(side), "br0")?;
            }
            let up = self.daemon_command(side)?;
            self.net.spawn_tunnel(up)?;
        }
        if self.road.bridges {
            return Ok(());
        }
        (0..2).try_for_each(|side| self.address_interface(side))
    }

    /// Makes the command of a side's daemon, with its settings.
    fn daemon_command(&self, side: usize) -> Result<Command> {
        let file = self.net.folder().join(format!("link{side}.toml"));
        self.net.mezza_command(side, "s", &["--config", file.to_str().context("a path")?, "up"])
    }

    /// Gives the link's interface its address as soon as the interface exists.
    fn address_interface(&self, side: usize) -> Result<()> {
        if wait_until(|| Ok(self.add_address(side, self.inner_address(side), LINK).is_ok()))? {
            return Ok(());
        }
        bail!("there is no interface of the link on side {side}");
    }

    /// Kills the daemon of a side, and starts it again.
    ///
    /// # Errors
    /// If the daemon does not start.
    pub fn restart_daemon(&mut self, side: usize) -> Result<()> {
        let up = self.daemon_command(side)?;
        self.net.replace_tunnel(side, up)?;
        self.address_interface(side)
    }

    /// Gives the card of a side another hardware address, which changes its IPv6 address on the
    /// cable.
    ///
    /// # Errors
    /// If the kernel refuses the address.
    pub fn change_address(&self, side: usize, number: u8) -> Result<()> {
        let on = self.on[side];
        let address = format!("02:00:00:00:{side:02x}:{number:02x}");
        self.net.ip(side, &["link", "set", "dev", on, "down"])?;
        self.net.ip(side, &["link", "set", "dev", on, "address", &address])?;
        self.net.ip(side, &["link", "set", "dev", on, "up"])
    }

    /// Requests new keys on a side. Returns true if the exchange succeeds.
    ///
    /// # Errors
    /// If the command does not run.
    pub fn rekey_link(&self, side: usize) -> Result<bool> {
        Ok(self.net.mezza_command(side, "s", &["rekey", LINK])?.status()?.success())
    }

    /// Waits until a datagram from a side comes back through the tunnel.
    fn wait_until_it_carries(&self, from: usize) -> Result<()> {
        if wait_until(|| is_echoed(&self.net, from, self.inner_address(1 - from)))? {
            return Ok(());
        }
        bail!("nothing passes the link: {}", self.read_shown(from)?)
    }

    fn meet_incident(&self) -> Result<()> {
        match self.road.incident {
            Incident::None => return Ok(()),
            Incident::Mtu(mtu) => self.set_mtu(mtu)?,
            Incident::Card => self.set_checksums("off")?,
            Incident::Idle => {
                std::thread::sleep(MAPPING + BEYOND);
                if !is_echoed(&self.net, 1, self.inner_address(0))? {
                    bail!("B does not reach A after {:?} without traffic", MAPPING + BEYOND);
                }
            }
        }
        self.wait_until_it_carries(0)
    }

    /// Sets the checksum offload of A's card to `checksums`.
    fn set_checksums(&self, checksums: &str) -> Result<()> {
        let mut card = self.net.make_command(0, "ethtool");
        run_checked(card.args(["-K", "va", "tx", checksums])).map(drop)
    }

    /// Makes the translator forget its mapping before A sends. Until then no datagram from B
    /// reaches A.
    pub fn disturb_translator(&self, from: usize) {
        if let (Incident::Idle, 0, Some(cable)) = (self.road.incident, from, &self.software) {
            cable.forget_mapping();
        }
    }

    /// Returns the state of the link on a side, as `mezza link show --json` prints it.
    ///
    /// # Errors
    /// If the daemon does not respond.
    pub fn read_shown(&self, side: usize) -> Result<Value> {
        let text = |mut command: Command| -> Result<Vec<u8>> {
            Ok(command.stdout(Stdio::piped()).output()?.stdout)
        };
        // The command exits with 1 if there is trouble, and still prints the state.
        let printed = text(self.net.mezza_command(side, "s", &["show", "--json"])?)?;
        let printed = String::from_utf8(printed)?;
        let line = printed.lines().next().context("the daemon does not answer")?;
        Ok(serde_json::from_str(line)?)
    }
}

/// Waits until `is_so` returns true. Returns false after the time limit.
pub fn wait_until(mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is_so()? {
            return Ok(true);
        }
        std::thread::sleep(LOOK);
    }
    Ok(false)
}
