//! The writer in trouble: no commit, no DONE; and what a relay leaves in its folder and its log.

use std::os::unix::fs::PermissionsExt as _;

use mezza::testing::api::Exit;
use mezza::testing::servers::relay::{
    RelayConfig, RelayError, StoreSpec, init, read_status, start_relay,
};
use mezza_messenger::relay_wire::MailboxKind::{Conversation, Intro};
use mezza_messenger::relay_wire::{ClientFrame, DoneCode, MailboxAddress, RelayFrame};

use super::fixture::*;
use crate::logs;

/// However long the writer takes, there is no commit and so there is no DONE; the watcher has the
/// mail all the same.
#[tokio::test]
async fn without_a_commit_there_is_no_done() {
    let place = Place::sqlite();
    let (gate, clock) = Gate::before(place.clock.clock());
    let relay = place.start_with(RelayConfig { clock, ..place.config() }).await;
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    assert_eq!(bob.watch(1, 1).await, DONE);
    // The writer has looked for mail by now: what comes next is shown when it is queued.
    assert!(bob.is_silent().await);
    gate.set(true);
    let req = alice.put_unanswered(1, 9, letter(1)).await;
    let (_, nr, envelope) = bob.mail().await;
    assert_eq!(envelope, letter(1));
    // Behind the put, from the same connection: a DONE for it would stand before.
    alice.send(&ClientFrame::Ping).await;
    assert_eq!(alice.recv().await.unwrap(), RelayFrame::Ping);
    // TAKEN ahead of the commit removes the mail behind it.
    bob.taken(1, &[nr]).await;
    gate.set(false);
    let answer = alice.answer(req).await;
    assert!(matches!(answer, RelayFrame::Done { code: DoneCode::Done, .. }));
    assert_eq!(alice.put(1, letter(2)).await, DONE);
    assert_eq!(bob.mail().await.2, letter(2));
    relay.stop().await;
    assert_eq!(read_status(&place.config().dir, &place.store).await.unwrap().totals.mails, 1);
}

/// The commit itself fails (a deferred constraint, planted by the test): the watcher has the mail
/// already, the sender is told to come back, and the mail's number may go to another mail. The
/// watcher's connection ends, so that its TAKEN cannot remove that one.
#[tokio::test]
async fn a_commit_that_fails_is_no_done_and_ends_who_saw_the_mail() {
    let place = Place::sqlite();
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    assert_eq!(bob.watch(1, 1).await, DONE);
    let other = rusqlite::Connection::open(place.config().dir.join("mail.db")).unwrap();
    other
        .execute_batch(
            "CREATE TABLE absent(id INTEGER PRIMARY KEY);
             CREATE TABLE broken(id INTEGER REFERENCES absent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER breaks AFTER INSERT ON mail BEGIN INSERT INTO broken VALUES (7); END;",
        )
        .unwrap();
    let answer = alice.put(1, letter(1)).await;
    assert_eq!(answer.0, DoneCode::SlowDown);
    assert!(answer.1 > 0);
    // Whether the mail went out before the end is a race that nobody needs to win.
    if let Ok(RelayFrame::Mail { envelope, .. }) = bob.recv().await {
        assert_eq!(envelope, letter(1));
        assert!(bob.ended().await);
    }
    other.execute_batch("DROP TRIGGER breaks").unwrap();
    assert_eq!(alice.put(1, letter(2)).await, DONE);
    let mut bob = relay.connect().await;
    assert_eq!(bob.watch(1, 1).await, DONE);
    assert_eq!(bob.mail().await.2, letter(2));
    assert!(bob.is_silent().await);
    relay.stop().await;
    assert_eq!(read_status(&place.config().dir, &place.store).await.unwrap().totals.mails, 1);
}

/// Has the store of a place refuse to delete mail, or not any more.
async fn refuse_to_delete(place: &Place, refuse: bool) {
    let StoreSpec::Postgres(url) = &place.store else {
        let other = rusqlite::Connection::open(place.config().dir.join("mail.db")).unwrap();
        other.busy_timeout(PATIENCE).unwrap();
        let sql = if refuse {
            "CREATE TRIGGER refuses BEFORE DELETE ON mail BEGIN SELECT RAISE(ABORT, 'test'); END"
        } else {
            "DROP TRIGGER refuses"
        };
        return other.execute_batch(sql).unwrap();
    };
    let (client, session) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let session = tokio::spawn(session);
    let sql = if refuse {
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'test'; END $$;
         CREATE TRIGGER refuses BEFORE DELETE ON mail FOR EACH ROW EXECUTE FUNCTION refuse()"
    } else {
        "DROP TRIGGER refuses ON mail; DROP FUNCTION refuse"
    };
    client.batch_execute(sql).await.unwrap();
    drop(client);
    session.await.unwrap().unwrap();
}

/// ```text
///   alice --PUT--> store --MAIL--> bob --TAKEN--> the store refuses     64 times: all that may be in flight
///                                                 the store works again
///   alice --PUT--> store --MAIL--> bob            on the same connection
/// ```
#[tokio::test]
async fn relay_13_a_mailbox_is_not_deaf_after_64_takens_that_failed() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        let mut bob = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        assert_eq!(bob.watch(1, 1).await, DONE);
        refuse_to_delete(&place, true).await;
        for nr in 0..64 {
            assert_eq!(alice.put(1, letter(nr)).await, DONE);
            let (_, number, envelope) = bob.mail().await;
            assert_eq!(envelope, letter(nr));
            bob.taken(1, &[number]).await;
            // An answer that stands behind the TAKEN: its transaction is over.
            let _ = bob.open(2, Conversation).await;
        }
        // It fits into no flight: it waits in the store.
        assert_eq!(alice.put(1, letter(64)).await, DONE);
        refuse_to_delete(&place, false).await;
        let (_, number, envelope) = bob.mail().await;
        assert_eq!(envelope, letter(64), "by itself, with nobody asking for anything");
        bob.taken(1, &[number]).await;
        assert_eq!(alice.put(1, letter(65)).await, DONE);
        assert_eq!(bob.mail().await.2, letter(65));
        relay.stop().await;
        let left = read_status(&place.config().dir, &place.store).await.unwrap().totals.mails;
        assert_eq!(left, 1, "what was taken is gone, and the last one was not");
    }
}

/// Stopped in the middle of many puts: each answered one is there, and no other is twice.
#[tokio::test]
async fn a_stopping_relay_commits_what_it_answered() {
    let place = Place::sqlite()
        .with_limits(|limits| *limits = mezza::testing::servers::relay::Limits::raised());
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    let (mut sender, mut receiver) = alice.connection.split();
    let putting = tokio::spawn(async move {
        for nr in 0..60_000_u32 {
            let req = nr as u16 | 1;
            let put =
                ClientFrame::Put { req, address: place_of(1), ttl_h: 9, envelope: letter(nr) };
            if sender.send(&put).await.is_err() {
                break;
            }
        }
    });
    let mut answered = 0;
    for _ in 0..200 {
        receiver.recv().await.unwrap();
        answered += 1;
    }
    relay.stop().await;
    while receiver.recv().await.is_ok() {
        answered += 1;
    }
    putting.abort();
    let totals = read_status(&place.config().dir, &place.store).await.unwrap().totals;
    assert_eq!(totals.mails, answered);
}

fn place_of(token: u8) -> mezza_messenger::relay_wire::MailboxAddress {
    place(token)
}

/// The file that says where the relay listens is there for comfort. Here a folder is in its way.
#[tokio::test]
async fn a_relay_that_cannot_write_its_address_serves() {
    let place = Place::sqlite();
    let dir = place.config().dir;
    init(&dir, &place.store).await.unwrap();
    std::fs::create_dir(dir.join("address")).unwrap();
    let relay = place.start().await;
    assert_eq!(relay.connect().await.open(1, Conversation).await, DONE);
    assert_eq!(mezza::testing::servers::relay::running_address(&dir), None);
    relay.stop().await;
}

#[tokio::test]
async fn key_and_folder_are_the_owners_alone() {
    let place = Place::sqlite();
    let dir = place.config().dir;
    let store = place.store.clone();
    let error = read_status(&dir, &store).await.unwrap_err();
    assert_eq!(error.exit_code(), Exit::NotFound);
    let key = init(&dir, &store).await.unwrap();
    assert_eq!(init(&dir, &store).await.unwrap(), key);
    let mode = |name: &str| dir.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("key"), mode("mail.db")), (0o700, 0o600, 0o600));
    let relay = place.start().await;
    assert_eq!(*relay.handle.key(), key);
    assert_eq!(read_status(&dir, &store).await.unwrap().key, key);
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let error = start_relay(place.config(), stopped).await.unwrap_err();
    assert!(matches!(error, RelayError::InUse { .. }));
    assert_eq!(error.exit_code(), Exit::Busy);
    relay.stop().await;
    std::fs::set_permissions(dir.join("key"), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(read_status(&dir, &store).await.unwrap_err().exit_code(), Exit::Denied);
    std::fs::set_permissions(dir.join("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(dir.join("key"), [0; 31]).unwrap();
    assert_eq!(read_status(&dir, &store).await.unwrap_err().exit_code(), Exit::Malformed);
}

/// Everything a client can cause, listened to at the finest level; then the tables, read whole.
#[tokio::test]
async fn relay_7_no_record_and_no_log_of_who_put() {
    logs::so_far();
    let place = Place::sqlite();
    let relay = place.start().await;
    let token = 0xa7;
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    assert_eq!(alice.open(token, Intro).await, DONE);
    assert_eq!(alice.put(token, letter(0x5e0c_5e0c)).await, DONE);
    assert_eq!(alice.bundle_set(token, true, b"planted bundle", 0..3).await, DONE);
    alice.bundle_get(token).await;
    assert_eq!(bob.watch(1, token).await, DONE);
    bob.stock().await;
    let (_, nr, _) = bob.mail().await;
    let mut raw = RawPeer::connect(&relay).await;
    raw.write(&[9, 9, 9]).await;
    raw.frames_to_end().await;
    let columns = columns(&place);
    bob.taken(1, &[nr]).await;
    relay.stop().await;
    assert_eq!(
        columns,
        "box: id addr kind bytes seen_day; mail: seq box due_h body; bundle: box body; \
         one_time: box id key; card: id serial body; "
    );
    let logs = logs::so_far();
    let planted = MailboxAddress::from_token(&secret(token));
    let lines = || logs.lines().filter(|line| line.contains("mezza_servers::relay"));
    assert!(lines().any(|line| line.contains("relay listens")), "{logs}");
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let list = |bytes: &[u8]| format!("{}, {}, {}", bytes[0], bytes[1], bytes[2]);
    for line in lines() {
        let low = line.to_lowercase();
        for secret in [&planted.0[..], &[token; 32], b"planted bundle"] {
            assert!(!low.contains(&hex(secret)[..8]), "{line}");
            assert!(!low.contains(&list(secret)), "{line}");
        }
        assert!(!low.contains("127.0.0.1") && !low.contains("planted"), "{line}");
    }
}

/// Every column of every table.
fn columns(place: &Place) -> String {
    let db = rusqlite::Connection::open(place.config().dir.join("mail.db")).unwrap();
    let mut tables = db
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        .unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut text = String::new();
    for table in tables.map(Result::unwrap) {
        let mut names = db.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        let names = names.query_map([&table], |row| row.get::<_, String>(0)).unwrap();
        let names: Vec<_> = names.map(Result::unwrap).collect();
        text.extend([&table, ": ", &names.join(" "), "; "]);
    }
    text
}

/// ```text
///   other session --locks the table of mail-->  alice --PUT--> the store does not answer
///   the relay is told to stop                    and has ended while the lock is still held
/// ```
#[tokio::test]
async fn node_2_a_relay_whose_store_does_not_answer_ends_all_the_same() {
    for place in Place::both().await {
        let StoreSpec::Postgres(url) = &place.store else { continue };
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        let (mut other, session) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let session = tokio::spawn(session);
        let lock = other.transaction().await.unwrap();
        lock.batch_execute("LOCK TABLE mail IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let put = tokio::spawn(async move { alice.put(1, letter(0)).await });
        let waits = "SELECT 1 FROM pg_locks WHERE NOT granted";
        while lock.query(waits, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        // The lock is held until the relay has ended.
        relay.stop_within(PATIENCE).await;
        put.abort();
        drop(lock);
        drop(other);
        session.await.unwrap().unwrap();
    }
}
