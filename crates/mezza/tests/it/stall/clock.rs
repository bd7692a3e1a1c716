//! A clock that a test moves for one process, by libfaketime.

use std::fs;
use std::path::{Path, PathBuf};

/// The true time and what the file says on top of it. Only the time of day moves: what is measured
/// from the start of the machine goes on.
pub struct Clock {
    library: String,
    file: PathBuf,
}

impl Clock {
    /// A clock that goes right; `None` where there is no libfaketime, which was printed.
    pub fn find(folder: &Path) -> Option<Self> {
        let Some(library) = library() else {
            println!("SKIPPED faketime: no libfaketime; apt install libfaketime");
            return None;
        };
        let clock = Self { library, file: folder.join("clock") };
        clock.put(0);
        Some(clock)
    }

    /// Puts it so many seconds beside the true time.
    pub fn put(&self, off_s: i64) {
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{off_s:+}s\n")).unwrap();
        fs::rename(&fresh, &self.file).unwrap();
    }

    /// The environment of a process that goes by this clock.
    pub fn environment(&self) -> [(&str, &str); 5] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ]
    }
}

/// Where Debian has it, whatever the machine.
fn library() -> Option<String> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    Some(found.find(|path| path.is_file())?.to_str()?.to_owned())
}
