//! Options of TCP connections that last.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long sent bytes may stay without an acknowledgement, and how long a silent peer may stay without
/// an answer to a probe. By itself Linux waits a quarter of an hour for the first and for ever for the
/// second.
const SILENCE: Duration = Duration::from_secs(20);
/// Silence after which probes begin. Clients of a relay and members of a mixnet send at least every 55 s, so
/// that only connections of absent peers are probed: probes every 5 s cost a client 140 MB a month.
const QUIET: Duration = Duration::from_secs(60);
/// Between two probes.
const PROBE: Duration = Duration::from_secs(5);
/// Probes without an answer that end a connection.
const PROBES: u32 = 3;

/// Has the system end this connection once the peer is gone without a word, and send small frames at
/// once. Where the system refuses an option, the machines' own deadlines and less speed are left.
pub(crate) fn set_lasting_options(socket: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(QUIET).with_interval(PROBE).with_retries(PROBES);
    let options = SockRef::from(socket);
    drop(options.set_tcp_keepalive(&keepalive));
    drop(options.set_tcp_user_timeout(Some(SILENCE)));
    drop(socket.set_nodelay(true));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn mix_75_the_system_watches_a_silent_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (here, there) = tokio::join!(TcpStream::connect(address), listener.accept());
        for socket in [here.unwrap(), there.unwrap().0] {
            set_lasting_options(&socket);
            let options = SockRef::from(&socket);
            assert!(options.keepalive().unwrap() && options.tcp_nodelay().unwrap());
            assert_eq!(options.tcp_keepalive_time().unwrap(), QUIET);
            assert_eq!(options.tcp_user_timeout().unwrap(), Some(SILENCE));
        }
    }
}
