use super::*;
use crate::process::home::failing::{Failing, WriteStep};

const LIMITS: FolderLimits = FolderLimits { record_bytes: 64, index_bytes: 64 };

fn record(name: &str) -> (String, Vec<u8>) {
    (name.to_owned(), name.as_bytes().to_vec())
}

fn open(root: &Path) -> Folder {
    Folder::make(root, "index", LIMITS).unwrap()
}

/// Opens the folder. Returns the valid records, which the index names, one per line.
fn loads(root: &Path) -> Vec<String> {
    let folder = Folder::open(root, "index", LIMITS).unwrap();
    let index = folder.read_index().unwrap();
    let named = std::str::from_utf8(&index).unwrap();
    let named: Vec<String> = named.lines().map(str::to_owned).collect();
    for name in &named {
        assert_eq!(folder.read_record(name).unwrap(), name.as_bytes(), "{name} counts");
    }
    named
}

#[test]
fn a_step_that_fails_anywhere_leaves_the_old_or_the_new_index() {
    for step in WriteStep::REPLACE {
        for after in 0..4 {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().join("tree");
            let mut folder = open(&root);
            let first = [record("a"), record("b")];
            folder.apply_step(&FolderStep { put: &first, index: b"a\nb", drop: &[] }).unwrap();
            let next = [record("c"), record("d")];
            let second = FolderStep { put: &next, index: b"b\nc\nd", drop: &["a".into()] };
            let failing = Failing::after(after, step, step.errors()[0]);
            let done = folder.apply_step(&second);
            drop((failing, folder));
            let named = loads(&root);
            assert!(named == ["a", "b"] || named == ["b", "c", "d"], "{step:?} {after}: {named:?}");
            assert!(done.is_err() || named == ["b", "c", "d"], "{step:?} {after}");
            // Repeating the step completes it.
            let mut folder = open(&root);
            folder.apply_step(&second).unwrap();
            assert_eq!(folder.record_names().unwrap().len(), 3);
            drop(folder);
            assert_eq!(loads(&root), ["b", "c", "d"]);
        }
    }
}

#[test]
fn what_a_crash_left_half_written_is_deleted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let mut folder = open(&root);
    folder.apply_step(&FolderStep { put: &[record("a")], index: b"a", drop: &[] }).unwrap();
    drop(folder);
    fs::write(root.join("rec/b.new"), b"half").unwrap();
    fs::write(root.join("index.new"), b"half").unwrap();
    assert_eq!(loads(&root), ["a"]);
    assert_eq!(Folder::open(&root, "index", LIMITS).unwrap().record_names().unwrap(), ["a"]);
    assert!(!root.join("rec/b.new").exists() && !root.join("index.new").exists());
}

#[test]
fn one_process_has_it_and_more_than_it_writes_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let mut folder = open(&root);
    assert_eq!(Folder::open(&root, "index", LIMITS).unwrap_err().code, Exit::Busy);
    let long = [("a".to_owned(), vec![7; 65])];
    folder.apply_step(&FolderStep { put: &long, index: b"a", drop: &[] }).unwrap();
    assert_eq!(folder.read_record("a").unwrap_err().code, Exit::Malformed);
    folder.delete_all().unwrap();
    assert_eq!(folder.read_index().unwrap_err().code, Exit::NotFound);
}

/// An index of the first version was one block of bytes, replaced as a whole.
#[test]
fn an_index_of_the_first_version_becomes_two_slots() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    drop(open(&root));
    private::replace(&root.join("index"), b"a\nb").unwrap();
    let old = fs::File::open(root.join("index")).unwrap();
    let folder = Folder::open(&root, "index", LIMITS).unwrap();
    assert_eq!(folder.read_index().unwrap().as_slice(), b"a\nb");
    assert!(SlotFile::is_slot_length(root.join("index").metadata().unwrap().len(), 64));
    let mut left = Vec::new();
    std::io::Read::read_to_end(&mut &old, &mut left).unwrap();
    assert_eq!(left, [0; 3], "its old blocks are overwritten");
}

#[test]
fn what_is_wiped_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let mut folder = open(&root);
    folder.apply_step(&FolderStep { put: &[record("a")], index: b"a", drop: &[] }).unwrap();
    fs::write(root.join("card"), b"card").unwrap();
    folder.wipe_all(&["card"]).unwrap();
    assert!(!root.exists());
}
