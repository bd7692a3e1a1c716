//! Backups: the file that a user keeps, and that restores a device.
//!
//! ```text
//! age v1 header (module `age`) | payload in sealed chunks (module `chunks`)
//! payload = a POSIX tar (module `tar`) of these entries, in this order:
//!   manifest.json   format, time, counts, length and BLAKE2b-256 of each other entry
//!   identity.json   identity key, name, serial of the card, relays
//!   contacts.jsonl  notes.jsonl  windows.jsonl  budget.jsonl       a value a line (module `lines`)
//!   settings.toml   settings without paths
//!   padding         zeros, up to a size that hides the exact one
//! ```
//!
//! `age -d FILE | tar x` opens it without this program. A reader goes through the whole file, and checks
//! every hash and every line, before anything is written (BACKUP-8).

mod age;
mod auto;
mod bech32;
mod chunks;
mod lines;
mod moving;
mod progress;
mod read;
mod restore;
mod tar;
#[cfg(test)]
mod tests;
mod write;

use crate::api::{Exit, Fault};

pub use age::{BackupKey, Identity, Recipient};
pub use auto::{AutoBackup, AutoFailure, AutoFile, BackupState};
pub use bech32::{read_recipient, recipient_text};
pub use lines::{BackupCounts, BackupManifest};
pub use moving::offer::{
    MoveNonce, MoveOffer, MoveStep, OFFER_BYTES_MAX, PROOF_BYTES, commit_to_nonce,
};
pub use moving::{
    ReceivedMove, cancel_move, finish_move, is_moved, is_moving, move_digits, prepare_move,
    receive_move, write_move,
};
pub use progress::WorkProgress;
pub use read::{BackupReader, ReadBackup, RowSink, network_to_rejoin};
pub use restore::restore_home;
pub use write::{BackupContent, seal_archive, write_backup};

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;
/// Most bytes of a backup file.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Most bytes of a line, and of an entry that is one value.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a line of `budget.jsonl`: a record of the vault in base64.
const BUDGET_LINE_BYTES_MAX: usize = 2 << 20;

/// Names of the entries, in their order. `padding` follows them.
const ENTRIES: [&str; 6] = [
    "identity.json",
    "contacts.jsonl",
    "notes.jsonl",
    "windows.jsonl",
    "budget.jsonl",
    "settings.toml",
];
const MANIFEST: &str = "manifest.json";
const PADDING: &str = "padding";

/// Returns the fault for a wrong passphrase and for a damaged header, which cannot be distinguished
/// (BACKUP-9).
fn wrong_key() -> Fault {
    Fault::new(
        Exit::Denied,
        "the backup does not open: the passphrase is wrong, or the beginning of the file is damaged",
        "type the passphrase of the backup again, or try another copy of the file",
    )
}

/// Returns the fault for a file whose body was changed or truncated.
fn damaged(what: &str) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("the backup is damaged: {what}"),
        "nothing was written; try another copy of the file",
    )
}

/// Returns the fault for a file that opens but whose content no device would write.
fn refused(what: &str) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("the backup cannot be restored: {what}"),
        "nothing was written; make another backup with this version of the program",
    )
}
