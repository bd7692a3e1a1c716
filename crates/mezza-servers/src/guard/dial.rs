//! Connections of a guard to destinations and clients.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use mezza_core::Time;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit for a connection, below that of a handshake.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The limit of connections to each destination: how often a client connects is a channel too, so
/// there are few of them (GUARD-51).
#[derive(Debug)]
pub(crate) struct DialBudget {
    burst: u32,
    pause_ms: u64,
    /// For each destination in use, the time when its whole burst is available again.
    full_at: BTreeMap<u16, Time>,
}

impl DialBudget {
    /// Makes a limit of `burst` connections at once, then one for each pause.
    pub(crate) fn new(burst: u32, pause_s: u64) -> Self {
        Self { burst, pause_ms: pause_s.saturating_mul(1_000), full_at: BTreeMap::new() }
    }

    /// Takes one connection from the budget of a destination. Returns false if there is none now.
    pub(crate) fn take_one(&mut self, dest: u16, now: Time) -> bool {
        let full_at = self.full_at.entry(dest).or_insert(now);
        let owed_ms = full_at.since_ms(now);
        let allowed_ms = self.pause_ms.saturating_mul(u64::from(self.burst.saturating_sub(1)));
        // Each connection delays the time when the budget is full by one pause.
        if owed_ms > allowed_ms {
            return false;
        }
        *full_at = now.plus_ms(owed_ms.saturating_add(self.pause_ms));
        true
    }
}

/// Waits for the next multiple of the tick, so that the time of a connection shows one bit only.
pub(crate) async fn wait_for_tick(tick_ms: u64, now: Time) {
    if tick_ms > 0 {
        let left = tick_ms - now.as_ms() % tick_ms;
        tokio::time::sleep(Duration::from_millis(left)).await;
    }
}

/// Connects to a host. Names are resolved by this machine, never by the client.
///
/// # Errors
/// If the name is not known, or the host does not answer within 5 s.
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect((host, port));
    let socket = timeout(CONNECT_WAIT, connecting).await.map_err(|_| io::ErrorKind::TimedOut)??;
    socket.set_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_51_four_connections_at_once_then_one_each_half_minute() {
        let mut budget = DialBudget::new(4, 30);
        let mut now = Time::from_ms(1_000_000);
        let taken = (0..9).filter(|_| budget.take_one(1, now)).count();
        assert_eq!(taken, 4);
        assert!(budget.take_one(2, now), "each destination has its own");
        now = now.plus_ms(29_999);
        assert!(!budget.take_one(1, now));
        now = now.plus_ms(1);
        assert!(budget.take_one(1, now) && !budget.take_one(1, now));
        now = now.plus_ms(3_600_000);
        assert_eq!((0..9).filter(|_| budget.take_one(1, now)).count(), 4);
    }
}
