//! Expands `$(NAME)` references in the strings of a container. Pure (upstream:
//! third_party/forked/golang/expansion).

/// Replaces `$(NAME)` by the result of `value`; `$$` is one `$`. Unknown names and malformed references stay
/// unchanged.
pub(super) fn expand(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(after) = tail.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = tail.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match value(name) {
                Some(found) => out.push_str(&found),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}

/// Like [`expand`] with an environment; returns the unknown names as the error.
pub(super) fn expand_all(text: &str, env: &[(String, String)]) -> Result<String, Vec<String>> {
    let mut missing = Vec::new();
    let out = expand(text, |name| {
        let found = look_up(env, name);
        if found.is_none() {
            missing.push(name.to_owned());
        }
        found
    });
    if missing.is_empty() { Ok(out) } else { Err(missing) }
}

/// The value of a variable; of several with one name, the last one.
pub(super) fn look_up(env: &[(String, String)], name: &str) -> Option<String> {
    env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_expand_like_upstream() {
        let value = |name: &str| match name {
            "VAR_A" => Some("A".to_owned()),
            "VAR_B" => Some("B".to_owned()),
            "VAR_REF" => Some("$(VAR_A)".to_owned()),
            "VAR_EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, want) in [
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("$(VAR_A)$(VAR_B)", "AB"),
            ("$(VAR_REF)", "$(VAR_A)"),
            ("x$(VAR_EMPTY)y", "xy"),
            ("$(VAR_C)", "$(VAR_C)"),
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("$VAR_A", "$VAR_A"),
            ("$(VAR_A", "$(VAR_A"),
            ("$", "$"),
            ("a$", "a$"),
            ("$$", "$"),
            ("$()", "$()"),
            ("$(((VAR_A)))", "$(((VAR_A)))"),
            ("f:$(VAR_A):$$:ü", "f:A:$:ü"),
            ("", ""),
        ] {
            assert_eq!(expand(text, value), want, "{text:?}");
        }
    }

    #[test]
    fn unknown_names_are_an_error() {
        let env = [("A".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
        assert_eq!(expand_all("$(A)/x", &env), Ok("2/x".to_owned()));
        assert_eq!(expand_all("$(B)/$(C)", &env), Err(vec!["B".to_owned(), "C".to_owned()]));
    }
}
