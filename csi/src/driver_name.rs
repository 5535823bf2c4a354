//! The names of drivers (CSI: GetPluginInfo).

/// Maximum length of a name, bytes.
const NAME_MAX: usize = 63;

/// Checks a name: 1 to 63 letters, digits, `-` and `.`, of which the first and the last one are letters or digits.
///
/// # Errors
/// Why the name is invalid. The text has at most the beginning of the name.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err("the driver has no name".to_owned());
    }
    if bytes.len() > NAME_MAX {
        let begin: String = name.chars().take(NAME_MAX).collect();
        return Err(format!(
            "the name of the driver has {} bytes, the maximum is {NAME_MAX}: {begin:?}…",
            bytes.len()
        ));
    }
    if !bytes.iter().copied().all(inner) || !is_edge(bytes.first()) || !is_edge(bytes.last()) {
        return Err(format!(
            "the name of the driver, {name:?}, must consist of letters, digits, \"-\" and \".\", and must start and end with a letter or a digit"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_specification() {
        let longest = "a".repeat(NAME_MAX);
        let huge = "a".repeat(2 << 20);
        for (name, refusal) in [
            ("hostpath.csi.k8s.io", None),
            ("A-1.x", None),
            ("a", None),
            (longest.as_str(), None),
            ("", Some("no name")),
            (huge.as_str(), Some("has 2097152 bytes")),
            ("a/b", Some("letters, digits")),
            ("a\nb", Some("letters, digits")),
            ("ä", Some("letters, digits")),
            ("-a", Some("start and end")),
            ("a.", Some("start and end")),
        ] {
            match (refusal, check(name)) {
                (None, Ok(())) => {}
                (Some(part), Err(why)) => assert!(why.contains(part) && why.len() < 256, "{why}"),
                (_, found) => panic!("{name:.70}: {found:?}"),
            }
        }
    }
}
