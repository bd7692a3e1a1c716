//! `mezza mesh run`: one node until it is stopped.

use std::time::Duration;

use mezza_mesh::node::NodeSettings;
use mezza_mesh::{Grade, MeshNetwork, Node};
use tokio::sync::{mpsc, watch};

use super::ble::{Ble, HciPlace};
use super::cell_store::CellStore;
use super::control::{self, MeshAsk};
use super::grade::{BentClock, ClockFiles};
use super::kernel_clock::KernelClock;
use super::link::LinkSender;
use super::links::{LinkChoice, Links};
use super::shell::{MeshEvent, MeshShell, NodeClock};
use super::system_clock::SystemClock;
use super::udp;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::ControlSocket;
use mezza_host::process::drive;
use mezza_host::process::home::{Home, private};
use mezza_host::process::lock::Lock;

/// Events that wait for the machine.
const EVENTS_MAX: usize = 1_024;
/// How often the node looks for an interface at the start, and the pause between two tries.
const LINK_TRIES: u32 = 20;
const LINK_PAUSE: Duration = Duration::from_millis(250);
/// The longest time between two wake-ups of the machine.
const NAP: Duration = Duration::from_secs(1);

/// The options of a mesh node.
pub struct MeshOptions {
    /// The home whose lock, network and clock record the node uses.
    pub home: Home,
    /// The network that the node joins.
    pub network: MeshNetwork,
    /// The interfaces and ports of the node's links.
    pub links: LinkChoice,
    /// The Bluetooth controller; `None`: no Bluetooth.
    pub ble: Option<HciPlace>,
    /// The grade of the clock that the user set, if any.
    pub grade: Option<Grade>,
    /// Bytes of cells that are carried for hours; 0: none has a copy on the disk.
    pub carried_bytes: usize,
}

/// A node whose sockets are open and whose loop has not begun.
pub struct Started {
    shell: MeshShell,
    events: mpsc::Receiver<MeshEvent>,
    _socket: ControlSocket,
    _lock: Lock,
}

impl Started {
    /// Opens sockets and links. Must run inside a Tokio runtime.
    ///
    /// # Errors
    /// Exit code 66 for an interface that is not there, 69 if none can multicast, 75 if a node of
    /// this home is already running.
    pub async fn open(options: MeshOptions) -> Result<Self, Fault> {
        let MeshOptions { home, network, links, ble, grade, carried_bytes } = options;
        private::make_folder(home.root())?;
        private::make_folder(&home.run())?;
        let next = "stop that process, or name another home by --home";
        let lock = Lock::take_of(&control::lock_path(&home), "the mesh of this home", next)?;
        check_interfaces(&links.interfaces)?;
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let socket = ControlSocket::serve::<MeshAsk, MeshEvent>(
            &control::socket_path(&home),
            sender.clone(),
        )?;
        let clock = Clock::system();
        let link_sender = LinkSender::new(sender);
        let ble = match ble {
            Some(place) => Some(Ble::open(place, link_sender.clone()).await?),
            None => None,
        };
        let links = Links::new(links, link_sender, ble);
        let mut settings = node_settings(links.takes_streams());
        settings.carried_bytes = carried_bytes;
        let node = Node::new(settings, network, clock.boot());
        let path = home.mesh_cells();
        let store = (carried_bytes > 0).then(|| CellStore::open(&path)).transpose()?;
        let mut shell = MeshShell::new(node, own_clock(&home, clock, grade), links, store);
        // An interface that has just come up has no address for a second or two.
        for _ in 0..LINK_TRIES {
            shell.look_for_links();
            if shell.links().has_any() {
                break;
            }
            tokio::time::sleep(LINK_PAUSE).await;
        }
        shell.look_around();
        if !shell.links().has_any() {
            let text = "no interface can multicast";
            return Err(Fault::new(Exit::Unreachable, text, "connect to a LAN or use `--ble`"));
        }
        Ok(Self { shell, events, _socket: socket, _lock: lock })
    }

    /// Describes the links of the node for the user.
    pub fn describe_links(&self) -> Vec<String> {
        self.shell.links().describe_all()
    }

    /// Runs the node until `stop` turns true.
    ///
    /// # Errors
    /// The errors of the event loop, of which there are none at present.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Exit, Fault> {
        drive::run_shell(self.shell, self.events, stop, NAP).await
    }
}

/// Returns the clock as the last node of this home stored it, with the grade that the user set now.
fn own_clock(home: &Home, clock: Clock, grade: Option<Grade>) -> NodeClock {
    let bent = BentClock::of_environment();
    bent.warn_if_bent();
    let files = ClockFiles::default();
    let now = clock.read();
    let has_hardware_clock = files.has_hardware_clock();
    let mut system = SystemClock::of_home(home, now, clock.start(), has_hardware_clock);
    if let Some(grade) = grade {
        system.on_reading(now, files.last_synchronised());
        system.on_person(grade, now);
    }
    NodeClock { clock, bent, system, files, kernel: KernelClock::default() }
}

/// Returns the settings of the node. Tests shorten the life of its name by
/// `MEZZA_TEST_MESH_NAME_S`, in seconds.
fn node_settings(streams: bool) -> NodeSettings {
    let mut settings = NodeSettings::default();
    settings.engine.streams = streams;
    let test = std::env::var("MEZZA_TEST_MESH_NAME_S").ok().and_then(|text| text.parse().ok());
    if let Some(seconds) = test {
        settings.name_life_s = (seconds, seconds);
    }
    settings
}

fn check_interfaces(named: &[String]) -> Result<(), Fault> {
    let there = udp::interface_names();
    match named.iter().find(|name| !there.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let text = format!("there is no interface {name}");
            let next = format!("these are there: {}", there.join(", "));
            Err(Fault::new(Exit::NotFound, text, next))
        }
    }
}
