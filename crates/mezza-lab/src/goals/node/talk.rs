//! M1 and M8: memory of idle nodes, then one node writes to the others over a relay. All are
//! processes.
//!
//! ```text
//! POST note -> ratchet, commit -> relay: commit -> reader: commit -> receipt -> WebSocket: delivered
//! |<------------------------------------ M1 ---------------------------------------------------->|
//! ```

mod m1;

pub use m1::M1;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mezza::testing::api::json::{NoteJson, NoteStateJson, SendRequest};
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::faces::cli::follow::Follower;
use mezza::testing::process::rng::OsRng;
use rand_core::Rng as _;

use super::bare::EmptyPath;
use super::disk::{SyncedLog, Syncs};
use super::world::{PATIENCE, Process, RelayProcess, introduce_nodes, start_node};
use crate::bench::Bench;
use crate::clock::{busy_words, to_ns};
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;
use m1::Times;

/// Time between two notes to one contact. Receipts of faster notes are delayed.
const PACE: Duration = Duration::from_millis(2_100);
/// Time after which a started node is idle.
const REST: Duration = Duration::from_millis(1_500);
/// M8: the median of all nodes.
pub const M8: Limit = Limit::at_most("M8", "idle node, resident memory", 60.0, "MiB");

/// Starts all processes, measures their memory, then times notes.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let (contacts, notes, syncs_n) = bench.profile.pick((3, 10, 10), (5, 100, 50), (20, 600, 200));
    let folder = bench.folder.path().join("world");
    std::fs::create_dir(&folder)?;
    let relay = RelayProcess::start(&folder, &[])?;
    let writer = start_node(&folder, "writer", &relay.entry)?;
    let readers = (0..contacts).map(|n| start_node(&folder, &format!("reader{n}"), &relay.entry));
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let memory = measure_memory(bench, &relay, readers.iter().chain([&writer]))?;
    let ids: Vec<String> =
        readers.iter().map(|r| introduce_nodes(&writer, r)).collect::<Result<_>>()?;
    let client = writer.client()?;
    for id in &ids {
        // The first note starts the session. M1 measures later notes.
        deliver_note(&client, id, "hello")?;
    }
    let mut syncs = Syncs::default();
    syncs.take_samples(bench.folder.path(), syncs_n)?;
    let mut bare = EmptyPath::start(bench.folder.path())?;
    let mut log = SyncedLog::fill_log(&bench.folder.path().join("sync"), 1)?;
    let work = || time_notes(&client, &mut bare, &mut log, &ids, notes);
    let mut patience = crate::clock::LoadWatch::new(2, false);
    let rounds = patience.run_rounds(work)?;
    syncs.take_samples(bench.folder.path(), syncs_n)?;
    let busy = busy_words(&rounds);
    let times = rounds.into_iter().next().context("no round")?.value;
    note_times(bench, &times, &syncs, busy.is_some())?;
    let mut rows = m1::make_rows(times, syncs);
    let last = rows.pop().context("no row")?;
    rows.push(last.with_detail(format!("{contacts} contacts in turn, {notes} notes")));
    if let Some(busy) = busy {
        rows = rows.into_iter().map(|row| row.with_detail(busy.clone())).collect();
    }
    rows.push(memory);
    Ok(rows)
}

/// Times one note to each contact in turn, and after each note a round trip of the empty path and
/// one sync. All three come after the same pause, because a pause slows each of them down, the sync
/// most.
fn time_notes(
    client: &ApiClient,
    bare: &mut EmptyPath,
    log: &mut SyncedLog,
    ids: &[String],
    notes: usize,
) -> Result<Times> {
    let gap = PACE / u32::try_from(ids.len())?;
    let mut times = Times::default();
    let mut next = Instant::now();
    let mut rest = || {
        next = (next + gap).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    };
    std::thread::sleep(PACE);
    for (n, id) in ids.iter().cycle().take(notes).enumerate() {
        rest();
        times.notes.push(deliver_note(client, id, &format!("note {n}"))?);
        rest();
        times.bare.push(bare.round_trip()?);
        rest();
        let began = Instant::now();
        log.commit_pages()?;
        times.syncs.push(to_ns(began.elapsed()) / 1e6);
    }
    Ok(times)
}

/// Sends a note and waits until it is shown as delivered. Returns milliseconds.
fn deliver_note(client: &ApiClient, contact: &str, text: &str) -> Result<f64> {
    // A user's page is connected before the user writes, so this connection is opened first.
    let line = client.connect()?;
    let follower = Follower::open_on(client)?;
    let mut id = [0; 16];
    OsRng.fill_bytes(&mut id);
    let client_id = data_encoding::HEXLOWER.encode(&id);
    let request = SendRequest { text: text.into(), client_id, mesh_life: None };
    let is_there =
        |note: &NoteJson| matches!(note.state, NoteStateJson::Delivered | NoteStateJson::Read);
    let began = Instant::now();
    let note: NoteJson = line.post(&format!("/v1/contacts/{contact}/notes"), &request)?;
    if !is_there(&note) {
        let found = follower.follow_until(Some(PATIENCE), |event| match &event.note {
            Some(seen) if seen.id == note.id && is_there(seen) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })?;
        found.context("a note was not delivered within a minute")?;
    }
    Ok(to_ns(began.elapsed()) / 1e6)
}

fn note_times(bench: &mut Bench, times: &Times, syncs: &Syncs, busy: bool) -> Result<()> {
    let all = [
        ("ours", "delivered", &times.notes),
        ("limit:path", "bare", &times.bare),
        ("limit:disk", "fdatasync_rested", &times.syncs),
        ("limit:disk", "fdatasync_growing", &syncs.growing),
        ("limit:disk", "fdatasync_steady", &syncs.steady),
    ];
    for (who, op, samples) in all {
        let figure = RawFigure::from_samples(who, op, "wall", "ms", samples.clone());
        bench.note_figure(&RawFigure { busy, ..figure })?;
    }
    Ok(())
}

/// Measures the memory of all nodes before the first note.
fn measure_memory<'a>(
    bench: &mut Bench,
    relay: &RelayProcess,
    nodes: impl Iterator<Item = &'a Process>,
) -> Result<Row> {
    std::thread::sleep(REST);
    let mib: Vec<f64> =
        nodes.map(|node| Ok(node.resident_bytes()? / f64::from(1 << 20))).collect::<Result<_>>()?;
    let n = mib.len();
    let relay = relay.process.resident_bytes()? / f64::from(1 << 20);
    let figure = RawFigure::from_samples("ours", "idle_node", "count", "MiB", mib);
    bench.note_figure(&figure)?;
    Ok(M8.make_row(figure.spread.median).with_detail(format!(
        "median of {n} unlocked nodes with a relay; the relay itself {relay:.1} MiB"
    )))
}
