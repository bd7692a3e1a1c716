//! Streams over TCP: a frame is its length as u16 and its bytes. They carry frames that are too
//! large for a cast link. The stream itself is not encrypted: a closed network authenticates its
//! frames, and cells are sealed in any case.
//!
//! A stream stays on one link: its socket is bound to the interface, and its packets have hop limit
//! 1, so that no router forwards its packets (MESH-75).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mezza_mesh::limits::STREAM_BYTES_MAX;
use mezza_mesh::node::LinkKind;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::link::{FramePeer, LinkSender, MeshLinkEvent, StreamFrames, StreamLink};

/// How old a frame usually is when it arrives, µs.
const DELAY_US: u64 = 1_000;
/// Time limits for connecting to a peer, and for reading or writing a frame.
const REACH: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(30);
/// Maximum number of incoming streams. The node accepts fewer and closes the rest at once.
const INCOMING_MAX: usize = 16;

/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 16;

/// Returns the permits for incoming streams, shared by all links.
pub(super) fn incoming_places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(INCOMING_MAX))
}

/// The listener for streams on one link. Dropping it closes the port.
pub(super) struct StreamDoor {
    task: JoinHandle<()>,
}

impl StreamDoor {
    /// Listens for streams of one address family on an interface.
    ///
    /// # Errors
    /// If the system refuses the port on this interface.
    pub(super) fn open(
        device: &str,
        any: SocketAddr,
        places: &Arc<Semaphore>,
        sender: &LinkSender,
    ) -> io::Result<Self> {
        let socket = make_socket(device, any)?;
        socket.bind(&any.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        let task = tokio::spawn(accept_streams(listener, Arc::clone(places), sender.clone()));
        Ok(Self { task })
    }
}

impl Drop for StreamDoor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the unspecified address of a family with this port.
pub(super) fn any_address(v6: bool, port: u16) -> SocketAddr {
    if v6 { (Ipv6Addr::UNSPECIFIED, port).into() } else { (Ipv4Addr::UNSPECIFIED, port).into() }
}

/// Tries whether the port is free for streams.
///
/// # Errors
/// The error of the system, if another program has the port for IPv6 or IPv4.
pub(super) fn try_port(port: u16) -> io::Result<()> {
    match std::net::TcpListener::bind(any_address(true, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // The kernel has no IPv6.
        Err(_) => std::net::TcpListener::bind(any_address(false, port)).map(|_| ()),
    }
}

/// Makes a socket of one interface whose packets do not leave the link.
fn make_socket(device: &str, family: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(family), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if family.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_unicast_hops_v6(1)?;
    } else {
        socket.set_ttl_v4(1)?;
    }
    // On other systems only the hop limit keeps packets on the link.
    #[cfg(target_os = "linux")]
    socket.bind_device(Some(device.as_bytes()))?;
    #[cfg(not(target_os = "linux"))]
    let _ = device;
    Ok(socket)
}

async fn accept_streams(listener: TcpListener, places: Arc<Semaphore>, sender: LinkSender) {
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors: the stream waits.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let sender = sender.clone();
        tokio::spawn(async move {
            carry_stream(stream, peer, sender).await;
            drop(place);
        });
    }
}

/// Opens a stream on an interface; if this fails, a later beacon triggers the next attempt.
pub(super) fn dial_stream(device: &str, to: SocketAddr, sender: LinkSender) {
    let Ok(socket) = make_socket(device, to) else { return };
    tokio::spawn(async move {
        let socket = TcpSocket::from_std_stream(socket.into());
        if let Ok(Ok(stream)) = timeout(REACH, socket.connect(to)).await {
            carry_stream(stream, to, sender).await;
        }
    });
}

/// Carries frames in both directions until one side closes the stream.
async fn carry_stream(stream: TcpStream, peer: SocketAddr, sender: LinkSender) {
    let _ = stream.set_nodelay(true);
    let words = format!("stream to {}", peer.ip());
    let (frames, outgoing) = StreamLink::new(LinkKind::Stream, DELAY_US, words);
    let link = sender.next_number();
    let from = FramePeer::Ip(peer);
    if !sender.send_event(MeshLinkEvent::Up { link, peer: from, frames: Box::new(frames) }).await {
        return;
    }
    let (reader, writer) = stream.into_split();
    let reads = async {
        let mut reader = reader;
        while let Some(bytes) = read_frame(&mut reader).await {
            if !sender.send_event(MeshLinkEvent::Frame { link, from, bytes }).await {
                return;
            }
        }
    };
    tokio::select! {
        () = reads => (),
        () = write_all(writer, outgoing) => (),
    }
    sender.send_event(MeshLinkEvent::Down { link }).await;
}

/// Reads the next frame. Its length is checked against the maximum before any allocation.
async fn read_frame(reader: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let size = usize::from(timeout(QUIET, reader.read_u16()).await.ok()?.ok()?);
    if size == 0 || size > STREAM_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; size];
    timeout(QUIET, reader.read_exact(&mut bytes)).await.ok()?.ok()?;
    Some(bytes)
}

async fn write_all(mut writer: OwnedWriteHalf, mut outgoing: StreamFrames) {
    while let Some(frame) = outgoing.next_frame().await {
        let Ok(size) = u16::try_from(frame.len()) else { continue };
        let bytes = [&size.to_be_bytes()[..], &frame].concat();
        match timeout(QUIET, writer.write_all(&bytes)).await {
            Ok(Ok(())) => outgoing.mark_written(),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shell::MeshEvent;
    use super::*;
    use tokio::sync::mpsc;

    async fn next(events: &mut mpsc::Receiver<MeshEvent>) -> MeshLinkEvent {
        match timeout(REACH, events.recv()).await.unwrap() {
            Some(MeshEvent::Link(event)) => event,
            other => panic!("{}", other.is_some()),
        }
    }

    #[tokio::test]
    async fn frames_cross_both_ways_and_a_length_that_cannot_be_ends_it() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let [(one, mut one_hears), (other, mut other_hears)] = [(); 2].map(|()| {
            let (events, hears) = mpsc::channel(8);
            (LinkSender::new(events), hears)
        });
        let door =
            StreamDoor::open("lo", any_address(false, port), &incoming_places(), &one).unwrap();
        dial_stream("lo", SocketAddr::from(([127, 0, 0, 1], port)), other);
        let MeshLinkEvent::Up { frames: mut to_other, .. } = next(&mut one_hears).await else {
            panic!("up")
        };
        let MeshLinkEvent::Up { frames: mut to_one, .. } = next(&mut other_hears).await else {
            panic!("up")
        };
        to_other.send_frame(vec![1; STREAM_BYTES_MAX]);
        to_one.send_frame(vec![2; 7]);
        for (hears, size) in [(&mut other_hears, STREAM_BYTES_MAX), (&mut one_hears, 7)] {
            let MeshLinkEvent::Frame { bytes, .. } = next(hears).await else { panic!("a frame") };
            assert_eq!(bytes.len(), size);
        }
        assert_eq!((to_other.take_sent_count(), to_other.take_sent_count()), (1, 0));
        drop(to_one);
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Down { .. }));
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Up { .. }));
        stranger.write_all(&[0xff, 0xff, 1]).await.unwrap();
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Down { .. }));
        drop(door);
    }
}
