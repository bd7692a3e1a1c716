//! Events over a WebSocket.
//!
//! ```text
//! client -> {"bearer": "..", "since": 17}     within 2 s, else closed with 4401; over the socket in
//!                                           `run/` the bearer counts for nothing
//! server -> what was missed, or {"kind":"reload", "cursor": 40} if that is not kept: read everything
//!           again, and go on from there; then one frame per event
//! server -> {"kind":"reload"} and 4408 if the client lags
//! ```

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;

use super::Web;
use super::seats::Caller;
use crate::node::event_log::{Listener, plain_event};
use mezza_host::api::json::{EventJson, EventKind};

/// Close code: the bearer is unknown.
const UNKNOWN: u16 = 4_401;
/// Close code: the client reads too slowly.
const LAGGED: u16 = 4_408;
/// Close code: going away (RFC 6455, 7.4.1).
const AWAY: u16 = 1_001;
/// Time limit for the client's first frame.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum size of a client's frame, in bytes.
const FRAME_BYTES_MAX: usize = 4_096;

/// The first frame of a client.
#[derive(Deserialize)]
struct Hello {
    bearer: String,
    since: Option<u64>,
}

/// Serves the WebSocket of events.
pub(crate) async fn listen(
    State(web): State<Web>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = upgrade.max_message_size(FRAME_BYTES_MAX).max_frame_size(FRAME_BYTES_MAX);
    upgrade.on_upgrade(move |socket| serve_socket(web, caller, socket))
}

async fn serve_socket(web: Web, caller: Caller, mut socket: WebSocket) {
    let first = tokio::time::timeout(PATIENCE, socket.recv()).await;
    let hello = match first {
        Ok(Some(Ok(Message::Text(text)))) => serde_json::from_str::<Hello>(&text).ok(),
        _ => None,
    };
    let is_known = |hello: &Hello| caller.is_owner || web.auth.use_bearer(&hello.bearer);
    let Some(hello) = hello.filter(is_known) else {
        return close_socket(socket, UNKNOWN, "bearer").await;
    };
    caller.seat.allow_silence();
    let listener = web.node.events().listen(hello.since);
    let mut stop = web.stop.subscribe();
    let stopped = tokio::select! {
        () = send_events(&mut socket, listener) => false,
        // The returned guard would hold the channel's lock; drop it, since only its arrival
        // matters.
        () = async { drop(stop.wait_for(|stop| *stop).await) } => true,
    };
    if stopped {
        close_socket(socket, AWAY, "stopping").await;
    }
}

async fn send_events(socket: &mut WebSocket, listener: Listener) {
    let Listener { missed, mut live } = listener;
    for event in &missed {
        if send_event(socket, event).await.is_err() {
            return;
        }
    }
    loop {
        tokio::select! {
            event = live.recv() => match event {
                Ok(event) => {
                    if send_event(socket, &event).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    let _ = send_event(socket, &plain_event(EventKind::Reload)).await;
                    let _ = socket.send(close_message(LAGGED, "reload")).await;
                    return;
                }
                Err(RecvError::Closed) => return,
            },
            // Pings are answered inside `recv`; other frames are ignored.
            frame = socket.recv() => match frame {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

async fn send_event(socket: &mut WebSocket, event: &EventJson) -> Result<(), axum::Error> {
    let text = serde_json::to_string(event).map_err(axum::Error::new)?;
    socket.send(Message::Text(text.into())).await
}

async fn close_socket(mut socket: WebSocket, code: u16, reason: &'static str) {
    let _ = socket.send(close_message(code, reason)).await;
}

fn close_message(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }))
}
