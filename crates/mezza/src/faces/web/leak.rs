//! The leak experiment of the lab, as a stream of its readings (WEB-28, WEB-29).
//!
//! ```text
//! POST /v1/guard/leak --> lab (process group) --lines--> reader thread --> task --lines--> response
//!                          ^------------ killed by the task ----------------/
//! ```
//! The task ends the lab when it has printed its result, when the client leaves, when the node locks
//! or stops, and after a time limit.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast, mpsc};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::long_work::run_blocking;
use super::{JsonBody, Web};
use crate::faces::lab::{LabOutput, LabProcess, find_lab, foreign_output};
use crate::node::NodeHandle;
use mezza_host::api::json::{EventJson, EventKind, LeakFaultJson, LeakLineJson, LeakOrderJson};
use mezza_host::api::{Exit, Fault, Refused, json};

/// The turn to run the experiment.
static RUNNING: Semaphore = Semaphore::const_new(1);
/// Time limit of an experiment, which takes seconds.
const TIME_MAX: Duration = Duration::from_secs(120);
/// Maximum number of lines of an experiment; those of this order have 202.
const LINES_MAX: usize = 2_000;
/// Lines that may wait for a slow client; then the lab waits.
const QUEUE_MAX: usize = 16;
/// The folder of the lab's files, in `run/`.
const FOLDER: &str = "lab";

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(run_leak))
}

/// Run the leak experiment of the lab: a tampered test program leaks a made-up secret. Each line of the
/// response is one JSON value, sent when the lab prints it.
#[utoipa::path(post, path = "/v1/guard/leak", request_body = json::LeakOrderJson,
    responses((status = 200, body = json::LeakLineJson, content_type = "application/x-ndjson"),
        (status = 503, body = json::Problem)))]
async fn run_leak(
    State(web): State<Web>,
    JsonBody(order): JsonBody<LeakOrderJson>,
) -> Result<Response, Refused> {
    // Listen before the check, so that no lock is missed between both.
    let events = web.node.events().listen(None).live;
    web.node.ask(|shell| shell.own_identity()).await?;
    let turn = RUNNING.try_acquire().map_err(|_| {
        let text = "the leak experiment is running already";
        Fault::new(Exit::Busy, text, "wait for its end, or stop it where it was started")
    })?;
    let program = find_lab().map_err(|fault| Refused::new("no_lab", fault))?;
    let folder = web.home.run().join(FOLDER);
    let (process, output) = run_blocking(move || start_lab(&program, &folder, order)).await?;
    let (sender, lines) = mpsc::channel(QUEUE_MAX);
    let experiment = Experiment { process, _turn: turn, client: sender };
    tokio::spawn(experiment.supervise(web, output, events));
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::new(LineBody { lines })).into_response())
}

/// Starts the lab. All words are constants but the seed, which is a number.
fn start_lab(
    program: &Path,
    folder: &Path,
    order: LeakOrderJson,
) -> Result<(LabProcess, LabOutput), Fault> {
    let firewall = if order.guarded { order.variant.firewall() } else { "none" };
    let seed = order.seed.to_string();
    let words = ["run", "leak", "--variant", order.variant.name(), "--firewall", firewall];
    // A smoke run takes no lock, so that it does not disturb a measurement of this user's lab.
    let how = ["--seed", &seed, "--profile", "smoke", "--stream", "--out", "."];
    LabProcess::start(program, folder, &[&words[..], &how[..]].concat())
}

/// A running experiment and its client.
struct Experiment {
    process: LabProcess,
    /// Held until the process and its reader have ended.
    _turn: SemaphorePermit<'static>,
    client: mpsc::Sender<LeakLineJson>,
}

impl Experiment {
    /// Forwards lines to the client until the experiment must end, and ends it.
    async fn supervise(self, web: Web, output: LabOutput, events: broadcast::Receiver<EventJson>) {
        let Self { process, _turn, client } = self;
        let (sender, mut lines) = mpsc::channel(QUEUE_MAX);
        let reader = tokio::task::spawn_blocking(move || read_lines(output, &sender));
        let mut stop = web.stop.subscribe();
        let is_late = tokio::select! {
            () = forward_lines(&mut lines, &client) => false,
            () = client.closed() => false,
            () = wait_for_lock(&web.node, events) => false,
            // The returned guard would hold the channel's lock.
            () = async { drop(stop.wait_for(|stop| *stop).await) } => false,
            () = tokio::time::sleep(TIME_MAX) => true,
        };
        // The reader ends at a closed queue, or at the end of the killed process.
        drop(lines);
        let _ = tokio::task::spawn_blocking(move || drop(process)).await;
        let _ = reader.await;
        if is_late {
            let text = format!("the experiment took more than {} s", TIME_MAX.as_secs());
            let fault = Fault::new(Exit::Busy, text, "try again when this machine has less to do");
            let _ = client.try_send(fault_line(fault));
        }
    }
}

async fn forward_lines(
    lines: &mut mpsc::Receiver<LeakLineJson>,
    client: &mpsc::Sender<LeakLineJson>,
) {
    while let Some(line) = lines.recv().await {
        if client.send(line).await.is_err() {
            return;
        }
    }
}

/// Waits until the vault is locked.
async fn wait_for_lock(node: &NodeHandle, mut events: broadcast::Receiver<EventJson>) {
    loop {
        match events.recv().await {
            Ok(event) if event.kind == EventKind::Locked => return,
            Ok(_) => {}
            // The missed events may contain a lock.
            Err(RecvError::Lagged(_)) => {
                if node.ask(|shell| shell.own_identity()).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Reads the lab's lines up to its result. A line that is not one of the stream ends it with a fault.
fn read_lines(mut output: LabOutput, lines: &mpsc::Sender<LeakLineJson>) {
    for _ in 0..LINES_MAX {
        let line = match read_stream_line(&mut output) {
            Ok(line) => line,
            Err(fault) => fault_line(fault),
        };
        let is_last = matches!(line, LeakLineJson::Result(_) | LeakLineJson::Fault(_));
        if lines.blocking_send(line).is_err() || is_last {
            return;
        }
    }
    let _ = lines.blocking_send(fault_line(foreign_output()));
}

fn read_stream_line(output: &mut LabOutput) -> Result<LeakLineJson, Fault> {
    let Some(line) = output.read_line()? else {
        let error = output.read_last_error();
        let text = format!("the lab ended without a result: {error}");
        return Err(Fault::new(Exit::Unreachable, text, "run it with `mezza lab run leak`"));
    };
    serde_json::from_slice(&line).map_err(|_| foreign_output())
}

fn fault_line(fault: Fault) -> LeakLineJson {
    LeakLineJson::Fault(LeakFaultJson { text: fault.text, next: fault.next })
}

/// A response body of lines of JSON, each sent when it is there.
struct LineBody {
    lines: mpsc::Receiver<LeakLineJson>,
}

impl HttpBody for LineBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().lines.poll_recv(context).map(|line| {
            let mut text = serde_json::to_vec(&line?).ok()?;
            text.push(b'\n');
            Some(Ok(Frame::data(text.into())))
        })
    }
}
