//! The file of `--config`: YAML whose keys are flag names.
//!
//! One file can serve several commands: a key that is a flag of another command is skipped. A key that no
//! command knows is an error, so that a typo does not silently leave a default in place.

use std::path::{Path, PathBuf};

use clap::Command;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use serde_json::Value;

/// Why a configuration file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    /// The file is not YAML.
    #[error("the configuration file {} is not valid YAML: {problem}", path.display())]
    Syntax { path: PathBuf, problem: String },
    /// The file is not a map.
    #[error("the configuration file {} must be a map of flag names to values", path.display())]
    NoMap { path: PathBuf },
    /// A key is not the name of a flag.
    #[error("the configuration file {} has the key `{key}`, which is not a flag; did you mean `{nearest}`?", path.display())]
    UnknownKey { path: PathBuf, key: String, nearest: String },
    /// A key is not allowed in a file.
    #[error("the configuration file {} cannot name another one: remove the key `config`", path.display())]
    Nested { path: PathBuf },
    /// A value has a type that its flag does not accept.
    #[error("the configuration file {}: `{key}` must be {want}", path.display())]
    Shape { path: PathBuf, key: String, want: &'static str },
}

/// A flag's name and its values from the file, as text.
pub(crate) type FileValues = Vec<(String, Vec<String>)>;

/// Reads the file for a subcommand.
pub(crate) fn read(path: &Path, command: &Command, subcommand: &str) -> Result<FileValues, FileError> {
    let text = input_file::read_text(path, MAX_CONFIG)
        .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    parse(&text, path, command, subcommand)
}

fn parse(text: &str, path: &Path, command: &Command, subcommand: &str) -> Result<FileValues, FileError> {
    let path = || path.to_owned();
    let document: Value = serde_saphyr::from_str(text)
        // The snippet of the error quotes lines, which may contain a secret.
        .map_err(|error| FileError::Syntax { path: path(), problem: error.without_snippet().to_string() })?;
    let map = match document {
        Value::Null => return Ok(Vec::new()),
        Value::Object(map) => map,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(FileError::NoMap { path: path() });
        }
    };
    let mut values = Vec::new();
    for (key, value) in map {
        if key == "config" {
            return Err(FileError::Nested { path: path() });
        }
        if !flags(command).any(|(_, flag)| flag == key) {
            let nearest = nearest(&key, flags(command).map(|(_, flag)| flag));
            return Err(FileError::UnknownKey { path: path(), key, nearest });
        }
        let Some(many) = flags_of(command, subcommand).find(|(_, flag)| *flag == key).map(|(many, _)| many)
        else {
            continue;
        };
        match texts(value, many) {
            Ok(texts) => values.push((key, texts)),
            Err(want) => return Err(FileError::Shape { path: path(), key, want }),
        }
    }
    Ok(values)
}

/// Makes the file's values the defaults of a subcommand's flags.
pub(crate) fn as_defaults(command: Command, values: FileValues) -> Command {
    command.mut_args(|arg| {
        let found = arg.get_long().and_then(|flag| values.iter().find(|(key, _)| key == flag));
        match found {
            // clap has no default without a value: an empty list is the same as no default.
            Some((_, texts)) if texts.is_empty() => arg.default_value(None::<&str>),
            Some((_, texts)) => arg.default_values(texts.clone()),
            None => arg,
        }
    })
}

/// The flags of all subcommands: whether the flag takes a list, and its name.
fn flags(command: &Command) -> impl Iterator<Item = (bool, &str)> {
    command.get_subcommands().flat_map(|sub| flags_of(command, sub.get_name()))
}

fn flags_of<'a>(command: &'a Command, subcommand: &str) -> impl Iterator<Item = (bool, &'a str)> {
    let sub = command.find_subcommand(subcommand);
    sub.into_iter()
        .flat_map(Command::get_arguments)
        .filter_map(|arg| Some((arg.get_value_delimiter().is_some(), arg.get_long()?)))
        .filter(|(_, flag)| *flag != "config")
}

fn texts(value: Value, many: bool) -> Result<Vec<String>, &'static str> {
    let want = if many { "a string or a list of strings" } else { "a string, a number, true or false" };
    match value {
        // A key without a value would silently leave the default in place, such as no authentication.
        Value::Null => Err(want),
        Value::Bool(value) => Ok(vec![value.to_string()]),
        Value::Number(value) => Ok(vec![value.to_string()]),
        Value::String(value) => Ok(vec![value]),
        Value::Array(items) if many => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                Value::Bool(_) | Value::Number(_) | Value::Null | Value::Array(_) | Value::Object(_) => {
                    Err(want)
                }
            })
            .collect(),
        Value::Array(_) | Value::Object(_) => Err(want),
    }
}

/// The flag that is most similar to the key: one that contains the key, else the one with the smallest edit
/// distance; the first in alphabetical order if there are several.
fn nearest<'a>(key: &str, flags: impl Iterator<Item = &'a str>) -> String {
    let plain = key.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
    flags
        .min_by_key(|flag| (!flag.contains(plain.as_str()), distance(&plain, flag), *flag))
        .unwrap_or_default()
        .to_owned()
}

/// The number of letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn parsed(text: &str) -> Result<FileValues, String> {
        parse(text, Path::new("orlop.yaml"), &Cli::command(), "serve").map_err(|error| error.to_string())
    }

    #[test]
    fn keys_must_be_flag_names() {
        let got = parsed("listen: 127.0.0.1:0\nstore-retention-revisions: 5\ncontrollers: ['*', '-x']\n");
        let want = vec![
            ("controllers".to_owned(), vec!["*".to_owned(), "-x".to_owned()]),
            ("listen".to_owned(), vec!["127.0.0.1:0".to_owned()]),
            ("store-retention-revisions".to_owned(), vec!["5".to_owned()]),
        ];
        let mut got = got.expect("a good file");
        got.sort();
        assert_eq!(got, want);
    }

    #[test]
    fn empty_file_sets_nothing() {
        assert_eq!(parsed("# only a comment\n"), Ok(Vec::new()));
    }

    #[test]
    fn flag_of_another_command_is_skipped() {
        assert_eq!(parsed("leader-elect: false\n"), Ok(Vec::new()));
    }

    #[test]
    fn invalid_files_are_reported() {
        let cases = [
            ("dat-dir: /x\n", "`dat-dir`, which is not a flag; did you mean `data-dir`?"),
            ("data_dir: /x\n", "did you mean `data-dir`?"),
            ("tls-cert: x\n", "did you mean `tls-cert-file`?"),
            ("config: other.yaml\n", "cannot name another"),
            ("listen: [a, b]\n", "`listen` must be a string"),
            ("token-auth-file:\n", "`token-auth-file` must be a string"),
            ("authorization-mode: ~\n", "`authorization-mode` must be a string or a list"),
            ("controllers: [1]\n", "`controllers` must be a string or a list of strings"),
            ("- a\n", "must be a map"),
            ("listen: 'x\n", "not valid YAML"),
            ("listen: a\nlisten: b\n", "not valid YAML"),
        ];
        for (text, part) in cases {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(error.contains("orlop.yaml"), "{text}: {error}");
        }
        for secret in ["a: hunter2\n  b: hunter2\n", "a: 'hunter2\n", "a: [hunter2\n", "hunter2\n"] {
            let error = parsed(secret).expect_err(secret);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, want) in
            [("", "", 0), ("a", "", 1), ("abc", "abd", 1), ("abc", "bc", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }
}
