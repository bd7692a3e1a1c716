//! Rust without its comments and strings, so that words are found only where they are code.

/// `text` with the contents of comments, strings and characters replaced by blanks; line breaks
/// stay, so line numbers stay.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'/')) => line_end(bytes, at),
            (b'/', Some(b'*')) => block_end(bytes, at),
            (b'"', _) => string_end(bytes, at + 1),
            (b'r', _) if !continues_word(bytes, at) => raw_end(bytes, at).unwrap_or(at),
            (b'\'', _) => char_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether `word` stands in `line` with no letter, digit or underscore around it.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| bytes[i]);
    before.is_some_and(|b| (b.is_ascii_alphanumeric() && b != b'b') || b == b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |len| at + len)
}

/// Block comments nest.
fn block_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_u32);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"..."`, `r#"..."#`; `None` when the r begins a word.
fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    let open = at + 1 + hashes;
    (*bytes.get(open)? == b'"').then_some(())?;
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let len = bytes[open + 1..].windows(close.len()).position(|window| window == close);
    Some(len.map_or(bytes.len(), |len| open + 1 + len + close.len()))
}

/// `'x'`, `'\n'`, `'"'`; `None` for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    if *bytes.get(at + 1)? == b'\\' {
        let close = bytes.get(at + 3..)?.iter().position(|b| *b == b'\'')?;
        return Some(at + 3 + close + 1);
    }
    // One character of up to four bytes, then the closing quote.
    let text = std::str::from_utf8(bytes.get(at + 1..(at + 5).min(bytes.len()))?);
    let valid = match &text {
        Ok(text) => *text,
        Err(e) => std::str::from_utf8(&bytes[at + 1..at + 1 + e.valid_up_to()]).ok()?,
    };
    let close = at + 1 + valid.chars().next()?.len_utf8();
    (*bytes.get(close)? == b'\'').then_some(close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank() {
        let text = "a // unsafe\nb /* unsafe /* x */ */ c \"uns\\\"afe\" r#\"unsafe \" \"# d";
        let code = code_only(text);
        assert!(!code.contains("unsafe") && code.lines().count() == 2);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    }

    #[test]
    fn characters_and_lifetimes_differ() {
        let code = code_only("fn f<'a>(x: &'a str) { ('\"', '\\'', '\\u{200C}', 'é', b'\"') } end");
        assert!(code.contains("<'a>") && code.contains("&'a str") && code.contains("} end"));
        assert!(!code.contains('"'));
        assert_eq!(
            code_only("for r in 0..3 { let br = r; } \"x\"").trim(),
            "for r in 0..3 { let br = r; }"
        );
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("an unsafe block", "unsafe") && has_word("unsafe{", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("my_unsafe", "unsafe"));
    }
}
