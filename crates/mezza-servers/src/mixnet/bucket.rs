//! The role `bucket`: files that the last mix uploads and the entry fetches. A separate thread owns
//! the folder, because disk access blocks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mezza_core::Time;
use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Chain, ServicePolicy, SignedConfig};
use mezza_mixnet::sign::VerifyKey;
use mezza_mixnet::wire::{Frame, FrameBody};
use tokio::sync::{mpsc, watch};

use super::key::ServerKey;
use super::network::{ConfigArchive, in_force, warn_if_none_is_in_force};
use super::server::{self, EVENTS_MAX, LEAVE, ServerHandle};
use super::shelves::{BucketDir, Upload};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::now;
use mezza_host::connection::link::{self, LinkChange, LinkEvent, LinkTable};
use mezza_host::process::metrics::{self, Metric, Metrics};
use mezza_host::tls::AllowedClientKeys;

/// Maximum difference between the clocks of servers (MIX-34).
const CLOCKS_MS: u64 = 30_000;
/// Maximum number of successive requests of the entry for missing buckets. The entry requests only
/// rounds that were stored.
const ABSENT_MAX: u32 = 4_096;

/// Options of a bucket store.
#[derive(Debug)]
pub struct BucketServerOptions {
    /// The configs.
    pub network: ConfigArchive,
    /// The identity key; the config names its public half.
    pub key: ServerKey,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The folder of the buckets.
    pub dir: PathBuf,
    /// The port of the metrics; 0: none.
    pub metrics: u16,
}

/// The peers of a bucket store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    /// The last mix, which uploads.
    Mix,
    /// The entry, which fetches.
    Entry,
}

/// An event of the store's thread.
enum Event {
    Link(Peer, u64, LinkEvent),
    Config(SignedConfig),
    Stop,
}

/// Why a frame is refused. The link is closed.
#[derive(Debug)]
enum Refusal {
    /// The peer sent a frame that does not belong on this link.
    Foreign,
    /// The signature of the round is valid, but the round is not current.
    Clock,
    /// The disk returned an error.
    Disk(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Disk(fault)
    }
}

impl Refusal {
    /// Logs the cause and the next step for the operator.
    fn log_cause(&self, peer: Peer) {
        match self {
            Self::Foreign => {
                tracing::warn!(?peer, "a peer sent what does not belong here; hung up");
            }
            Self::Clock => tracing::warn!(
                "a round is not of this time: set the clock of this bucket store, or that of the last mix"
            ),
            // The next round may find free space again, so the store continues (MIX-79).
            Self::Disk(fault) => tracing::error!("the buckets of a round are not stored: {fault}"),
        }
    }
}

/// Starts a bucket store. It runs until `stop` turns true.
///
/// # Errors
/// A key that the config does not name, a folder that cannot be opened, an address that cannot be
/// bound.
pub async fn start(
    options: BucketServerOptions,
    stop: watch::Receiver<bool>,
) -> Result<ServerHandle, Fault> {
    let BucketServerOptions { network, key, listen, dir, metrics: port } = options;
    let config = in_force(&network.chain).clone();
    let public = key.public();
    if config.bucket.key != public {
        let text = "bucket: this key is not that of the config's bucket store";
        return Err(Fault::new(Exit::Config, text, "use the key whose public half stands there"));
    }
    let shelves = BucketDir::open(&dir)?;
    let (listener, address) = server::bind_listener(listen).await?;
    let counts = metrics::serve_metrics(port).await;

    let entry = config.coordinator.key;
    let last = config.mixes.last().map_or(entry, |mix| mix.server.key);
    let identity = key.identity()?;
    let peers = AllowedClientKeys::new(vec![entry, last]);
    let tls = server::make_acceptor(&identity, &[link::STORE], Some(peers))?;
    let who = move |key: &VerifyKey, _: &[u8]| match *key {
        key if key == entry => Some(Peer::Entry),
        key if key == last => Some(Peer::Mix),
        _ => None,
    };
    let (events, queue) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(server::accept_links(
        listener,
        tls,
        events.clone(),
        Arc::clone(&counts),
        who,
        Event::Link,
    ));
    tracing::info!("bucket store runs");
    warn_if_none_is_in_force(&network.chain);
    let store = Store {
        chain: network.chain,
        shelves,
        upload: None,
        given: BTreeSet::new(),
        absent: 0,
        links: LinkTable::default(),
        metrics: Arc::clone(&counts),
    };
    let learn = server::config_sender(&events, Event::Config);
    let task = tokio::spawn(run_store(store, events, queue, stop));
    Ok(ServerHandle { address, key: public, learn, metrics: counts, task })
}

async fn run_store(
    store: Store,
    events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    mut stop: watch::Receiver<bool>,
) -> Result<Exit, Fault> {
    let mut thread = tokio::task::spawn_blocking(move || store.serve_events(queue));
    let end = |ended: Result<(), _>| {
        ended.map(|()| Exit::Done).map_err(|_| Fault::bug("the thread of a server panicked"))
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        ended = &mut thread => return end(ended),
    }
    let _ = events.send(Event::Stop).await;
    let ended = end(thread.await);
    tokio::time::sleep(LEAVE).await;
    ended
}

struct Store {
    chain: Chain,
    shelves: BucketDir,
    /// The unfinished upload of the last mix.
    upload: Option<Upload>,
    /// Buckets that were sent to the entry server on this link, of rounds that may still be stored.
    given: BTreeSet<(RoundId, u32)>,
    /// Successive requests of the entry for missing buckets.
    absent: u32,
    links: LinkTable<Peer>,
    metrics: Arc<Metrics>,
}

impl Store {
    fn serve_events(mut self, mut queue: mpsc::Receiver<Event>) {
        while let Some(event) = queue.blocking_recv() {
            match event {
                Event::Link(peer, link, news) => self.handle_link_event(peer, link, news),
                Event::Config(config) => {
                    if server::is_news(&config, &self.chain)
                        && let Err(error) = self.chain.accept_config(&config, now())
                    {
                        tracing::warn!("mixnet: {error}");
                    }
                }
                Event::Stop => break,
            }
        }
    }

    /// Handles an event of a link.
    fn handle_link_event(&mut self, peer: Peer, link: u64, news: LinkEvent) {
        let taken = match (peer, self.links.handle_event(peer, link, news)) {
            (_, LinkChange::None) => Ok(()),
            (peer, LinkChange::Lost) => {
                self.forget_peer(peer);
                Ok(())
            }
            (Peer::Mix, LinkChange::Frame(frame)) => self.handle_upload(frame),
            (Peer::Entry, LinkChange::Frame(frame)) => self.hand_out(&frame),
        };
        if let Err(refusal) = taken {
            refusal.log_cause(peer);
            self.metrics.count(Metric::Refused);
            self.links.drop_link(peer);
            self.forget_peer(peer);
        }
        self.metrics.set(Metric::Links, self.links.count());
    }

    /// Resets the state of a peer whose link is gone.
    fn forget_peer(&mut self, peer: Peer) {
        match peer {
            Peer::Mix => self.upload = None,
            Peer::Entry => {
                self.given.clear();
                self.absent = 0;
            }
        }
    }

    /// Sends a frame. Returns false if the link is lost; no event about the loss follows.
    fn send_frame(&mut self, peer: Peer, frame: Frame) -> bool {
        let sent = self.links.send_frame(peer, frame);
        if !sent {
            self.forget_peer(peer);
        }
        sent
    }

    /// Handles PUT and CHUNK of the last mix.
    fn handle_upload(&mut self, frame: Frame) -> Result<(), Refusal> {
        let Frame::Round(id, body) = frame else { return Err(Refusal::Foreign) };
        match body {
            FrameBody::Put { manifest, signature } => {
                let config = self.chain.of_round(id).ok_or(Refusal::Foreign)?;
                let last = config.mix_keys().last();
                let signed = |key| manifest.signed_by(key, &config.hash(), &signature);
                if !last.is_some_and(signed) || !config.allows_manifest(&manifest, config.users_max)
                {
                    return Err(Refusal::Foreign);
                }
                if !config.find_policy(id.service).is_some_and(|(_, policy)| is_due(policy, id)) {
                    return Err(Refusal::Clock);
                }
                // Drop an unfinished upload of the same round first: its destructor would remove
                // the new folder.
                self.upload = None;
                self.upload = Some(self.shelves.begin_round(manifest, signature)?);
            }
            FrameBody::Chunk { bucket, offset, bytes } => {
                let upload = self.upload.as_mut().filter(|upload| upload.id() == id);
                if !upload.ok_or(Refusal::Foreign)?.put_piece(bucket, offset, &bytes)? {
                    return Err(Refusal::Foreign);
                }
                if let Some(upload) = self.upload.take_if(|upload| upload.is_whole()) {
                    self.shelves.keep_round(&upload, self.newest_round(id))?;
                    self.given.retain(|(given, _)| BucketDir::may_hold(*given, id));
                    self.metrics.count(Metric::Returned);
                    self.send_frame(Peer::Mix, Frame::Round(id, FrameBody::Stored));
                }
            }
            _ => return Err(Refusal::Foreign),
        }
        Ok(())
    }

    /// Responds to GET of the entry with manifest and object, or with an empty object.
    fn hand_out(&mut self, frame: &Frame) -> Result<(), Refusal> {
        let Frame::Round(id, FrameBody::Fetch { bucket }) = frame else {
            return Err(Refusal::Foreign);
        };
        if self.absent >= ABSENT_MAX || self.given.contains(&(*id, *bucket)) {
            return Err(Refusal::Foreign);
        }
        let answer = self.shelves.read_bucket(*id, *bucket)?;
        if answer == [FrameBody::Object(None)] {
            self.absent += 1;
        } else {
            self.absent = 0;
            self.given.insert((*id, *bucket));
        }
        for body in answer {
            if !self.send_frame(Peer::Entry, Frame::Round(*id, body)) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the newest round of the service of `id` that can be stored by now, where `id` was
    /// stored just now.
    fn newest_round(&self, id: RoundId) -> u64 {
        let policy = self.chain.of_round(id).and_then(|config| config.find_policy(id.service));
        let now = policy.and_then(|(_, policy)| policy.round_at(now().plus_ms(ahead_ms(policy))));
        now.map_or(id.round, |now| now.max(id.round))
    }
}

/// Returns the time from the settings of a round until it opens, plus the clock tolerance, ms.
fn ahead_ms(policy: &ServicePolicy) -> u64 {
    u64::from(policy.lead_ms) + u64::from(policy.ask_ms) + CLOCKS_MS
}

/// Returns true if the round may have ended recently. A mix that uploaded other rounds would push
/// out the ones that the entry needs.
fn is_due(policy: &ServicePolicy, id: RoundId) -> bool {
    let slack_ms = u64::from(policy.mix_limit_ms) + Time::SECOND_MS + CLOCKS_MS;
    policy.opens_around(id.round, now(), slack_ms).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixnet::demo::DemoFiles;
    use mezza_host::connection::link::FrameBytes;
    use mezza_mixnet::Service;
    use mezza_mixnet::wire::Manifest;
    use mezza_mixnet::wire::bucket::ObjectDigest;

    const OBJECT: &[u8] = b"four and more";

    /// Opens the store of a demo network. Returns it with the key of its last mix.
    fn store(folder: &std::path::Path) -> (Store, ServerKey) {
        let files = DemoFiles::load_or_make(&folder.join("mixnet")).unwrap();
        let network = ConfigArchive::load([files.config_path().as_path()]).unwrap();
        let store = Store {
            chain: network.chain,
            shelves: BucketDir::open(&folder.join("buckets")).unwrap(),
            upload: None,
            given: BTreeSet::new(),
            absent: 0,
            links: LinkTable::default(),
            metrics: Arc::default(),
        };
        (store, ServerKey::load(&files.key_path("mix2")).unwrap())
    }

    /// Uploads the only bucket of a call round. Returns true if the store accepts it.
    fn put(store: &mut Store, key: &ServerKey, round: u64) -> bool {
        try_put(store, key, round).is_ok()
    }

    fn try_put(store: &mut Store, key: &ServerKey, round: u64) -> Result<(), Refusal> {
        let id = RoundId { service: Service::Call, round };
        let manifest = Manifest { id, entries: vec![ObjectDigest::from_object(OBJECT)] };
        let signature = manifest.sign(&key.signer(), &store.chain.head_hash());
        store.handle_upload(Frame::Round(id, FrameBody::Put { manifest, signature }))?;
        let bytes = OBJECT.to_vec();
        store.handle_upload(Frame::Round(id, FrameBody::Chunk { bucket: 1, offset: 0, bytes }))
    }

    #[test]
    fn mix_79_a_store_whose_clock_is_off_names_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, key) = store(folder.path());
        let far = current(&store) + 1_000;
        assert!(matches!(try_put(&mut store, &key, far), Err(Refusal::Clock)));
        let other = ServerKey::load(&folder.path().join("mixnet/mix1.key")).unwrap();
        assert!(matches!(try_put(&mut store, &other, far), Err(Refusal::Foreign)));
    }

    #[test]
    fn mix_79_a_store_goes_on_after_a_disk_that_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, key) = store(folder.path());
        let round = current(&store);
        let shelf = folder.path().join("buckets");
        // A file in the place of the folder acts like a full disk, even for root.
        std::fs::remove_dir_all(&shelf).unwrap();
        std::fs::write(&shelf, b"").unwrap();
        assert!(matches!(try_put(&mut store, &key, round), Err(Refusal::Disk(_))));
        std::fs::remove_file(&shelf).unwrap();
        std::fs::create_dir(&shelf).unwrap();
        assert!(try_put(&mut store, &key, round + 1).is_ok(), "there is room again");
    }

    /// Brings up a link of the entry whose queue holds `frames` frames.
    fn link_up(store: &mut Store, link: u64, frames: usize) -> mpsc::Receiver<FrameBytes> {
        let (outbox, sent) = mpsc::channel(frames);
        store.handle_link_event(Peer::Entry, link, LinkEvent::Up(outbox));
        sent
    }

    /// Requests the bucket of a round. Returns the number of frames sent in response.
    fn fetch(
        store: &mut Store,
        entry: &mut mpsc::Receiver<FrameBytes>,
        link: u64,
        round: u64,
    ) -> usize {
        let id = RoundId { service: Service::Call, round };
        let fetch = Frame::Round(id, FrameBody::Fetch { bucket: 1 });
        store.handle_link_event(Peer::Entry, link, LinkEvent::Frame(fetch));
        std::iter::from_fn(|| entry.try_recv().ok()).count()
    }

    fn current(store: &Store) -> u64 {
        let (_, policy) = store.chain.head_config().find_policy(Service::Call).unwrap();
        policy.round_at(now()).unwrap()
    }

    #[test]
    fn mix_62_rounds_that_are_not_due_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, key) = store(folder.path());
        let now = current(&store);
        // Rounds of 2 s; clocks may be 30 s apart.
        for (round, taken) in [
            (now, true),
            (now + 10, true),
            (now + 20, false),
            (now + 1_000_000, false),
            (now - 10, true),
            (now - 25, false),
            (1, false),
        ] {
            assert_eq!(put(&mut store, &key, round), taken, "{now} {round}");
        }
        // Rounds accepted while the clock was wrong are deleted before any due round.
        let shelf = folder.path().join("buckets");
        (0..20).for_each(|far| {
            std::fs::create_dir(shelf.join(format!("2-{}", now * 9 + far))).unwrap();
        });
        assert!(put(&mut store, &key, now + 1));
        let left = std::fs::read_dir(&shelf).unwrap().count();
        assert_eq!(left, 4, "those that were due");
    }

    #[test]
    fn mix_63_the_entry_gets_each_bucket_once_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, key) = store(folder.path());
        let round = current(&store);
        assert!(put(&mut store, &key, round));
        // Each request uses a new link, because a link may be closed after the last request.
        for link in [1, 2] {
            let mut entry = link_up(&mut store, link, 2);
            assert_eq!(fetch(&mut store, &mut entry, link, round), 2);
            assert!(!entry.is_closed());
            assert_eq!(fetch(&mut store, &mut entry, link, round), 0);
            assert!(entry.is_closed(), "it had that");
            store.handle_link_event(Peer::Entry, link, LinkEvent::Down);
        }
        for link in [3, 4] {
            let mut entry = link_up(&mut store, link, 2);
            for _ in 0..ABSENT_MAX {
                assert_eq!(fetch(&mut store, &mut entry, link, round + 1), 1);
            }
            assert!(!entry.is_closed());
            assert_eq!(fetch(&mut store, &mut entry, link, round + 1), 0);
            assert!(entry.is_closed(), "too often in vain");
        }
        // A link that is not read is closed as well: manifest and object are two frames.
        let mut entry = link_up(&mut store, 5, 1);
        assert_eq!(fetch(&mut store, &mut entry, 5, round), 1);
        assert!(entry.is_closed());
        let mut entry = link_up(&mut store, 6, 2);
        assert_eq!(fetch(&mut store, &mut entry, 6, round), 2);
    }

    #[test]
    fn mix_63_what_was_given_is_remembered_while_it_may_be_here() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, key) = store(folder.path());
        let round = current(&store);
        assert!(put(&mut store, &key, round));
        let id = RoundId { service: Service::Call, round };
        let fetch = Frame::Round(id, FrameBody::Fetch { bucket: 1 });
        let _entry = link_up(&mut store, 1, 2);
        store.hand_out(&fetch).unwrap();
        // Buckets that are removed from the folder are not remembered for ever.
        (1..=10).for_each(|ahead| assert!(put(&mut store, &key, round + ahead)));
        assert_eq!(store.given.len(), 1);
        let gone = RoundId { service: Service::Call, round: round - 16 };
        store.given.insert((gone, 1));
        assert!(put(&mut store, &key, round));
        assert_eq!(store.given.len(), 1);
    }
}
