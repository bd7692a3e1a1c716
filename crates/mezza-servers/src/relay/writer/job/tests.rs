//! Costs of jobs, the clients that wait for them, and the queue of a connection.

use super::*;
use mezza_messenger::relay_wire::DoneCode;

const BOX: MailboxAddress = MailboxAddress([7; 16]);

fn answer(req: u16) -> ReplyTo {
    ReplyTo { outlet: ConnectionQueue::new(1).0, req }
}

fn put(bytes: usize) -> WriterJob {
    WriterJob::Put(Put::new(BOX, 9, vec![0; bytes], answer(1)))
}

fn take(mails: usize) -> WriterJob {
    WriterJob::Take { address: BOX, watch: 1, mails: vec![0; mails] }
}

fn bundle_set(keys: usize) -> WriterJob {
    let keys = vec![RawOneTimePrekey { id: 0, key: [0; 32] }; keys];
    let fresh = true;
    let bundle = Vec::new();
    WriterJob::BundleSet(BundleSet { address: BOX, fresh, bundle, keys, answer: answer(2) })
}

/// The jobs with a constant amount of work; the requests of their responses count from 3.
fn fixed() -> [WriterJob; 4] {
    let address = BOX;
    let kind = MailboxKind::Intro;
    let site = [0; 8];
    [
        WriterJob::Open { address, kind, site, answer: answer(3) },
        WriterJob::Watch { address, watch: 1, number: 2, answer: answer(4) },
        WriterJob::BundleGet { address, answer: answer(5) },
        WriterJob::Close { address, answer: answer(6) },
    ]
}

fn watches(many: usize) -> Vec<(MailboxAddress, WatchId)> {
    vec![(BOX, 1); many]
}

#[test]
fn msg_73_a_job_makes_work_by_what_is_in_it() {
    assert_eq!(
        [0, 4_095, 4_096, 8_191, 8_192].map(|bytes| put(bytes).work_units()),
        [1, 1, 2, 2, 3]
    );
    assert_eq!([0, 3, 4, 7, 8].map(|mails| take(mails).work_units()), [1, 1, 2, 2, 3]);
    assert_eq!([0, 1, 2, 3, 4].map(|keys| bundle_set(keys).work_units()), [4, 4, 5, 5, 6]);
    assert_eq!(fixed().map(|job| job.work_units()), [2, 2, 2, 4]);
    for job in [WriterJob::Resume, WriterJob::Gone] {
        assert_eq!(
            [0, 15, 16, 31, 32].map(|many| job(watches(many)).work_units()),
            [1, 1, 2, 2, 3]
        );
    }
}

#[test]
fn nobody_waits_for_what_is_taken_or_gone() {
    let asked = [put(0), bundle_set(0)].into_iter().chain(fixed());
    for (req, job) in (1..).zip(asked) {
        assert_eq!(job.reply_to().map(|answer| answer.req), Some(req));
        assert!(!job.is_patient());
    }
    for (job, patient) in [
        (take(1), true),
        (WriterJob::Gone(watches(1)), true),
        (WriterJob::Resume(watches(1)), false),
    ] {
        assert!(job.reply_to().is_none());
        assert_eq!(job.is_patient(), patient);
    }
}

fn done(req: u16) -> RelayFrame {
    RelayFrame::Done { req, code: DoneCode::Done, retry_s: 0 }
}

#[test]
fn answers_have_places_that_no_mail_and_no_stock_takes() {
    let (outlet, mut events) = ConnectionQueue::new(2);
    for id in 0..QUEUED_MAILS_MAX as u64 {
        assert!(outlet.has_room(), "{id}");
        assert!(outlet.send_mail(9, 1, id, Vec::new()));
    }
    assert!(!outlet.was_stalled());
    assert!(!outlet.has_room());
    assert!(outlet.was_stalled() && !outlet.was_stalled(), "said once");
    let stock = || RelayFrame::Stock { number: 9, left: 3 };
    outlet.send_stock(stock());
    (1..=2).for_each(|req| outlet.send_answer(done(req)));
    // The first mail leaves a free slot, but one reserved for responses.
    for _ in 0..2 {
        assert!(matches!(events.try_recv(), Ok(WriterEvent::Mail { number: 9, watch: 1, .. })));
        assert!(!outlet.has_room());
    }
    assert!(matches!(events.try_recv(), Ok(WriterEvent::Mail { id: 2, .. })));
    assert!(outlet.has_room());
    outlet.send_stock(stock());
    let left: Vec<_> = std::iter::from_fn(|| events.try_recv().ok()).collect();
    assert_eq!(left.len(), QUEUED_MAILS_MAX - 3 + 2 + 1);
    let tail = &left[QUEUED_MAILS_MAX - 3..];
    assert!(matches!(&tail[0], WriterEvent::Answer(frame) if *frame == done(1)));
    assert!(matches!(&tail[1], WriterEvent::Answer(frame) if *frame == done(2)));
    assert!(matches!(&tail[2], WriterEvent::Unasked(frame) if *frame == stock()));
}

#[test]
fn mail_waits_in_the_store_once_so_many_bytes_are_queued() {
    let (outlet, events) = ConnectionQueue::new(1);
    assert!(outlet.send_mail(9, 1, 1, vec![0; QUEUED_BYTES_MAX - 1]));
    assert!(outlet.has_room() && !outlet.was_stalled());
    assert!(outlet.send_mail(9, 1, 2, vec![0]));
    assert!(!outlet.has_room() && outlet.was_stalled());
    outlet.mail_sent(1);
    assert!(outlet.has_room() && !outlet.was_stalled());
    drop(events);
    assert!(!outlet.send_mail(9, 1, 3, Vec::new()), "the connection is gone");
}

#[test]
fn a_connection_is_told_to_end_even_where_no_place_is_left() {
    let (outlet, mut events) = ConnectionQueue::new(1);
    assert!(!outlet.is_ended());
    outlet.end_connection();
    assert!(outlet.is_ended() && outlet.clone().is_ended());
    assert!(matches!(events.try_recv(), Ok(WriterEvent::End)));
    let (full, _events) = ConnectionQueue::new(0);
    assert!((0..QUEUED_MAILS_MAX as u64).all(|id| full.send_mail(9, 1, id, Vec::new())));
    full.end_connection();
    assert!(full.is_ended());
    assert!(full.is_same(&full.clone()) && !full.is_same(&outlet));
}

#[test]
fn a_put_keeps_what_it_was_made_of_and_its_site() {
    let put = Put::new(BOX, 9, vec![1, 2], answer(8)).of_site([5; 8]);
    assert_eq!((put.address, put.ttl_h, put.envelope.as_slice()), (BOX, 9, &[1, 2][..]));
    assert_eq!((put.answer.req, put.site, put.id), (8, [5; 8], 0));
    assert!(put.shown.is_none());
}
