//! Failed transactions with requests whose response no client waits for (RELAY-13).

use super::*;

const STEPS: [WriteStep; 3] = [WriteStep::Begin, WriteStep::Statement, WriteStep::Commit];

/// The mailbox of other jobs around the tested one, so that the tested job is not the transaction's
/// first statement.
const OTHER: MailboxAddress = MailboxAddress([8; 16]);

impl Stage {
    fn other(&self) -> WriterJob {
        let kind = MailboxKind::Conversation;
        let answer = self.answer();
        WriterJob::Open { address: OTHER, kind, site: [0; 8], answer }
    }

    /// Runs a transaction with `job` in the middle that fails at this step.
    async fn fail_around(&mut self, step: WriteStep, job: WriterJob) {
        let _failing = Failing::after(0, step, Errno::ENOSPC);
        let jobs = [self.other(), job, self.other()];
        self.transact(jobs).await;
    }

    fn taken(&self) -> WriterJob {
        WriterJob::Take { address: BOX, watch: self.watch, mails: vec![self.last] }
    }

    /// Does one step of the writer's loop while no job waits.
    async fn rest(&mut self) {
        if !self.writer.owed.is_empty() {
            self.writer.repeat_owed().await;
        }
    }

    async fn mails(&mut self) -> u64 {
        self.writer.store.count_totals().await.unwrap().mails
    }
}

/// Makes a watched mailbox with room for two mails in flight.
async fn watched() -> Stage {
    let mut stage = Stage::new(Limits { in_flight_max: 2, ..Limits::default() });
    let watch = stage.watch();
    stage.transact([stage.open(), watch]).await;
    stage.told();
    stage
}

#[tokio::test]
async fn relay_13_a_taken_of_a_failed_transaction_is_carried_out_by_the_next_one() {
    for step in STEPS {
        let mut stage = watched().await;
        for number in 1..=64 {
            stage.transact([stage.put(number)]).await;
            assert_eq!(stage.told().mails, [number], "{step:?}: the mailbox is not deaf");
            let job = stage.taken();
            stage.fail_around(step, job).await;
            let told = stage.told();
            assert_eq!(told, Told::codes(&[DoneCode::SlowDown; 2]), "{step:?}: it stays");
            stage.rest().await;
            assert_eq!((stage.mails().await, stage.writer.owed.is_empty()), (0, true), "{step:?}");
        }
    }
}

#[tokio::test]
async fn relay_13_a_store_that_refuses_for_long_owes_no_more_than_what_is_in_flight() {
    for step in STEPS {
        let mut stage = watched().await;
        stage.transact([stage.put(1), stage.put(2)]).await;
        assert_eq!(stage.told().mails, [1, 2]);
        for _ in 0..64 {
            let job = stage.taken();
            stage.fail_around(step, job).await;
            let other = WriterJob::Take { address: BOX, watch: 77, mails: vec![1, 2, 3] };
            stage.fail_around(step, other).await;
        }
        assert_eq!(stage.writer.owed.draw_jobs().len(), 1, "{step:?}");
    }
}

#[tokio::test]
async fn relay_13_a_taken_that_is_refused_for_ever_keeps_no_other_waiting() {
    const BOXES: u8 = 20;
    let mut stage = Stage::new(Limits::default());
    let address = |nr: u8| MailboxAddress([nr; 16]);
    for nr in 1..=BOXES {
        let open = WriterJob::Open {
            address: address(nr),
            kind: MailboxKind::Conversation,
            site: [0; 8],
            answer: stage.answer(),
        };
        let watch = WriterJob::Watch {
            address: address(nr),
            watch: nr.into(),
            number: NUMBER,
            answer: stage.answer(),
        };
        let put = WriterJob::Put(Put::new(address(nr), 9, vec![nr; 512], stage.answer()));
        stage.transact([open, watch, put]).await;
        stage.told();
        let taken =
            WriterJob::Take { address: address(nr), watch: nr.into(), mails: vec![stage.last] };
        stage.fail([taken]).await;
    }
    // A trigger makes the store refuse to remove the mail of one watch.
    let refuse = "CREATE TRIGGER refuses BEFORE DELETE ON mail WHEN substr(OLD.body, 1, 1) = x'07'
                  BEGIN SELECT RAISE(ABORT, 'test'); END";
    let other = rusqlite::Connection::open(stage.folder.path().join("mail.db")).unwrap();
    other.execute_batch(refuse).unwrap();
    for _ in 0..4 * BOXES {
        stage.writer.repeat_owed().await;
    }
    assert_eq!(stage.mails().await, 1, "all the others are gone");
    other.execute_batch("DROP TRIGGER refuses").unwrap();
    stage.rest().await;
    assert_eq!(stage.mails().await, 0);
}

#[tokio::test]
async fn relay_13_mail_that_waits_for_room_comes_though_its_resume_failed() {
    for step in STEPS {
        let mut stage = watched().await;
        stage.transact([1, 2, 3].map(|number| stage.put(number))).await;
        assert_eq!(stage.told().mails, [1, 2]);
        let watch = stage.watch;
        let last = stage.last;
        stage.writer.owners.mark_taken(&BOX, watch, &[last]);
        // The store still reads while writes fail, unless every statement fails.
        stage.fail_around(step, WriterJob::Resume(vec![(BOX, watch)])).await;
        let told = stage.told();
        assert!(told.mails == [3] || told.ended, "{step:?}: {told:?}");
    }
}

#[tokio::test]
async fn relay_13_a_connection_that_is_gone_leaves_its_mailbox_though_that_failed() {
    for step in STEPS {
        let mut stage = watched().await;
        let gone = WriterJob::Gone(vec![(BOX, stage.watch)]);
        stage.fail_around(step, gone).await;
        assert!(stage.writer.owners.watched_boxes().is_empty(), "{step:?}: nobody watches it");
    }
}

#[tokio::test]
async fn relay_13_requests_with_an_answer_are_refused_once_and_done_by_nobody() {
    for step in STEPS {
        let mut stage = watched().await;
        let set = || BundleSet {
            address: BOX,
            fresh: false,
            bundle: vec![1; 64],
            keys: Vec::new(),
            answer: stage.answer(),
        };
        let close = WriterJob::Close { address: BOX, answer: stage.answer() };
        let get = WriterJob::BundleGet { address: BOX, answer: stage.answer() };
        let jobs = [close, stage.put(1), WriterJob::BundleSet(set()), get];
        for job in jobs {
            stage.fail_around(step, job).await;
            let codes = stage.told().codes;
            assert_eq!(codes, [DoneCode::SlowDown; 3], "{step:?}");
            stage.rest().await;
            assert_eq!(stage.mails().await, 0, "{step:?}");
        }
    }
}

#[test]
fn relay_13_clients_come_back_soon_and_later_where_the_store_stays_away() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(&folder.path().join("mail.db"), Durability::Full).unwrap();
    let clock = Clock::system();
    let date = RelayDate::open(folder.path(), clock.read());
    let owners = Arc::new(Watchers::new(2));
    let mut writer = Writer::new(store, Limits::default(), clock.clone(), date, owners);
    assert_eq!(writer.retry_s(), RETRY_S_MIN);
    let long_ago = clock.boot().minus_ms(PATIENT_MS);
    writer.failing_since = Some(long_ago);
    assert_eq!(writer.retry_s(), RETRY_S_MAX);
}
