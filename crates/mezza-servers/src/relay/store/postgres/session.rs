//! The session: connecting, the lock, migrations, statements.

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError,
    RecyclingMethod,
};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use super::{PostgresStore, address};
use crate::relay::store::{StoreError, to_signed};

/// One list of statements per version; the table `relay_version` counts the applied ones.
///
/// `mail_block` issues blocks of 1,000 seqs: a seq is never used twice, and a batch needs no round
/// trip for its numbers.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE box(id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, addr bytea NOT NULL UNIQUE,
                     kind int2 NOT NULL, bytes int8 NOT NULL, seen_day int8 NOT NULL);
    CREATE SEQUENCE mail_block INCREMENT BY 1000;
    CREATE TABLE mail(seq int8 PRIMARY KEY, box int8 NOT NULL, due_h int8 NOT NULL,
                      body bytea NOT NULL);
    ALTER TABLE mail ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE INDEX mail_box ON mail(box, seq);
    CREATE INDEX mail_due ON mail(due_h);
    CREATE TABLE bundle(box int8 PRIMARY KEY, body bytea NOT NULL);
    CREATE TABLE one_time(box int8 NOT NULL, id int8 NOT NULL, key bytea, PRIMARY KEY (box, id));
    CREATE TABLE card(id bytea PRIMARY KEY, serial int8 NOT NULL, body bytea NOT NULL);
"];

/// The advisory lock of a relay: the ASCII of "mezzarly".
pub(super) const LOCK: i64 = 0x6d65_7a7a_6172_6c79;

impl PostgresStore {
    /// Connects, locks the database for this relay, and migrates it to the newest version.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let mut store = Self::connect(url, true)?;
        store.reconnect().await?;
        store.migrate_schema().await?;
        Ok(store)
    }

    /// Connects to count what the database holds, beside a running relay.
    pub async fn open_to_read(url: &str) -> Result<Self, StoreError> {
        let mut store = Self::connect(url, false)?;
        store.reconnect().await?;
        Ok(store)
    }

    fn connect(url: &str, locked: bool) -> Result<Self, StoreError> {
        let config = address::parse_url(url)?;
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method });
        let mut builder = Pool::builder(manager).max_size(1);
        if locked {
            builder =
                builder.post_create(Hook::async_fn(|client, _| Box::pin(lock_database(client))));
        }
        let pool = builder.build().map_err(|error| StoreError::Pool(error.to_string()))?;
        Ok(Self { pool, session: None, next: 0, block_end: 0 })
    }

    /// Opens a new session if the old one is closed. Call this only between transactions.
    pub(super) async fn reconnect(&mut self) -> Result<&Object, StoreError> {
        let living = self.session.take().filter(|session| !session.is_closed());
        let session = match living {
            Some(session) => session,
            None => self.pool.get().await.map_err(|error| match error {
                PoolError::PostCreateHook(HookError::Message(_)) => StoreError::Busy,
                error => StoreError::Pool(full_cause(&error)),
            })?,
        };
        Ok(self.session.insert(session))
    }

    pub(super) fn live_session(&self) -> Result<&Object, StoreError> {
        self.session.as_ref().ok_or_else(|| StoreError::Pool("no session".to_owned()))
    }

    async fn migrate_schema(&mut self) -> Result<(), StoreError> {
        let session = self.session.as_mut().ok_or(StoreError::Damaged)?;
        session
            .batch_execute("CREATE TABLE IF NOT EXISTS relay_version(version int8 NOT NULL)")
            .await?;
        let sql = "SELECT coalesce(max(version), 0) FROM relay_version";
        let found: i64 = session.query_one(sql, &[]).await?.get(0);
        let known = MIGRATIONS.len();
        let done = usize::try_from(found).ok().filter(|done| *done <= known);
        let Some(done) = done else {
            return Err(StoreError::Version { found, known: to_signed(known) });
        };
        for (version, sql) in MIGRATIONS.iter().enumerate().skip(done) {
            let transaction = session.transaction().await?;
            transaction.batch_execute(sql).await?;
            let insert = "INSERT INTO relay_version VALUES ($1)";
            transaction.execute(insert, &[&to_signed(version + 1)]).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    pub(super) async fn execute(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let session = self.live_session()?;
        let statement = session.prepare_cached(sql).await?;
        Ok(session.execute(&statement, values).await?)
    }

    pub(super) async fn query_rows(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let session = self.live_session()?;
        let statement = session.prepare_cached(sql).await?;
        Ok(session.query(&statement, values).await?)
    }

    pub(super) async fn query_row(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        let session = self.live_session()?;
        let statement = session.prepare_cached(sql).await?;
        Ok(session.query_opt(&statement, values).await?)
    }
}

/// Turns on synchronous commit and takes the lock. A relay that was killed just now holds the lock
/// until the server notices, so this waits up to 5 s.
async fn lock_database(client: &ClientWrapper) -> Result<(), HookError> {
    let settings = "SET synchronous_commit = on; SET client_min_messages = error;
                    SET lock_timeout = '5s'";
    client.batch_execute(settings).await.map_err(HookError::Backend)?;
    let locked = client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await;
    locked.map_err(|error| match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => HookError::message("locked"),
        _ => HookError::Backend(error),
    })?;
    client.batch_execute("SET lock_timeout = 0").await.map_err(HookError::Backend)
}

/// Returns an error with its sources; the pool's own text has little detail.
fn full_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", full_cause(source)),
        None => error.to_string(),
    }
}
