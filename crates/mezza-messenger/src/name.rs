//! Names on cards: the name that an unknown sender claims must not hide, reorder or break the text
//! around it on the screen.
//!
//! A name is clean if it has no control, format, line or paragraph character (Unicode general
//! categories Cc, Cf, Zl, Zp). The two joiners U+200C and U+200D, which Persian and the Indic
//! scripts need, are allowed between two letters. The ranges are those on which Unicode 15, 16 and
//! 17 agree. They are a table here and in the specification, so that two versions of the program
//! never differ. A later Unicode version changes them only with a new version of the card.

use alloc::string::String;

use unicode_normalization::UnicodeNormalization;

/// Most bytes of a name in UTF-8.
pub const NAME_BYTES_MAX: usize = 24;

/// Zero-width non-joiner and zero-width joiner.
const JOINERS: [char; 2] = ['\u{200C}', '\u{200D}'];

/// The categories Cc, Cf, Zl and Zp of Unicode 15 to 17, first and last of each range, ascending.
///
/// Generated with `/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u` of ECMAScript over all code points; adjacent
/// ranges are joined.
const FORBIDDEN: [(u32, u32); 23] = [
    (0x0000, 0x001F),
    (0x007F, 0x009F),
    (0x00AD, 0x00AD),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0x1_10BD, 0x1_10BD),
    (0x1_10CD, 0x1_10CD),
    (0x1_3430, 0x1_343F),
    (0x1_BCA0, 0x1_BCA3),
    (0x1_D173, 0x1_D17A),
    (0xE_0001, 0xE_0001),
    (0xE_0020, 0xE_007F),
];

/// Returns a name in the form for comparisons: lower case, without spaces around it, in
/// normalization form C (UAX 15). Letters with accents are then equal regardless of how they were
/// typed.
pub fn fold_name(name: &str) -> String {
    name.trim().nfc().flat_map(char::to_lowercase).nfc().collect()
}

/// Returns true if the user could mistake one name for the other. A contact without a name is shown
/// by its key and resembles no other.
pub fn looks_like(one: &str, other: &str) -> bool {
    let one = fold_name(one);
    // An empty name claims nothing, so it resembles no other name.
    !one.is_empty() && one == fold_name(other)
}

/// Returns true if a name looks like the number of a contact, `#2`. The user cannot give such a
/// name.
pub(crate) fn looks_like_number(name: &str) -> bool {
    name.trim_start().starts_with('#')
}

/// Returns true if a card may carry `name`: at most [`NAME_BYTES_MAX`] bytes, no forbidden character.
///
/// The empty name is clean; its contact is shown by key alone.
pub fn is_clean(name: &str) -> bool {
    // The length is checked first, because it bounds the scan below.
    if name.len() > NAME_BYTES_MAX {
        return false;
    }
    let mut before = None;
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        let is_between_letters = || {
            before.is_some_and(char::is_alphabetic)
                && chars.clone().next().is_some_and(char::is_alphabetic)
        };
        // A joiner at an end or next to another one hides characters (section 3.2).
        if is_forbidden(c) && !(JOINERS.contains(&c) && is_between_letters()) {
            return false;
        }
        before = Some(c);
    }
    true
}

fn is_forbidden(c: char) -> bool {
    let point = u32::from(c);
    let next = FORBIDDEN.partition_point(|range| range.0 <= point);
    next > 0 && point <= FORBIDDEN[next - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ascending_and_holds_every_control_character() {
        assert!(FORBIDDEN.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        assert!(FORBIDDEN.iter().all(|range| range.0 <= range.1));
        for c in '\0'..=char::MAX {
            assert!(!c.is_control() || is_forbidden(c), "{c:?}");
        }
    }

    #[test]
    fn names() {
        let clean = ["", "Alice", "José", "李雷", "👩🏽", "می\u{200C}خواهم", "नि\u{200D}क", "a b"];
        let unclean = [
            "a\u{202E}b",
            "a\u{2066}b",
            "a\nb",
            "a\u{85}b",
            "a\u{AD}b",
            "a\u{2028}b",
            "\u{200C}a",
            "a\u{200D}",
            "a\u{200C}\u{200C}b",
            "1\u{200C}a",
            "👩\u{200D}👩",
            "a\u{E0041}",
            "\u{FEFF}a",
        ];
        for name in clean {
            assert!(is_clean(name), "{name:?}");
        }
        for name in unclean {
            assert!(!is_clean(name), "{name:?}");
        }
    }

    #[test]
    fn names_are_compared_in_one_form() {
        for (one, other) in
            [("Zoë", "zoe\u{308}"), (" BOB", "bob "), ("Ångström", "\u{212b}ngstro\u{308}m")]
        {
            assert!(looks_like(one, other), "{one:?} {other:?}");
        }
        for (one, other) in [("bob", "bobby"), ("", " "), ("Zoë", "Zoe")] {
            assert!(!looks_like(one, other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_length_counts_bytes() {
        assert!(is_clean(&"é".repeat(12)));
        assert!(!is_clean(&"é".repeat(13)));
        assert!(!is_clean(&"a".repeat(25)));
    }
}
