use super::*;
use crate::process::home::failing::{Failing, WriteStep};

const MAX: usize = 5_000;

fn all_bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn hibe_73_the_old_content_is_in_no_block_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring");
    let file = SlotFile::create(&path, MAX, b"the first secret").unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let before = inode(&path);
    let length = path.metadata().unwrap().len();
    assert!(SlotFile::is_slot_length(length, MAX) && length.is_multiple_of(8_192));
    file.write(b"a longer second secret").unwrap();
    file.write(b"third").unwrap();
    assert_eq!(file.read().unwrap().as_slice(), b"third");
    let all = all_bytes(&path);
    assert!(
        !holds(&all, b"secret") && holds(&all[..8_192], b"third") && holds(&all[8_192..], b"third")
    );
    assert_eq!((inode(&path), path.metadata().unwrap().len()), (before, length), "in place");
    file.wipe().unwrap();
    assert!(all_bytes(&path).iter().all(|byte| *byte == 0));
    assert_eq!(file.read().unwrap_err().code, Exit::Malformed);
}

/// Each write and each sync of a step fails once, torn in the middle: the content is the old or the
/// new one, and the next successful step overwrites both.
#[test]
fn hibe_73_a_step_that_fails_anywhere_leaves_the_old_or_the_new_content() {
    for step in [WriteStep::Write, WriteStep::Sync] {
        for after in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("keyring");
            let file = SlotFile::create(&path, MAX, &[1; 4_500]).unwrap();
            for round in 2..40_u8 {
                let failing = Failing::after(after, step, step.errors()[0]);
                assert_eq!(file.write(&[round; 4_500]).unwrap_err().code, Exit::CannotWrite);
                drop(failing);
                let file = SlotFile::open(&path, MAX).unwrap();
                let found = file.read().unwrap();
                assert!([round, round - 1].contains(&found[0]) && found.len() == 4_500);
                file.finish_step().unwrap();
                let other = if found[0] == round { round - 1 } else { round };
                assert!(!holds(&all_bytes(&path), &[other; 64]), "{step:?} {after}");
                file.write(&[round; 4_500]).unwrap();
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_or_damaged_is_read_from_its_whole_slot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring");
    let file = SlotFile::create(&path, MAX, b"whole").unwrap();
    let mut bytes = all_bytes(&path);
    bytes[HEAD_BYTES] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(file.read().unwrap().as_slice(), b"whole");
    std::fs::write(&path, &bytes[..8_192]).unwrap();
    assert_eq!(file.read().unwrap_err().code, Exit::Malformed);
    assert_eq!(file.finish_step().unwrap_err().code, Exit::Malformed, "nothing is made up");
    assert!(file.write(&[0; 9_000]).is_err(), "longer than a slot");
}

#[test]
fn a_file_system_that_nobody_knows_gets_the_weaker_word() {
    assert_eq!(Overwriting::of_type(FsType(0xef53)), Overwriting::InPlace);
    for elsewhere in [0x9123_683e, 0x794c_7630, 0x2fc1_2fc1, 7] {
        assert_eq!(Overwriting::of_type(FsType(elsewhere)), Overwriting::Elsewhere);
    }
    assert_eq!(Overwriting::from_path(Path::new("/no/such/place")), Overwriting::Elsewhere);
}
