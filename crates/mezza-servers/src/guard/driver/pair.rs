//! A connection pair: the side that came first, and the side that the guard has connected.

use std::sync::Arc;

use mezza_guard::guard::{GuardConnection, GuardSide};
use tokio::net::TcpStream;

use mezza_host::process::limiter::ConnectionPermit;

use super::super::side::{PairState, Side, SideContext, SidePlace, end_pair};

/// A pair of sockets.
pub(super) struct Pair {
    first: GuardSide,
    inside: Option<Side>,
    wire: Option<Side>,
    state: Arc<PairState>,
    permit: Option<Arc<ConnectionPermit>>,
}

impl Pair {
    /// Makes an empty pair whose first side was accepted under this permit.
    pub(super) fn new(first: GuardSide, permit: Option<Arc<ConnectionPermit>>) -> Self {
        Self { first, inside: None, wire: None, state: Arc::default(), permit }
    }

    /// Starts the tasks of a side.
    pub(super) fn add_side(
        &mut self,
        context: &SideContext,
        conn: GuardConnection,
        side: GuardSide,
        socket: TcpStream,
    ) {
        let permit = self.permit.clone().filter(|_| side == self.first);
        let place = SidePlace { conn, side, state: Arc::clone(&self.state), permit };
        let started = Side::start(context, place, socket);
        match side {
            GuardSide::Inside => self.inside = Some(started),
            GuardSide::Wire => self.wire = Some(started),
        }
    }

    /// Returns the side that the guard connects.
    pub(super) fn missing_side(&self) -> GuardSide {
        if self.first == GuardSide::Inside { GuardSide::Wire } else { GuardSide::Inside }
    }

    /// Queues a frame. Returns false if the side does not take frames.
    pub(super) fn send_frame(&self, side: GuardSide, frame: Vec<u8>) -> bool {
        let side = if side == GuardSide::Inside { &self.inside } else { &self.wire };
        side.as_ref().is_some_and(|side| side.send_frame(frame))
    }

    /// Lets frames of the link pass without the driver. The handshake is over.
    pub(super) fn begin_pump(&self) {
        if let (Some(inside), Some(wire)) = (&self.inside, &self.wire) {
            self.state.begin_pump([inside.writer(), wire.writer()]);
        }
        if let Some(permit) = &self.permit {
            permit.end_handshake();
        }
    }

    /// Ends both sides after their queued frames.
    pub(super) fn end(self) {
        end_pair(&self.state, self.inside.into_iter().chain(self.wire));
    }
}
