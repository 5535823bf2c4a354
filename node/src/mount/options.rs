//! Mount options: what volumes ask for, checked and merged. Pure.

use std::collections::BTreeSet;
use std::fmt::Write;

use rustix::mount::MountFlags;

/// A word that is no mount option here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount option {}: {why}", shown(option))]
pub struct OptionError {
    /// The word. What it says is not for logs; the message of this error leaves secrets out.
    pub option: String,
    /// What is wrong with it, and what to do.
    pub why: &'static str,
}

/// Options whose value is nobody's business.
const SECRET: [&str; 9] =
    ["password", "password2", "pass", "passwd", "pass2", "secret", "passphrase", "token", "auth"];

/// Options that would make of a mount something else than was asked for.
const REFUSED: [(&str, &str); 21] = [
    ("bind", BIND),
    ("rbind", BIND),
    ("move", "a mount is made, not moved"),
    ("remount", "what is mounted already is not changed by a volume"),
    ("shared", PROPAGATION),
    ("rshared", PROPAGATION),
    ("slave", PROPAGATION),
    ("rslave", PROPAGATION),
    ("private", PROPAGATION),
    ("rprivate", PROPAGATION),
    ("unbindable", PROPAGATION),
    ("runbindable", PROPAGATION),
    ("loop", LOOP),
    ("offset", LOOP),
    ("sizelimit", LOOP),
    ("helper", PROGRAM),
    ("uhelper", PROGRAM),
    ("x-mount.mkdir", PLACE),
    ("X-mount.mkdir", PLACE),
    ("X-mount.subdir", PLACE),
    ("X-mount.idmap", PLACE),
];
const BIND: &str = "what is bound where is said by the volume, not by its options";
const PROPAGATION: &str = "propagation is said by the container (mountPropagation), not by the volume";
const LOOP: &str = "loop devices are made, and taken away, by the agent alone";
const PROGRAM: &str = "it names a program that root would run";
const PLACE: &str = "it changes where the mount is made, which the agent says";

/// Checks one word.
///
/// # Errors
/// It is not one option, or one that volumes cannot have.
pub fn check(option: &str) -> Result<(), OptionError> {
    let wrong = |why| Err(OptionError { option: option.to_owned(), why });
    if option.is_empty() {
        return wrong("it is empty");
    }
    if option.starts_with('-') {
        return wrong("it starts with `-`; options are written as after `mount -o`");
    }
    if option.contains(',') {
        return wrong("it has a comma in it; write each option as an element of the list");
    }
    if option.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return wrong("it has a space or a control character in it");
    }
    if option.len() > 1024 {
        return wrong("it is longer than 1024 bytes");
    }
    match REFUSED.iter().find(|(name, _)| *name == key(option)) {
        Some((_, why)) => wrong(why),
        None => Ok(()),
    }
}

/// The options of a mount: those of the volume, each once and sorted (upstream: pkg/volume/util, JoinMountOptions), and `ro` when
/// it is read-only, which no `rw` takes away.
///
/// # Errors
/// One of them is refused.
pub fn merged(options: &[String], read_only: bool) -> Result<Vec<String>, OptionError> {
    let mut all = BTreeSet::new();
    // What says nothing is no option (upstream too).
    for option in options.iter().filter(|option| !option.is_empty()) {
        check(option)?;
        all.insert(option.clone());
    }
    if read_only {
        all.remove("rw");
        all.insert("ro".to_owned());
    }
    Ok(all.into_iter().collect())
}

/// One text for `mount -o`.
pub fn joined(options: &[String]) -> String {
    options.join(",")
}

/// Options as people may see them: secrets are stars.
pub fn redacted(options: &[String]) -> String {
    let mut text = String::new();
    for option in options {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{}", shown(option));
    }
    text
}

/// A text with the values of secret options in it replaced by stars: mount helpers repeat their arguments.
pub fn without_secrets(text: &str, options: &[String]) -> String {
    let mut secrets: Vec<&str> = options.iter().filter_map(|option| secret(option)).collect();
    // The longer first: one may be a part of the other.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

fn key(option: &str) -> &str {
    option.split_once('=').map_or(option, |(key, _)| key)
}

fn secret(option: &str) -> Option<&str> {
    let (key, value) = option.split_once('=')?;
    let is_secret = SECRET.iter().any(|secret| key.eq_ignore_ascii_case(secret)) && !value.is_empty();
    is_secret.then_some(value)
}

fn shown(option: &str) -> String {
    match secret(option) {
        Some(_) => format!("{}=***", key(option)),
        // A word with commas may have a secret behind one of them.
        None if option.contains(',') => {
            option.split(',').map(shown).collect::<Vec<_>>().join(",").escape_debug().to_string()
        }
        None => option.escape_debug().to_string(),
    }
}

/// Options that belong to a mount and not to its file system, as flags; and those that are left.
pub(super) fn flags(options: &[String]) -> (MountFlags, Vec<&str>) {
    let mut flags = MountFlags::empty();
    let mut left = Vec::new();
    for option in options {
        match option.as_str() {
            "ro" => flags |= MountFlags::RDONLY,
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "noatime" => flags |= MountFlags::NOATIME,
            "nodiratime" => flags |= MountFlags::NODIRATIME,
            "relatime" => flags |= MountFlags::RELATIME,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            "nosymfollow" => flags |= MountFlags::NOSYMFOLLOW,
            "rw" | "suid" | "dev" | "exec" | "atime" | "diratime" | "defaults" => {}
            other => left.push(other),
        }
    }
    (flags, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn options_are_merged_as_upstream_does() -> Result<(), OptionError> {
        for (options, read_only, expected) in [
            (vec![], false, vec![]),
            (vec![], true, vec!["ro"]),
            (vec!["nfsvers=4.2", "hard", "nfsvers=4.2"], false, vec!["hard", "nfsvers=4.2"]),
            (vec!["rw", "noatime"], true, vec!["noatime", "ro"]),
            (vec!["ro", ""], false, vec!["ro"]),
        ] {
            assert_eq!(merged(&list(&options), read_only)?, expected, "{options:?}");
        }
        Ok(())
    }

    #[test]
    fn words_that_are_not_one_option_are_refused_with_a_reason() {
        for (option, part) in [
            ("", "empty"),
            ("-t", "starts with `-`"),
            ("ro,bind", "comma"),
            ("a b", "space"),
            ("a\nb", "control"),
            ("a\u{0}b", "control"),
            ("bind", "not by its options"),
            ("remount", "not changed"),
            ("rshared", "mountPropagation"),
            ("loop=/dev/loop0", "loop devices"),
            ("loop", "loop devices"),
            ("helper=evil", "root would run"),
            ("X-mount.mkdir=0777", "the agent says"),
        ] {
            let error = check(option).expect_err(option).to_string();
            assert!(error.contains(part), "{option:?}: {error}");
            assert!(!error.contains('\n') && !error.contains('\0'), "{error:?}");
        }
        assert!(check(&"x".repeat(1025)).is_err());
        for option in
            ["hard", "nfsvers=4.2", "sec=krb5p", "context=system_u:object_r:x:s0", "binding", "X-a=b"]
        {
            assert_eq!(check(option), Ok(()), "{option}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = list(&["user=me", "password=geheim", "PASS=geheim2", "vers=3"]);
        assert_eq!(redacted(&options), "user=me,password=***,PASS=***,vers=3");
        let text = without_secrets("bad option password=geheim and geheim2", &options);
        assert_eq!(text, "bad option password=*** and ***");
        let error = check("user=me,password=geheim").expect_err("a comma").to_string();
        assert!(!error.contains("geheim"), "{error}");
        assert!(!check("password=ge heim").expect_err("a space").to_string().contains("heim"));
    }

    #[test]
    fn flags_of_a_mount() {
        let options = list(&["noexec", "rw", "discard", "nosuid"]);
        assert_eq!(flags(&options), (MountFlags::NOEXEC | MountFlags::NOSUID, vec!["discard"]));
    }
}
