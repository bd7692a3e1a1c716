use super::*;
use crate::process::home::failing::{Failing, WriteStep};

const LIMITS: FolderLimits = FolderLimits { records: 8, record_bytes: 64, index_bytes: 64 };

fn record(name: &str) -> (String, Vec<u8>) {
    (name.to_owned(), name.as_bytes().to_vec())
}

fn open(root: &Path) -> Folder {
    Folder::make(root, "index", LIMITS).unwrap()
}

/// The index names the records that count, one a line.
fn loads(root: &Path) -> Vec<String> {
    let folder = Folder::open(root, "index", LIMITS).unwrap();
    let (index, records) = (folder.index().unwrap(), folder.records().unwrap());
    let named = String::from_utf8(index).unwrap();
    let named: Vec<String> = named.lines().map(str::to_owned).collect();
    for name in &named {
        assert_eq!(records.get(name).map(Vec::as_slice), Some(name.as_bytes()), "{name} counts");
    }
    named
}

#[test]
fn a_step_that_fails_anywhere_leaves_the_old_or_the_new_index() {
    for step in WriteStep::REPLACE {
        for after in 0..4 {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().join("tree");
            let folder = open(&root);
            let first = [record("a"), record("b")];
            folder.step(&FolderStep { put: &first, index: b"a\nb", drop: &[] }).unwrap();
            let next = [record("c"), record("d")];
            let second = FolderStep { put: &next, index: b"b\nc\nd", drop: &["a".into()] };
            let failing = Failing::after(after, step, step.errors()[0]);
            let done = folder.step(&second);
            drop((failing, folder));
            let named = loads(&root);
            assert!(named == ["a", "b"] || named == ["b", "c", "d"], "{step:?} {after}: {named:?}");
            assert!(done.is_err() || named == ["b", "c", "d"], "{step:?} {after}");
            // The same step again makes up for it.
            let folder = open(&root);
            folder.step(&second).unwrap();
            assert_eq!(folder.records().unwrap().len(), 3);
            drop(folder);
            assert_eq!(loads(&root), ["b", "c", "d"]);
        }
    }
}

#[test]
fn what_a_crash_left_half_written_is_deleted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let folder = open(&root);
    folder.step(&FolderStep { put: &[record("a")], index: b"a", drop: &[] }).unwrap();
    drop(folder);
    fs::write(root.join("rec/b.new"), b"half").unwrap();
    fs::write(root.join("index.new"), b"half").unwrap();
    assert_eq!(loads(&root), ["a"]);
    assert!(!root.join("rec/b.new").exists() && !root.join("index.new").exists());
}

#[test]
fn one_process_has_it_and_more_than_it_writes_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let folder = open(&root);
    assert_eq!(Folder::open(&root, "index", LIMITS).unwrap_err().code, Exit::Busy);
    let long = [("a".to_owned(), vec![7; 65])];
    folder.step(&FolderStep { put: &long, index: &[7; 65], drop: &[] }).unwrap();
    assert_eq!(folder.records().unwrap_err().code, Exit::Malformed);
    assert_eq!(folder.index().unwrap_err().code, Exit::Malformed);
    folder.clear().unwrap();
    let many: Vec<_> = (0..9).map(|n| record(&n.to_string())).collect();
    folder.step(&FolderStep { put: &many, index: b"", drop: &[] }).unwrap();
    assert_eq!(folder.records().unwrap_err().code, Exit::Malformed);
}

#[test]
fn what_is_wiped_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("tree");
    let folder = open(&root);
    folder.step(&FolderStep { put: &[record("a")], index: b"a", drop: &[] }).unwrap();
    fs::write(root.join("card"), b"card").unwrap();
    folder.wipe(&["card"]).unwrap();
    assert!(!root.exists());
}
