//! The store in PostgreSQL: one session, `synchronous_commit = on`, batches as arrays.
//!
//! The session holds an advisory lock, so that two relays never serve one database: quotas and
//! watchers live in the memory of one writer.

mod address;
mod session;

use std::collections::BTreeMap;
use std::fmt;

use deadpool_postgres::{Object, Pool};
use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RawOneTimePrekey};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use session::LOCK;

use super::{
    Mail, MailStore, MailboxRow, MailboxRowId, NewMail, Removed, Seq, StoreError, Totals,
    kind_number, kind_of, to_signed,
};

/// Seqs in one block of `mail_block`.
const BLOCK: Seq = 1_000;

/// A relay's PostgreSQL database.
pub struct PostgresStore {
    pool: Pool,
    session: Option<Object>,
    next: Seq,
    block_end: Seq,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresStore")
    }
}

impl PostgresStore {
    /// Returns the next `n` seqs, ascending.
    async fn next_seqs(&mut self, n: usize) -> Result<Vec<Seq>, StoreError> {
        let mut seqs = Vec::with_capacity(n);
        while seqs.len() < n {
            if self.next == self.block_end {
                let row = self.query_row("SELECT nextval('mail_block')", &[]).await?;
                // The sequence begins at 1, so that no seq is 0.
                self.next = row.ok_or(StoreError::Damaged)?.try_get(0)?;
                self.block_end = self.next + BLOCK;
            }
            seqs.push(self.next);
            self.next += 1;
        }
        Ok(seqs)
    }

    /// Adds `by_box` to the byte counts.
    async fn grow_boxes(&self, by_box: &BTreeMap<MailboxRowId, i64>) -> Result<(), StoreError> {
        let ids: Vec<MailboxRowId> = by_box.keys().copied().collect();
        let bytes: Vec<i64> = by_box.values().copied().collect();
        let sql = "UPDATE box SET bytes = box.bytes + d.bytes
                   FROM unnest($1::int8[], $2::int8[]) AS d(id, bytes) WHERE box.id = d.id";
        self.execute(sql, &[&ids, &bytes]).await.map(drop)
    }

    /// Counts the rows `(box, length)` of removed mail, and subtracts them from their boxes.
    async fn shrink_boxes(&self, rows: &[Row]) -> Result<Removed, StoreError> {
        let (mut removed, mut by_box) = (Removed::default(), BTreeMap::<MailboxRowId, i64>::new());
        for row in rows {
            let bytes: i32 = row.try_get(1)?;
            removed.mails += 1;
            removed.bytes += u64::try_from(bytes).unwrap_or(0);
            *by_box.entry(row.try_get(0)?).or_default() -= i64::from(bytes);
        }
        if !by_box.is_empty() {
            self.grow_boxes(&by_box).await?;
        }
        Ok(removed)
    }
}

impl MailStore for PostgresStore {
    async fn begin(&mut self) -> Result<(), StoreError> {
        Ok(self.reconnect().await?.batch_execute("BEGIN").await?)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Ok(self.live_session()?.batch_execute("COMMIT").await?)
    }

    async fn rollback(&mut self) {
        let Some(session) = self.session.take() else { return };
        match session.batch_execute("ROLLBACK").await {
            Ok(()) => self.session = Some(session),
            // The state of the session is unknown: closing it makes the server end its transaction.
            Err(_) => drop(Object::take(session)),
        }
    }

    async fn find_box(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<Option<MailboxRow>, StoreError> {
        let sql = "SELECT id, kind, bytes, (SELECT count(*) FROM mail WHERE mail.box = box.id)
                   FROM box WHERE addr = $1";
        let Some(row) = self.query_row(sql, &[&address.0.as_slice()]).await? else {
            return Ok(None);
        };
        Ok(Some(MailboxRow {
            id: row.try_get(0)?,
            kind: kind_of(row.try_get(1)?)?,
            bytes: row.try_get::<_, i64>(2)?.try_into().unwrap_or(0),
            mails: row.try_get::<_, i64>(3)?.try_into().unwrap_or(u32::MAX),
        }))
    }

    async fn open_box(
        &mut self,
        address: &MailboxAddress,
        kind: MailboxKind,
        day: u32,
    ) -> Result<MailboxRowId, StoreError> {
        let sql =
            "INSERT INTO box(addr, kind, bytes, seen_day) VALUES ($1, $2, 0, $3) RETURNING id";
        let values: [&(dyn ToSql + Sync); 3] =
            [&address.0.as_slice(), &kind_number(kind), &i64::from(day)];
        let row = self.query_row(sql, &values).await?.ok_or(StoreError::Damaged)?;
        Ok(row.try_get(0)?)
    }

    async fn close_box(&mut self, id: MailboxRowId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM mail WHERE box = $1",
            "DELETE FROM bundle WHERE box = $1",
            "DELETE FROM one_time WHERE box = $1",
            "DELETE FROM box WHERE id = $1",
        ] {
            self.execute(sql, &[&id]).await?;
        }
        Ok(())
    }

    async fn set_seen_day(&mut self, id: MailboxRowId, day: u32) -> Result<(), StoreError> {
        let sql = "UPDATE box SET seen_day = $2 WHERE id = $1 AND seen_day <> $2";
        self.execute(sql, &[&id, &i64::from(day)]).await.map(drop)
    }

    async fn put_batch(&mut self, mails: &[NewMail<'_>]) -> Result<Vec<Seq>, StoreError> {
        let seqs = self.next_seqs(mails.len()).await?;
        let boxes: Vec<MailboxRowId> = mails.iter().map(|mail| mail.box_id).collect();
        let dues: Vec<i64> = mails.iter().map(|mail| i64::from(mail.due_h)).collect();
        let bodies: Vec<&[u8]> = mails.iter().map(|mail| mail.body).collect();
        let mut by_box = BTreeMap::<MailboxRowId, i64>::new();
        for mail in mails {
            *by_box.entry(mail.box_id).or_default() += to_signed(mail.body.len());
        }
        let sql = "INSERT INTO mail(seq, box, due_h, body)
                   SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[])";
        let values: [&(dyn ToSql + Sync); 4] = [&seqs, &boxes, &dues, &bodies];
        tokio::try_join!(self.execute(sql, &values), self.grow_boxes(&by_box))?;
        Ok(seqs)
    }

    async fn fetch_mails(
        &mut self,
        id: MailboxRowId,
        after: Seq,
        now_h: u32,
        max: u32,
    ) -> Result<Vec<Mail>, StoreError> {
        let sql = "SELECT seq, body FROM mail WHERE box = $1 AND seq > $2 AND due_h >= $3
                   ORDER BY seq LIMIT $4";
        let rows = self.query_rows(sql, &[&id, &after, &i64::from(now_h), &i64::from(max)]).await?;
        rows.iter().map(|row| Ok(Mail { seq: row.try_get(0)?, body: row.try_get(1)? })).collect()
    }

    async fn take_mails(&mut self, id: MailboxRowId, seqs: &[Seq]) -> Result<Removed, StoreError> {
        let sql = "DELETE FROM mail WHERE box = $1 AND seq = ANY($2) RETURNING box, length(body)";
        let rows = self.query_rows(sql, &[&id, &seqs]).await?;
        self.shrink_boxes(&rows).await
    }

    async fn expire_mails(&mut self, now_h: u32, max: u32) -> Result<Removed, StoreError> {
        let sql = "DELETE FROM mail WHERE seq IN (SELECT seq FROM mail WHERE due_h < $1 LIMIT $2)
                   RETURNING box, length(body)";
        let rows = self.query_rows(sql, &[&i64::from(now_h), &i64::from(max)]).await?;
        self.shrink_boxes(&rows).await
    }

    async fn drop_idle(&mut self, day: u32, max: u32) -> Result<u32, StoreError> {
        let sql = "SELECT id FROM box WHERE seen_day < $1
                   AND NOT EXISTS (SELECT 1 FROM mail WHERE mail.box = box.id) LIMIT $2";
        let rows = self.query_rows(sql, &[&i64::from(day), &i64::from(max)]).await?;
        for row in &rows {
            self.close_box(row.try_get(0)?).await?;
        }
        Ok(rows.len() as u32)
    }

    async fn bundle_set(
        &mut self,
        id: MailboxRowId,
        fresh: bool,
        bundle: &[u8],
    ) -> Result<(), StoreError> {
        if fresh {
            self.execute("DELETE FROM one_time WHERE box = $1", &[&id]).await?;
        }
        let sql = "INSERT INTO bundle(box, body) VALUES ($1, $2)
                   ON CONFLICT (box) DO UPDATE SET body = excluded.body";
        self.execute(sql, &[&id, &bundle]).await.map(drop)
    }

    async fn keys_add(
        &mut self,
        id: MailboxRowId,
        keys: &[RawOneTimePrekey],
    ) -> Result<u32, StoreError> {
        let ids: Vec<i64> = keys.iter().map(|key| i64::from(key.id)).collect();
        let bodies: Vec<&[u8]> = keys.iter().map(|key| key.key.as_slice()).collect();
        let sql = "INSERT INTO one_time(box, id, key)
                   SELECT $1, d.id, d.key FROM unnest($2::int8[], $3::bytea[]) AS d(id, key)
                   ON CONFLICT DO NOTHING";
        Ok(u32::try_from(self.execute(sql, &[&id, &ids, &bodies]).await?).unwrap_or(u32::MAX))
    }

    async fn keys_count(&mut self, id: MailboxRowId) -> Result<(u32, u32), StoreError> {
        let sql = "SELECT count(*), count(key) FROM one_time WHERE box = $1";
        let Some(row) = self.query_row(sql, &[&id]).await? else { return Ok((0, 0)) };
        let count = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok((count(row.try_get(0)?), count(row.try_get(1)?)))
    }

    async fn read_bundle(&mut self, id: MailboxRowId) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.query_row("SELECT body FROM bundle WHERE box = $1", &[&id]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn key_take(&mut self, id: MailboxRowId) -> Result<Option<RawOneTimePrekey>, StoreError> {
        let sql = "SELECT id, key FROM one_time WHERE box = $1 AND key IS NOT NULL
                   ORDER BY id LIMIT 1";
        let Some(row) = self.query_row(sql, &[&id]).await? else { return Ok(None) };
        let key_id: i64 = row.try_get(0)?;
        let key: &[u8] = row.try_get(1)?;
        let sql = "UPDATE one_time SET key = NULL WHERE box = $1 AND id = $2";
        self.execute(sql, &[&id, &key_id]).await?;
        Ok(Some(RawOneTimePrekey {
            id: u32::try_from(key_id).map_err(|_| StoreError::Damaged)?,
            key: key.try_into().map_err(|_| StoreError::Damaged)?,
        }))
    }

    async fn count_totals(&mut self) -> Result<Totals, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM box), (SELECT count(*) FROM mail),
                   (SELECT coalesce(sum(bytes), 0) FROM box)::int8
                   + (SELECT coalesce(sum(length(body)), 0) FROM bundle)::int8
                   + 64 * (SELECT count(*) FROM one_time),
                   (SELECT count(key) FROM one_time)";
        let row = self.query_row(sql, &[]).await?.ok_or(StoreError::Damaged)?;
        let count = |at: usize| -> Result<u64, StoreError> {
            Ok(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or(0))
        };
        Ok(Totals {
            boxes: count(0)?,
            mails: count(1)?,
            bytes: count(2)?,
            one_time_keys: count(3)?,
        })
    }

    async fn close(mut self) -> Result<(), StoreError> {
        self.rollback().await;
        // Release the lock now, so that the next relay does not wait until the server notices the
        // end of this one.
        if let Some(session) = &self.session {
            session.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
        }
        self.pool.close();
        Ok(())
    }
}
