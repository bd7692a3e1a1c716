//! The control socket of a server: one JSON object a line, over a Unix socket.
//!
//! ```text
//! command line --{"ask":"show"}--> socket --ControlRequest--> the server's loop
//!              <--{..}-- .. <--{..}-- ControlAnswer, until it is dropped
//! ```
//!
//! A request is one line of any serde type; its response is any number of lines. A fault is the
//! line `{"error":..,"next":..,"exit":N}`. The kernel reports the user of the client: only root and
//! the user of the server are accepted.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as AsyncBufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::home::private;
use super::local_socket::peer_user;
use crate::api::{Exit, Fault};

/// Maximum bytes of a line.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum simultaneous connections: more than the requests that a server lets wait, so that
/// waiting clients never block others.
const ASKERS_MAX: usize = 128;
/// Lines of a response that wait for a slow reader.
const LINES_MAX: usize = 256;
/// Time limit for the request to arrive.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// The mode of the socket.
const SOCKET_MODE: u32 = 0o600;

/// A request, and the channel for its response.
#[derive(Debug)]
pub struct ControlRequest<R> {
    /// The request.
    pub asked: R,
    /// The channel for the response.
    pub answer: ControlAnswer,
}

/// Lines that are made one by one, as the reader takes them.
type LineSource = Box<dyn Iterator<Item = Value> + Send>;

/// A part of a response.
enum AnswerPart {
    Line(Value),
    /// Any number of lines; a slow reader is waited for, and no line is lost.
    All(LineSource),
}

/// The result of offering a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOffer {
    /// The line was queued.
    Taken,
    /// The reader is too slow; the line may be offered again.
    Full,
    /// The reader is gone.
    Closed,
}

/// The channel for the lines of a response; the response ends when the last clone is dropped.
#[derive(Clone)]
pub struct ControlAnswer(mpsc::Sender<AnswerPart>);

impl fmt::Debug for ControlAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlAnswer")
    }
}

impl ControlAnswer {
    /// Makes a response channel whose lines are read in this process.
    pub fn make_channel() -> (Self, LinesWithin) {
        let (sender, parts) = mpsc::channel(LINES_MAX);
        (Self(sender), LinesWithin { parts, source: None })
    }

    /// Queues one line. Returns false if the reader is gone or too slow.
    pub fn send_line(&self, value: &impl Serialize) -> bool {
        let value = serde_json::to_value(value);
        value.is_ok_and(|value| self.offer_line(value) == LineOffer::Taken)
    }

    /// Queues one line if there is room.
    pub fn offer_line(&self, value: Value) -> LineOffer {
        match self.0.try_send(AnswerPart::Line(value)) {
            Ok(()) => LineOffer::Taken,
            Err(TrySendError::Full(_)) => LineOffer::Full,
            Err(TrySendError::Closed(_)) => LineOffer::Closed,
        }
    }

    /// Queues many lines, made while the reader takes them. Returns false if the reader is gone or
    /// its queue is full.
    pub fn send_all(&self, lines: impl Iterator<Item = Value> + Send + 'static) -> bool {
        self.0.try_send(AnswerPart::All(Box::new(lines))).is_ok()
    }

    /// Queues the fault as the last line.
    pub fn send_fault(&self, fault: &Fault) {
        let line = fault_line(fault);
        let _ = self.offer_line(line);
    }

    /// Sends the fault as the whole response.
    fn end_with(self, fault: &Fault) {
        self.send_fault(fault);
    }

    /// Returns true if the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The lines of a response, for a reader in this process.
pub struct LinesWithin {
    parts: mpsc::Receiver<AnswerPart>,
    source: Option<LineSource>,
}

impl LinesWithin {
    /// Returns the next line, or `None` if none is queued.
    pub fn try_recv(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.source.as_mut().and_then(Iterator::next) {
                return Some(line);
            }
            match self.parts.try_recv().ok()? {
                AnswerPart::Line(line) => return Some(line),
                AnswerPart::All(source) => self.source = Some(source),
            }
        }
    }

    /// Waits for the next line. Returns `None` at the end of the response.
    pub async fn recv(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.source.as_mut().and_then(Iterator::next) {
                return Some(line);
            }
            match self.parts.recv().await? {
                AnswerPart::Line(line) => return Some(line),
                AnswerPart::All(source) => self.source = Some(source),
            }
        }
    }
}

/// A control socket in service; dropping this value removes it.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

impl ControlSocket {
    /// Serves requests at `path`. An existing socket belongs to a server that is gone: the caller
    /// holds the lock that allows one server.
    ///
    /// # Errors
    /// Exit code 73 if the socket cannot be made, 77 if its folder is accessible to other users.
    pub fn serve<R, E>(path: &Path, requests: mpsc::Sender<E>) -> Result<Self, Fault>
    where
        R: DeserializeOwned + Send + 'static,
        E: From<ControlRequest<R>> + Send + 'static,
    {
        if let Some(folder) = path.parent() {
            private::make_folder(folder)?;
        }
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(|error| cannot_listen(path, &error))?;
        let mode = std::fs::Permissions::from_mode(SOCKET_MODE);
        std::fs::set_permissions(path, mode).map_err(|error| cannot_listen(path, &error))?;
        let task = tokio::spawn(accept_askers::<R, E>(listener, requests));
        Ok(Self { path: path.to_path_buf(), task })
    }
}

fn cannot_listen(path: &Path, error: &std::io::Error) -> Fault {
    let text = format!("the control socket {} cannot be made: {error}", path.display());
    Fault::new(Exit::CannotWrite, text, "choose a folder of your own")
}

async fn accept_askers<R, E>(listener: UnixListener, requests: mpsc::Sender<E>)
where
    R: DeserializeOwned + Send + 'static,
    E: From<ControlRequest<R>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(ASKERS_MAX));
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Out of file descriptors: try again soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            // Refuse at once instead of letting the command wait for others to end.
            let busy = Fault::new(Exit::Busy, "too many commands wait here", "end some of them");
            let _ = stream.write_all(format!("{}\n", fault_line(&busy)).as_bytes()).await;
            continue;
        };
        let requests = requests.clone();
        tokio::spawn(async move {
            serve_asker::<R, E>(stream, requests).await;
            drop(place);
        });
    }
}

/// Serves one connection: a request and its response.
async fn serve_asker<R, E>(stream: UnixStream, requests: mpsc::Sender<E>)
where
    R: DeserializeOwned,
    E: From<ControlRequest<R>>,
{
    let known = stream.peer_cred().is_ok_and(|peer| is_known(peer.uid()));
    let (reader, mut writer) = stream.into_split();
    let (answer, mut lines) = ControlAnswer::make_channel();
    let mut line = String::new();
    let mut reader = AsyncBufReader::new(reader.take(LINE_BYTES_MAX));
    let read = timeout(REQUEST_WAIT, reader.read_line(&mut line)).await;
    match serde_json::from_str(&line) {
        _ if !known => answer.end_with(&Fault::new(
            Exit::Denied,
            "this server answers root and its own user alone",
            "ask it as the user it runs as",
        )),
        Ok(asked) if matches!(read, Ok(Ok(_))) => {
            let request = ControlRequest { asked, answer };
            if requests.send(E::from(request)).await.is_err() {
                return;
            }
        }
        _ => answer.end_with(&Fault::new(
            Exit::Malformed,
            "the request is not one JSON object of this version",
            "use the `mezza` of the version that runs",
        )),
    }
    // Read in parallel, so that a closed client is noticed before the next line.
    let mut rest = [0; 1];
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) if writer.write_all(format!("{line}\n").as_bytes()).await.is_ok() => {}
                _ => return,
            },
            read = reader.read(&mut rest) => if !matches!(read, Ok(1..)) { return },
        }
    }
}

/// Returns the line of a fault.
fn fault_line(fault: &Fault) -> Value {
    json!({ "error": fault.text, "next": fault.next, "exit": fault.code.number() })
}

fn is_known(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Returns true if a command may send a request to a server of this user: root's or our own; for
/// root any, since root could read the request anyway.
fn is_trusted(uid: u32) -> bool {
    is_known(uid) || geteuid().is_root()
}

/// The response of a server, line by line, for a command that waits for it.
pub struct ControlLines(BufReader<BlockingStream>);

/// Sends a request to the server at `path`; `next` tells how to start one.
///
/// # Errors
/// Exit code 69 if no server responds.
pub fn ask_server(
    path: &Path,
    request: &impl Serialize,
    next: &str,
) -> Result<ControlLines, Fault> {
    let absent = |_| {
        let text = format!("no daemon listens at {}", path.display());
        Fault::new(Exit::Unreachable, text, next)
    };
    let mut stream = BlockingStream::connect(path).map_err(absent)?;
    if !peer_user(&stream).is_some_and(is_trusted) {
        // Any user can make a socket in a world-writable folder.
        let text = format!("{} is served by a process of another user", path.display());
        return Err(Fault::new(Exit::Denied, text, "name the folder of your own server"));
    }
    let line = serde_json::to_string(request).map_err(|error| Fault::bug(error.to_string()))?;
    writeln!(stream, "{line}").map_err(absent)?;
    Ok(ControlLines(BufReader::new(stream)))
}

impl ControlLines {
    /// Limits the time to wait for each line. A server that takes longer is taken as ended.
    ///
    /// # Errors
    /// A duration of zero.
    pub fn limit_wait(self, wait: Duration) -> Result<Self, Fault> {
        let limited = self.0.get_ref().set_read_timeout(Some(wait));
        limited.map_err(|error| Fault::bug(error.to_string()))?;
        Ok(self)
    }
}

impl Iterator for ControlLines {
    type Item = Result<Value, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(parse_line(&line)),
        }
    }
}

/// Parses a line of a response, or returns the fault that it contains.
fn parse_line(line: &str) -> Result<Value, Fault> {
    let value: Value = serde_json::from_str(line).map_err(|_| {
        let text = "the daemon answers something that is no line of JSON";
        Fault::new(Exit::Malformed, text, "use the `mezza` of the version that runs")
    })?;
    unwrap_answer(value)
}

/// Returns a value of a response, or the fault that it contains.
pub fn unwrap_answer(value: Value) -> Result<Value, Fault> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match (text("error"), text("next")) {
        (Some(error), Some(next)) => {
            let code = value.get("exit").and_then(Value::as_u64).and_then(Exit::of_number);
            Err(Fault::new(code.unwrap_or(Exit::Bug), error, next))
        }
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Asked = ControlRequest<Vec<u32>>;

    /// Starts a server that responds to each number of a list with a line, and to an empty list
    /// with a fault.
    fn server(path: &Path) -> ControlSocket {
        let (sender, mut requests) = mpsc::channel::<Asked>(4);
        tokio::spawn(async move {
            while let Some(ControlRequest { asked, answer }) = requests.recv().await {
                if asked.is_empty() {
                    answer.send_fault(&Fault::new(
                        Exit::NotFound,
                        "nothing is asked",
                        "ask something",
                    ));
                }
                for number in &asked {
                    assert!(answer.send_line(number));
                }
            }
        });
        ControlSocket::serve::<Vec<u32>, Asked>(path, sender).expect("a socket")
    }

    fn answer(path: &Path, request: &impl Serialize) -> Vec<Result<Value, Fault>> {
        match ask_server(path, request, "start it") {
            Ok(lines) => lines.collect(),
            Err(fault) => vec![Err(fault)],
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_gets_its_lines_a_fault_or_a_refusal() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/control.sock");
        let served = server(&path);
        let lines = answer(&path, &[3, 4]);
        assert_eq!(lines, [Ok(json!(3)), Ok(json!(4))]);
        let empty = answer(&path, &[0_u32; 0]);
        assert_eq!(empty, [Err(Fault::new(Exit::NotFound, "nothing is asked", "ask something"))]);
        let wrong = answer(&path, &"no list");
        assert_eq!(wrong[0].as_ref().map_err(|fault| fault.code), Err(Exit::Malformed));
        let long = answer(&path, &vec![1_000_000_u32; 20_000]);
        assert!(long.first().is_none_or(Result::is_err), "{long:?}");
        drop(served);
        let gone = answer(&path, &[1]);
        assert_eq!(gone[0].as_ref().map_err(|fault| fault.code), Err(Exit::Unreachable));
    }
}
