//! The mesh node of a program that runs a node: a thread of its own, which forwards while the vault
//! is locked and knows nothing of what opens.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use mezza_hibe::Life;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::carriers::MeshPlace;
use crate::faces::config::Settings;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;
use mezza_servers::mesh::control::socket_path;
use mezza_servers::mesh::links::LinkChoice;
use mezza_servers::mesh::network::NetworkChoice;
use mezza_servers::mesh::run::{MeshOptions, Started};

/// Bytes of cells that are carried for hours.
const CARRIED_BYTES: usize = 64 << 20;
/// Pause between two attempts to start where no interface can multicast.
const AGAIN: Duration = Duration::from_secs(10);

/// The running thread; dropping it ends the node.
pub(crate) struct MeshNodeThread {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the mesh that the settings ask for, if any.
///
/// # Errors
/// 78 for a life that does not exist.
pub(crate) fn find_place(home: &Home, settings: &Settings) -> Result<Option<MeshPlace>, Fault> {
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
    Ok(Some(MeshPlace { socket: socket_path(home), life }))
}

impl MeshNodeThread {
    /// Starts the mesh node that the settings ask for, if any.
    ///
    /// # Errors
    /// A network, an interface or a port that cannot be used. A machine without a network is no
    /// error: the node waits for an interface.
    pub(crate) fn start(home: &Home, settings: &Settings) -> Result<Option<Self>, Fault> {
        if !settings.mesh {
            return Ok(None);
        }
        make_options(home, settings)?;
        let (stop, stopped) = watch::channel(false);
        let home = home.clone();
        let settings = settings.clone();
        let thread = thread::Builder::new()
            .name("mesh node".into())
            .spawn(move || run_node(&home, &settings, stopped))
            .map_err(|_| Fault::bug("the system refuses a thread"))?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for MeshNodeThread {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // The node says good-bye to its neighbours within a moment.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn make_options(home: &Home, settings: &Settings) -> Result<MeshOptions, Fault> {
    let network = if settings.mesh_net.is_empty() {
        NetworkChoice::of_home(home)?
    } else {
        NetworkChoice::make_open(&settings.mesh_net)?
    };
    let interfaces = settings.mesh_if.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(MeshOptions {
        home: home.clone(),
        network: network.into_network(),
        links: LinkChoice {
            interfaces: interfaces.map(str::to_owned).collect(),
            port: settings.mesh_port,
            casts: true,
        },
        ble: None,
        grade: None,
        carried_bytes: CARRIED_BYTES,
    })
}

/// Runs the node until `stopped`. What keeps it from starting is logged once and tried again.
fn run_node(home: &Home, settings: &Settings, mut stopped: watch::Receiver<bool>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let mut told: Option<Fault> = None;
    runtime.block_on(async {
        while !*stopped.borrow() {
            let started = match make_options(home, settings) {
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
