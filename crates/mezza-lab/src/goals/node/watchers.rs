//! M3: the memory of a relay for an idle watcher.

use anyhow::{Context as _, Result, bail};
use mezza::testing::clock::Clock;
use mezza::testing::connection::relay::{Connection, connect_relay};
use mezza_core::Secret;
use mezza_messenger::card::{RelayEntry, RelayKey};
use mezza_messenger::relay_wire::{ClientFrame, DoneCode, MailboxKind, RelayFrame};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;

use super::world::RelayProcess;
use crate::bench::Bench;
use crate::clock::Spread;
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;

/// M3: the limit in kB.
pub const LIMIT: Limit = Limit::at_most("M3", "idle watchers of a relay, each", 30.0, "kB");
/// Watchers that connect concurrently.
const AT_ONCE: usize = 32;
/// Watchers that connect first to warm the relay up; they are not counted.
const FIRST: u32 = 64;
/// Open files of relay and lab besides the watchers' sockets.
const OTHER_FILES: u64 = 200;
/// Limits per address, raised because all watchers share one address.
const RAISED: [(&str, &str); 2] =
    [("MEZZA_RELAY_CONNECTIONS_MAX", "1000000"), ("MEZZA_RELAY_OPENS_DAY_MAX", "1000000")];

/// Measures with the relay as a process and the watchers in this process.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let count: u32 = bench.profile.pick(500, 2_000, 10_000);
    let (_, files_max) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if files_max < u64::from(count) + OTHER_FILES {
        let reason = format!(
            "{count} sockets are needed and {files_max} files allowed; raise it with `ulimit -Hn`"
        );
        return Ok(vec![LIMIT.not_here(reason)]);
    }
    setrlimit(Resource::RLIMIT_NOFILE, files_max, files_max)?;
    let folder = bench.folder.path().join("watched");
    std::fs::create_dir(&folder)?;
    let relay = RelayProcess::start(&folder, &RAISED)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let mut all = runtime.block_on(connect_watchers(&relay.entry, 0..FIRST))?;
    let before = relay.process.resident_bytes()?;
    all.extend(runtime.block_on(connect_watchers(&relay.entry, FIRST..count))?);
    let after = relay.process.resident_bytes()?;
    runtime.block_on(check_answers(&mut all)).context("watchers are gone")?;
    let each = (after - before) / f64::from(count - FIRST) / 1_000.0;
    let spread = Spread { n: (count - FIRST) as usize, ..Spread::single(each) };
    let figure = RawFigure::single("ours", "idle_watcher", "count", "kB", each);
    bench.note_figure(&RawFigure { spread, ..figure })?;
    let mib = after / f64::from(1 << 20);
    Ok(vec![LIMIT.make_row(each).with_detail(format!(
        "{count} over TLS, each with a mailbox of its own, all still connected; growth after the first \
         {FIRST}; relay {mib:.0} MiB in all"
    ))])
}

async fn connect_watchers(
    relay: &RelayEntry,
    numbers: std::ops::Range<u32>,
) -> Result<Vec<Connection>> {
    let mut coming = JoinSet::new();
    let mut here = Vec::new();
    let mut next = numbers.start;
    while here.len() < numbers.len() {
        while next < numbers.end && coming.len() < AT_ONCE {
            coming.spawn(connect_watcher(relay.key, relay.port, next));
            next += 1;
        }
        here.push(coming.join_next().await.context("nobody comes")???);
    }
    Ok(here)
}

/// Checks that the relay responds on each of these connections.
async fn check_answers(watchers: &mut [Connection]) -> Result<()> {
    for watcher in watchers {
        watcher.send(&ClientFrame::Ping).await?;
        let RelayFrame::Ping = watcher.recv().await? else {
            bail!("the relay says something else")
        };
    }
    Ok(())
}

/// Connects, opens a mailbox and watches it.
async fn connect_watcher(key: RelayKey, port: u16, number: u32) -> Result<Connection> {
    let mut connection = connect_relay(&key, "127.0.0.1", port, &Clock::system(), None).await?;
    let token = || Secret::init_with(|bytes| bytes[..4].copy_from_slice(&number.to_be_bytes()));
    let open = ClientFrame::Open { req: 1, token: token(), kind: MailboxKind::Conversation };
    connection.send(&open).await?;
    connection.send(&ClientFrame::Watch { req: 2, number: 1, token: token() }).await?;
    for _ in 0..2 {
        match connection.recv().await? {
            RelayFrame::Done { code: DoneCode::Done, .. } => (),
            RelayFrame::Done { code, .. } => bail!("the relay answers {code:?}"),
            _ => bail!("the relay answers something else"),
        }
    }
    Ok(connection)
}
