//! The repository, the output folder, and the lock that keeps runs of the lab apart.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Result;
use mezza::testing::api::{Exit, Fault};

/// Finds the repository that contains the current folder or this program.
pub fn find_repository() -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let is_root = |folder: &&Path| folder.join("crates/mezza-lab/Cargo.toml").exists();
    starts.iter().flatten().find_map(|start| start.ancestors().find(is_root)).map(Path::to_owned)
}

/// Returns the build folder of the repository.
pub fn target_folder() -> PathBuf {
    let root = find_repository().unwrap_or_default();
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Returns the folder of figures: the given folder, else `lab` in the build folder.
pub fn out_folder(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(|| target_folder().join("lab"))
}

/// Returns the user's runtime folder if it exists and is absolute, as the XDG base directories
/// require; else `lab` in the build folder.
fn lock_folder(runtime: Option<PathBuf>) -> PathBuf {
    let usable = runtime.filter(|folder| folder.is_absolute() && folder.is_dir());
    usable.unwrap_or_else(|| target_folder().join("lab"))
}

/// The lock of a running experiment. An experiment that measures time holds it exclusively.
/// Experiments that only calculate share it: they use all cores and would disturb a measurement.
pub struct MeasurementLock(#[expect(dead_code, reason = "held, not used")] File);

impl MeasurementLock {
    /// Takes the lock of this user. The lock file is in the user's runtime folder, else in the
    /// build folder. In a folder for temporary files any user could create it first.
    ///
    /// # Errors
    /// Busy if another run of the lab measures, or if the file cannot be opened.
    pub fn take(exclusive: bool) -> Result<Self> {
        let folder = lock_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
        std::fs::create_dir_all(&folder)?;
        Self::take_at(&folder.join("mezza-lab.lock"), exclusive)
    }

    fn take_at(path: &Path, exclusive: bool) -> Result<Self> {
        let busy = |what: String| Fault::new(Exit::Busy, what, "try again later");
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|e| busy(format!("{} cannot be opened: {e}", path.display())))?;
        match if exclusive { file.try_lock() } else { file.try_lock_shared() } {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(busy("another lab measures on this machine".into()).into())
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// Returns the exit code of an error: that of the outermost [`Fault`] in its chain, else
/// [`Exit::Bug`].
pub fn exit_of(error: &anyhow::Error) -> Exit {
    let fault = error.chain().find_map(|cause| cause.downcast_ref::<Fault>());
    fault.map_or(Exit::Bug, |fault| fault.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measurement excludes every other run; a calculation excludes only measurements.
    #[test]
    fn lab_10_nothing_runs_beside_a_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = MeasurementLock::take_at(&path, true).unwrap();
        for exclusive in [true, false] {
            let refused = MeasurementLock::take_at(&path, exclusive).err().unwrap();
            assert_eq!(exit_of(&refused), Exit::Busy);
            assert!(refused.to_string().ends_with("try again later"));
        }
        drop(held);
        let calculating = [(); 2].map(|()| MeasurementLock::take_at(&path, false).unwrap());
        assert!(MeasurementLock::take_at(&path, true).is_err());
        drop(calculating);
        MeasurementLock::take_at(&path, true).unwrap();
    }

    #[test]
    fn the_lock_lies_where_nobody_else_can_put_one() {
        let runtime = tempfile::tempdir().unwrap();
        assert_eq!(lock_folder(Some(runtime.path().into())), runtime.path());
        let own = [None, Some("relative".into()), Some(runtime.path().join("absent"))];
        for folder in own.map(lock_folder) {
            assert_eq!(folder, target_folder().join("lab"));
        }
    }

    #[test]
    fn the_repository_is_around_us() {
        assert!(find_repository().unwrap().join("Cargo.toml").exists());
    }
}
