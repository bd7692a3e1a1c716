//! Streams over TCP: a frame is its length as u16 and its bytes. They carry what is too large for a cast
//! link, in the open: a closed network checks its frames, and cells are sealed in any case.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mezza_mesh::limits::STREAM_BYTES_MAX;
use mezza_mesh::node::LinkKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::link::{FramePeer, LinkSender, MeshLinkEvent, StreamFrames, StreamLink};

/// How old a frame usually is when it arrives, µs.
const DELAY_US: u64 = 1_000;
/// How long a peer may take to be reached, to say something, and to take a frame.
const REACH: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(30);
/// Incoming streams at a time: the node takes fewer, and the others end at once.
const INCOMING_MAX: usize = 16;

/// Takes streams until the task is aborted.
pub(super) fn listen(port: u16, sender: LinkSender) -> io::Result<tokio::task::JoinHandle<()>> {
    let listener = std::net::TcpListener::bind(("::", port))
        .or_else(|_| std::net::TcpListener::bind(("0.0.0.0", port)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(INCOMING_MAX));
    Ok(tokio::spawn(async move {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let sender = sender.clone();
            tokio::spawn(async move {
                carry(stream, peer, sender).await;
                drop(place);
            });
        }
    }))
}

/// Opens a stream; one that cannot be opened is tried again at a later beacon.
pub(super) fn dial(to: SocketAddr, sender: LinkSender) {
    tokio::spawn(async move {
        if let Ok(Ok(stream)) = timeout(REACH, TcpStream::connect(to)).await {
            carry(stream, to, sender).await;
        }
    });
}

/// Carries frames both ways until one side ends it.
async fn carry(stream: TcpStream, peer: SocketAddr, sender: LinkSender) {
    let _ = stream.set_nodelay(true);
    let words = format!("stream to {}", peer.ip());
    let (frames, outgoing) = StreamLink::new(LinkKind::Stream, DELAY_US, words);
    let (link, from) = (sender.number(), FramePeer::Ip(peer));
    if !sender.tell(MeshLinkEvent::Up { link, peer: from, frames: Box::new(frames) }).await {
        return;
    }
    let (reader, writer) = stream.into_split();
    let reads = async {
        let mut reader = reader;
        while let Some(bytes) = read(&mut reader).await {
            if !sender.tell(MeshLinkEvent::Frame { link, from, bytes }).await {
                return;
            }
        }
    };
    tokio::select! {
        () = reads => (),
        () = write_all(writer, outgoing) => (),
    }
    sender.tell(MeshLinkEvent::Down { link }).await;
}

/// The next frame. Its length is compared with the largest before anything is allocated.
async fn read(reader: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let size = usize::from(timeout(QUIET, reader.read_u16()).await.ok()?.ok()?);
    if size == 0 || size > STREAM_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; size];
    timeout(QUIET, reader.read_exact(&mut bytes)).await.ok()?.ok()?;
    Some(bytes)
}

async fn write_all(mut writer: OwnedWriteHalf, mut outgoing: StreamFrames) {
    while let Some(frame) = outgoing.next().await {
        let Ok(size) = u16::try_from(frame.len()) else { continue };
        let bytes = [&size.to_be_bytes()[..], &frame].concat();
        match timeout(QUIET, writer.write_all(&bytes)).await {
            Ok(Ok(())) => outgoing.written(),
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
        let listening = listen(port, one).unwrap();
        dial(SocketAddr::from(([127, 0, 0, 1], port)), other);
        let MeshLinkEvent::Up { frames: mut to_other, .. } = next(&mut one_hears).await else {
            panic!("up")
        };
        let MeshLinkEvent::Up { frames: mut to_one, .. } = next(&mut other_hears).await else {
            panic!("up")
        };
        to_other.send(vec![1; STREAM_BYTES_MAX]);
        to_one.send(vec![2; 7]);
        for (hears, size) in [(&mut other_hears, STREAM_BYTES_MAX), (&mut one_hears, 7)] {
            let MeshLinkEvent::Frame { bytes, .. } = next(hears).await else { panic!("a frame") };
            assert_eq!(bytes.len(), size);
        }
        assert_eq!((to_other.left(), to_other.left()), (1, 0));
        drop(to_one);
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Down { .. }));
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Up { .. }));
        stranger.write_all(&[0xff, 0xff, 1]).await.unwrap();
        assert!(matches!(next(&mut one_hears).await, MeshLinkEvent::Down { .. }));
        listening.abort();
    }
}
