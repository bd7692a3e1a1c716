use mezza_mixnet::wire::frame::VERSION;
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

/// One end of a link, and its other end as a stream.
struct Side {
    other: DuplexStream,
    outbox: FrameSender,
    frames: mpsc::Receiver<Frame>,
    link: JoinHandle<End>,
}

fn link(size: FrameSizeClass) -> Side {
    let (stream, other) = duplex(1 << 20);
    let (outbox, parcels) = mpsc::channel(8);
    let (events, frames) = mpsc::channel(8);
    let link =
        tokio::spawn(async move { carry_frames(stream, size, parcels, &events, |f| f).await });
    Side { other, outbox, frames, link }
}

fn hello(n: u8) -> Frame {
    Frame::Hello { version: VERSION, config: [n; 32] }
}

/// Makes a frame of type 04 with `bytes` bytes after the length field.
fn config(bytes: usize) -> Vec<u8> {
    Frame::Config { left: 0, config: vec![7; bytes - 12] }.encode().unwrap()
}

#[tokio::test]
async fn frames_come_in_order_and_what_was_sent_leaves_before_the_end() {
    let mut side = link(FrameSizeClass::Short);
    let sent = [hello(1), hello(2)].map(|frame| frame.encode().unwrap()).concat();
    for byte in sent {
        side.other.write_all(&[byte]).await.unwrap();
    }
    assert_eq!(
        [side.frames.recv().await, side.frames.recv().await],
        [1, 2].map(|n| Some(hello(n)))
    );
    let shared: Arc<[u8]> = hello(3).encode().unwrap().into();
    side.outbox.try_send(FrameBytes::Shared(shared)).unwrap();
    side.outbox.try_send(make_parcel(hello(4)).unwrap()).unwrap();
    drop(side.outbox);
    assert_eq!(side.link.await.unwrap(), End::Left);
    let mut all = Vec::new();
    side.other.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, [hello(3), hello(4)].map(|frame| frame.encode().unwrap()).concat());
}

#[tokio::test]
async fn mix_12_a_link_takes_no_frame_that_its_position_has_not() {
    for (size, bytes, taken) in [
        (FrameSizeClass::Short, SHORT_FRAME_BYTES_MAX, true),
        (FrameSizeClass::Short, SHORT_FRAME_BYTES_MAX + 1, false),
        (FrameSizeClass::Long, SHORT_FRAME_BYTES_MAX + 1, true),
        (FrameSizeClass::LongAndMany, FRAME_BYTES_MAX, true),
    ] {
        let mut side = link(size);
        side.other.write_all(&config(bytes)).await.unwrap();
        if taken {
            assert!(side.frames.recv().await.is_some(), "{size:?} {bytes}");
        } else {
            assert_eq!(side.link.await.unwrap(), End::Length, "{size:?} {bytes}");
        }
    }
}

#[tokio::test]
async fn what_is_no_frame_ends_the_link_and_says_its_type() {
    let mut unknown = hello(1).encode().unwrap();
    unknown[LENGTH_BYTES] = 0x77;
    let mut side = link(FrameSizeClass::Long);
    side.other.write_all(&unknown).await.unwrap();
    assert_eq!(side.link.await.unwrap(), End::Malformed(0x77));
    assert!(End::Malformed(0x77).is_mischief() && !End::Gone.is_mischief());
    let side = link(FrameSizeClass::Long);
    drop(side.other);
    assert_eq!(side.link.await.unwrap(), End::Gone);
}
