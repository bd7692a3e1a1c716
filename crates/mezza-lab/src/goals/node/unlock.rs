//! M5: the cost of unlocking without Argon2, for a vault that a device has filled.

use anyhow::Result;
use mezza::testing::backend::AwsLc;
use mezza::testing::process::rng::OsRng;
use mezza::testing::store::{Argon2Params, Vault, head};
use mezza_core::Time;
use mezza_messenger::{CarrierSet, Device, WriteBatch};

use super::pair::DevicePair;
use crate::bench::Bench;
use crate::clock::cost_ns;
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;

/// M5, a goal of the next stage. The limit is proportional to [`NOTES`].
pub const LIMIT: Limit =
    Limit::at_most_of_the_run("M5", "unlock beside Argon2, CPU, 300 ms for 50,000 notes", "ms");
/// Limit in CPU milliseconds for [`NOTES`].
const CPU_MS_MAX: f64 = 300.0;
const NOTES: f64 = 50_000.0;
/// Notes per commit while the vault is filled.
const COMMIT: u32 = 500;
const PASSPHRASE: &[u8] = b"six words that nobody has to guess";

/// Fills a vault with delivered notes, and opens it.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let notes: u32 = bench.profile.pick(100, 5_000, 50_000);
    let folder = bench.folder.path().join("vault");
    let mut pair = DevicePair::<AwsLc>::new(mezza::testing::clock::now())?;
    let mut vault = Vault::create(&folder, PASSPHRASE, Argon2Params::DEMO, pair.now(), &mut OsRng)?;
    for n in 1..=notes {
        pair.send_note()?;
        if n % COMMIT == 0 || n == notes {
            commit_batches(&mut vault, &pair.take_batches(), pair.now())?;
        }
    }
    vault.close()?;
    let now = pair.now();
    drop(pair);
    let (master, argon_ns) = cost_ns(|| head::unlock_master(&folder.join("head"), PASSPHRASE))?;
    let master = master?;
    let (opened, open_ns) = cost_ns(|| Vault::open_with_key(&folder, &master, now))?;
    let (vault, records) = opened?;
    let count = records.len();
    let (device, load_ns) =
        cost_ns(|| Device::load(CarrierSet::<AwsLc>::default(), records, &[], now, &mut OsRng))?;
    drop((device?, vault));
    for (op, ns) in [("argon2_demo", argon_ns), ("open_records", open_ns), ("load", load_ns)] {
        bench.note_figure(&RawFigure::single("ours", op, "thread_cpu", "ns", ns))?;
    }
    let [argon, open, load] = [argon_ns, open_ns, load_ns].map(|ns| ns / 1e6);
    let limit = CPU_MS_MAX * f64::from(notes) / NOTES;
    let goal = format!("unlock {notes} notes beside Argon2, CPU");
    let row = LIMIT.row_at(open + load, limit).with_goal(&goal).into_context();
    Ok(vec![row.with_detail(format!(
        "{count} records: opened {open:.1} ms, loaded {load:.1} ms; Argon2 (64 MiB) {argon:.0} ms; \
         limit 0.3 s per 50,000 notes; a goal of the next stage"
    ))])
}

fn commit_batches(vault: &mut Vault, batches: &[WriteBatch], now: Time) -> Result<()> {
    if now >= vault.deadline() {
        vault.tick(now)?;
    }
    Ok(vault.commit(batches)?)
}
