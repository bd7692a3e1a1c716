//! Tests that the ledger follows its store without queries.

use super::*;
use crate::relay::store::{Durability, SqliteStore};
use mezza_messenger::relay_wire::MailboxAddress;
use tempfile::TempDir;

const BOX: MailboxAddress = MailboxAddress([7; 16]);
const OTHER: MailboxAddress = MailboxAddress([8; 16]);

/// Returns a ledger that has counted an empty store.
async fn fresh() -> (TempDir, SqliteStore, QuotaCache) {
    let folder = TempDir::new().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("mail.db"), Durability::Off).unwrap();
    let mut ledger = QuotaCache::default();
    assert_eq!(ledger.totals(&mut store).await.unwrap(), Totals::default());
    (folder, store, ledger)
}

fn totals(boxes: u64, mails: u64, bytes: u64) -> Totals {
    Totals { boxes, mails, bytes, one_time_keys: 0 }
}

#[tokio::test]
async fn mails_are_counted_with_their_box_and_with_all() {
    let (_folder, mut store, mut ledger) = fresh().await;
    ledger.count_opened(&BOX, 3, MailboxKind::Intro);
    ledger.count_opened(&OTHER, 4, MailboxKind::Conversation);
    let row = MailboxRow { id: 3, kind: MailboxKind::Intro, mails: 0, bytes: 0 };
    assert_eq!(ledger.find_box(&mut store, &BOX).await.unwrap(), Some(row));
    assert_eq!(ledger.totals(&mut store).await.unwrap(), totals(2, 0, 0));
    for bytes in [512, 1_024, 2_048] {
        ledger.count_put(&BOX, bytes);
    }
    ledger.count_put(&OTHER, 700);
    let row = MailboxRow { mails: 3, bytes: 3_584, ..row };
    assert_eq!(ledger.find_box(&mut store, &BOX).await.unwrap(), Some(row));
    assert_eq!(ledger.totals(&mut store).await.unwrap(), totals(2, 4, 4_284));
    ledger.count_taken(&BOX, Removed { mails: 2, bytes: 1_536 });
    let row = MailboxRow { mails: 1, bytes: 2_048, ..row };
    assert_eq!(ledger.find_box(&mut store, &BOX).await.unwrap(), Some(row));
    assert_eq!(ledger.totals(&mut store).await.unwrap(), totals(2, 2, 2_748));
    let stock = Stock { rows: 2, left: 1, bundle_bytes: 100 };
    ledger.count_restocked(&BOX, Stock::default(), stock);
    assert_eq!(ledger.totals(&mut store).await.unwrap(), totals(2, 2, 2_976));
    ledger.count_closed(&BOX, row, stock);
    assert_eq!(ledger.totals(&mut store).await.unwrap(), totals(1, 1, 700));
    assert_eq!(ledger.find_box(&mut store, &BOX).await.unwrap(), None, "the store has none");
    ledger.forget_all();
    assert_eq!(ledger.totals(&mut store).await.unwrap(), Totals::default());
    assert_eq!(ledger.find_box(&mut store, &OTHER).await.unwrap(), None);
}

#[tokio::test]
async fn a_stock_is_counted_once_and_followed() {
    let (_folder, mut store, mut ledger) = fresh().await;
    let id = store.open_box(&BOX, MailboxKind::Intro, 1).await.unwrap();
    store.bundle_set(id, true, &[0; 100]).await.unwrap();
    let keys =
        [1, 2, 3].map(|id| mezza_messenger::relay_wire::RawOneTimePrekey { id, key: [9; 32] });
    store.keys_add(id, &keys).await.unwrap();
    store.key_take(id).await.unwrap().unwrap();
    ledger.forget_all();
    ledger.find_box(&mut store, &BOX).await.unwrap().unwrap();
    let stock = Stock { rows: 3, left: 2, bundle_bytes: 100 };
    assert_eq!(stock.bytes(), 292);
    assert_eq!(ledger.find_stock(&mut store, &BOX, id).await.unwrap(), stock);
    assert_eq!(ledger.totals(&mut store).await.unwrap().bytes, 292);
    // A change by another program is not noticed: the ledger does not query again.
    store.key_take(id).await.unwrap().unwrap();
    assert_eq!(ledger.find_stock(&mut store, &BOX, id).await.unwrap(), stock);
    let after = Stock { rows: 5, left: 4, bundle_bytes: 7 };
    ledger.count_restocked(&BOX, stock, after);
    assert_eq!(ledger.find_stock(&mut store, &BOX, id).await.unwrap(), after);
    assert_eq!(ledger.totals(&mut store).await.unwrap().bytes, 327);
}

#[tokio::test]
async fn so_many_boxes_are_remembered_and_then_none() {
    let mut ledger = QuotaCache::default();
    for number in 0..ROWS_MAX as u128 {
        ledger.count_opened(&MailboxAddress(number.to_be_bytes()), 1, MailboxKind::Intro);
    }
    assert_eq!(ledger.rows.len(), ROWS_MAX);
    ledger.count_opened(&MailboxAddress([0xff; 16]), 1, MailboxKind::Intro);
    assert_eq!(ledger.rows.len(), 1);
}
