//! A client as frames: it says what a test wants it to say.

use std::collections::VecDeque;
use std::time::Duration;

use mezza::testing::servers::mixnet::client;
use mezza_mixnet::config::Chain;
use mezza_mixnet::wire::frame::VERSION;
use mezza_mixnet::wire::{Frame, FrameBody, LinkDeframer, SignedSettings};
use mezza_mixnet::{RoundId, Service};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// How long anything may take here; loaded machines are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// One connection with the entry.
pub struct Guest {
    stream: Box<TlsStream<TcpStream>>,
    splitter: LinkDeframer,
    frames: VecDeque<Frame>,
}

impl Guest {
    pub async fn connect(chain: &Chain) -> Self {
        let stream = client::EntryClient::from_chain(chain).unwrap().connect().await.unwrap();
        Self { stream, splitter: LinkDeframer::default(), frames: VecDeque::new() }
    }

    /// Connects and says HELLO. What the entry answers is the next frame.
    pub async fn greeting(chain: &Chain) -> Self {
        let mut guest = Self::connect(chain).await;
        guest.say(&Frame::Hello { version: VERSION, config: chain.head_hash() }).await;
        guest
    }

    /// The same, and is welcomed under the newest config that the guest has.
    pub async fn welcomed(chain: &Chain) -> Self {
        let mut guest = Self::greeting(chain).await;
        let welcome = guest.next().await.unwrap();
        assert!(matches!(welcome, Frame::Welcome { head, .. } if head == chain.head_hash()));
        guest
    }

    pub async fn say(&mut self, frame: &Frame) {
        self.say_bytes(&frame.encode().unwrap()).await;
    }

    pub async fn say_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next frame; `None` once the entry has hung up.
    pub async fn next(&mut self) -> Option<Frame> {
        let mut buffer = vec![0; 16_384];
        while self.frames.is_empty() {
            let reading = timeout(PATIENCE, self.stream.read(&mut buffer));
            let Ok(count @ 1..) = reading.await.expect("the entry says something") else {
                return None;
            };
            let mut input = &buffer[..count];
            while let Some(frame) = self.splitter.next_frame(&mut input).unwrap() {
                self.frames.push_back(Frame::decode(&frame).unwrap());
            }
        }
        self.frames.pop_front()
    }

    /// The next body of a round that is of this sort.
    pub async fn body<T>(&mut self, of: impl Fn(RoundId, FrameBody) -> Option<T>) -> T {
        loop {
            let frame = self.next().await.expect("the entry hung up");
            if let Frame::Round(id, body) = frame
                && let Some(found) = of(id, body)
            {
                return found;
            }
        }
    }

    /// The next settings of a service.
    pub async fn told(&mut self, wanted: Service) -> SignedSettings {
        let told = |id: RoundId, body| match body {
            FrameBody::Settings(told) if id.service == wanted => Some(told),
            _ => None,
        };
        self.body(told).await
    }

    /// The settings of the next round of a service that is announced from now on: the first ones may
    /// have been announced long before they were told.
    pub async fn settings(&mut self, wanted: Service) -> SignedSettings {
        self.told(wanted).await;
        self.told(wanted).await
    }
}
