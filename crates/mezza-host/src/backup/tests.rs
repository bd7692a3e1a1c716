//! Files that are written and read here, files of Debian's age, and files that were tampered with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mezza_core::{Secret, StaticKey, Time};
use mezza_messenger::backup::{BackupContact, BackupIdentity, BackupNote, BackupWindow};
use mezza_messenger::card::{Card, CardDraft};
use mezza_messenger::device::backup::restore::RestoreRows;
use mezza_messenger::note::Era;
use mezza_messenger::policy::Policy;
use mezza_messenger::receipt::Window;
use mezza_messenger::view::{ContactState, NoteContent};
use mezza_messenger::{CarrierSet, ContactId, Device, NoteId, RecordChange};
use mezza_ratchet::{IdentityKeyPair, SuiteList};
use nix::errno::Errno;

use super::age::{BackupKey, Identity, Recipient};
use super::auto::{AutoBackup, AutoFailure, AutoFile, BackupState};
use super::bech32::{recipient_text, secret_text};
use super::chunks::ChunkWriter;
use super::progress::WorkProgress;
use super::read::BackupReader;
use super::tar::write_header;
use super::write::{BackupContent, padded_size, write_backup};
use crate::api::{Exit, Fault};
use crate::backend::AwsLc;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;
use crate::store::{Argon2Params, Vault};

const WORDS: &[u8] = b"abacus above absorb accent access acorn";
const MADE: Time = Time::from_ms(1_795_000_000_000);
const NOW: Time = Time::from_ms(1_795_100_000_000);

fn pair() -> StaticKey {
    StaticKey::from_scalar::<AwsLc>(Secret::init_with(|scalar| scalar.fill(0x42)))
}

/// Returns a device with one contact and this number of notes, in both directions.
fn device(notes: u64) -> Device<AwsLc> {
    let scalar = Secret::init_with(|scalar| scalar.fill(0x11));
    let identity = BackupIdentity { scalar, name: "ann".into(), serial: 7, relays: Vec::new() };
    let mut rows = RestoreRows::new::<AwsLc>(identity, MADE, MADE, &mut OsRng).unwrap();
    let own = IdentityKeyPair::new(pair());
    let draft = CardDraft {
        serial: 1,
        issued_days: MADE.as_days(),
        suites: SuiteList::our_suites(),
        name: "ben",
        relays: Vec::new(),
    };
    let era = Era([3; 4]);
    let contact = BackupContact {
        id: ContactId(1),
        card: Card::issue(&own, draft, &mut OsRng).unwrap(),
        petname: Some("Ben".into()),
        verified: None,
        policy: Policy::default(),
        state: ContactState::Open,
        blocked: false,
        own_era: Era([5; 4]),
        next_seq: 1,
    };
    let mut changes = vec![rows.add_contact(contact, &mut OsRng).unwrap()];
    let mut window = Window::new(era);
    for n in 1..=notes {
        let seq = u32::try_from(n).unwrap();
        let _ = window.insert(seq);
        let note = BackupNote {
            id: NoteId(n),
            contact: ContactId(1),
            incoming: true,
            client: [0; 16],
            body: NoteContent::Text(format!("note {n}: the quick brown fox jumps over it")),
            era,
            seq,
            sent: MADE,
            at: MADE,
            due: None,
            level_min: 1,
            carrier: None,
            level: 0,
            seen: true,
            voided: false,
            facts: Vec::new(),
            life: None,
        };
        changes.push(rows.add_note(note).unwrap());
    }
    let read = Window::new(era);
    let window = BackupWindow { contact: ContactId(1), arrived: window, read };
    changes.push(rows.add_window(window).unwrap());
    changes.extend(rows.finish());
    let records = changes.into_iter().map(|change| match change {
        RecordChange::Put { kind, key, value, .. } => (kind, key, value),
        RecordChange::Drop { .. } => unreachable!("a new vault has nothing to delete"),
    });
    let carriers = CarrierSet::<AwsLc>::default();
    let device = Device::load(carriers, records, &[], MADE, &mut OsRng).unwrap();
    assert!(device.set_aside().is_empty());
    device
}

struct Made {
    folder: tempfile::TempDir,
    file: PathBuf,
    own: StaticKey,
}

impl Made {
    /// Makes a backup for a public key, for which no passphrase must be stretched.
    fn with(notes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ann.age");
        let own = pair();
        let key = BackupKey::draw(&Recipient::Key(own.public_key()), &mut OsRng).unwrap();
        write(&file, &key, notes).unwrap();
        Self { folder, file, own }
    }

    fn read(&self, path: &Path) -> Result<usize, Fault> {
        read(path, &Identity::Key(&self.own))
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.file).unwrap()
    }

    /// Reads another content under the name of the file.
    fn read_bytes(&self, bytes: &[u8]) -> Result<usize, Fault> {
        let path = self.folder.path().join("changed.age");
        fs::write(&path, bytes).unwrap();
        self.read(&path)
    }
}

fn write(path: &Path, key: &BackupKey, notes: u64) -> Result<(), Fault> {
    let device = device(notes);
    let content = BackupContent {
        device: &device,
        settings: "log = \"info\"\n",
        made: MADE,
        progress: WorkProgress::default(),
    };
    write_backup(path, key, &content, &mut OsRng).map(drop)
}

/// Reads a backup. Returns the number of its rows.
fn read(path: &Path, identity: &Identity<'_>) -> Result<usize, Fault> {
    let mut rows = 0;
    let mut reader = BackupReader::open(path, identity)?;
    reader.read_rows(NOW, &mut OsRng, &mut |_| {
        rows += 1;
        Ok(())
    })?;
    Ok(rows)
}

#[test]
fn backup_1_a_backup_is_read_as_it_was_written() {
    let made = Made::with(2_000);
    // The rows are: a contact, its lane and its notes of unknown fate; a window; the profile; the
    // notes.
    assert_eq!(made.read(&made.file).unwrap(), 2_000 + 5);
    let mode = fs::metadata(&made.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = write(
        &made.file,
        &BackupKey::draw(&Recipient::Key(made.own.public_key()), &mut OsRng).unwrap(),
        1,
    );
    assert_eq!(again.unwrap_err().code, Exit::CannotWrite, "nothing is written over");
    let other = StaticKey::random::<AwsLc>(&mut OsRng);
    let refused = read(&made.file, &Identity::Key(&other)).unwrap_err();
    assert_eq!(refused.code, Exit::Denied);
    assert_eq!(read(&made.file, &Identity::Passphrase(b"x")).unwrap_err().text, refused.text);
}

#[test]
fn backup_1_the_size_hides_the_size_within_a_quarter() {
    for bytes in [1, 65_536, 65_537, 100_000, 1 << 20, (1 << 20) + 1, 123_456_789] {
        let size = padded_size(bytes);
        assert!(
            size >= bytes && (bytes < 65_536 || (size - bytes) * 4 <= bytes),
            "{bytes}: {size}"
        );
        let step = 1 << (size.ilog2() - 2);
        assert!(size.is_multiple_of(step), "{size}");
    }
    assert_eq!(
        fs::metadata(&Made::with(1).file).unwrap().len(),
        fs::metadata(&Made::with(9).file).unwrap().len()
    );
}

/// Every byte of the header, and of the first and the last chunk, is changed once; the file is cut
/// at many places, and chunks are left out or exchanged. None of these files opens to its end.
#[test]
fn backup_8_every_change_is_found() {
    let made = Made::with(3_000);
    let bytes = made.bytes();
    let header = bytes.windows(4).position(|four| four == b"\n---").unwrap() + 1 + 4 + 43 + 1;
    assert!(bytes.len() > header + 16 + 4 * 65_552, "several chunks");
    let flip = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        made.read_bytes(&changed).expect_err(&format!("byte {at}"))
    };
    for at in 0..header {
        let fault = flip(at);
        assert_eq!(fault.code, Exit::Denied, "byte {at}: {fault}");
    }
    for at in (header..header + 600).chain(bytes.len() - 40..bytes.len()).step_by(7) {
        assert_eq!(flip(at).code, Exit::Malformed, "byte {at}");
    }
    let chunk = |n: usize| header + 16 + n * 65_552;
    let cuts = (0..5).flat_map(|n| [chunk(n) - 1, chunk(n), chunk(n) + 1, chunk(n) + 16]);
    for cut in cuts.chain([bytes.len() - 1, header - 1, header + 3, 0, 10]) {
        assert!(made.read_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut swapped = bytes.clone();
    let (one, two) = swapped[chunk(1)..chunk(3)].split_at_mut(65_552);
    one.swap_with_slice(two);
    assert_eq!(made.read_bytes(&swapped).unwrap_err().code, Exit::Malformed);
    let without = [&bytes[..chunk(1)], &bytes[chunk(2)..]].concat();
    assert_eq!(made.read_bytes(&without).unwrap_err().code, Exit::Malformed);
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(made.read_bytes(&longer).unwrap_err().code, Exit::Malformed);
    assert!(made.read(&made.file).is_ok(), "and the file itself is whole");
}

/// Seals an archive that this program would not write.
fn sealed(made: &Made, archive: &[u8]) -> Vec<u8> {
    let key = BackupKey::draw(&Recipient::Key(made.own.public_key()), &mut OsRng).unwrap();
    let mut chunks = ChunkWriter::begin(Vec::new(), &key, &mut OsRng).unwrap();
    chunks.put(archive).unwrap();
    chunks.finish().unwrap()
}

/// The archive in a backup.
fn archive(made: &Made) -> Vec<u8> {
    let key = BackupKey::open(&mut &made.bytes()[..], &Identity::Key(&made.own)).unwrap();
    let bytes = made.bytes();
    let mut input = &bytes[key.header.len()..];
    let mut chunks = super::chunks::ChunkReader::begin(&mut input, &key).unwrap();
    let mut archive = Vec::new();
    let mut byte = [0; 512];
    while !chunks.is_at_end() {
        chunks.take(&mut byte).unwrap();
        archive.extend_from_slice(&byte);
    }
    archive
}

#[test]
fn backup_13_archives_of_others_are_refused() {
    let made = Made::with(5);
    let good = archive(&made);
    assert!(made.read_bytes(&sealed(&made, &good)).is_ok());
    let refused = |what: &str, archive: &[u8]| {
        let fault = made.read_bytes(&sealed(&made, archive)).expect_err(what);
        assert_eq!(fault.code, Exit::Malformed, "{what}: {fault}");
    };
    refused("nothing at all", b"");
    refused("one byte", b"x");
    for (what, at, byte) in [
        ("an absolute path", 0, b'/'),
        ("a link", 156, b'2'),
        ("a folder", 156, b'5'),
        ("an extension", 156, b'x'),
        ("another mode", 103, b'7'),
        ("another owner", 108, b'1'),
        ("a prefix", 345, b'a'),
    ] {
        let mut changed = good.clone();
        changed[at] = byte;
        // With a checksum that fits.
        changed[148..156].fill(b' ');
        let sum: u32 = changed[..512].iter().map(|byte| u32::from(*byte)).sum();
        changed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        refused(what, &changed);
    }
    // An entry that occurs twice, and one with an impossible size.
    let size = usize::from_str_radix(std::str::from_utf8(&good[124..135]).unwrap(), 8).unwrap();
    let first = 512 + size.next_multiple_of(512);
    refused("an entry twice", &[&good[..first], &good[..]].concat());
    let endless = write_header("manifest.json", (1 << 33) - 1, MADE.as_ms() / 1_000).unwrap();
    refused("an endless manifest", &[&endless[..], &good[512..]].concat());
    let mut filled = good.clone();
    *filled.last_mut().unwrap() = 1;
    refused("something behind the end", &filled);
    refused("an end that is missing", &good[..good.len() - 512]);
}

/// A holder of the key changes a letter of a note, and nothing else.
#[test]
fn backup_8_the_hashes_of_the_manifest_are_compared() {
    let made = Made::with(5);
    let mut changed = archive(&made);
    let at = changed.windows(9).position(|word| word == b"brown fox").unwrap();
    changed[at + 6] = b'b';
    let fault = made.read_bytes(&sealed(&made, &changed)).unwrap_err();
    assert!(fault.text.contains("another content"), "{fault}");
}

/// A line of a gigabyte does not take its memory: the reader stops at the limit.
#[test]
fn backup_6_a_line_has_a_limit() {
    let made = Made::with(1);
    let good = archive(&made);
    let at = good.windows(12).position(|name| name == b"notes.jsonl\0").unwrap();
    let made_s = MADE.as_ms() / 1_000;
    let long = write_header("notes.jsonl", 1 << 30, made_s).unwrap();
    let manifest = String::from_utf8_lossy(&good[512..at]).into_owned();
    let manifest = &manifest[..=manifest.find('\n').unwrap()];
    let mut value: serde_json::Value = serde_json::from_str(manifest).unwrap();
    value["entries"][2]["bytes"] = (1_u64 << 30).into();
    let text = serde_json::to_string(&value).unwrap() + "\n";
    let mut archive = write_header("manifest.json", text.len() as u64, made_s).unwrap().to_vec();
    archive.extend_from_slice(text.as_bytes());
    archive.resize(archive.len().next_multiple_of(512), 0);
    let first = 512 + manifest.len().next_multiple_of(512);
    archive.extend_from_slice(&good[first..at]);
    archive.extend_from_slice(&long);
    archive.extend_from_slice(&vec![b'x'; 1 << 20]);
    let fault = made.read_bytes(&sealed(&made, &archive)).unwrap_err();
    assert!(fault.text.contains("a line is too long"), "{fault}");
}

#[test]
fn backup_5_a_disk_that_refuses_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ann.age");
    let own = pair();
    let key = BackupKey::draw(&Recipient::Key(own.public_key()), &mut OsRng).unwrap();
    for after in [0, 1, 5, 9] {
        let failing = Failing::after(after, WriteStep::Write, Errno::ENOSPC);
        let fault = write(&file, &key, 10).unwrap_err();
        assert_eq!(fault.code, Exit::CannotWrite);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{after}");
        drop(failing);
    }
    let failing = Failing::after(0, WriteStep::SyncFolder, Errno::EIO);
    assert_eq!(write(&file, &key, 10).unwrap_err().code, Exit::CannotWrite);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the name is not durable");
    drop(failing);
    write(&file, &key, 10).unwrap();
    assert_eq!(read(&file, &Identity::Key(&own)).unwrap(), 15);
}

/// Returns true if a program runs here.
fn has(program: &str) -> bool {
    let mut run = Command::new(program);
    run.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    run.status().is_ok_and(|status| status.success())
}

#[test]
fn backup_1_age_and_tar_open_what_we_write_and_we_what_age_writes() {
    if !has("age") || !has("tar") {
        println!("SKIPPED age: not installed; apt install age");
        return;
    }
    let made = Made::with(100);
    let folder = made.folder.path();
    let identity = folder.join("key.txt");
    fs::write(&identity, secret_text(&made.own)).unwrap();
    let run = |args: &[&str]| {
        let output = Command::new("age").args(args).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["-d", "-i", "key.txt", "-o", "plain.tar", "ann.age"]);
    let tar = Command::new("tar").args(["xf", "plain.tar"]).current_dir(folder).output().unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    let notes = fs::read_to_string(folder.join("notes.jsonl")).unwrap();
    assert_eq!(notes.lines().count(), 100);
    assert!(notes.contains("note 100: the quick brown fox"));
    // The opposite direction: age seals for two recipients, of which the other one is unknown here.
    let other = recipient_text(StaticKey::random::<AwsLc>(&mut OsRng).public_key());
    let ours = recipient_text(made.own.public_key());
    run(&["-r", &other, "-r", &ours, "-o", "theirs.age", "plain.tar"]);
    assert_eq!(made.read(&folder.join("theirs.age")).unwrap(), 105);
}

/// A sample file in the vectors, which every later version must be able to read.
/// `MEZZA_TEST_WRITE_SAMPLE=1` makes it again.
#[test]
fn backup_1_slow_format_1_stays_readable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/backup");
    let sample = folder.join("format1.age");
    if std::env::var_os("MEZZA_TEST_WRITE_SAMPLE").is_some() {
        let _ = fs::remove_file(&sample);
        let key = BackupKey::draw(&Recipient::Passphrase(WORDS), &mut OsRng).unwrap();
        write(&sample, &key, 20).unwrap();
    }
    assert_eq!(read(&sample, &Identity::Passphrase(WORDS)).unwrap(), 25);
    if !has("python3") {
        println!("SKIPPED backup in Python: no python3; apt install python3");
        return;
    }
    let words = std::str::from_utf8(WORDS).unwrap();
    let output = Command::new("python3")
        .args(["reader.py", "format1.age", words, "notes.jsonl"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let notes = String::from_utf8(output.stdout).unwrap();
    assert!(notes.contains("note 20: the quick brown fox"), "{notes}");
}

/// age asks for passphrases only on a terminal: `script` provides one.
#[test]
fn backup_1_slow_age_opens_our_passphrase_and_we_the_one_of_age() {
    if !has("age") || !has("script") {
        println!("SKIPPED age with a passphrase: not installed; apt install age bsdutils");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let key = BackupKey::draw(&Recipient::Passphrase(WORDS), &mut OsRng).unwrap();
    write(&folder.path().join("ann.age"), &key, 3).unwrap();
    let run = |command: &str, lines: usize| {
        let typed = [WORDS, b"\n"].concat().repeat(lines);
        fs::write(folder.path().join("typed"), typed).unwrap();
        let script = format!("(sleep 1; cat typed; sleep 5) | script -qec '{command}' /dev/null");
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
        let output = output.unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = run("age -d -o plain.tar ann.age", 1);
    assert!(folder.path().join("plain.tar").exists(), "{said}");
    let said = run("age -p -o theirs.age plain.tar", 2);
    let theirs = folder.path().join("theirs.age");
    assert_eq!(read(&theirs, &Identity::Passphrase(WORDS)).expect(&said), 8);
    assert_eq!(
        read(&theirs, &Identity::Passphrase(b"other words")).unwrap_err().code,
        Exit::Denied
    );
}

#[test]
fn backup_15_slow_a_node_keeps_the_newest_backups_and_cannot_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("auto");
    let auto = AutoBackup::prepare(&dir, WORDS, 3_600, 2, &mut OsRng).unwrap();
    // The same folder again: its key opens only with its passphrase, and is used again.
    let again = AutoBackup::prepare(&dir, WORDS, 3_600, 2, &mut OsRng).unwrap();
    assert_eq!(again.recipient, auto.recipient);
    let other = AutoBackup::prepare(&dir, b"other words", 3_600, 2, &mut OsRng).unwrap_err();
    assert_eq!(other.code, Exit::Denied);
    fs::write(dir.join("mine.age"), b"somebody's own").unwrap();
    let mut state = BackupState { made_ms: None, auto: Some(auto) };
    for n in 0..4_u64 {
        let now = MADE.plus_ms(n * Time::HOUR_MS);
        assert!(state.is_due(now), "{n}");
        let auto = state.auto.as_mut().unwrap();
        let (path, key) = auto.next_file(now, &mut OsRng).unwrap();
        write(&path, &key, 5).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        auto.last = Some(AutoFile { name, bytes: path.metadata().unwrap().len() });
        auto.made_ms = now.as_ms();
        auto.delete_surplus();
        assert!(!state.is_due(now.plus_ms(Time::MINUTE_MS)));
    }
    let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 4, "the key, two backups, and what is somebody's own: {names:?}");
    let newest = dir.join(&names[2]);
    let mut reader = BackupReader::open_with_passphrase(&newest, WORDS).unwrap();
    assert!(reader.read_rows(NOW, &mut OsRng, &mut |_| Ok(())).is_ok());
    assert!(BackupReader::open_with_passphrase(&newest, b"other words").is_err());

    // The health line of the node about backups.
    let later = MADE.plus_ms(3 * Time::HOUR_MS);
    assert_eq!(state.warning(later, None), None);
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[1..]).unwrap();
    assert!(state.warning(later, None).unwrap().0.contains("missing or was changed"));
    fs::write(&newest, &bytes).unwrap();
    let failure = AutoFailure { at_ms: later.as_ms(), text: "the disk is full".into() };
    state.auto.as_mut().unwrap().failed = Some(failure);
    assert!(state.warning(later, None).unwrap().0.contains("the disk is full"));
    let next = later.plus_ms(2 * Time::HOUR_MS);
    assert!(!state.is_due(later.plus_ms(Time::MINUTE_MS)) && state.is_due(next));
    let old = BackupState { made_ms: Some(MADE.as_ms()), auto: None };
    assert_eq!(old.warning(MADE.plus_ms(30 * Time::DAY_MS), None), None);
    assert!(old.warning(MADE.plus_ms(31 * Time::DAY_MS), None).is_some());
    // A device without a backup is warned a month after its oldest note.
    let none = BackupState::default();
    assert_eq!(none.warning(MADE, None), None);
    assert_eq!(none.warning(MADE.plus_ms(30 * Time::DAY_MS), Some(MADE)), None);
    let missing = none.warning(MADE.plus_ms(31 * Time::DAY_MS), Some(MADE)).unwrap();
    assert!(missing.0.contains("none of this device"), "{missing:?}");
    // The state is restored from its record.
    let RecordChange::Put { kind, key, value, .. } = state.put_row().unwrap().0.remove(0) else {
        unreachable!("it is stored")
    };
    assert_eq!(BackupState::of_records(&[(kind, key, value)]), state);
}

/// A clock that was ahead for a while gave later names to earlier backups. The last one stays all the same.
#[test]
fn backup_15_the_last_backup_stays_after_a_clock_was_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let own = pair();
    let mut auto = AutoBackup {
        folder: folder.path().display().to_string(),
        every_s: 3_600,
        keep: 2,
        recipient: recipient_text(own.public_key()),
        made_ms: 0,
        last: None,
        failed: None,
    };
    for days in [400, 401, 402, 0] {
        let (path, key) = auto.next_file(MADE.plus_ms(days * Time::DAY_MS), &mut OsRng).unwrap();
        write(&path, &key, 1).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        auto.last = Some(AutoFile { name, bytes: path.metadata().unwrap().len() });
        auto.delete_surplus();
        assert!(path.exists(), "{days} days");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Bytes that this process has in memory now.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}

/// Prints the time and memory that 100,000 notes take, without the passphrase. The test judges
/// memory only, because times need a quiet machine.
#[test]
fn backup_6_slow_memory_does_not_grow_with_the_notes() {
    const NOTES: u64 = 100_000;
    const ALONE: &str = "MEZZA_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // The test runs in a process of its own, so that the memory of other tests does not count.
        let own = "backup::tests::backup_6_slow_memory_does_not_grow_with_the_notes";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", own, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}");
        assert!(output.status.success() && said.contains("notes: made in"), "{said}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ann.age");
    let own = pair();
    let key = BackupKey::draw(&Recipient::Key(own.public_key()), &mut OsRng).unwrap();
    let device = device(NOTES);
    let idle = resident_bytes();
    let clock = crate::clock::Clock::system();
    let began = clock.boot();
    let content = BackupContent {
        device: &device,
        settings: "",
        made: MADE,
        progress: WorkProgress::default(),
    };
    write_backup(&file, &key, &content, &mut OsRng).unwrap();
    let made_ms = clock.boot().since_ms(began);
    let made_bytes = resident_bytes().saturating_sub(idle);
    drop(device);
    let idle = resident_bytes();
    let began = clock.boot();
    let mut reader = BackupReader::open(&file, &Identity::Key(&own)).unwrap();
    reader.read_rows(NOW, &mut OsRng, &mut |_| Ok(())).unwrap();
    let checked_ms = clock.boot().since_ms(began);
    let vault = folder.path().join("vault");
    let cost = Argon2Params::DEMO;
    Vault::create_filled(&vault, WORDS, cost, NOW, &mut OsRng, |rng, put| {
        reader.read_rows(NOW, rng, &mut |row| put(row)).map(drop)
    })
    .unwrap();
    let restored_ms = clock.boot().since_ms(began);
    let restored_bytes = resident_bytes().saturating_sub(idle);
    println!(
        "{NOTES} notes: made in {made_ms} ms (+{} MiB), checked in {checked_ms} ms, \
         restored in {restored_ms} ms (+{} MiB)",
        made_bytes >> 20,
        restored_bytes >> 20,
    );
    assert!(made_bytes <= 64 << 20 && restored_bytes <= 64 << 20);
    let (_, records) = Vault::open(&vault, WORDS, NOW).unwrap();
    assert_eq!(records.len() as u64, NOTES + 5);
}
