//! Measures how fast mail becomes durable, with group commit and without.

use std::path::Path;
use std::time::{Duration, Instant};

use mezza_messenger::relay_wire::{DoneCode, MailboxAddress, MailboxKind, RelayFrame};

use crate::relay::date::RelayDate;
use crate::relay::store::{self, Durability, RelayStore, SqliteStore};
use crate::relay::writer::{
    ConnectionQueue, Jobs, Put, ReplyTo, WriterEvent, WriterJob, spawn_writer,
};
use crate::relay::{Limits, RelayError, StoreSpec};
use mezza_host::clock::Clock;

/// Bytes of each envelope.
const ENVELOPE_BYTES: usize = 1_024;
/// Boxes that the mail goes to in turn.
const BOXES: u16 = 100;
/// Mails under way at once, as from many clients; enough to fill each transaction.
const WINDOW: usize = 400;

/// The figures of a run of puts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PutsRate {
    /// Number of mails for which DONE 0 was received.
    pub puts: u64,
    /// Time from the first put to the last reply.
    pub elapsed: Duration,
}

impl PutsRate {
    /// Puts per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate is read by people")]
    pub fn per_second(&self) -> f64 {
        self.puts as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Puts `n` mails of 1 KiB through the group commit into a fresh SQLite file in `dir`; with
/// `sync_off` SQLite does not sync, for comparison.
///
/// # Errors
/// [`RelayError`] if the store cannot be made or refuses a mail.
pub async fn durable_puts(dir: &Path, n: u64, sync_off: bool) -> Result<PutsRate, RelayError> {
    let (name, durability) =
        if sync_off { ("puts-off.db", Durability::Off) } else { ("puts.db", Durability::Full) };
    let store = RelayStore::Sqlite(SqliteStore::open(&dir.join(name), durability)?);
    run_puts(store, dir, n, Limits::raised()).await
}

/// Measures as [`durable_puts`] with one commit per mail, for comparison with group commit.
///
/// # Errors
/// As [`durable_puts`].
pub async fn single_puts(dir: &Path, n: u64) -> Result<PutsRate, RelayError> {
    let store = SqliteStore::open(&dir.join("puts-single.db"), Durability::Full)?;
    run_puts(RelayStore::Sqlite(store), dir, n, Limits { batch_max: 1, ..Limits::raised() }).await
}

/// Measures as [`durable_puts`] with the PostgreSQL database of `spec`.
///
/// # Errors
/// As [`durable_puts`].
pub async fn puts_into(spec: &StoreSpec, dir: &Path, n: u64) -> Result<PutsRate, RelayError> {
    run_puts(store::open(spec, dir).await?, dir, n, Limits::raised()).await
}

async fn run_puts(
    store: RelayStore,
    dir: &Path,
    n: u64,
    limits: Limits,
) -> Result<PutsRate, RelayError> {
    let clock = Clock::system();
    let date = RelayDate::open(dir, clock.read());
    let (jobs, ended) = spawn_writer(store, limits, clock, date)
        .map_err(|source| RelayError::Io { what: "a thread", source })?;
    let (outlet, mut events) = ConnectionQueue::new(WINDOW);
    let answer = |req| ReplyTo { outlet: outlet.clone(), req };
    for number in 0..BOXES {
        let open = WriterJob::Open {
            address: box_address(number),
            kind: MailboxKind::Conversation,
            site: [0; 8],
            answer: answer(0),
        };
        send_job(&jobs, open).await?;
    }
    await_answers(&mut events, usize::from(BOXES)).await?;
    let start = Instant::now();
    let mut open = 0;
    for nr in 0..n {
        if open == WINDOW {
            await_answers(&mut events, 1).await?;
            open -= 1;
        }
        let address = box_address((nr % u64::from(BOXES)) as u16);
        let put = Put::new(address, 720, vec![nr as u8; ENVELOPE_BYTES], answer(1));
        send_job(&jobs, WriterJob::Put(put)).await?;
        open += 1;
    }
    await_answers(&mut events, open).await?;
    let elapsed = start.elapsed();
    drop((jobs, outlet));
    ended.await.map_err(|_| RelayError::WriterGone)??;
    Ok(PutsRate { puts: n, elapsed })
}

async fn send_job(jobs: &Jobs, job: WriterJob) -> Result<(), RelayError> {
    if jobs.send(job).await { Ok(()) } else { Err(RelayError::WriterGone) }
}

fn box_address(number: u16) -> MailboxAddress {
    let mut address = [0x42; 16];
    address[..2].copy_from_slice(&number.to_be_bytes());
    MailboxAddress(address)
}

/// Waits for `count` responses, each of which must be DONE 0.
async fn await_answers(
    events: &mut tokio::sync::mpsc::Receiver<WriterEvent>,
    count: usize,
) -> Result<(), RelayError> {
    for _ in 0..count {
        match events.recv().await {
            Some(WriterEvent::Answer(RelayFrame::Done { code: DoneCode::Done, .. })) => (),
            _ => return Err(RelayError::WriterGone),
        }
    }
    Ok(())
}
