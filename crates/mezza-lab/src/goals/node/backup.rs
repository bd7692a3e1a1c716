//! M11: CPU time and memory of a backup and of a restore, without the stretching of passphrases: the backup
//! is sealed to a key, and Argon2id of the vault is left out.
//!
//! Each step is a process of its own, because memory that an earlier step has freed would hide what a
//! later one needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use mezza::testing::backend::AwsLc;
use mezza::testing::backup::{
    BackupContent, BackupKey, BackupReader, Identity, Recipient, WorkProgress, write_backup,
};
use mezza::testing::process::rng::OsRng;
use mezza::testing::store::{Argon2Params, Vault};
use mezza_core::{Secret, StaticKey};
use serde::{Deserialize, Serialize};

use super::pair::DevicePair;
use crate::bench::Bench;
use crate::clock::{thread_cpu, to_ns};
use crate::limit::Limit;
use crate::machine::{peak_resident_bytes, resident_bytes};
use crate::raw::RawFigure;
use crate::row::Row;
use crate::terminal::print_line;

/// M11: the limits of time are proportional to [`NOTES`], those of memory are not.
pub const LIMITS: [Limit; 4] = [
    Limit::at_most_of_the_run("M11", "make a backup, CPU, 10 s for 100,000 notes", "s"),
    Limit::at_most("M11", "make a backup, memory above idle", MEMORY_MIB, "MiB"),
    Limit::at_most_of_the_run("M11", "check and restore, CPU, 20 s for 100,000 notes", "s"),
    Limit::at_most("M11", "check and restore, memory above idle", MEMORY_MIB, "MiB"),
];
const MAKE_S: f64 = 10.0;
const RESTORE_S: f64 = 20.0;
const MEMORY_MIB: f64 = 64.0;
const NOTES: f64 = 100_000.0;
const MIB: f64 = 1_048_576.0;
const PASSPHRASE: &[u8] = b"six words that nobody has to guess";

/// One step, in a process of its own.
#[derive(Debug, Args)]
pub struct StepOrder {
    /// The step
    step: Step,
    /// The backup
    file: PathBuf,
    /// Notes of the device that makes the backup
    notes: u32,
}

/// The steps.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Step {
    /// Make a backup
    Make,
    /// Check it, and make a vault of it
    Restore,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Make => "make",
            Self::Restore => "restore",
        }
    }
}

/// The cost of one step.
#[derive(Serialize, Deserialize)]
struct StepCost {
    cpu_ns: f64,
    /// The peak of the memory above that before the step.
    bytes: f64,
}

/// Makes a backup of a device with notes, and restores it.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let notes: u32 = bench.profile.pick(200, 20_000, 100_000);
    let file = bench.folder.path().join("backup.age");
    let mut rows = Vec::new();
    let [make_cpu, make_memory, restore_cpu, restore_memory] = LIMITS;
    for (step, cpu, memory, most_s) in [
        (Step::Make, make_cpu, make_memory, MAKE_S),
        (Step::Restore, restore_cpu, restore_memory, RESTORE_S),
    ] {
        let cost = run_step(step, &file, notes)?;
        let op = step.name();
        bench.note_figure(&RawFigure::single("ours", op, "thread_cpu", "ns", cost.cpu_ns))?;
        bench.note_count("ours", op, "bytes", cost.bytes)?;
        let goal = format!("{op} a backup of {notes} notes, CPU");
        let limit = most_s * f64::from(notes) / NOTES;
        rows.push(cpu.row_at(cost.cpu_ns / 1e9, limit).with_goal(&goal));
        // A step may need no more memory than the process had already. Then the cost of one page is
        // used.
        rows.push(memory.make_row(cost.bytes.max(4_096.0) / MIB));
    }
    let bytes = fs::metadata(&file)?.len();
    let detail =
        format!("a file of {bytes} bytes to an X25519 key, so that scrypt is not measured");
    let first = rows.remove(0).with_detail(detail);
    rows.insert(0, first);
    Ok(rows)
}

fn run_step(step: Step, file: &Path, notes: u32) -> Result<StepCost> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["backup-step", step.name()]).arg(file).arg(notes.to_string());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} of a backup: {said}", step.name());
    serde_json::from_slice(&output.stdout).context("the step printed no cost")
}

/// Carries out one step and prints its cost as JSON.
///
/// # Errors
/// If the device, the disk or the backup refuses.
pub fn serve_step(order: &StepOrder) -> Result<()> {
    let key = StaticKey::from_scalar::<AwsLc>(Secret::init_with(|scalar| scalar.fill(0x42)));
    let cost = match order.step {
        Step::Make => make(&order.file, order.notes, &key)?,
        Step::Restore => restore(&order.file, &key)?,
    };
    print_line(&serde_json::to_string(&cost)?)
}

fn make(file: &Path, notes: u32, key: &StaticKey) -> Result<StepCost> {
    let mut pair = DevicePair::<AwsLc>::new(mezza::testing::clock::now())?;
    for _ in 0..notes {
        pair.send_note()?;
        drop(pair.take_batches());
    }
    let made = pair.now();
    let key = BackupKey::draw(&Recipient::Key(key.public_key()), &mut OsRng)?;
    let progress = WorkProgress::default();
    let content = BackupContent { device: pair.writer_device(), settings: "", made, progress };
    let mut meter = StepMeter::begin()?;
    let manifest = write_backup(file, &key, &content, &mut OsRng)?;
    meter.pause()?;
    let found = manifest.counts.notes;
    ensure!(found >= u64::from(notes), "the backup has {found} notes of {notes}");
    Ok(meter.cost)
}

fn restore(file: &Path, key: &StaticKey) -> Result<StepCost> {
    let vault = file.with_extension("vault");
    let now = mezza::testing::clock::now().plus_ms(mezza_core::Time::DAY_MS);
    let mut meter = StepMeter::begin()?;
    let mut reader = BackupReader::open(file, &Identity::Key(key))?;
    reader.read_rows(now, &mut OsRng, &mut |_| Ok(()))?;
    meter.pause()?;
    // Argon2id takes 64 MiB for the passphrase of the vault before the first row, and gives them back. The
    // limit leaves that out, so that the meter goes on with the first row.
    let mut resumed = Ok(());
    let cost = Argon2Params::DEMO;
    Vault::create_filled(&vault, PASSPHRASE, cost, now, &mut OsRng, |rng, put| {
        resumed = meter.resume();
        reader.read_rows(now, rng, &mut |row| put(row)).map(drop)
    })?;
    resumed?;
    meter.pause()?;
    let (opened, records) = Vault::open(&vault, PASSPHRASE, now)?;
    ensure!(!records.is_empty(), "the vault is empty");
    opened.close()?;
    Ok(meter.cost)
}

/// Measures a step, with pauses for work that its limits leave out.
struct StepMeter {
    cost: StepCost,
    /// Resident memory before the step, in bytes.
    idle: f64,
    /// CPU time of this thread at the last start.
    began: Duration,
}

impl StepMeter {
    fn begin() -> Result<Self> {
        let idle = resident_bytes(std::process::id()).context("the system does not tell memory")?;
        let cost = StepCost { cpu_ns: 0.0, bytes: 0.0 };
        let mut meter = Self { cost, idle, began: Duration::ZERO };
        meter.resume()?;
        Ok(meter)
    }

    fn resume(&mut self) -> Result<()> {
        // From here on the system counts the peak from the present value.
        fs::write("/proc/self/clear_refs", "5").context("the peak of the memory is not reset")?;
        self.began = thread_cpu()?;
        Ok(())
    }

    fn pause(&mut self) -> Result<()> {
        self.cost.cpu_ns += to_ns(thread_cpu()?.saturating_sub(self.began));
        let peak = peak_resident_bytes(std::process::id());
        let peak = peak.context("the system does not tell memory")?;
        self.cost.bytes = self.cost.bytes.max(peak - self.idle);
        Ok(())
    }
}
