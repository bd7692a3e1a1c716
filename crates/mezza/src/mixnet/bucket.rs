//! The role `bucket`: files that the last mix puts and the entry gets. A thread of its own owns the
//! folder, because disks are waited for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mezza_mixnet::config::{Chain, SignedConfig};
use mezza_mixnet::sign::PublicKey;
use mezza_mixnet::wire::{Body, Frame};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::key::Key;
use super::link::{self, Change, News, Table};
use super::metrics::{self, Count, Metrics};
use super::network::Network;
use super::server::{self, EVENTS_MAX, LEAVE, Running};
use super::shelves::{Shelves, Upload};
use crate::exit::{Exit, Fault};
use crate::node::now;
use crate::tls::{Keys, link_server_config};

/// How to run a bucket store.
#[derive(Debug)]
pub struct Options {
    /// The configs.
    pub network: Network,
    /// The identity that the config names.
    pub key: Key,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The folder of the buckets.
    pub dir: PathBuf,
    /// The port of the metrics; 0: none.
    pub metrics: u16,
}

/// Who has a link here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    /// The last mix, which puts.
    Mix,
    /// The entry, which gets.
    Entry,
}

/// What the thread takes in.
enum Event {
    Link(Peer, u64, News),
    Config(SignedConfig),
    Stop,
}

/// Starts a bucket store. It runs until `stop` turns true.
///
/// # Errors
/// A key that is not the config's, a folder or an address that cannot be had.
pub async fn start(options: Options, stop: watch::Receiver<bool>) -> Result<Running, Fault> {
    let Options { network, key, listen, dir, metrics: port } = options;
    let config = network.chain.current(now()).unwrap_or(network.chain.head()).clone();
    let public = key.public();
    if config.bucket.key != public {
        let text = "bucket: this key is not that of the config's bucket store";
        return Err(Fault::new(Exit::Config, text, "use the key whose public half stands there"));
    }
    let shelves = Shelves::open(&dir)?;
    let listener = server::bind(listen).await?;
    let address = listener.local_addr().map_err(|_| Fault::bug("a socket without address"))?;
    let counts = Arc::new(Metrics::default());
    metrics::serve(Arc::clone(&counts), port).await;

    let entry = config.coordinator.key;
    let last = config.mixes.last().map_or(entry, |mix| mix.server.key);
    let identity = key.identity()?;
    let tls = link_server_config(&identity, &[link::STORE], Some(Keys::new(vec![entry, last])))
        .map_err(|_| Fault::bug("TLS refuses our settings"))?;
    let who = move |key: &PublicKey, _: &[u8]| match *key {
        key if key == entry => Some(Peer::Entry),
        key if key == last => Some(Peer::Mix),
        _ => None,
    };
    let (events, queue) = mpsc::channel(EVENTS_MAX);
    let door = (listener, TlsAcceptor::from(tls));
    tokio::spawn(server::take_in(door, events.clone(), Arc::clone(&counts), who, Event::Link));
    tracing::info!("bucket store runs");
    let store = Store {
        chain: network.chain,
        shelves,
        upload: None,
        links: Table::default(),
        metrics: Arc::clone(&counts),
    };
    let learn = server::learn(&events, Event::Config);
    let task = tokio::spawn(run(store, events, queue, stop));
    Ok(Running { address, key: public, learn, metrics: counts, task })
}

async fn run(
    store: Store,
    events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    mut stop: watch::Receiver<bool>,
) -> Result<Exit, Fault> {
    let mut thread = tokio::task::spawn_blocking(move || store.serve(queue));
    let panicked = |_| Err(Fault::bug("the thread of a server panicked"));
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        ended = &mut thread => return ended.unwrap_or_else(panicked),
    }
    let _ = events.send(Event::Stop).await;
    let ended = thread.await.unwrap_or_else(panicked);
    tokio::time::sleep(LEAVE).await;
    ended
}

struct Store {
    chain: Chain,
    shelves: Shelves,
    /// What the last mix is putting.
    upload: Option<Upload>,
    links: Table<Peer>,
    metrics: Arc<Metrics>,
}

impl Store {
    fn serve(mut self, mut queue: mpsc::Receiver<Event>) -> Result<Exit, Fault> {
        while let Some(event) = queue.blocking_recv() {
            let (peer, link, news) = match event {
                Event::Link(peer, link, news) => (peer, link, news),
                Event::Config(config) => {
                    if server::is_news(&config, &self.chain)
                        && let Err(error) = self.chain.accept(&config, now())
                    {
                        tracing::warn!("mixnet: {error}");
                    }
                    continue;
                }
                Event::Stop => break,
            };
            let allowed = match (peer, self.links.hear(peer, link, news)) {
                (Peer::Mix, Change::Lost) => {
                    self.upload = None;
                    true
                }
                (_, Change::None) | (Peer::Entry, Change::Lost) => true,
                (Peer::Mix, Change::Frame(frame)) => self.put(frame)?,
                (Peer::Entry, Change::Frame(frame)) => self.hand_out(&frame)?,
            };
            if !allowed {
                tracing::warn!(?peer, "a peer sent what does not belong here; hung up");
                self.metrics.count(Count::Refused);
                self.links.drop_link(peer);
                self.upload = None;
            }
            self.metrics.set(Count::Links, self.links.len());
        }
        Ok(Exit::Done)
    }

    /// PUT and CHUNK of the last mix; `false` if it is not what must come.
    fn put(&mut self, frame: Frame) -> Result<bool, Fault> {
        let Frame::Round(id, body) = frame else { return Ok(false) };
        match body {
            Body::Put { manifest, signature } => {
                let config = self.chain.of_round(id);
                let sound = config.is_some_and(|config| {
                    let last = config.mix_keys().last();
                    let signed = |key| manifest.signed_by(key, &config.hash(), &signature);
                    last.is_some_and(signed) && config.allows(&manifest)
                });
                if !sound {
                    return Ok(false);
                }
                // An unfinished one of the same round would take the new folder with it.
                self.upload = None;
                self.upload = Some(self.shelves.begin(manifest, signature)?);
            }
            Body::Chunk { bucket, offset, bytes } => {
                let Some(upload) = self.upload.as_mut().filter(|upload| upload.id() == id) else {
                    return Ok(false);
                };
                if !upload.put(bucket, offset, &bytes)? {
                    return Ok(false);
                }
                if upload.is_whole()
                    && let Some(upload) = self.upload.take()
                {
                    self.shelves.keep(&upload)?;
                    self.metrics.count(Count::Returned);
                    let _ = self.links.send(Peer::Mix, Frame::Round(id, Body::Stored));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// GET of the entry: manifest and object, or that there is none.
    fn hand_out(&mut self, frame: &Frame) -> Result<bool, Fault> {
        let Frame::Round(id, Body::Fetch { bucket }) = frame else { return Ok(false) };
        for body in self.shelves.answer(*id, *bucket)? {
            if !self.links.send(Peer::Entry, Frame::Round(*id, body)) {
                break;
            }
        }
        Ok(true)
    }
}
