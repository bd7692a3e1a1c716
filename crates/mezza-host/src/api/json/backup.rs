//! Backups, moves to another device, and notes whose fate is unknown after a restore.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A backup to be made or checked.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct BackupRequest {
    /// The path of the file on this machine, absolute.
    pub file: String,
    /// The passphrase of the backup, at least 8 characters.
    pub passphrase: String,
}

/// A backup that was made or checked.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Backup)]
pub struct BackupJson {
    /// Path of the backup file.
    pub file: String,
    /// Time at which the backup was made, milliseconds since 1970.
    pub made_ms: u64,
    /// The version of the program that made it.
    pub program: String,
    /// Number of contacts in the backup.
    pub contacts: u64,
    /// Number of notes in the backup. Notes with a timer are never in a backup.
    pub notes: u64,
}

/// Settings for backups that the node makes by itself.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct AutoBackupRequest {
    /// The folder on this machine, absolute.
    pub folder: String,
    /// Seconds between two backups, at least an hour.
    pub every_s: u64,
    /// Number of backups to keep, at least 1.
    pub keep: usize,
    /// The passphrase of the backups, at least 8 characters.
    pub passphrase: String,
}

/// The state of the backups.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Backups)]
pub struct BackupsJson {
    /// Time of the newest backup, milliseconds since 1970.
    pub made_ms: Option<u64>,
    /// Folder into which the node writes backups.
    pub folder: Option<String>,
    /// Seconds between two backups.
    pub every_s: Option<u64>,
    /// Number of backups to keep.
    pub keep: Option<usize>,
    /// Problem with the backups, as a sentence.
    pub warning: Option<String>,
    /// A folder of this user in which a backup can be stored.
    pub place: Option<String>,
}

/// A backup to restore. It needs a home without an identity.
#[derive(Deserialize, ToSchema)]
pub struct RestoreRequest {
    /// The path of the backup on this machine, absolute.
    pub file: String,
    /// The passphrase of the backup.
    pub backup_passphrase: String,
    /// The passphrase of the vault that is made, at least 8 characters.
    pub passphrase: String,
}

/// Progress of the work on a backup.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Progress)]
pub struct ProgressJson {
    /// The work in progress; absent if there is none.
    pub work: Option<LongWorkKind>,
    /// Bytes that were handled.
    pub done: u64,
    /// Total number of bytes; 0 if it is not known yet.
    pub total: u64,
}

/// Work that takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongWorkKind {
    /// A backup is made.
    Make,
    /// A backup is checked.
    Check,
    /// A backup is restored.
    Restore,
    /// An identity is moved.
    Move,
}

/// The recipient of a move: this device.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = MoveRecipient)]
pub struct MoveRecipientJson {
    /// `age1..`.
    pub recipient: String,
    /// The recipient as a QR code, in SVG.
    pub svg: String,
}

/// A file of a move.
#[derive(Deserialize, ToSchema)]
pub struct MoveFileRequest {
    /// Path of the received file on this machine, absolute.
    pub file: String,
}

/// The digits of the file of a move.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = MoveDigits)]
pub struct MoveDigitsJson {
    /// Eight digits.
    pub digits: String,
}

/// The last step of a move, on the new device.
#[derive(Deserialize, ToSchema)]
pub struct MoveInRequest {
    /// The path of the file on this machine, absolute.
    pub file: String,
    /// The key that the old device shows, `mezza-move:..`.
    pub key: String,
    /// The passphrase of the vault that is made, at least 8 characters.
    pub passphrase: String,
}

/// The first step of a move on the old device.
#[derive(Deserialize, ToSchema)]
pub struct MoveOutRequest {
    /// The recipient that the new device shows, `age1..`.
    pub recipient: String,
    /// The path of the new file on this machine, absolute.
    pub file: String,
    /// The passphrase of the vault.
    pub passphrase: String,
}

/// The last step of a move on the old device. It destroys the identity there.
#[derive(Deserialize, ToSchema)]
pub struct MoveFinishRequest {
    /// The eight digits that the new device shows.
    pub digits: String,
    /// The passphrase of the vault.
    pub passphrase: String,
}

/// The key of a move, for the new device.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = MoveKey)]
pub struct MoveKeyJson {
    /// `mezza-move:..`.
    pub key: String,
}

/// Notes of a contact whose fate is unknown after a restore of either side.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Restored)]
pub struct RestoredJson {
    /// Time when the backup was made from which this device was restored; absent if it was not
    /// restored.
    pub made_ms: Option<u64>,
    /// Number of our notes that are on the contact's device and not on this one.
    pub ahead: u32,
    /// Number of our notes that may have been sent since the backup.
    pub unsure: usize,
    /// Number of our notes that the contact had and lost.
    pub lost: usize,
    /// The same in words for the user.
    pub words: Vec<String>,
}

/// The reason why the fate of a note is unknown after a restore.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RestoreMark)]
pub struct RestoreMarkJson {
    /// The kind of the reason.
    pub what: RestoreMarkKind,
    /// The same in words for the user.
    pub words: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreMarkKind {
    /// The note may have been sent since the backup: send it again, or cancel it.
    Unsure,
    /// The contact had the note and lost it: it can be sent again.
    Lost,
}

/// The number of the note that is made.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SendAgainRequest {
    /// 32 hexadecimal digits, drawn at random for this request: a repeated request makes one note
    /// only.
    pub client_id: String,
}
