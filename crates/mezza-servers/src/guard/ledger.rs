//! The ledger of a guard on the disk: appended durably before the frame that a record covers.
//!
//! A write that failed may have left any part of its bytes. The next write therefore replaces the
//! whole file by a compact one, so that the disk never lacks a record that memory has (GUARD-50).

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use mezza_guard::ledger::{LedgerRecord, SlotLedger};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// Maximum bytes of a ledger that is read.
const BYTES_MAX: usize = 256 << 20;
/// Bytes above which the file is replaced by a compact one.
const COMPACT_BYTES: u64 = 4 << 20;

/// The open ledger.
#[derive(Debug)]
pub(crate) struct LedgerFile {
    path: PathBuf,
    file: File,
    /// Bytes of complete, durable records.
    bytes: u64,
    /// Bytes above which the next write replaces the file.
    compact_at: u64,
    /// True after a failed write.
    is_stale: bool,
}

/// Loads a ledger without changing its file.
///
/// # Errors
/// Exit code 65 for a damaged ledger, 66 for a missing one: it is never reset by itself.
pub(crate) fn load_ledger(path: &Path) -> Result<SlotLedger, Fault> {
    if !path.exists() {
        let text = "the ledger of the guard is missing";
        let next = "restore its newest copy; without one run `mezza guard init`, which begins all counts again";
        return Err(Fault::new(Exit::NotFound, text, next));
    }
    let bytes = private::read(path, BYTES_MAX + 1)?;
    if bytes.len() > BYTES_MAX {
        let text = "the ledger of the guard is longer than 256 MiB";
        return Err(Fault::new(Exit::Malformed, text, "restore its newest copy"));
    }
    let loaded = SlotLedger::load(&bytes).map_err(|error| {
        let text = format!("the ledger of the guard is damaged at byte {}", error.0);
        let next = "restore its newest copy; without one move it away and run `mezza guard init`, which \
                    begins all counts again";
        Fault::new(Exit::Malformed, text, next)
    })?;
    Ok(loaded.0)
}

impl LedgerFile {
    /// Opens the file of a loaded ledger: replaces it by a compact one, which also cuts off an
    /// incomplete last record.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be replaced.
    pub(crate) fn open(path: &Path, ledger: &SlotLedger) -> Result<Self, Fault> {
        private::sweep_leftover(path)?;
        let bytes = encode_ledger(ledger);
        private::replace(path, &bytes)?;
        let file = open_file(path)?;
        let bytes = bytes.len() as u64;
        let compact_at = COMPACT_BYTES.max(2 * bytes);
        Ok(Self { path: path.to_path_buf(), file, bytes, compact_at, is_stale: false })
    }

    /// Appends records durably. `ledger` has them already.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses. The records are written again by the next call.
    pub(crate) fn append(
        &mut self,
        records: &[LedgerRecord],
        ledger: &SlotLedger,
    ) -> Result<(), Fault> {
        if records.is_empty() && !self.is_stale {
            return Ok(());
        }
        if self.is_stale || self.bytes > self.compact_at {
            return self.replace(ledger);
        }
        let bytes: Vec<u8> = records.iter().flat_map(LedgerRecord::encode).collect();
        // True until the bytes are durable: a torn write must never be followed by another record.
        self.is_stale = true;
        private::write_at(&self.file, &bytes, self.bytes)
            .map_err(|error| private::cannot_write(&self.path, &error))?;
        self.bytes += bytes.len() as u64;
        self.is_stale = false;
        Ok(())
    }

    /// Returns true if the last write failed.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    fn replace(&mut self, ledger: &SlotLedger) -> Result<(), Fault> {
        self.is_stale = true;
        *self = Self::open(&self.path, ledger)?;
        Ok(())
    }
}

fn encode_ledger(ledger: &SlotLedger) -> Vec<u8> {
    ledger.compact_records().iter().flat_map(LedgerRecord::encode).collect()
}

fn open_file(path: &Path) -> Result<File, Fault> {
    let opened = OpenOptions::new().write(true).open(path);
    opened.map_err(|error| private::cannot_write(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::Time;
    use mezza_guard::coin::{CoinPurpose, SlotIndex, SlotName};
    use mezza_guard::keys::GuardClientId;
    use mezza_host::process::home::failing::{Failing, WriteStep};
    use nix::errno::Errno;

    const CLIENT: GuardClientId = GuardClientId([7; 16]);

    fn advanced(index: u64) -> LedgerRecord {
        let name = SlotName { client: CLIENT, purpose: CoinPurpose::LinkDialling, dest: 1 };
        LedgerRecord::Advanced(SlotIndex { name, index }, Some(40 + index as u32))
    }

    struct Bench {
        folder: tempfile::TempDir,
        ledger: SlotLedger,
        file: LedgerFile,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("ledger");
            private::create(&path, &[]).expect("a file");
            let ledger = SlotLedger::default();
            let file = LedgerFile::open(&path, &ledger).expect("open");
            Self { folder, ledger, file }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("ledger")
        }

        fn append(&mut self, record: LedgerRecord) -> Result<(), Fault> {
            self.ledger.apply_record(&record);
            self.file.append(&[record], &self.ledger)
        }

        fn handshakes(&self) -> u32 {
            load_ledger(&self.path()).expect("a ledger").totals().handshakes
        }
    }

    #[test]
    fn guard_37_an_incomplete_last_record_is_cut_off_and_damage_is_refused() {
        let mut bench = Bench::new();
        bench.append(advanced(0)).expect("written");
        bench.append(advanced(1)).expect("written");
        let whole = std::fs::read(bench.path()).expect("there");
        // The power failed inside the last record.
        std::fs::write(bench.path(), &whole[..whole.len() - 3]).expect("written");
        assert_eq!(bench.handshakes(), 1);
        let ledger = load_ledger(&bench.path()).expect("a ledger");
        let mut file = LedgerFile::open(&bench.path(), &ledger).expect("open");
        file.append(&[advanced(1)], &ledger).expect("written");
        assert_eq!(bench.handshakes(), 2, "the cut is durable before anything is appended");
        let mut damaged = std::fs::read(bench.path()).expect("there");
        damaged[5] ^= 1;
        std::fs::write(bench.path(), &damaged).expect("written");
        let fault = load_ledger(&bench.path()).map(drop).expect_err("damaged");
        assert_eq!(fault.code, Exit::Malformed);
        assert_eq!(std::fs::read(bench.path()).expect("there"), damaged, "it is left as it is");
        std::fs::remove_file(bench.path()).expect("removed");
        assert_eq!(load_ledger(&bench.path()).map(drop).expect_err("gone").code, Exit::NotFound);
    }

    #[test]
    fn guard_50_a_record_that_could_not_be_written_is_there_before_the_next_one() {
        for step in [WriteStep::Write, WriteStep::Sync] {
            let mut bench = Bench::new();
            bench.append(advanced(0)).expect("written");
            let failing = Failing::after(0, step, Errno::ENOSPC);
            let failed = bench.append(advanced(1));
            drop(failing);
            assert_eq!(failed.map_err(|fault| fault.code), Err(Exit::CannotWrite));
            assert!(bench.file.is_stale());
            bench.append(LedgerRecord::Refused(CLIENT, 1, Time::from_ms(9))).expect("written");
            let loaded = load_ledger(&bench.path()).expect("a ledger");
            assert_eq!((loaded.totals().handshakes, loaded.refused_ever(CLIENT)), (2, 1));
            assert!(!bench.file.is_stale());
        }
    }

    #[test]
    fn a_long_ledger_becomes_a_short_one() {
        let mut bench = Bench::new();
        bench.file.compact_at = 4_000;
        for index in 0..400 {
            bench.append(advanced(index)).expect("written");
        }
        assert!(std::fs::metadata(bench.path()).expect("there").len() < 12_000);
        assert_eq!(bench.handshakes(), 400);
    }
}
