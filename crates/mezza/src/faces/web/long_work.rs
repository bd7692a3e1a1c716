//! Work that takes seconds: one piece at a time, with its progress.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezza_host::api::json::{LongWorkKind, ProgressJson};
use mezza_host::api::{Exit, Fault, Refused};
use mezza_host::backup::WorkProgress;

/// The piece of work that is in progress, if any.
#[derive(Clone, Default)]
pub(crate) struct LongWork(Arc<Mutex<Option<Piece>>>);

type Piece = (LongWorkKind, WorkProgress);

/// A piece of work in progress. It ends when this value is dropped.
pub(crate) struct RunningWork {
    work: LongWork,
    /// Its progress.
    pub progress: WorkProgress,
}

impl LongWork {
    /// Begins a piece of work.
    ///
    /// # Errors
    /// Exit code 75 if another one runs.
    pub(crate) fn begin(&self, kind: LongWorkKind) -> Result<RunningWork, Refused> {
        let progress = WorkProgress::default();
        {
            let mut running = self.lock();
            refuse_second(running.as_ref())?;
            *running = Some((kind, progress.clone()));
        }
        Ok(RunningWork { work: self.clone(), progress })
    }

    /// Refuses while a piece of work runs.
    ///
    /// # Errors
    /// 75.
    pub(crate) fn check_idle(&self) -> Result<(), Refused> {
        refuse_second(self.lock().as_ref())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Piece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how far the work is.
    pub(crate) fn describe(&self) -> ProgressJson {
        self.lock().as_ref().map_or(
            ProgressJson { work: None, done: 0, total: 0 },
            |(kind, progress)| ProgressJson {
                work: Some(*kind),
                done: progress.done(),
                total: progress.total(),
            },
        )
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        *self.work.lock() = None;
    }
}

fn refuse_second(running: Option<&Piece>) -> Result<(), Refused> {
    if running.is_none() {
        return Ok(());
    }
    let text = "another backup, restore or move is being worked on";
    Err(Fault::new(Exit::Busy, text, "wait until it is done").into())
}

/// Runs blocking work on a thread of its own.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| Fault::bug("the work has ended without a result"))??)
}

/// Parses the path of a file, which must be absolute: the node has another working folder than its
/// caller.
pub(crate) fn absolute_path(text: &str) -> Result<PathBuf, Refused> {
    let path = PathBuf::from(text.trim());
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Refused::malformed("the path of a file begins with `/`", "name its folder as well"))
}
