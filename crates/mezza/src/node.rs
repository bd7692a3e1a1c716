//! The node: one task owns the device and the vault; all others send requests to it.
//!
//! ```text
//! web, command line -- Ask ----> +------+ -- commit --> vault
//! adapters ---------- Report --> | task | -- orders --> adapters
//! deadline, signal ------------> +------+ -- events --> log -> WebSockets
//! ```
//!
//! The task sleeps until an input or the nearest deadline, at most half a minute, so that a clock
//! that jumped (sleep of the machine) is noticed soon. The task commits on its own thread: a node
//! serves one user, who waits for the commit anyway, and waking another thread for each step of a
//! note costs more than the step.

pub(crate) mod event_log;
pub(crate) mod observer;
pub(crate) mod plan;
pub(crate) mod shell;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mezza_core::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use crate::carriers::{self, ConnectionReport};
use crate::node::observer::Observer;
use event_log::EventLog;
use mezza_host::api::{Exit, Fault, Refused};
use mezza_host::clock::Clock;
use mezza_host::process::drive;
use shell::NodeShell;

/// Requests and reports that may wait for the task.
const QUEUE_MAX: usize = 1_024;
/// The longest sleep of the task: a clock that jumped is noticed within it.
const NAP_MAX: Duration = Duration::from_secs(30);

/// The options of a node.
pub struct NodeOptions {
    /// The folder of the vault.
    pub vault: PathBuf,
    /// The folder of the vault's witness; `None`: a restored vault is not detected.
    pub witness: Option<PathBuf>,
    /// True for a demonstration: no idle lock, and vaults that are cheap to open.
    pub demo: bool,
    /// Seconds without activity of the user after which the node locks itself; 0: never.
    pub idle_lock_s: u64,
    /// The clock shared by vault, device and connections.
    pub clock: Clock,
    /// The options for connections to relays.
    pub dialer: carriers::Dialer,
    /// The mesh node of this home; `None`: notes do not go over a mesh.
    pub mesh: Option<carriers::MeshPlace>,
    /// Where connections of paired devices are accepted; `None`: nowhere.
    pub link: Option<carriers::LinkListen>,
    /// Records what adversaries could see, while it is on.
    pub observer: Option<Arc<Observer>>,
}

/// A request to the task.
type Query = Box<dyn FnOnce(&mut NodeShell) + Send>;

/// An event of the node's task.
pub enum NodeEvent {
    /// A request.
    Ask(Query),
    /// A report of a carrier.
    Report(Box<ConnectionReport>),
}

impl From<ConnectionReport> for NodeEvent {
    fn from(report: ConnectionReport) -> Self {
        Self::Report(Box::new(report))
    }
}

/// A handle to the task; clones share the task.
#[derive(Clone)]
pub struct NodeHandle {
    jobs: mpsc::Sender<NodeEvent>,
    events: Arc<EventLog>,
    touched: Arc<LastActivity>,
    stop: watch::Sender<bool>,
}

/// Time of the user's last activity; setting it does not wake the task.
pub(crate) struct LastActivity {
    clock: Clock,
    boot_ms: AtomicU64,
}

impl LastActivity {
    fn new(clock: Clock) -> Self {
        Self { clock, boot_ms: AtomicU64::default() }
    }

    /// Sets the time to now.
    pub(crate) fn set_now(&self) {
        self.boot_ms.store(self.clock.boot().as_ms(), Ordering::Relaxed);
    }

    /// Returns the boot time of the last activity.
    pub(crate) fn last_time(&self) -> Time {
        Time::from_ms(self.boot_ms.load(Ordering::Relaxed))
    }
}

/// The task, with its handle.
pub struct RunningNode {
    /// The handle to the task.
    pub node: NodeHandle,
    task: JoinHandle<Result<Exit, Fault>>,
}

/// Starts the task on the runtime of the caller. The node begins locked, or empty if there is no
/// vault.
pub fn start_node(options: NodeOptions) -> RunningNode {
    let (jobs, queue) = mpsc::channel(QUEUE_MAX);
    let events = Arc::new(EventLog::new(options.clock.wall()));
    let touched = Arc::new(LastActivity::new(options.clock.clone()));
    let (stop, stopped) = watch::channel(false);
    let node = NodeHandle { jobs, events, touched, stop };
    let shell = NodeShell::new(options, &node);
    let task = tokio::spawn(drive::run_shell(shell, queue, stopped, NAP_MAX));
    RunningNode { node, task }
}

impl NodeHandle {
    /// Runs `question` on the task, between two inputs. Returns its result.
    ///
    /// # Errors
    /// The refusal of the request, or a fault if the node is stopping.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut NodeShell) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let (tell, told) = oneshot::channel();
        let ask = NodeEvent::Ask(Box::new(move |shell| {
            let _ = tell.send(question(shell));
        }));
        self.jobs.send(ask).await.map_err(|_| Refused::stopping())?;
        let answer = told.await.map_err(|_| Refused::stopping())?;
        // Carry out the effects of the request first: the note leaves for its relay before the
        // caller resumes.
        yield_now().await;
        answer
    }

    /// Restarts the idle time after activity of the user.
    pub fn touch(&self) {
        self.touched.set_now();
    }

    /// Returns the event log of this node.
    pub fn events(&self) -> &Arc<EventLog> {
        &self.events
    }
}

impl RunningNode {
    /// Locks the vault, ends the task and waits for it, at most `patience`.
    pub async fn stop(self, patience: Duration) {
        let _ = self.node.stop.send(true);
        if !matches!(timeout(patience, self.task).await, Ok(Ok(Ok(_)))) {
            tracing::warn!("the node did not end in time; what it accepted is on disk");
        }
    }
}
