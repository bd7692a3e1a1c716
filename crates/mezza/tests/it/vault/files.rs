//! The folder: who may use it, and what a thief finds in it.

use std::env;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use mezza::testing::api::Exit;
use mezza::testing::process::rng::OsRng;
use mezza::testing::store::record::padded_size;
use mezza::testing::store::{Argon2Params, Vault};
use mezza_messenger::{RecordKind, Retention, WriteBatch};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{
    Copy, DAY, Folder, PASS, at, contains, drop_of, everything, filled, fresh, noon, put, rows,
};

/// Tells the second process of [`node_1_the_second_process_is_told_who_has_the_vault`] where.
const CHILD_FOLDER: &str = "MEZZA_TEST_VAULT";

#[test]
fn a_vault_is_made_once_and_opened_with_its_passphrase() {
    let folder = Folder::new();
    let path = folder.path();
    assert!(!Vault::exists(&path));
    assert_eq!(Vault::open(&path, PASS, noon()).map(drop).unwrap_err().code, Exit::NotFound);
    // An attempt that ended before the head was written.
    for name in ["keyring", "records.db", "records.db-wal", "head.new"] {
        super::write(&path.join(name), b"left over");
    }
    let mut vault = Vault::create(&path, PASS, Argon2Params::DEMO, noon(), &mut OsRng).unwrap();
    assert!(Vault::exists(&path) && vault.reload_records().unwrap().is_empty());
    vault.commit(&[WriteBatch(everything())]).unwrap();
    assert_eq!(format!("{vault:?}"), "Vault(12 records)");
    vault.close().unwrap();
    let again =
        Vault::create(&path, PASS, Argon2Params::DEMO, noon(), &mut OsRng).map(drop).unwrap_err();
    assert_eq!(again.code, Exit::CannotWrite);
    let (vault, records) = Vault::open(&path, PASS, noon()).unwrap();
    assert_eq!(records.len(), 12);
    drop(vault);
    let names: Vec<_> = Copy::of(&path).0.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["head", "keyring", "lock", "records.db"]);
}

#[test]
fn vault_6_one_opening_at_a_time() {
    let folder = fresh();
    let (vault, _) = folder.enter(noon()).unwrap();
    let fault = folder.enter(noon()).map(drop).unwrap_err();
    assert_eq!(fault.code, Exit::Busy);
    assert_eq!(fault.text, format!("vault is in use by process {}", std::process::id()));
    let fault =
        Vault::create(&folder.path(), PASS, Argon2Params::DEMO, noon(), &mut OsRng).map(drop);
    assert_eq!(fault.unwrap_err().code, Exit::Busy);
    vault.close().unwrap();
    folder.enter(noon()).unwrap();
}

#[test]
fn node_1_the_second_process_is_told_who_has_the_vault() {
    let folder = filled();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "vault::files::child_that_has_the_vault", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.ends_with("child has it")));
    let fault = Vault::open(&folder.path(), PASS, noon()).map(drop).unwrap_err();
    assert_eq!(fault.code.number(), 75);
    let pid = child.id();
    let expected = format!("vault is in use by process {pid}; stop it with `mezza node stop`");
    assert_eq!(fault.to_string(), expected);
    // Killed, it leaves its number behind, but no lock, and nothing of what it committed is lost.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.records(noon()).len(), 13);
}

#[test]
#[ignore = "the second process of node_1"]
fn child_that_has_the_vault() {
    let path = env::var_os(CHILD_FOLDER).expect("set by node_1");
    let (mut vault, _) = Vault::open(path.as_ref(), PASS, noon()).unwrap();
    vault
        .commit(&[WriteBatch(vec![put(RecordKind::Setting, b"s", Retention::Permanent, b"")])])
        .unwrap();
    println!("child has it");
    stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A limit on the size of files stands for a disk that is full: the shell has the signal ignored,
/// so that writing fails instead.
#[test]
fn a_disk_that_is_full_is_reported_and_loses_nothing() {
    let folder = filled();
    let run = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 64; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "vault::files::child_with_a_full_disk", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("child is done"), "{said}");
    assert_eq!(folder.records(noon()).len(), 14);
}

#[test]
#[ignore = "the process of a_disk_that_is_full"]
fn child_with_a_full_disk() {
    let path = env::var_os(CHILD_FOLDER).expect("set by the parent");
    let (mut vault, records) = Vault::open(path.as_ref(), PASS, noon()).unwrap();
    let setting =
        |key: &[u8], bytes| put(RecordKind::Setting, key, Retention::Permanent, &vec![1; bytes]);
    vault.commit(&[WriteBatch(vec![setting(b"small", 9)])]).unwrap();
    let fault = vault.commit(&[WriteBatch(vec![setting(b"small", 1), setting(b"large", 99_999)])]);
    assert_eq!(fault.unwrap_err().code.number(), 73);
    let after = vault.reload_records().unwrap();
    assert_eq!(after.len(), records.len() + 1);
    assert!(after.iter().any(|(_, key, value)| key == b"small" && value.len() == 9));
    // There is room again.
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    vault.commit(&[WriteBatch(vec![setting(b"large", 99_999)])]).unwrap();
    println!("child is done");
}

#[test]
fn failed_ring_when_descriptors_run_out_loses_nothing() {
    let folder = filled();
    let run = Command::new(env::current_exe().unwrap())
        .args(["--exact", "vault::files::child_without_descriptors", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("child is done"), "{said}");
    assert_eq!(folder.records(noon()).len(), 14);
}

#[test]
#[ignore = "the process of failed_ring_when_descriptors_run_out"]
fn child_without_descriptors() {
    let path = env::var_os(CHILD_FOLDER).expect("set by the parent");
    let (mut vault, _) = Vault::open(path.as_ref(), PASS, noon()).unwrap();
    let note = |key: &[u8], bucket| [WriteBatch(vec![put(RecordKind::Note, key, bucket, b"text")])];
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
    // A bucket that is new needs another keyring, which is written where it lies: no descriptor is needed.
    vault.commit(&note(b"timed", Retention::Day(DAY + 40))).unwrap();
    vault.commit(&note(b"plain", Retention::Permanent)).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    vault.close().unwrap();
    println!("child is done");
}

#[test]
fn vault_7_folder_0700_files_0600_slow_refused_otherwise() {
    let folder = filled();
    let (vault, _) = folder.enter(noon()).unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Killed, so that the log stays.
    let copy = Copy::of(&folder.path());
    drop(vault);
    assert!(copy.0.iter().any(|(name, _)| name == "records.db-wal"));
    for (name, _) in &copy.0 {
        let folder = copy.lay();
        let path = folder.path().join(name);
        for mode in [0o640, 0o604, 0o660, 0o700, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let fault = Vault::open(&folder.path(), PASS, noon()).map(drop).unwrap_err();
            assert_eq!(fault.code.number(), 77, "{name} {mode:o}: {fault}");
            assert!(fault.next.contains("chmod 600"), "{fault}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        folder.enter(noon()).unwrap();
    }
    for mode in [0o755, 0o710, 0o500] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let fault = Vault::open(&folder.path(), PASS, noon()).map(drop).unwrap_err();
        assert_eq!(fault.code.number(), 77);
        assert!(fault.next.contains("chmod 700"), "{fault}");
        let made = Vault::create(&folder.path(), PASS, Argon2Params::DEMO, noon(), &mut OsRng);
        assert_eq!(made.map(drop).unwrap_err().code, Exit::Denied);
    }
}

#[test]
fn vault_8_only_padded_sizes_reach_the_disk() {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let lengths = [0, 1, 200, 249, 250, 251, 1_000, 4_089, 8_192, 16_377, 16_378, 40_000];
    let change = |(i, n): (usize, &usize)| {
        put(RecordKind::Note, &[i as u8, 0], Retention::Permanent, &vec![b'x'; *n])
    };
    vault.commit(&[WriteBatch(lengths.iter().enumerate().map(change).collect())]).unwrap();
    let stored = rows(&Copy::of(&folder.path()));
    let sizes: Vec<_> = stored.iter().skip(1).map(|(_, body)| body.len() - 40).collect();
    let expected: Vec<_> = lengths.iter().map(|n| padded_size(1 + 2 + 4 + n)).collect();
    assert_eq!(sizes, expected);
    let allowed = [256, 512, 1_024, 2_048, 4_096, 16_384, 32_768, 49_152];
    assert!(sizes.iter().all(|size| allowed.contains(size)), "{sizes:?}");
}

#[test]
fn no_file_ever_holds_what_was_stored() {
    let planted = b"PLANTED:9f2c";
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let long = planted.repeat(900);
    let change = |(i, bucket): (usize, &Retention)| {
        let key = [&[i as u8], planted.as_slice()].concat();
        [(RecordKind::Note, &planted[..]), (RecordKind::Session, &long)]
            .map(|(k, v)| put(k, &key, *bucket, v))
    };
    let buckets = [Retention::Permanent, Retention::Rolling, Retention::Hour(noon().as_hours())];
    let changes: Vec<_> = buckets.iter().enumerate().flat_map(change).collect();
    let clean = || {
        let files = Copy::of(&folder.path()).0;
        assert!(files.len() >= 4);
        files.iter().all(|(_, bytes)| !contains(bytes, planted) && !contains(bytes, PASS))
    };
    vault.commit(&[WriteBatch(changes)]).unwrap();
    assert!(clean());
    vault
        .commit(&[WriteBatch(vec![drop_of(
            RecordKind::Note,
            &[&[0], planted.as_slice()].concat(),
        )])])
        .unwrap();
    assert!(clean());
    vault.tick(at(1, 0, 0)).unwrap();
    assert!(clean());
    assert_eq!(vault.reload_records().unwrap().len(), 3);
    vault.close().unwrap();
    assert!(clean());
}

#[test]
fn what_a_thief_sees_of_a_record_is_what_lies_in_the_files() {
    let folder = filled();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let copy = Copy::of(&folder.path());
    for (kind, key, _) in vault.reload_records().unwrap() {
        let (place, body) = vault.sealed_row(kind, &key).unwrap().unwrap();
        assert_eq!(place.kind, kind as u8);
        assert!(rows(&copy).contains(&(place, body.clone())));
        assert!(copy.0.iter().any(|(_, file)| contains(file, &body)));
    }
    assert_eq!(vault.sealed_row(RecordKind::Note, b"none").unwrap(), None);
}

#[test]
fn slow_deleted_rows_are_overwritten() {
    let folder = filled();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let bodies: Vec<_> = rows(&Copy::of(&folder.path())).into_iter().skip(1).collect();
    let found = |file: &str| {
        let bytes = fs::read(folder.path().join(file)).unwrap();
        bodies.iter().filter(|(_, body)| contains(&bytes, body)).count()
    };
    assert_eq!(found("records.db"), bodies.len());
    let records = vault.reload_records().unwrap();
    let drops = records.iter().map(|(kind, key, _)| drop_of(*kind, key)).collect();
    vault.commit(&[WriteBatch(drops)]).unwrap();
    vault.tick(at(0, 13, 0)).unwrap();
    assert_eq!((found("records.db"), found("records.db-wal")), (0, 0));
}
