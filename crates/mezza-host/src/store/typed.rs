//! The normal form of a passphrase, independent of how it was typed or stored (VAULT-11).

use std::str;

use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

/// The mark at the beginning of a UTF-8 file of some editors.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Normalization form C makes a text at most 3 times longer in UTF-8 (UAX 15).
const GROWTH_MAX: usize = 3;

/// Returns a passphrase in normalization form C, without a leading byte order mark. A passphrase
/// that is not UTF-8 stays as it is, since older vaults may have one.
pub fn in_one_form(pass: &[u8]) -> Zeroizing<Vec<u8>> {
    let Ok(text) = str::from_utf8(pass) else { return Zeroizing::new(pass.to_vec()) };
    // Allocate once: a growing text leaves copies that are not wiped.
    let mut form = Zeroizing::new(String::with_capacity(GROWTH_MAX * text.len()));
    form.extend(without_mark(text).nfc());
    Zeroizing::new(form.as_bytes().to_vec())
}

/// Returns a text without a leading byte order mark.
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
        // Case and spaces are significant, and bytes that are not UTF-8 stay unchanged.
        for other in [&b" six words "[..], b"Six Words", b"caf\xe9", b""] {
            assert_eq!(form(other), other);
        }
        // The letter with the largest growth.
        assert_eq!(form("\u{1d160}".as_bytes()).len(), 3 * 4);
    }
}
