//! Cases of `vectors/messenger`: one file each, lines of `key: value`, `#` begins a comment. A
//! second implementation, `reference.py` beside them, derives the same files.

use std::convert::Infallible;
use std::fs;
use std::path::Path;

use data_encoding::HEXLOWER;
use rand_core::{TryCryptoRng, TryRng};

/// One file.
pub struct Case {
    /// Its name without `.txt`.
    pub name: String,
    lines: Vec<(String, String)>,
}

impl Case {
    /// The value of a key that stands there once.
    pub fn text(&self, key: &str) -> &str {
        let mut values = self.texts(key);
        let value = values.next().unwrap_or_else(|| panic!("{}: no {key}", self.name));
        assert!(values.next().is_none(), "{}: {key} twice", self.name);
        value
    }

    /// All values of a key, in order.
    pub fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |line| line.0 == key).map(|line| line.1.as_str())
    }

    /// Whether the key stands there.
    pub fn has(&self, key: &str) -> bool {
        self.texts(key).next().is_some()
    }

    /// The value of a key, from hexadecimal.
    pub fn bytes(&self, key: &str) -> Vec<u8> {
        hex(self.text(key))
    }

    /// The same for a fixed length.
    pub fn array<const N: usize>(&self, key: &str) -> [u8; N] {
        self.bytes(key).try_into().unwrap()
    }

    /// The value of a key, from decimal.
    pub fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(&self, key: &str) -> T {
        self.text(key).parse().unwrap()
    }

    /// The lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|line| (line.0.as_str(), line.1.as_str()))
    }
}

/// Bytes of a hexadecimal text.
pub fn hex(text: &str) -> Vec<u8> {
    HEXLOWER.decode(text.as_bytes()).unwrap()
}

/// All cases of a folder, at least `least` of them, by name.
pub fn walk(folder: &str, least: usize) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/messenger").join(folder);
    let mut cases: Vec<Case> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
                let (key, value) = line.split_once(':').unwrap();
                (key.into(), value.trim_start().into())
            });
            Case {
                name: path.file_stem().unwrap().to_str().unwrap().into(),
                lines: lines.collect(),
            }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= least, "{folder}: only {} cases", cases.len());
    cases
}

/// The variant of an error as the files write it: lower case, no fields.
pub fn reason(error: impl std::fmt::Debug) -> String {
    let text = format!("{error:?}").to_lowercase();
    text.chars().take_while(char::is_ascii_alphabetic).collect()
}

/// A generator that gives the bytes of a file and no more.
pub struct Given(pub Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        rand_core::utils::next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        rand_core::utils::next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        let rest = self.0.split_off(out.len());
        out.copy_from_slice(&self.0);
        self.0 = rest;
        Ok(())
    }
}

impl TryCryptoRng for Given {}
