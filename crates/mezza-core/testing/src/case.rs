//! One case of the vectors: a file with lines of `key: value`; `#` begins a comment.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{hex, unhex, unhex_array};

/// One case: `key: value` lines, in their order. A key may occur several times.
#[derive(Debug)]
pub struct Case {
    name: String,
    lines: Vec<(String, String)>,
}

/// Returns the folder `vectors/NAME` of this repository.
#[must_use]
pub fn vector_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors").join(name)
}

/// Reads all cases, files `*.txt`, of the folder `vectors/NAME`, sorted by their names.
///
/// # Panics
///
/// If the folder holds fewer than `least` cases, or a file that is not a case.
#[must_use]
pub fn read_cases(name: &str, least: usize) -> Vec<Case> {
    let entries =
        fs::read_dir(vector_folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
    let is_case = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "txt");
    let mut cases = paths.filter(is_case).map(|path| Case::read_file(&path)).collect::<Vec<_>>();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= least, "{name}: only {} cases", cases.len());
    cases
}

impl Case {
    /// Reads the case `vectors/FOLDER/NAME.txt`.
    ///
    /// # Panics
    ///
    /// If there is no such file, or it is not a case.
    #[must_use]
    pub fn named(folder: &str, name: &str) -> Self {
        Self::read_file(&vector_folder(folder).join(format!("{name}.txt")))
    }

    fn read_file(path: &Path) -> Self {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().expect("the name of a file").to_string_lossy();
        Self::parse(&name, &text)
    }

    fn parse(name: &str, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let pair = line.split_once(':');
            let (key, value) = pair.unwrap_or_else(|| panic!("{name}: no `key: value`: {line}"));
            (key.to_owned(), value.trim_start().to_owned())
        });
        Self { name: name.to_owned(), lines: lines.collect() }
    }

    /// Returns the name of the file, without `.txt`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the lines in their order.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns all values of a key in their order.
    pub fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.lines().filter(move |line| line.0 == key).map(|line| line.1)
    }

    /// Returns true if the case has the key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        self.texts(key).next().is_some()
    }

    /// Returns the value of a key.
    ///
    /// # Panics
    ///
    /// If the case does not have the key exactly once.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        let mut values = self.texts(key);
        let value = values.next().unwrap_or_else(|| panic!("{}: no {key}", self.name));
        assert!(values.next().is_none(), "{}: {key} twice", self.name);
        value
    }

    /// Returns the bytes of a hexadecimal value.
    ///
    /// # Panics
    ///
    /// If the value is missing or not hexadecimal.
    #[must_use]
    pub fn bytes(&self, key: &str) -> Vec<u8> {
        unhex(self.text(key))
    }

    /// Returns the `N` bytes of a hexadecimal value.
    ///
    /// # Panics
    ///
    /// If the value is missing, not hexadecimal, or of another length.
    #[must_use]
    pub fn array<const N: usize>(&self, key: &str) -> [u8; N] {
        unhex_array(self.text(key))
    }

    /// Returns a decimal number.
    ///
    /// # Panics
    ///
    /// If the value is missing or not a number.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        self.parse_value(key)
    }

    /// Returns a value of any type that can be written as text.
    ///
    /// # Panics
    ///
    /// If the value is missing or cannot be parsed.
    #[must_use]
    pub fn parse_value<T: FromStr<Err: Debug>>(&self, key: &str) -> T {
        let value = self.text(key).parse();
        value.unwrap_or_else(|error| panic!("{}: {key}: {error:?}", self.name))
    }

    /// Checks that the value of a key equals these bytes.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn assert_bytes(&self, key: &str, bytes: &[u8]) {
        assert_eq!(hex(bytes), self.text(key), "{}: {key}", self.name);
    }

    /// Checks that the outcome is the one that the case expects.
    ///
    /// # Panics
    ///
    /// If it is another one.
    pub fn assert_outcome(&self, outcome: &str) {
        assert_eq!(outcome, self.text("expect"), "{}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_their_order() {
        let case = Case::parse("a", "# made by hand\nkey: 0aff\nto: \nto: b: c\ncount: 7\n");
        assert_eq!(
            case.lines().collect::<Vec<_>>(),
            [("key", "0aff"), ("to", ""), ("to", "b: c"), ("count", "7")]
        );
        assert_eq!((case.array("key"), case.number("count")), ([0x0a, 0xff], 7));
        assert!(case.has_key("to") && !case.has_key("from"));
        case.assert_bytes("key", &[0x0a, 0xff]);
    }

    #[test]
    #[should_panic(expected = "to twice")]
    fn a_key_that_occurs_twice_has_no_one_value() {
        let _ = Case::parse("a", "to: b\nto: c\n").text("to");
    }

    #[test]
    #[should_panic(expected = "1 bytes, not 2")]
    fn another_length_is_refused() {
        let _ = Case::parse("a", "key: 0a").array::<2>("key");
    }
}
