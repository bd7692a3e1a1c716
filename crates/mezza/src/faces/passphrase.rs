//! Passphrases: from a terminal, from `--passphrase-file`, or from the file that
//! `MEZZA_PASSPHRASE_FILE` names; never from the command line, which every user of the machine can
//! read.
//!
//! A new passphrase is offered as six words of our own list of 1,296 = 6^4 words: each adds
//! log2(1296) = 10.3 bits, six have 62 bits, at one Argon2id run per guess. No word begins another,
//! so the words stay apart even without spaces, and one typing error never makes another word.

mod words;

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use mezza_core::CryptoRng;
use zeroize::Zeroizing;

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::typed::in_one_form;
pub(crate) use words::WORDS;

/// The environment variable that names a file with the passphrase.
pub(crate) const FILE_VARIABLE: &str = "MEZZA_PASSPHRASE_FILE";
/// Maximum length of a passphrase, bytes.
pub(crate) const PASSPHRASE_BYTES_MAX: usize = 1_024;
/// Minimum number of characters of a new vault's passphrase.
pub(crate) const PASSPHRASE_CHARS_MIN: usize = 8;
/// Words of a suggested passphrase.
const OFFER_WORDS: usize = 6;
/// 16-bit draws from this value on are discarded, because they would favour the first words.
const DRAW_LIMIT: u16 = (u16::MAX / 1_296) * 1_296;

/// Asks for the passphrase of an existing vault.
///
/// `file` is `--passphrase-file`. Exit code 77 if none is available.
pub fn ask(file: Option<&Path>, prompt: &str) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match file_among(file) {
        Some(path) => read(&path),
        None => type_in(prompt),
    }
}

/// Asks for the passphrase of a new vault. On a terminal six words are suggested, and the
/// passphrase is typed twice.
pub fn ask_new(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let pass = match file_among(file) {
        Some(path) => read(&path)?,
        None => ask_twice("New passphrase of this device", type_in)?,
    };
    check_new(&pass)?;
    Ok(pass)
}

/// Asks for the passphrase of an existing backup. The environment variable that names the file of
/// the vault's passphrase is not used.
pub(crate) fn ask_for_backup(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    file.map_or_else(|| type_in("Passphrase of the backup: "), read)
}

/// Asks for the passphrase of a new backup. On a terminal six words are suggested, and the
/// passphrase is typed twice.
pub(crate) fn ask_for_new_backup(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let pass = file.map_or_else(|| ask_twice("New passphrase for this backup", type_in), read)?;
    check_new(&pass)?;
    Ok(pass)
}

/// Asks twice. Returns the passphrase if both inputs are equal.
fn ask_twice(
    what: &str,
    mut typed: impl FnMut(&str) -> Result<Zeroizing<Vec<u8>>, Fault>,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let offer = draw_offer(&mut OsRng);
    let prompt = Zeroizing::new(format!(
        "{what}, which nobody can reset, for example `{}`: ",
        offer.as_str()
    ));
    let first = typed(&prompt)?;
    // Refuse a short one before it is typed again.
    check_new(&first)?;
    if *first == *typed("again: ")? {
        return Ok(first);
    }
    Err(denied_fault("the two passphrases differ", "run the command again"))
}

/// Checks that a passphrase is long enough for a new vault (MSG-84). The passphrase of an existing
/// vault may have any length.
///
/// # Errors
/// Exit code 77 if it has too few characters, or is not UTF-8.
pub(crate) fn check_new(pass: &[u8]) -> Result<(), Fault> {
    let form = in_one_form(pass);
    let Ok(text) = std::str::from_utf8(&form) else {
        let next = "save its file as UTF-8, or type it on a terminal";
        return Err(denied_fault("a new passphrase is text, and this is not UTF-8", next));
    };
    if text.chars().count() >= PASSPHRASE_CHARS_MIN {
        return Ok(());
    }
    let text = format!("a new passphrase has at least {PASSPHRASE_CHARS_MIN} characters");
    Err(denied_fault(&text, "take the six words that are offered on the page or on a terminal"))
}

/// Draws six random words, for example for a suggestion in a form.
pub(crate) fn draw_words(rng: &mut dyn CryptoRng) -> [&'static str; OFFER_WORDS] {
    [(); OFFER_WORDS].map(|()| draw_word(rng))
}

/// Draws six random words with spaces between them.
pub(crate) fn draw_offer(rng: &mut dyn CryptoRng) -> Zeroizing<String> {
    Zeroizing::new(draw_words(rng).join(" "))
}

/// Reads a passphrase from a file, without one trailing line end.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Fault> {
    private::check_unread(path)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES_MAX + 3));
    File::open(path)
        .and_then(|file| file.take(PASSPHRASE_BYTES_MAX as u64 + 3).read_to_end(&mut bytes))
        .map_err(|error| private::cannot_read(path, &error))?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    check_size(bytes)
}

fn file_among(flag: Option<&Path>) -> Option<PathBuf> {
    let variable = || env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty());
    flag.map(Path::to_path_buf).or_else(|| variable().map(PathBuf::from))
}

fn type_in(prompt: &str) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let typed = rpassword::prompt_password(prompt).map_err(|_| {
        denied_fault(
            "there is no terminal to type the passphrase on",
            "put it into a file of mode 0600 and name that with `--passphrase-file FILE`",
        )
    })?;
    check_size(Zeroizing::new(typed.into_bytes()))
}

fn check_size(passphrase: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match passphrase.len() {
        0 => Err(denied_fault("the passphrase is empty", "take six words by chance")),
        1..=PASSPHRASE_BYTES_MAX => Ok(passphrase),
        _ => Err(denied_fault(
            &format!("the passphrase is longer than {PASSPHRASE_BYTES_MAX} bytes"),
            "take a shorter one",
        )),
    }
}

fn draw_word(rng: &mut dyn CryptoRng) -> &'static str {
    loop {
        let mut draw = Zeroizing::new([0; 2]);
        rng.fill_bytes(&mut *draw);
        let draw = u16::from_be_bytes(*draw);
        if draw < DRAW_LIMIT {
            return WORDS[usize::from(draw) % WORDS.len()];
        }
    }
}

fn denied_fault(text: &str, next: &str) -> Fault {
    Fault::new(Exit::Denied, text, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_its_bits_rest_on() {
        assert_eq!(WORDS.len(), 1_296);
        assert!(WORDS.iter().all(|word| (3..=7).contains(&word.len())));
        assert!(WORDS.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase())));
        // In a sorted list a prefix of a word is directly before it.
        assert!(WORDS.windows(2).all(|pair| pair[0] < pair[1] && !pair[1].starts_with(pair[0])));
        assert_eq!(DRAW_LIMIT, 64_800);
        let near = |a: &str, b: &str| {
            let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
            let a = &a[same..];
            let b = &b[same..];
            a.get(1..) == b.get(1..) || a.get(1..) == Some(b) || b.get(1..) == Some(a)
        };
        let pairs =
            WORDS.iter().enumerate().flat_map(|(i, a)| WORDS[i + 1..].iter().map(move |b| (a, b)));
        assert_eq!(pairs.filter(|(a, b)| near(a, b)).collect::<Vec<_>>(), []);
    }

    #[test]
    fn msg_84_a_new_passphrase_has_eight_characters_and_an_old_one_any() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passphrase");
        for (text, is_long_enough) in [
            ("x", false),
            ("1234567", false),
            ("ééééééé", false),
            ("12345678", true),
            ("éééééééé", true),
            // Letters are counted after normalisation, so different encodings of a text count the
            // same.
            ("\u{feff}1234567", false),
            ("e\u{301}e\u{301}e\u{301}e\u{301}", false),
        ] {
            private::replace(&file, text.as_bytes()).unwrap();
            let new = ask_new(Some(&file));
            assert_eq!(new.is_ok(), is_long_enough, "{text}");
            if let Err(fault) = new {
                assert_eq!(fault.code, Exit::Denied);
                assert!(fault.next.contains("six words"), "{fault}");
            }
            assert_eq!(*ask(Some(&file), "old").unwrap(), *text.as_bytes());
        }
    }

    #[test]
    fn offers_differ_and_reach_the_whole_list() {
        assert_ne!(*draw_offer(&mut OsRng), *draw_offer(&mut OsRng));
        assert_eq!(draw_offer(&mut OsRng).split(' ').count(), OFFER_WORDS);
        let mut missed: std::collections::BTreeSet<_> = WORDS.iter().copied().collect();
        for _ in 0..6_000 {
            for word in draw_words(&mut OsRng) {
                missed.remove(word);
            }
        }
        // 36,000 draws miss a given word with probability e^-27.
        assert!(missed.is_empty());
    }

    #[test]
    fn a_draw_above_the_limit_is_drawn_again() {
        // Each word has the same number of draws.
        let mut drawn = Draws(vec![DRAW_LIMIT, u16::MAX, 1]);
        assert_eq!(draw_word(&mut drawn), WORDS[1]);
        assert_eq!(draw_word(&mut Draws(vec![DRAW_LIMIT - 1])), WORDS[WORDS.len() - 1]);
    }

    #[test]
    fn what_is_typed_twice_is_taken() {
        let type_in = |texts: [&'static str; 2]| {
            let mut texts = texts.into_iter();
            let typed = |_: &str| Ok(Zeroizing::new(texts.next().unwrap().as_bytes().to_vec()));
            ask_twice("New passphrase", typed)
        };
        assert_eq!(**type_in(["correct horse"; 2]).unwrap(), *b"correct horse");
        let fault = type_in(["correct horse", "correct house"]).unwrap_err();
        assert_eq!((fault.code, fault.text.as_str()), (Exit::Denied, "the two passphrases differ"));
    }

    #[test]
    fn an_empty_and_an_endless_passphrase_are_told_apart() {
        let text = |bytes: usize| check_size(Zeroizing::new(vec![b'x'; bytes])).map_err(|f| f.text);
        assert_eq!(text(0).unwrap_err(), "the passphrase is empty");
        assert_eq!(text(PASSPHRASE_BYTES_MAX).unwrap().len(), PASSPHRASE_BYTES_MAX);
        assert!(text(PASSPHRASE_BYTES_MAX + 1).unwrap_err().contains("longer than"));
    }

    /// Returns these draws in order.
    struct Draws(Vec<u16>);

    impl rand_core::TryRng for Draws {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            unreachable!("words are drawn as bytes")
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            unreachable!("words are drawn as bytes")
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.copy_from_slice(&self.0.remove(0).to_be_bytes());
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Draws {}
}
