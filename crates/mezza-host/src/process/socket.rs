//! Options of long-lived TCP connections.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long sent bytes may stay unacknowledged, and how long a silent peer may leave probes without
/// a response. The Linux defaults are a quarter of an hour and for ever.
const SILENCE: Duration = Duration::from_secs(20);
/// Silence after which probes begin. Clients of a relay and members of a mixnet send at least every
/// 55 s, so only absent peers are probed. Probes every 5 s would cost a client 140 MB a month.
const QUIET: Duration = Duration::from_secs(60);
/// Interval between two probes.
const PROBE: Duration = Duration::from_secs(5);
/// Unanswered probes that end a connection.
const PROBES: u32 = 3;

/// Makes the system end the connection once the peer is gone, and send small frames at once. If the
/// system refuses an option, only the deadlines of machines and some speed are lost.
pub fn set_lasting_options(socket: &TcpStream) {
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
