//! One person of the world that is killed: asks the own node, whichever process that is by now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezza::testing::api::json::{
    AddRequest, CardText, ContactJson, EventJson, EventKind, NodeStateJson, NoteJson,
    NoteStateJson, Notes, OutboxJson, SendRequest, StatusJson,
};
use mezza::testing::api::{Exit, Fault};
use mezza::testing::backend::AwsLc;
use mezza::testing::clock::now;
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::faces::cli::follow::Follower;
use mezza::testing::node::plan;
use mezza::testing::process::home::Home;
use mezza::testing::process::rng::OsRng;
use mezza::testing::store::{Argon2Params, Record, Vault};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::{CarrierSet, Device, RecordKind};

pub const PASSPHRASE: &str = "correct horse battery staple";
/// How long a node may keep a note waiting; it comes back from each death much sooner.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an outbox may be full: a relay that dies within a minute again and again is tried once a minute,
/// while ten notes a second are written. Whether they arrive is judged in the end.
const PATIENCE_WITH_FULL: Duration = Duration::from_secs(900);
/// How long notes may take to arrive once nobody dies any more; a loaded machine is slow.
const CALM: Duration = Duration::from_secs(180);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(20);
/// Notes of one page of a thread.
const PAGE: usize = 500;

/// Somebody with a home, and one contact in it.
#[derive(Clone)]
pub struct Person {
    pub home: PathBuf,
    name: String,
    contact: String,
}

impl Person {
    /// Makes an identity whose vault opens as fast as one may: it is opened a hundred times.
    pub fn make(folder: &Path, name: &str, relay: &RelayEntry) -> Self {
        let home = Home::find(Some(&folder.join(name))).unwrap();
        home.make_folders().unwrap();
        let relays = std::slice::from_ref(relay);
        let carriers = CarrierSet::<AwsLc>::default();
        let mut device = Device::create(carriers, name, relays, now(), &mut OsRng).unwrap();
        let pass = PASSPHRASE.as_bytes();
        let vault = Vault::create(&home.vault(), pass, Argon2Params::DEMO, now(), &mut OsRng);
        let mut vault = vault.unwrap();
        vault.commit(&plan::drain_device(&mut device).batches).unwrap();
        vault.close().unwrap();
        Self { home: home.root().into(), name: name.into(), contact: String::new() }
    }

    fn at_home(&self) -> Home {
        Home::find(Some(&self.home)).unwrap()
    }

    /// Asks until the node answers; only a node that is away, still locked or full of notes is asked again.
    fn ask<T>(&self, question: impl Fn(&ApiClient) -> Result<T, Fault>) -> T {
        let began = Instant::now();
        loop {
            match ApiClient::for_home(&self.at_home()).and_then(|client| question(&client)) {
                Ok(answer) => return answer,
                Err(fault) => {
                    let patience = match fault.code {
                        Exit::Unreachable | Exit::Denied => PATIENCE,
                        Exit::Busy => PATIENCE_WITH_FULL,
                        _ => Duration::ZERO,
                    };
                    assert!(began.elapsed() < patience, "{}: {fault}", self.name);
                }
            }
            thread::sleep(AGAIN);
        }
    }

    pub fn is_open(&self) -> bool {
        self.ask(|node| node.get::<StatusJson>("/v1/status")).state == NodeStateJson::Open
    }

    pub fn card(&self) -> String {
        self.ask(|node| node.get::<CardText>("/v1/me/card")).uri
    }

    /// Takes the other one's card.
    pub fn add(&mut self, card: &str) {
        let body = AddRequest { uri: card.into(), name: None, in_person: None };
        self.contact = self.ask(|node| node.post::<ContactJson>("/v1/contacts", &body)).id;
    }

    fn text(&self, n: u64) -> String {
        format!("{} writes note {n}", self.name)
    }

    /// Writes note `n`, again and again under the same number until the node has taken it.
    pub fn write(&self, n: u64) {
        let text = self.text(n);
        let body =
            SendRequest { text: text.clone(), client_id: format!("{n:032x}"), mesh_life: None };
        let path = format!("/v1/contacts/{}/notes", self.contact);
        let note = self.ask(|node| node.post::<NoteJson>(&path, &body));
        assert_eq!(note.text.as_ref(), Some(&text));
    }

    /// Waits until all that was written is delivered.
    pub fn settle(&self) {
        let end = Instant::now() + CALM;
        loop {
            let waiting = self.ask(|node| node.get::<OutboxJson>("/v1/outbox")).notes;
            if waiting.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "not delivered: {waiting:?}");
            thread::sleep(AGAIN);
        }
    }

    /// The whole thread, oldest first.
    pub fn thread(&self) -> Vec<NoteJson> {
        let mut thread: Vec<NoteJson> = Vec::new();
        loop {
            let before = thread.first().map_or_else(String::new, |n| format!("&before={}", n.id));
            let path = format!("/v1/contacts/{}/notes?limit={PAGE}{before}", self.contact);
            let page = self.ask(|node| node.get::<Notes>(&path));
            thread.splice(0..0, page.notes);
            if !page.more {
                return thread;
            }
        }
    }

    /// Own texts that the other device is said to have.
    pub fn delivered(&self) -> BTreeSet<String> {
        let notes = self.thread().into_iter();
        notes.filter(|note| note.state == NoteStateJson::Delivered).filter_map(|n| n.text).collect()
    }

    /// Texts of the other one.
    pub fn received(&self) -> BTreeSet<String> {
        self.thread().into_iter().filter(|note| note.incoming).filter_map(|n| n.text).collect()
    }

    /// All notes below `n` stand delivered in this thread and once in the reader's, and no others.
    pub fn judge(&self, n: u64, reader: &Self) {
        let mut texts: Vec<String> = (0..n).map(|n| self.text(n)).collect();
        let own: Vec<NoteJson> = self.thread().into_iter().filter(|note| !note.incoming).collect();
        let undelivered: Vec<&NoteJson> =
            own.iter().filter(|note| note.state != NoteStateJson::Delivered).collect();
        assert!(undelivered.is_empty(), "{undelivered:?}");
        assert_eq!(own.into_iter().filter_map(|note| note.text).collect::<Vec<_>>(), texts);
        let theirs = reader.thread().into_iter().filter(|note| note.incoming);
        let mut theirs: Vec<String> = theirs.filter_map(|note| note.text).collect();
        // Mail that came twice to a relay, or waited there longer, may overtake.
        theirs.sort_unstable();
        texts.sort_unstable();
        assert_eq!(theirs, texts);
    }

    /// The names of the sessions on disk; nothing else may wait there to be opened.
    pub fn sessions(&self) -> Vec<Vec<u8>> {
        let (vault, records) =
            Vault::open(&self.at_home().vault(), PASSPHRASE.as_bytes(), now()).unwrap();
        vault.close().unwrap();
        let of = |wanted: RecordKind| {
            let records = records.iter().filter(move |(kind, ..): &&Record| *kind == wanted);
            records.map(|(_, key, _)| key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(RecordKind::Held), Vec::<Vec<u8>>::new(), "mail that no session opens");
        of(RecordKind::Session)
    }

    /// Looks at the screen through all lives of the node until `stop` is set and the last one ends.
    pub fn watch(&self, stop: &AtomicBool) -> Shown {
        let mut shown = Shown::default();
        while !stop.load(Ordering::Relaxed) {
            let client = ApiClient::for_home(&self.at_home());
            if let Ok(follower) = client.and_then(|client| Follower::open_on(&client)) {
                // Ends when the node does.
                let _ = follower.follow_until(None, |event| {
                    shown.take(event);
                    ControlFlow::<()>::Continue(())
                });
            }
            thread::sleep(AGAIN);
        }
        shown
    }
}

/// The notes that a screen showed.
#[derive(Default)]
pub struct Shown {
    /// Notes that came, by their number on this device.
    received: BTreeMap<String, Option<String>>,
    /// Own notes that were said to be delivered.
    delivered: BTreeSet<String>,
    /// Words about sessions and ways that broke.
    trouble: Vec<EventJson>,
}

impl Shown {
    fn take(&mut self, event: &EventJson) {
        if matches!(event.kind, EventKind::Anew | EventKind::Trouble | EventKind::Gone) {
            self.trouble.push(event.clone());
        }
        let Some(note) = &event.note else { return };
        if note.incoming {
            self.received.insert(note.id.clone(), note.text.clone());
        } else if note.state == NoteStateJson::Delivered {
            self.delivered.insert(note.id.clone());
        }
    }

    /// Nothing that was shown has turned out to be untrue.
    pub fn judge(&self, thread: &[NoteJson]) {
        assert!(self.trouble.is_empty(), "{:?}", self.trouble);
        let by_id: BTreeMap<&str, &NoteJson> = thread.iter().map(|n| (n.id.as_str(), n)).collect();
        for (id, text) in &self.received {
            assert_eq!(by_id.get(id.as_str()).map(|note| &note.text), Some(text));
        }
        for id in &self.delivered {
            let state = by_id.get(id.as_str()).map(|note| note.state);
            assert_eq!(state, Some(NoteStateJson::Delivered));
        }
        assert!(!self.received.is_empty() && !self.delivered.is_empty(), "the screen was off");
    }
}
