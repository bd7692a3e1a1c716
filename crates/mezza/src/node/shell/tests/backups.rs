//! Backups that a node makes by itself.

use mezza_core::StaticKey;
use mezza_host::backup::{AutoBackup, recipient_text};
use mezza_host::process::rng::OsRng;

use super::*;

/// Names and bytes of the files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// One backup an hour, of which one is kept.
fn auto_backup(dir: &Path) -> AutoBackup {
    let own = StaticKey::random::<AwsLc>(&mut OsRng);
    AutoBackup {
        folder: dir.display().to_string(),
        every_s: 3_600,
        keep: 1,
        recipient: recipient_text(own.public_key()),
        made_ms: 0,
        last: None,
        failed: None,
    }
}

/// A commit that fails has the device loaded again. The backups that the user asked for go on.
#[tokio::test]
async fn backup_15_a_failed_commit_keeps_the_settings_of_backups() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("usb");
    fs::create_dir(&dir).unwrap();
    let auto = auto_backup(&dir);
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    let make = move |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        shell.set_auto_backup(Some(auto))?;
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(shell.run_command(Command::Rotate).is_err());
        drop(failing);
        assert_eq!(shell.describe_backups()?.folder, Some(dir.display().to_string()));
        shell.make_due_backup(now().plus_ms(2 * Time::HOUR_MS));
        assert!(files(&dir)[0].0.contains("mezza-"), "{:?}", files(&dir)[0].0);
        shell.lock_vault();
        shell.unlock_vault(PASS)?;
        assert_eq!(shell.describe_backups()?.folder, Some(dir.display().to_string()));
        Ok(())
    };
    node.ask(make).await.unwrap();
}

/// A disk that fills up at any write of a backup costs that backup alone: the last good one stays as it was,
/// nothing unfinished is left, and the warning of the node says why.
#[tokio::test]
async fn backup_15_a_full_disk_leaves_the_last_good_backup() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("usb");
    fs::create_dir(&dir).unwrap();
    let auto = auto_backup(&dir);
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    let make = move |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        let state = shell.set_auto_backup(Some(auto))?;
        assert_eq!(state.warning, None, "the first one is made at once");
        let first = files(&dir);
        assert_eq!(first.len(), 1);
        let hours = |n: u64| now().plus_ms(n * Time::HOUR_MS);
        for (n, after) in [(2, 0), (4, 1), (6, 5), (8, 9)] {
            let failing = Failing::after(after, WriteStep::Write, Errno::ENOSPC);
            shell.make_due_backup(hours(n));
            drop(failing);
            assert_eq!(files(&dir), first, "{after} writes succeed");
            let warning = shell.describe_backups()?.warning.unwrap();
            assert!(warning.contains("No space left"), "{warning}");
        }
        // With room again the next one is made, and the old one goes only then.
        shell.make_due_backup(hours(10));
        assert_eq!(shell.describe_backups()?.warning, None);
        let second = files(&dir);
        assert!(second.len() == 1 && second[0].0 > first[0].0);
        Ok(())
    };
    node.ask(make).await.unwrap();
}
