//! M9: the time of a put while eight other clients send as many requests as the relay accepts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use mezza::testing::clock::Clock;
use mezza::testing::connection::relay::{Connection, connect_relay};
use mezza_core::Secret;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode, MailboxAddress, MailboxKind, RawOneTimePrekey, RelayFrame,
};
use tokio::task::JoinSet;
use tokio::time::{Instant as Until, sleep, timeout_at};

use super::world::RelayProcess;
use crate::bench::Bench;
use crate::clock::{quantile, sort_samples};
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;

/// M9: p99 with greedy clients divided by p99 without them.
pub const LIMIT: Limit =
    Limit::at_most("M9", "a put beside eight greedy connections, p99", 5.0, "x");
/// The number of greedy clients.
const GREEDY: u8 = 8;
/// Open requests of each greedy client.
const OPEN: usize = 200;
/// The time between two puts, longer than a connection's limit requires.
const PACE: Duration = Duration::from_millis(55);
/// Puts in the first 6 s, in which the greedy clients use up their bursts. Of fewer than 100 puts,
/// p99 would be the maximum.
const BURST_PUTS: usize = 110;
/// How long the run waits for greedy clients to end. A client that waits for its rate limit may
/// take longer and is then dropped.
const LEAVE: Duration = Duration::from_secs(10);
/// Puts per mailbox, whose capacity is 1,000 mails.
const BOX_PUTS: usize = 900;
/// Keys in the mailboxes of clients that send bundles without new keys.
const STOCKED: u32 = 3_584;
/// Maximum keys in one request to a relay.
const KEYS: u32 = 128;

/// The request that greedy clients repeat.
#[derive(Clone, Copy)]
enum Greed {
    Bundles(u32),
    Watch,
    Close,
}

const ALL: [(&str, Greed); 5] = [
    ("bundles without keys", Greed::Bundles(0)),
    ("bundles with 128 keys", Greed::Bundles(KEYS)),
    ("bundles with 1,800 keys", Greed::Bundles(1_800)),
    ("watches", Greed::Watch),
    ("closes", Greed::Close),
];

/// Measures with the relay as a process and all clients in this process.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let puts: usize = bench.profile.pick(20, 150, 500);
    let burst = bench.profile.pick(20, BURST_PUTS, BURST_PUTS);
    let counts = PutCounts { burst, steady: puts };
    let folder = bench.folder.path().join("greedy");
    std::fs::create_dir(&folder)?;
    let relay = RelayProcess::start(&folder, &[])?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let mut worst = 0.0_f64;
    let mut told = Vec::new();
    for (what, greed) in ALL {
        let puts = runtime.block_on(time_puts(&relay.entry, greed, counts))?;
        let p99 = |samples: &[f64]| quantile(&sort_samples(samples.to_vec()), 0.99);
        let [quiet, burst, steady] = puts.each_ref().map(|samples| p99(samples));
        let times = burst.max(steady) / quiet;
        worst = worst.max(times);
        let [quiet, burst, steady] = [quiet, burst, steady].map(|ns| ns / 1e6);
        told.push(format!(
            "{what}: {burst:.1} ms at first, {steady:.1} ms then, {quiet:.1} ms without, {times:.1} x"
        ));
        let ops = ["put_quiet".to_owned(), format!("{what}, at first"), what.to_owned()];
        for (op, samples) in ops.iter().zip(puts) {
            bench.note_figure(&RawFigure::from_samples("ours", op, "wall", "ns", samples))?;
        }
    }
    Ok(vec![told.into_iter().fold(LIMIT.make_row(worst), Row::with_detail)])
}

/// Numbers of measured puts.
#[derive(Clone, Copy)]
struct PutCounts {
    /// Puts during the initial burst of the greedy clients.
    burst: usize,
    /// Puts after it, and puts without greedy clients.
    steady: usize,
}

/// Measures puts in ns: without greedy clients, during their initial burst, and after it.
async fn time_puts(relay: &RelayEntry, greed: Greed, counts: PutCounts) -> Result<[Vec<f64>; 3]> {
    let mut victim = connect_client(relay).await?;
    let PutCounts { burst, steady } = counts;
    let quiet = put_all(&mut victim, steady).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut greedy = JoinSet::new();
    let mut answers = Vec::new();
    for number in 0..GREEDY {
        let evil = connect_client(relay).await?;
        let stop = Arc::clone(&stop);
        let count = Arc::default();
        answers.push(Arc::clone(&count));
        greedy.spawn(async move { ask_on(evil, greed, number, &stop, &count).await });
    }
    let loud = put_all(&mut victim, burst + steady).await;
    stop.store(true, Ordering::Relaxed);
    let until = Until::now() + LEAVE;
    while let Ok(Some(left)) = timeout_at(until, greedy.join_next()).await {
        left??;
    }
    let served = answers.iter().all(|count: &Arc<AtomicU64>| count.load(Ordering::Relaxed) > 0);
    ensure!(served, "a greedy client was not served at all");
    let mut early = loud?;
    let steady = early.split_off(burst);
    Ok([quiet, early, steady])
}

async fn connect_client(relay: &RelayEntry) -> Result<Connection> {
    Ok(connect_relay(&relay.key, "127.0.0.1", relay.port, &Clock::system(), None).await?)
}

fn make_secret(number: u8) -> Secret<32> {
    Secret::init_with(|bytes| bytes.fill(number))
}

/// Makes puts of 1 KiB, one after another, into new mailboxes.
async fn put_all(connection: &mut Connection, puts: usize) -> Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(puts);
    for at in 0..puts {
        let token = 100 + (at / BOX_PUTS) as u8;
        if at % BOX_PUTS == 0 {
            send_and_wait(connection, &ClientFrame::Close { req: 1, token: make_secret(token) })
                .await?;
            let kind = MailboxKind::Conversation;
            send_and_wait(
                connection,
                &ClientFrame::Open { req: 1, token: make_secret(token), kind },
            )
            .await?;
        }
        let address = MailboxAddress::from_token(&make_secret(token));
        let envelope = vec![at as u8; 1_024];
        let began = Instant::now();
        let put = ClientFrame::Put { req: 2, address, ttl_h: 24, envelope };
        match send_and_wait(connection, &put).await? {
            DoneCode::Done => samples.push(began.elapsed().as_secs_f64() * 1e9),
            code => bail!("a put was answered with {code:?}"),
        }
        sleep(PACE.saturating_sub(began.elapsed())).await;
    }
    Ok(samples)
}

async fn send_and_wait(connection: &mut Connection, frame: &ClientFrame) -> Result<DoneCode> {
    connection.send(frame).await?;
    loop {
        if let RelayFrame::Done { code, .. } = connection.recv().await? {
            return Ok(code);
        }
    }
}

/// Sends requests until `stop` is set, and counts the responses.
async fn ask_on(
    mut evil: Connection,
    greed: Greed,
    number: u8,
    stop: &AtomicBool,
    answers: &AtomicU64,
) -> Result<()> {
    let bundle = |from: u32, count: u32, fresh: bool| {
        let key = |id: u32| RawOneTimePrekey { id, key: [7; 32] };
        let keys = (from..from + count).map(key).collect();
        let token = make_secret(number);
        ClientFrame::BundleSet { req: 3, token, fresh, bundle: vec![1; 400], keys }
    };
    let kind = MailboxKind::Intro;
    send_and_wait(&mut evil, &ClientFrame::Open { req: 3, token: make_secret(number), kind })
        .await?;
    if let Greed::Bundles(0) = greed {
        for from in (1..STOCKED).step_by(KEYS as usize) {
            send_and_wait(&mut evil, &bundle(from, KEYS, false)).await?;
        }
    }
    let mut open = 0;
    let mut next = 1;
    while !stop.load(Ordering::Relaxed) {
        if open < OPEN {
            let frame = match greed {
                Greed::Bundles(0) => bundle(1, 0, false),
                // Fresh keys replace the stored keys, so that rows are deleted and inserted.
                Greed::Bundles(keys) => bundle(next, keys, true),
                Greed::Watch => {
                    ClientFrame::Watch { req: 3, number: 3, token: make_secret(number) }
                }
                Greed::Close => ClientFrame::Close { req: 3, token: make_secret(250) },
            };
            next += KEYS;
            evil.send(&frame).await?;
            open += 1;
        } else if let RelayFrame::Done { .. } = evil.recv().await? {
            open -= 1;
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
