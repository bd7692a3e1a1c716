//! Quotas of the writer, to the byte, and the refusals beyond them.

use super::*;
use mezza_host::clock::Moment;
use mezza_messenger::relay_wire::RawOneTimePrekey;

const OTHER: MailboxAddress = MailboxAddress([8; 16]);
const THIRD: MailboxAddress = MailboxAddress([9; 16]);
const DONE: (DoneCode, u16) = (DoneCode::Done, 0);
const NO_BOX: (DoneCode, u16) = (DoneCode::NoBox, 0);
const REFUSED: (DoneCode, u16) = (DoneCode::Refused, 0);
const BOX_FULL: (DoneCode, u16) = (DoneCode::Full, 300);
const RELAY_FULL: (DoneCode, u16) = (DoneCode::Full, 3_600);

fn noon() -> Time {
    Time::from_ms(1_000 * Time::DAY_MS + 12 * Time::HOUR_MS)
}

impl Stage {
    /// A stage whose clock always shows noon.
    fn at_noon(limits: Limits) -> Self {
        let mut stage = Self::new(limits);
        stage.writer.clock = Clock::from_fn(|| Moment::even(noon()));
        stage.writer.date = RelayDate::open(stage.folder.path(), stage.writer.clock.read());
        stage
    }

    /// Returns all frames sent by one transaction with this job.
    async fn frames(&mut self, job: WriterJob) -> Vec<RelayFrame> {
        self.transact([job]).await;
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let frame = |event| match event {
            WriterEvent::Answer(frame) | WriterEvent::Unasked(frame) => Some(frame),
            WriterEvent::Mail { .. } | WriterEvent::End => None,
        };
        events.filter_map(frame).collect()
    }

    /// Returns the response of a job that has exactly one.
    async fn ask(&mut self, job: WriterJob) -> (DoneCode, u16) {
        match self.frames(job).await[..] {
            [RelayFrame::Done { req: 1, code, retry_s }] => (code, retry_s),
            ref others => panic!("{others:?}"),
        }
    }

    async fn make(&mut self, address: MailboxAddress, kind: MailboxKind) -> (DoneCode, u16) {
        let site = [0; 8];
        let answer = self.answer();
        self.ask(WriterJob::Open { address, kind, site, answer }).await
    }

    async fn leave(&mut self, address: MailboxAddress, bytes: usize, site: u8) -> (DoneCode, u16) {
        let put = Put::new(address, 9, vec![7; bytes], self.answer());
        self.ask(WriterJob::Put(put.of_site([site; 8]))).await
    }

    async fn set(&mut self, fresh: bool, bytes: usize, ids: &[u32]) -> (DoneCode, u16) {
        let address = BOX;
        let bundle = vec![3; bytes];
        let answer = self.answer();
        let keys = ids.iter().map(|id| RawOneTimePrekey { id: *id, key: [5; 32] }).collect();
        self.ask(WriterJob::BundleSet(BundleSet { address, fresh, bundle, keys, answer })).await
    }

    async fn get(&mut self) -> Vec<RelayFrame> {
        let answer = self.answer();
        self.frames(WriterJob::BundleGet { address: BOX, answer }).await
    }
}

#[tokio::test]
async fn a_box_has_one_kind_and_a_relay_so_many_boxes() {
    let mut stage = Stage::at_noon(Limits { boxes_max: 2, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await, REFUSED);
    assert_eq!(stage.make(OTHER, MailboxKind::Intro).await, DONE);
    assert_eq!(stage.make(THIRD, MailboxKind::Intro).await, RELAY_FULL);
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE, "it is there");
    let close = |stage: &Stage| WriterJob::Close { address: OTHER, answer: stage.answer() };
    let first = close(&stage);
    let second = close(&stage);
    assert_eq!(stage.ask(first).await, DONE);
    assert_eq!(stage.ask(second).await, NO_BOX);
    assert_eq!(stage.make(THIRD, MailboxKind::Intro).await, DONE);
    assert_eq!(stage.leave(OTHER, 512, 0).await, NO_BOX);
}

#[tokio::test]
async fn a_relay_that_is_full_of_mail_takes_neither_mail_nor_boxes() {
    let mut stage = Stage::at_noon(Limits { store_bytes_max: 1_024, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.leave(BOX, 512, 0).await, DONE);
    assert_eq!(stage.leave(BOX, 513, 0).await, RELAY_FULL);
    assert_eq!(stage.make(OTHER, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.leave(OTHER, 512, 0).await, DONE);
    assert_eq!(stage.leave(OTHER, 1, 0).await, RELAY_FULL);
    assert_eq!(stage.make(THIRD, MailboxKind::Conversation).await, RELAY_FULL);
}

#[tokio::test]
async fn a_box_takes_mail_to_the_last_byte_and_to_the_last_mail() {
    let limits = Limits { box_bytes_max: 1_024, intro_mails_max: 2, ..Limits::default() };
    let mut stage = Stage::at_noon(Limits { box_mails_max: 3, ..limits });
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.leave(BOX, 512, 0).await, DONE);
    assert_eq!(stage.leave(BOX, 513, 0).await, BOX_FULL);
    assert_eq!(stage.leave(BOX, 512, 0).await, DONE);
    assert_eq!(stage.leave(BOX, 1, 0).await, BOX_FULL);
    for (address, kind, most) in
        [(OTHER, MailboxKind::Intro, 2), (THIRD, MailboxKind::Conversation, 3)]
    {
        assert_eq!(stage.make(address, kind).await, DONE);
        for _ in 0..most {
            assert_eq!(stage.leave(address, 1, 0).await, DONE);
        }
        assert_eq!(stage.leave(address, 1, 0).await, BOX_FULL);
    }
}

#[tokio::test]
async fn strangers_write_as_fast_as_an_intro_box_allows() {
    let intro_puts = mezza_host::process::rate::RateLimit { burst: 2, period_ms: 60_000 };
    let mut stage = Stage::at_noon(Limits { intro_puts, ..Limits::default() });
    for (address, kind, third) in [
        (BOX, MailboxKind::Intro, (DoneCode::SlowDown, 60)),
        (OTHER, MailboxKind::Intro, (DoneCode::SlowDown, 60)),
        (THIRD, MailboxKind::Conversation, DONE),
    ] {
        assert_eq!(stage.make(address, kind).await, DONE);
        assert_eq!(stage.leave(address, 512, 0).await, DONE);
        assert_eq!(stage.leave(address, 512, 0).await, DONE);
        assert_eq!(stage.leave(address, 512, 0).await, third);
    }
}

#[tokio::test]
async fn msg_75_a_site_keeps_to_its_part_once_half_of_the_store_is_taken() {
    let limits = Limits { store_bytes_max: 2_048, ..Limits::default() };
    let mut stage = Stage::at_noon(limits.clone());
    stage.writer.shares.count_mail([1; 8], 1 << 30, false, &limits, noon()).unwrap();
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    // Before the mail the store holds nothing, 512, 1,023 and then 1,024 bytes.
    for bytes in [512, 511, 1] {
        assert_eq!(stage.leave(BOX, bytes, 1).await, DONE);
    }
    assert_eq!(stage.leave(BOX, 1, 1).await.0, DoneCode::SlowDown);
    assert_eq!(stage.leave(BOX, 1, 2).await, DONE, "another site has its part");
}

#[tokio::test]
async fn msg_75_a_site_opens_its_part_of_the_boxes() {
    let limits = Limits { boxes_max: 3, ..Limits::default() };
    let mut stage = Stage::at_noon(limits.clone());
    while stage.writer.shares.count_mailbox([0; 8], &limits, noon()).is_ok() {}
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await.0, DoneCode::SlowDown);
    let kind = MailboxKind::Intro;
    let site = [1; 8];
    let answer = stage.answer();
    assert_eq!(stage.ask(WriterJob::Open { address: BOX, kind, site, answer }).await, DONE);
}

#[tokio::test]
async fn mail_is_kept_as_long_as_its_sender_asks_and_no_longer_than_the_relay_says() {
    let mut stage = Stage::at_noon(Limits { ttl_h_max: 5, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    for ttl_h in [3, 9] {
        let put = Put::new(BOX, ttl_h, vec![ttl_h as u8], stage.answer());
        assert_eq!(stage.ask(WriterJob::Put(put)).await, DONE);
    }
    let store = &mut stage.writer.store;
    let id = store.find_box(&BOX).await.unwrap().unwrap().id;
    for (hours, left) in [(0, &[3, 9][..]), (3, &[3, 9]), (4, &[9]), (5, &[9]), (6, &[])] {
        let mails = store.fetch_mails(id, 0, noon().as_hours() + hours, 9).await.unwrap();
        assert!(mails.iter().map(|mail| &mail.body[0]).eq(left), "{hours}");
    }
}

#[tokio::test]
async fn a_watcher_is_brought_all_that_lies_there_as_far_as_it_has_room() {
    let mut stage = Stage::at_noon(Limits { in_flight_max: 50, ..Limits::default() });
    stage.transact([stage.open()]).await;
    stage.transact((0..60).map(|nr| stage.put(nr)).collect::<Vec<_>>()).await;
    stage.told();
    let watch = stage.watch();
    stage.transact([watch]).await;
    assert!(stage.told().mails.into_iter().eq(0..50));
    let watch = stage.watch;
    let last = stage.last;
    let take = |mails| WriterJob::Take { address: BOX, watch, mails };
    // Numbers of another watch are ignored.
    stage.transact([WriterJob::Take { address: BOX, watch: watch + 1, mails: vec![last] }]).await;
    assert_eq!(stage.told(), Told::default());
    stage.transact([take((last - 2..=last).collect())]).await;
    assert!(stage.told().mails.into_iter().eq(50..53));
    let row = stage.writer.store.find_box(&BOX).await.unwrap().unwrap();
    assert_eq!((row.mails, row.bytes), (57, 57 * 512));
    // A watch that has ended gets no mail.
    stage.transact([WriterJob::Gone(vec![(BOX, watch)]), take(vec![stage.last])]).await;
    assert_eq!(stage.told(), Told::default());
    assert_eq!(stage.writer.store.find_box(&BOX).await.unwrap(), Some(row));
}

#[tokio::test]
async fn only_an_intro_box_has_a_bundle_and_one_that_fits() {
    let mut stage = Stage::at_noon(Limits { bundle_bytes_max: 8, ..Limits::default() });
    assert_eq!(stage.set(true, 8, &[]).await, NO_BOX);
    assert_eq!(stage.make(BOX, MailboxKind::Conversation).await, DONE);
    assert_eq!(stage.set(true, 8, &[]).await, REFUSED);
    stage.transact([WriterJob::Close { address: BOX, answer: stage.answer() }]).await;
    stage.told();
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await, DONE);
    let none = RelayFrame::Done { req: 1, code: DoneCode::NoBox, retry_s: 0 };
    assert_eq!(stage.get().await, [none]);
    for (bytes, said) in [(0, REFUSED), (1, DONE), (8, DONE), (9, REFUSED)] {
        assert_eq!(stage.set(true, bytes, &[]).await, said, "{bytes}");
    }
    let bundle = RelayFrame::Bundle { req: 1, bundle: vec![3; 8], key: None };
    assert_eq!(stage.get().await, [bundle]);
}

#[tokio::test]
async fn one_time_keys_are_kept_to_the_last_row() {
    let mut stage = Stage::at_noon(Limits { one_time_rows_max: 4, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await, DONE);
    assert_eq!(stage.set(true, 8, &[1, 2, 3, 4, 5]).await, RELAY_FULL);
    assert_eq!(stage.set(true, 8, &[1, 2]).await, DONE);
    // A key that exists already is not counted again, neither as a row nor as one left.
    assert_eq!(stage.set(false, 8, &[2, 3]).await, DONE);
    assert_eq!(stage.set(false, 8, &[4, 5]).await, RELAY_FULL);
    assert_eq!(stage.set(false, 8, &[4]).await, DONE);
    assert_eq!(stage.set(false, 8, &[5]).await, RELAY_FULL);
    assert_eq!(stage.set(false, 8, &[]).await, DONE);
    assert_eq!(stage.set(true, 8, &[6, 7, 8]).await, DONE);
    let watch = stage.watch();
    let stock = RelayFrame::Stock { number: NUMBER, left: 3 };
    assert!(stage.frames(watch).await.contains(&stock), "the earlier ones are forgotten");
    let Writer { ledger, store, .. } = &mut stage.writer;
    assert_eq!(ledger.totals(store).await.unwrap().bytes, 8 + 3 * 64);
}

#[tokio::test]
async fn a_bundle_and_its_keys_are_counted_to_the_last_byte() {
    let mut stage = Stage::at_noon(Limits { store_bytes_max: 8 + 2 * 64, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await, DONE);
    assert_eq!(stage.set(true, 9, &[1, 2]).await, RELAY_FULL);
    assert_eq!(stage.set(true, 8, &[1, 2]).await, DONE);
    assert_eq!(stage.set(false, 1, &[]).await, RELAY_FULL, "both are there for a moment");
}

#[tokio::test]
async fn each_one_time_key_is_given_out_once_and_a_low_stock_is_told() {
    let one_time_keys = mezza_host::process::rate::RateLimit { burst: 3, period_ms: 60_000 };
    let mut stage = Stage::at_noon(Limits { one_time_keys, ..Limits::default() });
    assert_eq!(stage.make(BOX, MailboxKind::Intro).await, DONE);
    let ids: Vec<u32> = (1..=21).collect();
    assert_eq!(stage.set(true, 8, &ids).await, DONE);
    let watch = stage.watch();
    let stock = |left| RelayFrame::Stock { number: NUMBER, left };
    assert!(stage.frames(watch).await.contains(&stock(21)));
    let given = |id: Option<u32>| {
        let key = id.map(|id| RawOneTimePrekey { id, key: [5; 32] });
        RelayFrame::Bundle { req: 1, bundle: vec![3; 8], key }
    };
    assert_eq!(stage.get().await, [given(Some(1))]);
    assert_eq!(stage.get().await, [given(Some(2)), stock(19)]);
    assert_eq!(stage.get().await, [given(Some(3)), stock(18)]);
    assert_eq!(stage.get().await, [given(None)], "nobody drains them");
}
