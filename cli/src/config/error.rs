//! Errors of the command line, the variables and the file.

use std::path::PathBuf;

use clap::error::ErrorKind;

use super::file::FileError;
use crate::insight::names::NameError;

/// An invalid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Wrong flags or variables. Also `--help` and `--version`, which are not errors.
    #[error(transparent)]
    Clap(#[from] clap::Error),
    /// The configuration file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// The value of a variable is invalid.
    #[error("the variable {name} has a wrong value: {}", first_line(problem))]
    Variable {
        /// The variable.
        name: String,
        /// The parser's error.
        problem: clap::Error,
    },
    /// A value in the file is invalid.
    #[error("the configuration file {} has a wrong value: {}", path.display(), first_line(problem))]
    FileValue {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        problem: clap::Error,
    },
    /// An object, revision or time that cannot be parsed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Flags that conflict, or an unreadable file that a flag names.
    #[error("{0}")]
    Wrong(String),
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl ConfigError {
    /// Prints the error and returns the exit code.
    pub fn report(&self) -> u8 {
        match self {
            ConfigError::Clap(error) => {
                // There is nothing left to do if the terminal is closed.
                let _ = error.print();
                let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                if asked { 0 } else { 2 }
            }
            ConfigError::File(_)
            | ConfigError::Variable { .. }
            | ConfigError::FileValue { .. }
            | ConfigError::Name(_)
            | ConfigError::Wrong(_) => {
                eprintln!("error: {self}");
                2
            }
        }
    }
}

pub(super) fn wrong(text: &str) -> ConfigError {
    ConfigError::Wrong(text.to_owned())
}
