//! The mesh of the demonstration: one node for each party. Both use the loopback interface alone, in a
//! closed network whose key lasts for one run, so that no other device takes part.

use std::net::TcpListener;
use std::time::Duration;

use mezza_core::Secret;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::carriers::MeshPlace;
use crate::faces::mesh_node::{MeshChoice, MeshNodeThread};
use crate::node::NodeHandle;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;
use mezza_host::process::rng::OsRng;
use mezza_servers::mesh::network::NetworkChoice;

/// The name of the network.
const NETWORK: &str = "demonstration";
/// How long the nodes may take until they know the time. A machine that does much else gives them no
/// CPU time for seconds; only without multicast is all of it waited for.
const UP: Duration = Duration::from_secs(30);
/// Pause between two attempts to make the keys of a party.
const GLANCE: Duration = Duration::from_millis(50);

/// The two mesh nodes; dropping this value ends them.
pub(super) struct DemoMesh {
    choices: [MeshChoice; 2],
    _nodes: [MeshNodeThread; 2],
}

impl DemoMesh {
    /// Starts the mesh nodes of both homes.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(super) fn start(person: &Home, echo: &Home) -> Result<Self, Fault> {
        let network = NetworkChoice::make_closed(NETWORK, Secret::random(&mut OsRng))?;
        let invitation: Zeroizing<String> = network.encode_invitation();
        let port = find_free_port()?;
        let choices = [person, echo].map(|home| MeshChoice::on_loopback(home, &invitation, port));
        let [first, second] = &choices;
        let nodes = [MeshNodeThread::start(first)?, MeshNodeThread::start(second)?];
        Ok(Self { choices, _nodes: nodes })
    }

    /// Returns the mesh of the person's node.
    pub(super) fn of_person(&self) -> MeshPlace {
        self.choices[0].place()
    }

    /// Returns the mesh of echo's node.
    pub(super) fn of_echo(&self) -> MeshPlace {
        self.choices[1].place()
    }

    /// Makes the keys of both parties for the mesh, unless an earlier run made them.
    ///
    /// # Errors
    /// If a node does not know the time soon, for example because the system allows no multicast on
    /// the loopback interface.
    pub(super) async fn make_keys(&self, parties: [&NodeHandle; 2]) -> Result<(), Fault> {
        let until = Instant::now() + UP;
        for party in parties {
            loop {
                // Both parties read the clock of this machine, so the user need not confirm it.
                match party.ask(|shell| shell.make_mesh_keys(true)).await {
                    Ok(_) => break,
                    Err(_) if Instant::now() < until => sleep(GLANCE).await,
                    Err(refused) => {
                        let next = "look at the log; the other carriers do not need it";
                        return Err(Fault::new(Exit::Unreachable, refused.fault.text, next));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns a free port of this machine: another demonstration may have the usual one, and without it
/// large messages would not travel.
fn find_free_port() -> Result<u16, Fault> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|error| {
        let text = format!("this machine has no free port: {error}");
        Fault::new(Exit::Busy, text, "end other programs")
    })
}
