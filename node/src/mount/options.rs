//! Mount options of volumes: checks and merges them. Pure.

use std::collections::BTreeSet;
use std::fmt::Write;

use rustix::mount::MountFlags;

/// An option that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount option {}: {why}", shown(option))]
pub struct OptionError {
    /// The option. Not for logs: it may contain a secret, which the message of this error leaves out.
    pub option: String,
    /// The fault, and the remedy.
    pub why: &'static str,
}

/// Options with confidential values.
const SECRET: [&str; 9] =
    ["password", "password2", "pass", "passwd", "pass2", "secret", "passphrase", "token", "auth"];

/// Options that would turn a mount into another operation.
const REFUSED: [(&str, &str); 21] = [
    ("bind", BIND),
    ("rbind", BIND),
    ("move", "a mount is made, not moved"),
    ("remount", "existing mounts are not changed by volumes"),
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
const BIND: &str = "bind mounts are defined by the volume, not by its options";
const PROPAGATION: &str = "the container defines the propagation (mountPropagation), not the volume";
const LOOP: &str = "only the agent attaches and detaches loop devices";
const PROGRAM: &str = "it names a program that root would run";
const PLACE: &str = "it changes the mount target, which only the agent chooses";

/// Checks one option.
///
/// # Errors
/// It is not a single option, or volumes may not use it.
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

/// The options of a mount: those of the volume without duplicates and sorted (upstream: pkg/volume/util,
/// JoinMountOptions), and `ro` when the mount is read-only, which `rw` does not override.
///
/// # Errors
/// One of them is refused.
pub fn merged(options: &[String], read_only: bool) -> Result<Vec<String>, OptionError> {
    let mut all = BTreeSet::new();
    // Empty options are ignored (upstream too).
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

/// Joins options for `mount -o`.
pub fn joined(options: &[String]) -> String {
    options.join(",")
}

/// Joins options for display, with secrets replaced by stars.
pub fn redacted(options: &[String]) -> String {
    let mut text = String::new();
    for option in options {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}", shown(option));
    }
    text
}

/// Replaces the values of secret options in a text by stars: mount helpers repeat their arguments.
pub fn without_secrets(text: &str, options: &[String]) -> String {
    let mut secrets: Vec<&str> = options.iter().filter_map(|option| secret(option)).collect();
    // Longer values first: a secret may be part of another.
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
        // An option with commas may have a secret after one of them.
        None if option.contains(',') => {
            option.split(',').map(shown).collect::<Vec<_>>().join(",").escape_debug().to_string()
        }
        None => option.escape_debug().to_string(),
    }
}

/// Splits options into the flags of the mount and the remaining options of the file system.
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
    fn options_are_merged_like_upstream() -> Result<(), OptionError> {
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
    fn invalid_options_are_refused_with_a_reason() {
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
            ("X-mount.mkdir=0777", "the agent chooses"),
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
    fn secrets_are_redacted() {
        let options = list(&["user=me", "password=geheim", "PASS=geheim2", "vers=3"]);
        assert_eq!(redacted(&options), "user=me,password=***,PASS=***,vers=3");
        let text = without_secrets("bad option password=geheim and geheim2", &options);
        assert_eq!(text, "bad option password=*** and ***");
        let error = check("user=me,password=geheim").expect_err("a comma").to_string();
        assert!(!error.contains("geheim"), "{error}");
        assert!(!check("password=ge heim").expect_err("a space").to_string().contains("heim"));
    }

    #[test]
    fn mount_flags_are_split_from_file_system_options() {
        let options = list(&["noexec", "rw", "discard", "nosuid"]);
        assert_eq!(flags(&options), (MountFlags::NOEXEC | MountFlags::NOSUID, vec!["discard"]));
    }
}
