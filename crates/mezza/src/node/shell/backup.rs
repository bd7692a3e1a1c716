//! Backups of an unlocked vault.

use std::fs;
use std::path::Path;

use mezza_core::{Machine as _, Time};
use mezza_messenger::device::backup::BackupView;
use mezza_messenger::io::NetworkAddress;
use mezza_messenger::{Device, WriteBatch};

use mezza_host::api::json::{BackupJson, BackupsJson, HealthLine};
use mezza_host::api::words;
use mezza_host::api::{Exit, Fault, Refused};
use mezza_host::backend::AwsLc;
use mezza_host::backup::{
    AutoBackup, AutoFailure, AutoFile, BackupContent, BackupKey, BackupState, WorkProgress,
    write_backup,
};
use mezza_host::process::rng::OsRng;
use mezza_host::store::Vault;

use super::NodeShell;
use super::leaving::LeavingNotes;
use super::network::join_input;
use crate::node::plan::{self, CommitPlan};

/// Joins the mixnet of a backup again, at the first start of a restored vault. A network that
/// cannot be joined is not tried again: `mezza mixnet join` shows why.
pub(super) fn rejoin_network(
    device: &mut Device<AwsLc>,
    network: NetworkAddress,
    forget: WriteBatch,
    now: Time,
) -> CommitPlan {
    if let Err(refused) = device.handle(join_input(network), now, &mut OsRng) {
        tracing::warn!(%refused, "the mixnet of the backup was not joined again");
    }
    let mut turn = plan::drain_device(device);
    turn.batches.push(forget);
    turn
}

/// Minimum time between two automatic backups, in seconds.
const EVERY_S_MIN: u64 = 3_600;
/// Maximum number of automatic backups to keep.
const KEEP_MAX: usize = 1_000;

/// Settings that contain a path on this machine; a backup omits them.
const PLACES: [&str; 1] = ["relay_store"];

impl NodeShell {
    /// Returns the settings of the home as text, without those that contain paths. If the file is
    /// missing or cannot be read, the text is empty.
    fn settings_without_paths(&self) -> String {
        let file = self.options.vault.with_file_name("config.toml");
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut settings: toml::Table = text.parse().unwrap_or_default();
        settings.retain(|key, _| !PLACES.contains(&key));
        settings.to_string()
    }

    fn backup_state(&self) -> Result<&BackupState, Refused> {
        self.open.as_ref().map(|open| &open.backups).ok_or_else(Refused::locked)
    }

    /// Stores the state of the backups.
    fn set_backup_state(&mut self, state: BackupState) -> Result<(), Refused> {
        self.commit_batches(Vec::new(), vec![state.put_row()?])?;
        if let Some(open) = &mut self.open {
            open.backups = state;
        }
        Ok(())
    }

    /// The state of the backups.
    ///
    /// # Errors
    /// The vault is locked.
    pub fn describe_backups(&self) -> Result<BackupsJson, Refused> {
        let state = self.backup_state()?;
        let auto = state.auto.as_ref();
        let warning = self.backup_warning();
        Ok(BackupsJson {
            made_ms: state.made_ms,
            folder: auto.map(|auto| auto.folder.clone()),
            every_s: auto.map(|auto| auto.every_s),
            keep: auto.map(|auto| auto.keep),
            warning: warning.map(|(text, next)| format!("{text}; {next}")),
            place: std::env::home_dir().map(|folder| folder.display().to_string()),
        })
    }

    /// Returns the problem with the automatic backups and the next step, or `None`.
    fn backup_warning(&self) -> Option<(String, &'static str)> {
        let oldest = BackupView::new(self.unlocked_device().ok()?).notes().next();
        self.backup_state().ok()?.warning(self.date(), oldest.map(|note| note.at))
    }

    /// Returns the health line about backups.
    pub(super) fn backup_line(&self) -> Option<HealthLine> {
        let state = self.backup_state().ok()?;
        if let Some((text, next)) = self.backup_warning() {
            return Some(HealthLine::bad("backup", &text, next));
        }
        let Some(made_ms) = state.made_ms else {
            let text = "none yet; `mezza backup make FILE` makes one";
            return Some(HealthLine::good("backup", text));
        };
        let days = self.date().as_ms().saturating_sub(made_ms) / Time::DAY_MS;
        let age = words::format_count(days, "day", "days");
        Some(HealthLine::good("backup", &format!("the last one is {age} old")))
    }

    /// Sets or ends automatic backups.
    ///
    /// # Errors
    /// The vault is locked, or a value is outside of its limits.
    pub fn set_auto_backup(&mut self, auto: Option<AutoBackup>) -> Result<BackupsJson, Refused> {
        let is_sound =
            |auto: &AutoBackup| auto.every_s >= EVERY_S_MIN && (1..=KEEP_MAX).contains(&auto.keep);
        if !auto.as_ref().is_none_or(is_sound) {
            let text = "a backup is made once an hour at most, and 1 to 1,000 are kept";
            return Err(Refused::malformed(text, "choose other values"));
        }
        let state = BackupState { auto, ..self.backup_state()?.clone() };
        self.set_backup_state(state)?;
        self.make_due_backup(self.date());
        self.describe_backups()
    }

    /// Makes the backup that is due. The last good backup is kept even if this one fails.
    pub(super) fn make_due_backup(&mut self, now: Time) {
        let state = self.backup_state().ok().filter(|state| state.is_due(now)).cloned();
        let Some(mut auto) = state.and_then(|state| state.auto) else { return };
        let made =
            auto.next_file(now, &mut OsRng).map_err(Refused::from).and_then(|(path, key)| {
                self.write_backup(&path, &key, &WorkProgress::default())?;
                Ok(path)
            });
        match made {
            Ok(path) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                let bytes = path.metadata().map_or(0, |found| found.len());
                auto.last = name.map(|name| AutoFile { name, bytes });
                (auto.made_ms, auto.failed) = (now.as_ms(), None);
                auto.delete_surplus();
            }
            Err(refused) => {
                tracing::warn!(word = refused.word, "a backup was not made");
                let text = refused.fault.text;
                auto.failed = Some(AutoFailure { at_ms: now.as_ms(), text });
            }
        }
        let Ok(state) = self.backup_state() else { return };
        let state = BackupState { auto: Some(auto), ..state.clone() };
        self.log_refusal(|shell| shell.set_backup_state(state));
    }
    /// Returns the refusal of a command that needs a vault: the vault never existed, or has moved
    /// to another device.
    pub(super) fn no_identity(&self) -> Refused {
        if self.is_moved() { Refused::moved() } else { Refused::empty() }
    }

    /// Returns true if the identity of this home has moved away (BACKUP-31).
    pub(super) fn is_moved(&self) -> bool {
        mezza_host::backup::is_moved(&self.options.vault)
    }

    /// Stops everything that runs, so that the vault can be moved away. Rounds of a mixnet, which
    /// continue while a vault is locked, end as well (BACKUP-30).
    ///
    /// # Errors
    /// There is no identity here, or it is that of the demonstration.
    pub fn stop_to_move(&mut self) -> Result<(), Refused> {
        if self.options.demo {
            let next = "make an identity of your own first";
            let fault = Fault::new(Exit::Usage, "a demonstration is not moved", next);
            return Err(Refused::new("demo", fault));
        }
        if !Vault::exists(&self.options.vault) {
            return Err(self.no_identity());
        }
        self.lock_vault();
        // Numbers of notes mean nothing in another vault that this process may open later.
        self.leaving = LeavingNotes::default();
        drop(self.adapters.take_line());
        self.adapters.on_device_gone();
        Ok(())
    }

    /// Writes a backup to a new file. It contains the state of the device at this moment, and is
    /// durable when this returns.
    ///
    /// # Errors
    /// The vault is locked, the file exists already, or the disk refuses.
    pub fn write_backup(
        &mut self,
        path: &Path,
        key: &BackupKey,
        progress: &WorkProgress,
    ) -> Result<BackupJson, Refused> {
        let made = self.date();
        // Facts that wait for the next commit are already in the device, and so in the backup. They
        // are committed first, so that no backup is ahead of its vault.
        self.commit_later()?;
        let settings = self.settings_without_paths();
        let device = self.unlocked_device()?;
        let content =
            BackupContent { device, settings: &settings, made, progress: progress.clone() };
        let manifest = write_backup(path, key, &content, &mut OsRng)?;
        let mut state = self.backup_state()?.clone();
        state.made_ms = Some(made.as_ms());
        self.set_backup_state(state)?;
        Ok(BackupJson {
            file: path.display().to_string(),
            made_ms: manifest.made_ms,
            program: manifest.program,
            contacts: manifest.counts.contacts,
            notes: manifest.counts.notes,
        })
    }
}
