//! The requirements of a store, tested on both.

use mezza::testing::api::Exit;
use mezza::testing::servers::relay::StoreSpec;
use mezza::testing::servers::relay::store::{
    self, Mail, MailStore, NewMail, RelayStore, Removed, Totals,
};
use mezza_messenger::relay_wire::MailboxKind::{Conversation, Intro};

use super::fixture::{Place, letter, one_time, place};

#[tokio::test]
async fn relay_9_both_stores_pass_the_same_suite() {
    for place in Place::both().await {
        match opened(&place).await {
            RelayStore::Sqlite(mut store) => {
                suite(&mut store).await;
                reopened(store, &place).await;
            }
            RelayStore::Postgres(mut store) => {
                suite(&mut store).await;
                reopened(store, &place).await;
            }
        }
    }
}

async fn suite(store: &mut impl MailStore) {
    boxes(fresh(store).await).await;
    mails(fresh(store).await).await;
    numbers(fresh(store).await).await;
    expiry(fresh(store).await).await;
    idle(fresh(store).await).await;
    bundles(fresh(store).await).await;
    rollback(fresh(store).await).await;
    fresh(store).await;
}

/// The store, emptied.
async fn fresh<S: MailStore>(store: &mut S) -> &mut S {
    store.begin().await.unwrap();
    for token in 0..=255 {
        if let Some(row) = store.find_box(&super::fixture::place(token)).await.unwrap() {
            store.close_box(row.id).await.unwrap();
        }
    }
    store.commit().await.unwrap();
    assert_eq!(store.count_totals().await.unwrap(), Totals::default());
    store
}

async fn opened(place: &Place) -> RelayStore {
    store::open(&place.store, place.dir.path()).await.unwrap()
}

async fn boxes(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    assert_eq!(store.find_box(&place(1)).await.unwrap(), None);
    let one = store.open_box(&place(1), Conversation, 100).await.unwrap();
    let two = store.open_box(&place(2), Intro, 100).await.unwrap();
    assert_ne!(one, two);
    assert!(store.open_box(&place(2), Intro, 100).await.is_err(), "an address is there once");
    store.rollback().await;
    store.begin().await.unwrap();
    assert_eq!(store.find_box(&place(1)).await.unwrap(), None);
    let one = store.open_box(&place(1), Conversation, 100).await.unwrap();
    let two = store.open_box(&place(2), Intro, 100).await.unwrap();
    store.commit().await.unwrap();
    let row = store.find_box(&place(1)).await.unwrap().unwrap();
    assert_eq!((row.id, row.kind, row.mails, row.bytes), (one, Conversation, 0, 0));
    let row = store.find_box(&place(2)).await.unwrap().unwrap();
    assert_eq!((row.id, row.kind), (two, Intro));
    assert_eq!(store.count_totals().await.unwrap(), Totals { boxes: 2, ..Totals::default() });
}

/// Puts one mail for each number into a box, due in hour 9.
async fn put(
    store: &mut impl MailStore,
    box_id: i64,
    numbers: impl IntoIterator<Item = u32>,
) -> Vec<i64> {
    let bodies: Vec<_> = numbers.into_iter().map(letter).collect();
    let mails: Vec<_> = bodies.iter().map(|body| NewMail { box_id, due_h: 9, body }).collect();
    store.put_batch(&mails).await.unwrap()
}

async fn mails(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let one = store.open_box(&place(1), Conversation, 1).await.unwrap();
    let two = store.open_box(&place(2), Conversation, 1).await.unwrap();
    let a = letter(0);
    let b = letter(1);
    let both = [
        NewMail { box_id: one, due_h: 9, body: &a },
        NewMail { box_id: two, due_h: 9, body: &b },
        NewMail { box_id: one, due_h: 9, body: &b },
    ];
    let seqs = store.put_batch(&both).await.unwrap();
    assert!(seqs[0] > 0 && seqs.is_sorted_by(|x, y| x < y));
    let mail = |at: usize, nr| Mail { seq: seqs[at], body: letter(nr) };
    // Inside the transaction already.
    assert_eq!(store.fetch_mails(one, 0, 9, 64).await.unwrap(), [mail(0, 0), mail(2, 1)]);
    store.commit().await.unwrap();
    store.begin().await.unwrap();
    assert_eq!(store.fetch_mails(one, 0, 9, 64).await.unwrap(), [mail(0, 0), mail(2, 1)]);
    assert_eq!(store.fetch_mails(one, 0, 9, 1).await.unwrap(), [mail(0, 0)]);
    assert_eq!(store.fetch_mails(one, seqs[0], 9, 9).await.unwrap(), [mail(2, 1)]);
    let row = store.find_box(&place(1)).await.unwrap().unwrap();
    assert_eq!((row.mails, row.bytes), (2, 1_024));
    // Mail of another box, and mail that is not there, is not taken.
    let none = Removed::default();
    assert_eq!(store.take_mails(two, &[seqs[0], seqs[2], seqs[2] + 99]).await.unwrap(), none);
    let removed = store.take_mails(one, &[seqs[0], seqs[1]]).await.unwrap();
    assert_eq!(removed, Removed { mails: 1, bytes: 512 });
    assert_eq!(store.take_mails(one, &[seqs[0]]).await.unwrap(), none);
    assert_eq!(store.take_mails(one, &[]).await.unwrap(), none);
    assert_eq!(store.fetch_mails(one, 0, 9, 64).await.unwrap(), [mail(2, 1)]);
    store.commit().await.unwrap();
    let totals = store.count_totals().await.unwrap();
    assert_eq!((totals.boxes, totals.mails, totals.bytes), (2, 2, 1_024));
}

/// A number that was committed is not used again, even when its mail and all behind it are gone.
async fn numbers(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let one = store.open_box(&place(1), Conversation, 1).await.unwrap();
    let first = put(store, one, 0..2_500).await;
    assert!(first.is_sorted_by(|x, y| x < y));
    store.commit().await.unwrap();
    store.begin().await.unwrap();
    assert_eq!(store.take_mails(one, &first).await.unwrap().mails, 2_500);
    store.commit().await.unwrap();
    store.begin().await.unwrap();
    let second = put(store, one, 0..1).await;
    store.commit().await.unwrap();
    assert!(second[0] > first[2_499]);
}

async fn expiry(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let one = store.open_box(&place(1), Conversation, 1).await.unwrap();
    let seqs = put(store, one, 0..5).await;
    assert_eq!(store.fetch_mails(one, 0, 9, 64).await.unwrap().len(), 5);
    assert_eq!(store.fetch_mails(one, 0, 10, 64).await.unwrap(), []);
    assert_eq!(store.expire_mails(9, 64).await.unwrap(), Removed::default());
    assert_eq!(store.expire_mails(10, 2).await.unwrap(), Removed { mails: 2, bytes: 1_024 });
    let row = store.find_box(&place(1)).await.unwrap().unwrap();
    assert_eq!((row.mails, row.bytes), (3, 1_536));
    assert_eq!(store.expire_mails(10, 64).await.unwrap().mails, 3);
    assert_eq!(store.take_mails(one, &seqs).await.unwrap(), Removed::default());
    store.commit().await.unwrap();
    assert_eq!(store.count_totals().await.unwrap(), Totals { boxes: 1, ..Totals::default() });
}

async fn idle(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let mut ids = Vec::new();
    for token in 1..5 {
        ids.push(store.open_box(&place(token), Intro, 100).await.unwrap());
    }
    put(store, ids[0], 0..1).await;
    store.set_seen_day(ids[1], 101).await.unwrap();
    store.bundle_set(ids[2], true, b"bundle").await.unwrap();
    store.keys_add(ids[2], &[one_time(1)]).await.unwrap();
    assert_eq!(store.drop_idle(100, 64).await.unwrap(), 0);
    assert_eq!(store.drop_idle(101, 1).await.unwrap(), 1);
    assert_eq!(store.drop_idle(101, 64).await.unwrap(), 1);
    store.commit().await.unwrap();
    let left = Totals { boxes: 2, mails: 1, bytes: 512, one_time_keys: 0 };
    assert_eq!(store.count_totals().await.unwrap(), left);
}

async fn bundles(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let one = store.open_box(&place(1), Intro, 1).await.unwrap();
    assert_eq!(store.read_bundle(one).await.unwrap(), None);
    assert_eq!(store.key_take(one).await.unwrap(), None);
    store.bundle_set(one, false, b"first").await.unwrap();
    store.keys_add(one, &[one_time(7), one_time(u32::MAX)]).await.unwrap();
    store.keys_add(one, &[]).await.unwrap();
    assert_eq!(store.keys_count(one).await.unwrap(), (2, 2));
    assert_eq!(store.key_take(one).await.unwrap(), Some(one_time(7)));
    // Given out or there: ignored.
    let mut other = one_time(u32::MAX);
    other.key = [0; 32];
    store.keys_add(one, &[one_time(7), other, one_time(8)]).await.unwrap();
    assert_eq!(store.keys_count(one).await.unwrap(), (3, 2));
    store.bundle_set(one, false, b"second").await.unwrap();
    assert_eq!(store.read_bundle(one).await.unwrap().as_deref(), Some(&b"second"[..]));
    assert_eq!(store.key_take(one).await.unwrap(), Some(one_time(8)));
    assert_eq!(store.key_take(one).await.unwrap(), Some(one_time(u32::MAX)));
    assert_eq!(store.key_take(one).await.unwrap(), None);
    store.bundle_set(one, true, b"third").await.unwrap();
    assert_eq!(store.keys_count(one).await.unwrap(), (0, 0));
    store.keys_add(one, &[one_time(7)]).await.unwrap();
    store.commit().await.unwrap();
    let totals = store.count_totals().await.unwrap();
    assert_eq!((totals.bytes, totals.one_time_keys), (5 + 64, 1));
}

async fn rollback(store: &mut impl MailStore) {
    store.begin().await.unwrap();
    let one = store.open_box(&place(1), Conversation, 1).await.unwrap();
    let kept = put(store, one, 0..2).await;
    store.commit().await.unwrap();
    store.begin().await.unwrap();
    put(store, one, 2..4).await;
    store.take_mails(one, &kept[..1]).await.unwrap();
    store.rollback().await;
    store.begin().await.unwrap();
    let found = store.fetch_mails(one, 0, 9, 64).await.unwrap();
    assert_eq!(found.iter().map(|mail| mail.seq).collect::<Vec<_>>(), kept);
    assert_eq!(store.find_box(&place(1)).await.unwrap().unwrap().bytes, 1_024);
    store.commit().await.unwrap();
}

async fn reopened(mut store: impl MailStore, place: &Place) {
    store.begin().await.unwrap();
    let one = store.open_box(&super::fixture::place(1), Intro, 1).await.unwrap();
    let seqs = put(&mut store, one, 0..3).await;
    store.commit().await.unwrap();
    store.begin().await.unwrap();
    put(&mut store, one, 3..4).await;
    // Neither committed nor rolled back: as after a crash.
    store.close().await.unwrap();
    match opened(place).await {
        RelayStore::Sqlite(store) => holds(store, one, &seqs).await,
        RelayStore::Postgres(store) => holds(store, one, &seqs).await,
    }
}

async fn holds(mut store: impl MailStore, box_id: i64, seqs: &[i64]) {
    store.begin().await.unwrap();
    let found = store.fetch_mails(box_id, 0, 9, 64).await.unwrap();
    assert_eq!(found.iter().map(|mail| mail.seq).collect::<Vec<_>>(), seqs);
    store.commit().await.unwrap();
    store.close().await.unwrap();
}

#[test]
fn a_store_is_named_by_its_kind() {
    let parse = |text: &str| text.parse::<StoreSpec>();
    assert_eq!(parse("sqlite").unwrap(), StoreSpec::Sqlite(None));
    assert_eq!(parse("sqlite:/srv/m.db").unwrap(), StoreSpec::Sqlite(Some("/srv/m.db".into())));
    let url = "postgres://mezza@localhost/relay";
    for text in [url.to_owned(), format!("postgres:{url}")] {
        assert_eq!(parse(&text).unwrap(), StoreSpec::Postgres(url.to_owned()));
    }
    for wrong in ["", "sqlite:", "postgres:", "redis:x", "/srv/m.db"] {
        assert_eq!(parse(wrong).unwrap_err().exit_code(), Exit::Config, "{wrong}");
    }
}

#[tokio::test]
async fn a_newer_store_is_left_alone() {
    let place = Place::sqlite();
    opened(&place).await.close().await.unwrap();
    let db = rusqlite::Connection::open(place.dir.path().join("mail.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let error = store::open(&place.store, place.dir.path()).await.unwrap_err();
    assert_eq!(error.exit_code(), Exit::Malformed);
    assert!(error.to_string().contains("version 99"));
}

#[tokio::test]
async fn two_relays_never_serve_one_database() {
    let Some(url) = crate::postgres::database().await else { return };
    let spec = StoreSpec::Postgres(url);
    let place = Place::sqlite();
    let first = store::open(&spec, place.dir.path()).await.unwrap();
    assert_eq!(store::open(&spec, place.dir.path()).await.unwrap_err().exit_code(), Exit::Busy);
    first.close().await.unwrap();
    store::open(&spec, place.dir.path()).await.unwrap().close().await.unwrap();
}
