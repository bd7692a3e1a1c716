//! A node with its page: the lock of the home, the sockets, the files in `run/`, and shutdown.
//!
//! ```text
//! run/node.lock   held while the node runs; names its process          (NODE-1)
//! run/api.sock    the interface for the command line, 0600              (NODE-20)
//! run/api.json    address of the page and number of the process, 0600
//! run/url         a one-time address for a browser, 0600
//! ```

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::faces::relay_beside::RelayBeside;
use crate::faces::web::local_auth::LocalAuth;
use crate::faces::web::long_work::LongWork;
use crate::faces::web::{Sockets, Web};
use crate::node::{self, NodeHandle, NodeOptions, RunningNode};
use mezza_host::api::Fault;
use mezza_host::process::files;
use mezza_host::process::home::{Home, private};
use mezza_host::process::lock::Lock;
use mezza_host::process::memory;
use mezza_host::process::rng::OsRng;

/// How long the node may take to lock itself at the end (NODE-2).
const STOP: Duration = Duration::from_millis(1_500);

/// The file name of the owner's socket.
const SOCKET: &str = "api.sock";

/// The content of `run/api.json`, which a running node writes.
#[derive(Clone, Serialize, Deserialize)]
pub struct ApiEndpoint {
    /// The address of the page. After the node's end any user may listen there, so clients send
    /// nothing to it.
    pub address: SocketAddr,
    /// The process number of the node.
    pub pid: u32,
}

/// A running node with its HTTP interface.
pub struct ServedNode {
    /// The node.
    pub node: NodeHandle,
    /// The TCP port of the page.
    pub port: u16,
    /// A one-time address for the browser.
    pub url: String,
    home: Home,
    relay: Arc<RelayBeside>,
    running: RunningNode,
    serving: JoinHandle<()>,
    stop: watch::Sender<bool>,
    _lock: Lock,
}

impl ServedNode {
    /// Starts a node and serves its interface on `port`, or the next free one.
    ///
    /// # Errors
    /// If another node uses this home, or no port can be bound.
    pub async fn open(
        home: &Home,
        lock: Lock,
        port: u16,
        options: NodeOptions,
    ) -> Result<Self, Fault> {
        memory::log_refusals();
        if let Err(error) = files::connection_room() {
            tracing::warn!(%error, "the limit of open files is not raised");
        }
        let sockets = Sockets::bind(port, &socket_path(home)).await?;
        let observer = options.observer.clone();
        let running = node::start_node(options);
        let port = sockets.port;
        let auth = Arc::new(LocalAuth::new(port, &mut OsRng));
        let url = auth.ticket_url(&mut OsRng);
        let api = ApiEndpoint { address: auth.address(), pid: std::process::id() };
        let json = serde_json::to_vec(&api).map_err(|_| Fault::bug("api.json cannot be made"))?;
        private::replace(&home.run().join("api.json"), &json)?;
        private::replace(&home.run().join("url"), format!("{url}\n").as_bytes())?;
        let (stop, _) = watch::channel(false);
        let node = running.node.clone();
        let home = home.clone();
        let stopping = stop.clone();
        let relay = Arc::<RelayBeside>::default();
        let web = Web {
            node: node.clone(),
            auth,
            observer,
            home: home.clone(),
            relay: Arc::clone(&relay),
            work: LongWork::default(),
            stop: stopping,
        };
        let serving = tokio::spawn(sockets.serve(web));
        Ok(Self { node, port, url, home, relay, running, serving, stop, _lock: lock })
    }

    /// Starts the relay of this home beside the node. A relay that does not start is logged: the
    /// node works without it, and page and `mezza status` show it.
    pub(crate) async fn start_relay(&self) {
        if let Err(fault) = self.relay.start(&self.home).await {
            tracing::warn!(target: "mezza", "the relay of this home: {fault}");
        }
    }

    /// Returns a channel that becomes true when a request over the interface stops the program.
    pub fn watch_stop(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Stops everything within two seconds; the outbox is durable.
    pub async fn close(self) {
        for name in [SOCKET, "api.json", "url"] {
            let _ = fs::remove_file(self.home.run().join(name));
        }
        let _ = self.stop.send(true);
        let relay = tokio::time::timeout(STOP, self.relay.stop());
        if tokio::join!(self.running.stop(STOP), relay).1.is_err() {
            tracing::warn!(target: "mezza", "the relay of this home ended late");
        }
        self.serving.abort();
    }
}

/// Returns the path of the owner's socket in a home.
pub(crate) fn socket_path(home: &Home) -> PathBuf {
    home.run().join(SOCKET)
}

/// Takes the lock of a home: only one node may run, even with a locked vault.
///
/// # Errors
/// Exit code 75 if another process holds the lock; the fault names the process.
pub fn lock_home(home: &Home) -> Result<Lock, Fault> {
    Lock::take(&home.run().join("node.lock"))
}
