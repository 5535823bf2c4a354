//! Errors of the command line, the variables and the file.

use std::path::PathBuf;

use clap::error::ErrorKind;

use super::file::FileError;
use crate::insight::names::NameError;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Wrong flags or variables; also `--help` and `--version`, which are no errors.
    #[error(transparent)]
    Clap(#[from] clap::Error),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value in a variable is wrong.
    #[error("the variable {name} has a wrong value: {}", first_line(problem))]
    Variable {
        /// The variable.
        name: String,
        /// The parser's error.
        problem: clap::Error,
    },
    /// A value in the file is wrong.
    #[error("the configuration file {} has a wrong value: {}", path.display(), first_line(problem))]
    FileValue {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        problem: clap::Error,
    },
    /// An object or a moment that cannot be read.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Flags do not fit together, or a file that a flag names cannot be read.
    #[error("{0}")]
    Wrong(String),
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl ConfigError {
    /// Prints the error, and returns the exit code.
    pub fn report(&self) -> u8 {
        match self {
            ConfigError::Clap(error) => {
                // Nothing can be done when the terminal is gone.
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
