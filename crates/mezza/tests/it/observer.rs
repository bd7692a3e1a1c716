//! The observer beside a second program: committed rows stay, whichever of them reads.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mezza::testing::faces::cli::serve::watched_files;
use mezza::testing::node::observer::Observer;
use mezza::testing::process::home::Home;
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::relay::store::{Durability, MailStore as _, NewMail, SqliteStore};
use mezza::testing::store::{Argon2Params, Vault};
use mezza_core::{Time, Wiping};
use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind};
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

/// Commits before and after somebody looks.
const COMMITS: u8 = 20;
/// The second program: it counts rows, and closes the database as its only user would.
const COUNT: &str = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
print(db.execute('SELECT count(*) FROM ' + sys.argv[2]).fetchone()[0])
db.close()";

/// Another SQLite, in a process of its own; `None` if there is none on this machine.
fn count(path: &Path, table: &str) -> Option<Output> {
    let mut python = Command::new("python3");
    let Ok(output) = python.args(["-c", COUNT]).arg(path).arg(table).output() else {
        println!("SKIPPED observer: no python3; apt install python3");
        let required = std::env::var_os("MEZZA_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!required, "MEZZA_REQUIRE_ALL=1, but there is no python3");
        return None;
    };
    Some(output)
}

/// A copy of a folder as a crash leaves it.
fn copy(from: &Path, to: &Path) {
    mezza::testing::process::home::private::make_folder(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn home(folder: &Path) -> Home {
    let home = Home::find(Some(folder)).unwrap();
    home.make_folders().unwrap();
    home
}

fn note(n: u8) -> WriteBatch {
    let value = Wiping::new(vec![n; 100]);
    WriteBatch(vec![RecordChange::Put {
        kind: RecordKind::Note,
        key: vec![n],
        bucket: Retention::Permanent,
        value,
    }])
}

#[test]
fn msg_61_whoever_looks_the_vault_stays_locked_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let now = Time::from_ms(20_000 * Time::DAY_MS);
    let home = home(&folder.path().join("home"));
    let observer = Observer::new(watched_files(&home));
    let mut vault =
        Vault::create(&home.vault(), b"pass", Argon2Params::DEMO, now, &mut OsRng).unwrap();
    for n in 0..COMMITS {
        vault.commit(&[note(n)]).unwrap();
        observer.events_since(0);
    }
    let Some(output) = count(&home.vault().join("records.db"), "rec") else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for n in COMMITS..2 * COMMITS {
        vault.commit(&[note(n)]).unwrap();
        observer.events_since(0);
    }
    let crashed = folder.path().join("crashed");
    copy(&home.vault(), &crashed);
    let (_, records) = Vault::open(&crashed, b"pass", now).unwrap();
    assert_eq!(records.len(), usize::from(2 * COMMITS), "{said}");
    assert!(said.contains("locked"), "another program got in: {output:?}");
}

#[tokio::test]
async fn msg_61_whoever_looks_the_relays_mail_stays() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder.path().join("home"));
    let observer = Observer::new(watched_files(&home));
    let path = home.relay().join("mail.db");
    let mut store = SqliteStore::open(&path, Durability::Full).unwrap();
    store.begin().await.unwrap();
    let box_id =
        store.open_box(&MailboxAddress([7; 16]), MailboxKind::Conversation, 20_000).await.unwrap();
    store.commit().await.unwrap();
    for n in 0..2 * COMMITS {
        if n == COMMITS {
            // A second connection of this process comes and goes, as SQLite allows.
            SqliteStore::open(&path, Durability::Full).unwrap().close().await.unwrap();
            let Some(output) = count(&path, "mail") else { return };
            assert_eq!(output.stdout, format!("{COMMITS}\n").as_bytes(), "{output:?}");
        }
        store.begin().await.unwrap();
        let mail = NewMail { box_id, due_h: 500_000, body: &[n; 512] };
        store.put_batch(&[mail]).await.unwrap();
        store.commit().await.unwrap();
        observer.events_since(0);
    }
    let crashed = folder.path().join("crashed");
    copy(&home.relay(), &crashed);
    let mut store = SqliteStore::open(&crashed.join("mail.db"), Durability::Full).unwrap();
    assert_eq!(store.count_totals().await.unwrap().mails, u64::from(2 * COMMITS));
}
