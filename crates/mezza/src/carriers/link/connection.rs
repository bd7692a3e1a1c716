//! One connection to another device: frames in both directions, until one side ends it.

use std::io;
use std::net::SocketAddrV6;
use std::time::Duration;

use mezza_messenger::ContactId;
use mezza_messenger::carriers::link::{LinkConnection, LinkReport, StreamDeframer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{ConnectionReport, Means};
use mezza_host::process::socket::set_lasting_options;

/// Time limit of a dial, and of sending one frame.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const READ_BYTES: usize = 4_096;

/// Dials an address and serves the connection.
pub(super) async fn dial<E: From<ConnectionReport>>(
    contact: ContactId,
    address: String,
    means: Means<E>,
) {
    if let Ok(Ok(stream)) = timeout(PATIENCE, connect(&address)).await {
        serve(stream, Some(contact), &means).await;
    } else {
        tracing::debug!("a paired device is not reached");
        means.report_event(LinkReport::DialFailed { contact }).await;
    }
}

/// Connects to `host:port`. An address of IPv6 may name its interface: `[fe80::2%eth0]:4796`.
async fn connect(address: &str) -> io::Result<TcpStream> {
    match read_scoped(address) {
        Some(at) => TcpStream::connect(at?).await,
        None => TcpStream::connect(address).await,
    }
}

/// Reads an address with the name of an interface, or returns `None` for one without. The system's
/// resolver takes no brackets, and the standard library only the number of an interface.
fn read_scoped(address: &str) -> Option<io::Result<SocketAddrV6>> {
    let (inside, port) = address.strip_prefix('[')?.split_once("]:")?;
    let (ip, interface) = inside.split_once('%')?;
    let ip = ip.parse().ok()?;
    let port = port.parse().ok()?;
    let number = match interface.parse() {
        Ok(number) => Ok(number),
        Err(_) => nix::net::if_::if_nametoindex(interface).map_err(io::Error::from),
    };
    Some(number.map(|number| SocketAddrV6::new(ip, port, 0, number)))
}

/// Serves a connection until one side ends it.
pub(super) async fn serve<E: From<ConnectionReport>>(
    stream: TcpStream,
    dialled: Option<ContactId>,
    means: &Means<E>,
) {
    set_lasting_options(&stream);
    let (connection, queue) = means.lines.add();
    if means.report_event(LinkReport::Opened { connection, dialled }).await {
        let (read, write) = stream.into_split();
        tokio::select! {
            // The device has closed the connection, or the peer does not read.
            () = send_frames(write, queue) => {}
            () = read_frames(read, connection, means) => {}
        }
    }
    // A connection that the device has closed is not reported: it is no more in the table.
    if means.lines.remove(connection) {
        means.report_event(LinkReport::Closed { connection }).await;
    }
}

/// Sends queued frames until the queue is closed or the peer does not read.
async fn send_frames(mut write: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if !matches!(timeout(PATIENCE, write.write_all(&bytes)).await, Ok(Ok(()))) {
            return;
        }
    }
    let _ = timeout(PATIENCE, write.shutdown()).await;
}

/// Reads frames until the stream ends or is malformed.
async fn read_frames<E: From<ConnectionReport>>(
    mut read: OwnedReadHalf,
    connection: LinkConnection,
    means: &Means<E>,
) {
    let mut deframer = StreamDeframer::default();
    let mut buffer = [0; READ_BYTES];
    while let Ok(bytes @ 1..) = read.read(&mut buffer).await {
        let mut input = &buffer[..bytes];
        loop {
            match deframer.next_frame(&mut input) {
                Ok(Some(bytes)) => {
                    // A faster sender waits: TCP flow control holds it back (MSG-77).
                    means.pace.wait_for_frame().await;
                    if !means.report_event(LinkReport::Frame { connection, bytes }).await {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_its_interface() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        for scope in ["lo", &lo.to_string()] {
            let at = read_scoped(&format!("[fe80::2%{scope}]:4796")).unwrap().unwrap();
            assert_eq!(at, SocketAddrV6::new("fe80::2".parse().unwrap(), 4_796, 0, lo));
        }
        assert!(read_scoped("[fe80::2%nowhere0]:4796").unwrap().is_err());
        for plain in ["[fe80::2]:4796", "10.9.0.2:4796", "ben.local:1", "fe80::2%lo", "[x%lo]:1"] {
            assert!(read_scoped(plain).is_none(), "{plain}");
        }
    }
}
