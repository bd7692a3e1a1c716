//! Runs the writer by hand on the test's thread: the order of its events, and the state after a
//! failed transaction.

use nix::errno::Errno;
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::relay::store::{Durability, NewMail, SqliteStore};
use mezza_host::process::home::failing::{Failing, WriteStep};
use mezza_messenger::relay_wire::MailboxKind;

mod owed;
mod quotas;

const BOX: MailboxAddress = MailboxAddress([7; 16]);
const NUMBER: u16 = 9;

/// A writer, and the queue of one client that makes all requests.
struct Stage {
    writer: Writer<SqliteStore>,
    outlet: ConnectionQueue,
    events: Receiver<WriterEvent>,
    watch: WatchId,
    /// The number of the last mail.
    last: MailId,
    folder: TempDir,
}

impl Stage {
    fn new(limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(&folder.path().join("mail.db"), Durability::Full).unwrap();
        let owners = Arc::new(Watchers::new(limits.in_flight_max));
        let clock = Clock::system();
        let date = RelayDate::open(folder.path(), clock.read());
        let writer = Writer::new(store, limits, clock, date, owners);
        let (outlet, events) = ConnectionQueue::new(64);
        Self { writer, outlet, events, watch: 0, last: 0, folder }
    }

    fn answer(&self) -> ReplyTo {
        ReplyTo { outlet: self.outlet.clone(), req: 1 }
    }

    fn open(&self) -> WriterJob {
        WriterJob::Open {
            address: BOX,
            kind: MailboxKind::Conversation,
            site: [0; 8],
            answer: self.answer(),
        }
    }

    fn put(&self, nr: u8) -> WriterJob {
        WriterJob::Put(Put::new(BOX, 9, vec![nr; 512], self.answer()))
    }

    fn watch(&mut self) -> WriterJob {
        self.watch += 1;
        WriterJob::Watch { address: BOX, watch: self.watch, number: NUMBER, answer: self.answer() }
    }

    /// Runs one transaction, as the writer's loop does.
    async fn transact(&mut self, jobs: impl IntoIterator<Item = WriterJob>) {
        let mut jobs = jobs.into_iter().collect();
        self.writer.commit_all(&mut jobs).await;
    }

    /// Runs one transaction whose commit fails.
    async fn fail(&mut self, jobs: impl IntoIterator<Item = WriterJob>) {
        let _failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        self.transact(jobs).await;
    }

    /// Returns the events for the client since the last call.
    fn told(&mut self) -> Told {
        let mut told = Told::default();
        while let Ok(event) = self.events.try_recv() {
            match event {
                WriterEvent::Answer(RelayFrame::Done { code, .. }) => told.codes.push(code),
                WriterEvent::Mail { envelope, id, .. } => {
                    told.mails.push(envelope[0]);
                    self.last = id;
                }
                WriterEvent::End => told.ended = true,
                WriterEvent::Answer(_) | WriterEvent::Unasked(_) => {}
            }
        }
        told
    }
}

#[derive(Debug, Default, PartialEq)]
struct Told {
    codes: Vec<DoneCode>,
    mails: Vec<u8>,
    ended: bool,
}

impl Told {
    fn codes(codes: &[DoneCode]) -> Self {
        Self { codes: codes.to_vec(), ..Self::default() }
    }
}

#[tokio::test]
async fn nothing_is_answered_before_the_commit() {
    let mut stage = Stage::new(Limits::default());
    stage.writer.store.begin().await.unwrap();
    for job in [stage.open(), stage.put(1), stage.put(2)] {
        stage.writer.apply(job).await.unwrap();
        assert_eq!(stage.told(), Told::default());
    }
    stage.writer.store.commit().await.unwrap();
    assert_eq!(stage.told(), Told::default());
    stage.writer.settle_batch().await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::Done; 3]));
}

#[tokio::test]
async fn msg_64_what_was_rolled_back_is_counted_nowhere() {
    let mut stage = Stage::new(Limits { box_mails_max: 2, ..Limits::default() });
    stage.fail([stage.open()]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::SlowDown]));
    // The box does not exist, even if the writer had cached it.
    stage.transact([stage.put(1)]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::NoBox]));
    stage.transact([stage.open(), stage.put(1)]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::Done; 2]));
    for _ in 0..3 {
        stage.fail([stage.put(2)]).await;
        assert_eq!(stage.told(), Told::codes(&[DoneCode::SlowDown]));
    }
    // There is room for one more mail, and not for two.
    stage.transact([stage.put(2)]).await;
    stage.transact([stage.put(3)]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::Done, DoneCode::Full]));
    stage.fail([WriterJob::Close { address: BOX, answer: stage.answer() }]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::SlowDown]));
    stage.transact([stage.put(3)]).await;
    assert_eq!(stage.told(), Told::codes(&[DoneCode::Full]));
    let Writer { ledger, store, .. } = &mut stage.writer;
    let counted = ledger.totals(store).await.unwrap();
    assert_eq!(counted, store.count_totals().await.unwrap());
}

#[tokio::test]
async fn msg_64_who_saw_nothing_of_a_failed_transaction_keeps_the_box() {
    let mut stage = Stage::new(Limits { in_flight_max: 1, ..Limits::default() });
    let watch = stage.watch();
    stage.transact([stage.open(), watch]).await;
    // One put is sent to the first watcher at once, and is still queued when another watcher takes
    // over.
    let (mut queued, WriterJob::Put(put)) = (None, stage.put(1)) else { unreachable!() };
    stage.writer.owners.hand_over(put, |put| queued = Some(put));
    let (outlet, mut events) = ConnectionQueue::new(64);
    let answer = ReplyTo { outlet, req: 1 };
    let newer = WriterJob::Watch { address: BOX, watch: 2, number: NUMBER, answer };
    stage.transact([stage.put(2), newer]).await;
    stage.fail(queued.map(WriterJob::Put)).await;
    assert!(stage.told().ended, "the mail's number means nothing any more");
    let mut mails = || {
        std::iter::from_fn(|| events.try_recv().ok())
            .filter_map(|event| match event {
                WriterEvent::Mail { envelope, id, .. } => Some((envelope[0], id)),
                WriterEvent::End => panic!("the newer watcher saw nothing of it"),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let [(2, id)] = mails()[..] else { panic!("the second put") };
    let taken = WriterJob::Take { address: BOX, watch: 2, mails: vec![id] };
    stage.transact([stage.put(3), taken]).await;
    assert_eq!(mails().iter().map(|(nr, _)| *nr).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn msg_64_what_was_tidied_in_part_is_counted_nowhere() {
    let mut stage = Stage::new(Limits::default());
    let store = &mut stage.writer.store;
    store.begin().await.unwrap();
    let id = store.open_box(&BOX, MailboxKind::Conversation, 0).await.unwrap();
    for number in 0..TIDY_ROWS {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&number.to_be_bytes());
        store.open_box(&MailboxAddress(address), MailboxKind::Conversation, 0).await.unwrap();
    }
    let mail = || NewMail { box_id: id, due_h: 0, body: &[7; 512] };
    let mails: Vec<_> = (0..=TIDY_ROWS).map(|_| mail()).collect();
    store.put_batch(&mails).await.unwrap();
    store.commit().await.unwrap();
    // More rows are due than one transaction removes: first mails, then boxes.
    for more in [true, true, false] {
        let Writer { store, ledger, .. } = &mut stage.writer;
        ledger.find_box(store, &BOX).await.unwrap();
        ledger.totals(store).await.unwrap();
        assert_eq!(stage.writer.remove_due().await.unwrap(), more);
        let Writer { store, ledger, .. } = &mut stage.writer;
        assert_eq!(ledger.totals(store).await.unwrap(), store.count_totals().await.unwrap());
        let known = ledger.find_box(store, &BOX).await.unwrap().map(|row| row.mails);
        assert_eq!(known, store.find_box(&BOX).await.unwrap().map(|row| row.mails));
    }
}

#[tokio::test]
async fn msg_64_who_waits_for_mail_waits_for_no_failed_transaction() {
    let mut stage = Stage::new(Limits { in_flight_max: 1, ..Limits::default() });
    let watch = stage.watch();
    stage.transact([stage.open(), stage.put(1), stage.put(2), watch]).await;
    let first = Told { mails: vec![1], ..Told::codes(&[DoneCode::Done; 4]) };
    assert_eq!(stage.told(), first);
    // The client has TAKEN the first mail, and asks for more in a transaction that fails.
    stage.writer.owners.mark_taken(&BOX, stage.watch, &[stage.last]);
    stage.fail([stage.put(3), WriterJob::Resume(vec![(BOX, stage.watch)])]).await;
    let second = Told { mails: vec![2], ..Told::codes(&[DoneCode::SlowDown]) };
    assert_eq!(stage.told(), second);
}
