//! Signatures and `let` pairs in code that has no comments or strings.

use crate::tidy::source::is_part;

/// One function, as declared by its signature.
pub struct Function {
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The parameters whose type is a tuple.
    pub tuples: Vec<String>,
    /// True in a trait impl, where the trait defines the name.
    in_impl: bool,
}

impl Function {
    /// Returns true if the crate chose the name.
    pub const fn has_own_name(&self) -> bool {
        !self.in_impl
    }

    /// Returns true if the name is one word.
    pub fn is_one_word(&self) -> bool {
        !self.name.trim_matches('_').contains('_')
    }
}

/// A statement `let (a, b) = (x, y)` with its line, from 1.
pub struct Pair {
    pub line: usize,
    pub text: String,
}

/// Returns all functions with a signature, in order.
pub fn find_functions(code: &str) -> Vec<Function> {
    let impls = trait_impls(code);
    let starts = find_word(code, "fn").filter_map(|at| {
        let rest = code[at + 2..].trim_start();
        let name = rest.split(|c| !is_part(c)).next().filter(|name| !name.is_empty())?;
        let begin = code.len() - rest.len() + name.len();
        let open = begin + skip_generics(&code[begin..])?;
        let close = open + find_closing(&code[open..])?;
        let tuples = split_parts(&code[open + 1..close]).into_iter().filter(|one| is_tuple(one));
        Some(Function {
            name: name.to_owned(),
            line: line_of(code, at),
            tuples: tuples
                .map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect(),
            in_impl: impls.iter().any(|range| range.contains(&at)),
        })
    });
    starts.collect()
}

/// Returns all `let` statements that destructure a written tuple, except swaps.
pub fn find_pairs(code: &str) -> Vec<Pair> {
    let starts = find_word(code, "let").filter_map(|at| {
        let rest = code[at + 3..].trim_start();
        let open = code.len() - rest.len();
        let close =
            open + find_closing(code.get(open..)?.strip_prefix('(').map(|_| &code[open..])?)?;
        let value = code[close + 1..].trim_start().strip_prefix('=')?.trim_start();
        let begin = code.len() - value.len();
        let end = begin + find_closing(value.strip_prefix('(').map(|_| value)?)?;
        // `(a, b).c()` is a call, and `let .. = (a, b) else` a match.
        code[end + 1..].trim_start().strip_prefix(';')?;
        let [left, right] = [&code[open + 1..close], &code[begin + 1..end]].map(split_parts);
        let is_swap = left.len() == right.len() && right.iter().all(|one| left.contains(one));
        (left.len() > 1 && !is_swap).then(|| Pair {
            line: line_of(code, at),
            text: code[at..=end].split_whitespace().collect::<Vec<_>>().join(" "),
        })
    });
    starts.collect()
}

/// Returns the bodies of trait impls.
fn trait_impls(code: &str) -> Vec<std::ops::Range<usize>> {
    let bodies = find_word(code, "impl").filter_map(|at| {
        let head = code[at..].split(['{', ';']).next()?;
        let is_item =
            code[..at].trim_end().ends_with(['}', ';', '{', ']']) || code[..at].trim().is_empty();
        let of_trait = is_item && find_word(head, "for").any(|at| !head[at + 3..].starts_with('<'));
        let open = at + head.len();
        let close = open + find_closing(code.get(open..)?)?;
        of_trait.then_some(open..close)
    });
    bodies.collect()
}

/// Returns the positions of a word that is not part of a longer word.
fn find_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// Returns the bytes before the parameters: generics may contain parentheses.
fn skip_generics(code: &str) -> Option<usize> {
    let mut depth = 0_i32;
    let mut before = ' ';
    for (at, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            '(' if depth == 0 => return Some(at),
            _ if depth == 0 && !c.is_whitespace() => return None,
            _ => {}
        }
        before = c;
    }
    None
}

/// Returns the position where the bracket that begins `code` is closed.
fn find_closing(code: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in code.char_indices() {
        depth += i32::from(matches!(c, '(' | '[' | '{')) - i32::from(matches!(c, ')' | ']' | '}'));
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns the parts of a list, without splitting inside brackets.
fn split_parts(list: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut begin = 0;
    let mut parts = Vec::new();
    let mut before = ' ';
    for (at, c) in list.char_indices() {
        depth += i32::from(matches!(c, '(' | '[' | '{' | '<'));
        depth -= i32::from(matches!(c, ')' | ']' | '}') || (c == '>' && before != '-'));
        if c == ',' && depth == 0 {
            parts.push(list[begin..at].trim());
            begin = at + 1;
        }
        before = c;
    }
    parts.push(list[begin..].trim());
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// Returns true for `name: (A, B)` and for references to such a type.
fn is_tuple(parameter: &str) -> bool {
    let colon = parameter.find(": (").or_else(|| parameter.find(": &"));
    let Some(at) = colon else { return false };
    let kind = parameter[at + 1..].trim_start_matches([' ', '&']);
    let kind = kind.strip_prefix("mut ").unwrap_or(kind);
    let Some(end) = kind.strip_prefix('(').and_then(|_| find_closing(kind)) else { return false };
    split_parts(&kind[1..end]).len() > 1
}

fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_among_parameters() {
        let code =
            "fn a<F: Fn(u8) -> (u8, u8)>(&self, (x, y): (A, B), f: F, g: &mut (C, D), h: (E)) {}";
        let found = find_functions(code);
        assert_eq!(found[0].tuples, ["(x, y): (A, B)", "g: &mut (C, D)"]);
        assert!(found[0].is_one_word() && found[0].has_own_name());
    }

    #[test]
    fn names_of_traits_are_not_ours() {
        let code = "impl fmt::Debug for A {\n    fn fmt(&self) {}\n}\nimpl A {\n    fn told(&self) {}\n}\n";
        let own =
            find_functions(code).into_iter().filter(Function::has_own_name).collect::<Vec<_>>();
        assert_eq!((own.len(), own[0].line), (1, 5));
    }

    #[test]
    fn pairs_but_no_swaps() {
        let code = "let (a, b) = (1, f(2, 3));\nlet (a, b) = (b, a);\nlet (a, b) = f();\n\
                    let (a, b) = (1, 2).max(c);\nlet (mut c,\n d) = (\n1,\n2);";
        let found = find_pairs(code);
        assert_eq!(found.iter().map(|pair| pair.line).collect::<Vec<_>>(), [1, 5]);
    }
}
