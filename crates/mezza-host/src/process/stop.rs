//! Signals that end a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::Fault;

/// Waits for Ctrl-C, SIGTERM, or a request over the interface.
///
/// # Errors
/// If the system refuses signal handlers.
pub async fn until_stopped(mut asked: watch::Receiver<bool>) -> Result<(), Fault> {
    let refused = |_| Fault::bug("the system refuses signal handlers");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = asked.wait_for(|asked| *asked) => {}
    }
    Ok(())
}
