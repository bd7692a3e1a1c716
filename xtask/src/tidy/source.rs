//! Rust without comments and strings, so that words are found only in code.

use proc_macro2::{LexError, TokenStream, TokenTree};

/// Returns `text` with the contents of comments, strings and characters replaced by blanks; line
/// numbers stay. Text that is not Rust is an error.
pub fn code_only(text: &str) -> Result<String, LexError> {
    let blank = |byte: u8| if byte == b'\n' { byte } else { b' ' };
    let mut code = text.bytes().map(blank).collect::<Vec<_>>();
    copy_code(text.parse()?, text.as_bytes(), &mut code);
    Ok(String::from_utf8_lossy(&code).into_owned())
}

/// Copies the code tokens from `text` to their positions in `code`.
fn copy_code(tokens: TokenStream, text: &[u8], code: &mut [u8]) {
    for token in tokens {
        let place = token.span().byte_range();
        let source = &text[place.clone()];
        match token {
            // The tokens of a documentation comment, `#[doc = ".."]`, have the position of the
            // comment.
            _ if source.starts_with(b"//") || source.starts_with(b"/*") => {}
            TokenTree::Group(group) => {
                for end in [group.span_open(), group.span_close()] {
                    code[end.byte_range()].copy_from_slice(&text[end.byte_range()]);
                }
                copy_code(group.stream(), text, code);
            }
            TokenTree::Literal(_) if source.contains(&b'"') || source.contains(&b'\'') => {}
            _ => code[place].copy_from_slice(source),
        }
    }
}

/// Returns true if `line` contains `word` without a letter, digit or underscore around it.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Returns the names after `root` in `code`, each with its line. A group returns all of its names.
pub fn find_imports(code: &str, root: &str) -> Vec<(usize, String)> {
    let starts = code.match_indices(root).map(|(at, _)| at);
    let starts = starts.filter(|at| !code[..*at].ends_with(is_part));
    let imports = starts.flat_map(|at| {
        let line = 1 + code[..at].matches('\n').count();
        first_names(&code[at + root.len()..]).into_iter().map(move |name| (line, name))
    });
    imports.collect()
}

/// Returns the first names of a path: `a` and `c` for `{a::b, c::{d, e}}`.
fn first_names(path: &str) -> Vec<String> {
    let name =
        |path: &str| path.trim().split(|c| !is_part(c)).next().unwrap_or_default().to_owned();
    if !path.starts_with('{') {
        return vec![name(path)];
    }
    let group = path.chars().scan(0, |depth, c| {
        *depth += i32::from(c == '{') - i32::from(c == '}');
        (*depth > 0).then_some((*depth, c))
    });
    let outside = group.skip(1).filter(|(depth, _)| *depth == 1).map(|(_, c)| c);
    let outside = outside.collect::<String>();
    outside.split(',').map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns true if a word may have this character.
pub fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank() {
        let text =
            "a // unsafe\n/// unsafe\nb /* unsafe /* x */ */ c \"uns\\\"afe\" r#\"unsafe \" \"# d";
        let code = code_only(text).expect("Rust");
        assert!(!code.contains("unsafe") && code.lines().count() == 3);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert!(code_only("a { \" }").is_err());
    }

    #[test]
    fn characters_and_lifetimes_differ() {
        let text = "fn f<'a>(x: &'a str) { ('\"', '\\'', '\\u{200C}', 'é', b'\"') } end / 3.5";
        let code = code_only(text).expect("Rust");
        assert_eq!(code.len(), text.len());
        assert!(code.contains("<'a>") && code.contains("&'a str") && code.contains("} end / 3.5"));
        assert!(!code.contains('"'));
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("an unsafe block", "unsafe") && has_word("unsafe{", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("my_unsafe", "unsafe"));
    }
}
