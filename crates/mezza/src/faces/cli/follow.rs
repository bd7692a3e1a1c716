//! Following events: the WebSocket client for `send --wait` and `log -f`.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;
use tungstenite::client::{IntoClientRequest, client};
use tungstenite::{Error, Message, WebSocket};

use super::client::ApiClient;
use super::show;
use mezza_host::api::json::EventJson;
use mezza_host::api::{Exit, Fault};

/// Time limit for the handshake with the node.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open line of events.
pub struct Follower {
    socket: WebSocket<UnixStream>,
}

impl Follower {
    /// Subscribes to events; none is missed from now on.
    ///
    /// # Errors
    /// If the node is gone.
    pub fn open_on(client: &ApiClient) -> Result<Self, Fault> {
        let socket = open_events(client).ok_or_else(gone_fault)?;
        Ok(Self { socket })
    }

    /// Passes each event to `on` until `on` breaks. Returns `None` if `patience` has passed.
    ///
    /// # Errors
    /// If the node ends meanwhile.
    pub fn follow_until<T>(
        mut self,
        patience: Option<Duration>,
        mut on: impl FnMut(&EventJson) -> ControlFlow<T>,
    ) -> Result<Option<T>, Fault> {
        let end = patience.map(|patience| Instant::now() + patience);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.socket.get_ref().set_read_timeout(left).map_err(|_| gone_fault())?;
            let Some(event) = next_event(&mut self.socket)? else { continue };
            if show::is_over() {
                return Ok(None);
            }
            if let ControlFlow::Break(value) = on(&event) {
                return Ok(Some(value));
            }
        }
    }
}

fn open_events(node: &ApiClient) -> Option<WebSocket<UnixStream>> {
    let stream = node.open_socket().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = "ws://localhost/v1/events".into_client_request().ok()?;
    let (mut socket, _) = client(request, stream).ok()?;
    // The kernel identifies our user to the node, so no bearer is needed.
    let hello = json!({ "bearer": "" }).to_string();
    socket.send(Message::text(hello)).ok()?;
    // The node responds to a ping only after it has subscribed us: no event is missed from here on.
    socket.send(Message::Ping(Vec::new().into())).ok()?;
    loop {
        match socket.read().ok()? {
            Message::Pong(_) => return Some(socket),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Returns the next event, or `None` for a frame without an event or at the time limit.
fn next_event(socket: &mut WebSocket<UnixStream>) -> Result<Option<EventJson>, Fault> {
    match socket.read() {
        Ok(Message::Text(text)) => Ok(serde_json::from_str(&text).ok()),
        Ok(Message::Close(_)) => Err(gone_fault()),
        Ok(_) => Ok(None),
        Err(Error::Io(error)) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(None),
            _ => Err(gone_fault()),
        },
        Err(_) => Err(gone_fault()),
    }
}

fn gone_fault() -> Fault {
    Fault::new(Exit::Unreachable, "the node went away", "start it again with `mezza node run`")
}
