//! The mesh node of a program that also runs a node: a thread of its own, which forwards cells
//! while the vault is locked and does not learn which of them can be opened.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use mezza_hibe::Life;
use mezza_mesh::Grade;
use tokio::runtime::Builder;
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::carriers::MeshPlace;
use crate::faces::config::Settings;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;
use mezza_servers::mesh::ble::HciPlace;
use mezza_servers::mesh::control::socket_path;
use mezza_servers::mesh::links::LinkChoice;
use mezza_servers::mesh::network::NetworkChoice;
use mezza_servers::mesh::run::{MeshOptions, Started};

/// The value of `mesh_if` for no interface.
const NO_INTERFACE: &str = "none";
/// Bytes of cells that are carried for hours.
const CARRIED_BYTES: usize = 64 << 20;
/// Pause between two attempts to start where no interface can multicast.
const AGAIN: Duration = Duration::from_secs(10);

/// The running thread; dropping it ends the node.
pub(crate) struct MeshNodeThread {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The mesh node that a home runs.
#[derive(Clone)]
pub(crate) struct MeshChoice {
    home: Home,
    network: NetworkSource,
    /// Names of the interfaces to use; empty: all interfaces with multicast. `None`: Bluetooth LE
    /// alone.
    interfaces: Option<Vec<String>>,
    ble: Option<HciPlace>,
    port: u16,
    life: Life,
    /// The grade of the clock that the user set, if any.
    grade: Option<Grade>,
}

/// The network that a mesh node joins.
#[derive(Clone)]
pub(crate) enum NetworkSource {
    /// The network that `mezza mesh net` stored in the home.
    Home,
    /// An open network of this name.
    Open(String),
    /// The closed network of this invitation.
    Closed(Zeroizing<String>),
}

impl MeshChoice {
    /// Returns the mesh node that the settings ask for, if any.
    ///
    /// # Errors
    /// 78 for a life or a kind of controller that does not exist, or for no link at all.
    pub(crate) fn of_settings(home: &Home, settings: &Settings) -> Result<Option<Self>, Fault> {
        if !settings.mesh {
            return Ok(None);
        }
        let life = match settings.mesh_life.as_str() {
            "minute" => Life::Minute,
            "half-hour" => Life::HalfHour,
            "half-day" => Life::HalfDay,
            other => {
                let text = format!("the setting mesh_life cannot be {other:?}");
                return Err(Fault::new(Exit::Config, text, "use minute, half-hour or half-day"));
            }
        };
        let network = match &settings.mesh_net {
            name if name.is_empty() => NetworkSource::Home,
            name => NetworkSource::Open(name.clone()),
        };
        let ble = match settings.mesh_ble.as_str() {
            "" => None,
            place => Some(place.parse().map_err(|_: String| {
                let text = format!("the setting mesh_ble cannot be {place:?}");
                Fault::new(Exit::Config, text, "use hci0, tcp:HOST:PORT or unix:PATH")
            })?),
        };
        let interfaces = settings.mesh_if.split(',').map(str::trim).filter(|name| !name.is_empty());
        let interfaces = (settings.mesh_if.trim() != NO_INTERFACE)
            .then(|| interfaces.map(str::to_owned).collect());
        if interfaces.is_none() && ble.is_none() {
            let text = "the setting mesh_if is none, and mesh_ble names no controller";
            return Err(Fault::new(Exit::Config, text, "name a controller or an interface"));
        }
        let port = settings.mesh_port;
        Ok(Some(Self { home: home.clone(), network, interfaces, ble, port, life, grade: None }))
    }

    /// Returns a mesh node that reaches only programs of this machine with the same port and
    /// invitation. Its
    /// clock is taken for right, because all of them read the same one.
    pub(crate) fn on_loopback(home: &Home, invitation: &Zeroizing<String>, port: u16) -> Self {
        Self {
            home: home.clone(),
            network: NetworkSource::Closed(invitation.clone()),
            interfaces: Some(vec!["lo".to_owned()]),
            ble: None,
            port,
            life: Life::Minute,
            grade: Some(Grade::Good),
        }
    }

    /// Returns the mesh as the node's adapter needs it.
    pub(crate) fn place(&self) -> MeshPlace {
        MeshPlace { socket: socket_path(&self.home), life: self.life }
    }

    fn make_options(&self) -> Result<MeshOptions, Fault> {
        let network = match &self.network {
            NetworkSource::Home => NetworkChoice::of_home(&self.home)?,
            NetworkSource::Open(name) => NetworkChoice::make_open(name)?,
            NetworkSource::Closed(invitation) => NetworkChoice::of_invitation(invitation)?,
        };
        Ok(MeshOptions {
            home: self.home.clone(),
            network: network.into_network(),
            links: LinkChoice {
                interfaces: self.interfaces.clone().unwrap_or_default(),
                port: self.port,
                casts: self.interfaces.is_some(),
            },
            ble: self.ble.clone(),
            grade: self.grade,
            carried_bytes: CARRIED_BYTES,
        })
    }
}

impl MeshNodeThread {
    /// Starts a mesh node.
    ///
    /// # Errors
    /// A network that cannot be used. A machine without a network is no error: the node waits for
    /// an interface.
    pub(crate) fn start(choice: &MeshChoice) -> Result<Self, Fault> {
        choice.make_options()?;
        let (stop, stopped) = watch::channel(false);
        let choice = choice.clone();
        let thread = thread::Builder::new()
            .name("mesh node".into())
            .spawn(move || run_node(&choice, stopped))
            .map_err(|_| Fault::bug("the system refuses a thread"))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for MeshNodeThread {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // The node sends BYE to its neighbours within a moment.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Runs the node until `stopped`. What keeps it from starting is logged once and tried again.
fn run_node(choice: &MeshChoice, mut stopped: watch::Receiver<bool>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let mut told: Option<Fault> = None;
    runtime.block_on(async {
        while !*stopped.borrow() {
            let started = match choice.make_options() {
                Ok(options) => Started::open(options).await,
                Err(fault) => Err(fault),
            };
            let ended = match started {
                Ok(started) => started.run(stopped.clone()).await.map(drop),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = ended
                && told.as_ref() != Some(&fault)
            {
                tracing::warn!(target: "mezza", "the mesh node: {fault}");
                told = Some(fault);
            }
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(AGAIN) => (),
            }
        }
    });
    runtime.shutdown_background();
}
