//! The one form in which a passphrase counts, however it was typed or stored (VAULT-11).

use std::str;

use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

/// The mark with which some editors begin a file in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Normalization form C makes a text at most so many times longer in UTF-8 (UAX 15).
const GROWTH_MAX: usize = 3;

/// A passphrase in normalization form C, without a byte order mark in front. What is not UTF-8 counts
/// as it is: older vaults may have such a one.
pub fn in_one_form(pass: &[u8]) -> Zeroizing<Vec<u8>> {
    let Ok(text) = str::from_utf8(pass) else { return Zeroizing::new(pass.to_vec()) };
    // One piece of memory from the start: a text that grows leaves copies that nobody wipes.
    let mut form = Zeroizing::new(String::with_capacity(GROWTH_MAX * text.len()));
    form.extend(without_mark(text).nfc());
    Zeroizing::new(form.as_bytes().to_vec())
}

/// A text without a byte order mark in front.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vault_11_a_passphrase_has_one_form() {
        let form = |pass: &[u8]| in_one_form(pass).to_vec();
        let typed = "grün-zwölf-straße".as_bytes();
        assert_eq!(form(typed), typed);
        for same in ["\u{feff}grün-zwölf-straße", "gru\u{308}n-zwo\u{308}lf-straße"] {
            assert_eq!(form(same.as_bytes()), typed, "{same:?}");
        }
        // Case and spaces are the person's own, and so are bytes that are no text.
        for other in [&b" six words "[..], b"Six Words", b"caf\xe9", b""] {
            assert_eq!(form(other), other);
        }
        // The most that a letter grows.
        assert_eq!(form("\u{1d160}".as_bytes()).len(), 3 * 4);
    }
}
