//! The subset of Rust's syntax that the search for import cycles needs: `use` trees, paths in code, names of
//! items.

use std::collections::{BTreeMap, BTreeSet};

/// A name that a `use` imports into a file. The name of a glob is `*`, and its path ends before that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub name: String,
    pub path: Vec<String>,
    /// `pub use`, `pub(crate) use` and the like.
    pub reexport: bool,
}

/// The names in a source file, without its tests.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub imports: Vec<Import>,
    /// Paths of two or more segments outside of `use`.
    pub paths: Vec<Vec<String>>,
    /// Every word outside of `use`, with the number of times it occurs.
    pub words: BTreeMap<String, usize>,
    /// The items that the file defines.
    pub items: BTreeSet<String>,
    /// Modules that are declared here under `#[cfg(test)]`.
    pub test_modules: BTreeSet<String>,
}

/// Parses a source file.
pub(super) fn read(text: &str) -> Source {
    let mut source = Source::default();
    let tokens = without_tests(&tokens(text), &mut source.test_modules);
    let mut at = 0;
    while at < tokens.len() {
        // `use<'a>` of a captured lifetime is not an import.
        if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
            let before = at.checked_sub(1).map_or("", |before| tokens[before].as_str());
            // The `)` closes `pub(crate)`.
            let reexport = before == "pub" || before == ")";
            at += 1;
            use_tree(&tokens, &mut at, &[], reexport, &mut source.imports);
        } else if is_word(&tokens[at]) {
            at = path_or_item(&tokens, at, &mut source);
        } else {
            at += 1;
        }
    }
    source
}

/// Reads a word, or the path that begins with it.
fn path_or_item(tokens: &[String], at: usize, source: &mut Source) -> usize {
    const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union"];
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    if ITEMS.contains(&token(at)) && is_word(token(at + 1)) {
        source.items.insert(token(at + 1).to_owned());
    }
    let mut path = vec![tokens[at].clone()];
    let mut next = at + 1;
    while token(next) == "::" && is_word(token(next + 1)) {
        path.push(token(next + 1).to_owned());
        next += 2;
    }
    let continues = at > 0 && token(at - 1) == "::";
    for word in &path {
        *source.words.entry(word.clone()).or_default() += 1;
    }
    if path.len() > 1 && !continues {
        source.paths.push(path);
    }
    next
}

/// Reads one `use` tree, up to the `;`, `,` or `}` after it.
fn use_tree(tokens: &[String], at: &mut usize, prefix: &[String], reexport: bool, found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            ";" | "," | "}" => break,
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token != "}" && token != ";") {
                    use_tree(tokens, at, &path, reexport, found);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token == ","));
                }
                *at += 1;
                return;
            }
            "as" => {
                name = tokens.get(*at + 1).cloned();
                *at += 1;
            }
            "*" => name = Some("*".to_owned()),
            // `a::{self, b}`
            "self" if !path.is_empty() => {}
            word if is_word(word) => path.push(word.to_owned()),
            _ => {}
        }
        *at += 1;
    }
    if let Some(last) = path.last() {
        let name = name.unwrap_or_else(|| last.clone());
        found.push(Import { name, path, reexport });
    }
}

/// The tokens without the items under `#[cfg(test)]`; records the modules among those.
fn without_tests(tokens: &[String], test_modules: &mut BTreeSet<String>) -> Vec<String> {
    let is = |at: usize, words: &[&str]| {
        tokens.len() >= at + words.len() && words.iter().zip(&tokens[at..]).all(|(word, token)| word == token)
    };
    if is(0, &["#", "!", "[", "cfg", "(", "test", ")", "]"]) {
        return Vec::new();
    }
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !is(at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += 7;
        let mut depth = 0_usize;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token.as_str() {
                "mod" if depth == 0 => test_modules.extend(tokens.get(at).cloned()),
                "{" => depth += 1,
                "}" if depth <= 1 => break,
                "}" => depth -= 1,
                ";" | "," if depth == 0 => break,
                _ => {}
            }
        }
    }
    kept
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and single characters, without comments, strings and character literals.
fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let char_at = |at: usize| text.get(at).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (c, next) = (text[at], char_at(at + 1));
        if c == '/' && next == '/' {
            while at < text.len() && text[at] != '\n' {
                at += 1;
            }
        } else if c == '/' && next == '*' {
            at = behind_comment(&text, at);
        } else if c == '"' {
            at = behind_string(&text, at);
        } else if c == '\'' {
            // A character literal, or a lifetime, of which only the quote is skipped.
            at += match next {
                '\\' => 3 + text[at + 3..].iter().take_while(|c| **c != '\'').count() + 1,
                _ if char_at(at + 2) == '\'' => 3,
                _ => 1,
            };
        } else if c.is_alphanumeric() || c == '_' {
            let word: String = text[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
            at += word.chars().count();
            let hashes = text[at..].iter().take_while(|c| **c == '#').count();
            if matches!(word.as_str(), "r" | "br" | "cr") && char_at(at + hashes) == '"' {
                at = behind_raw_string(&text, at + hashes + 1, hashes);
            } else if word != "b" && word != "c" || !matches!(char_at(at), '"' | '\'') {
                found.push(word);
            }
        } else if c == ':' && next == ':' {
            found.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                found.push(c.to_string());
            }
            at += 1;
        }
    }
    found
}

fn behind_comment(text: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn behind_string(text: &[char], mut at: usize) -> usize {
    at += 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn behind_raw_string(text: &[char], mut at: usize, hashes: usize) -> usize {
    while at < text.len() {
        let end = text[at] == '"' && text[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
        at += 1;
        if end {
            return at + hashes;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let imports = read(text).imports.into_iter();
        imports.map(|import| format!("{} = {}", import.name, import.path.join("::"))).collect()
    }

    #[test]
    fn use_trees_are_read() {
        let nested = "use crate::{a::{self, B, c::{D as E, F}}, g::*}; use super::super::h::I;";
        let expected =
            ["a = crate::a", "B = crate::a::B", "E = crate::a::c::D", "F = crate::a::c::F", "* = crate::g"];
        let found = imports(nested);
        assert_eq!(found[..5], expected);
        assert_eq!(found[5..], ["I = super::super::h::I"]);
    }

    #[test]
    fn comments_strings_and_tests_are_skipped() {
        let text = r##"
            // crate::a::b
            /* crate::a::b /* nested */ crate::c */
            const A: &str = "crate::a::b \" crate::d";
            const B: &str = r#"crate::a::b " crate::d"#;
            fn c<'a>(d: &'a str) -> char { let _ = '"'; let _ = '\''; crate::real::path(); 'x' }
            #[cfg(test)]
            mod tests { use crate::e::F; fn g() { crate::h::i() } }
            #[cfg(test)]
            mod helper;
            pub(crate) use self::j::K;
        "##;
        let source = read(text);
        let paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::real::path"]);
        assert_eq!(imports(text), ["K = self::j::K"]);
        assert!(source.imports[0].reexport);
        assert!(source.items.contains("A") && source.items.contains("c") && !source.items.contains("g"));
        assert!(source.test_modules.contains("helper"));
    }
}
