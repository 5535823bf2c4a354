//! The bearer token in a file that a kubeconfig names. The client reads the file again, so a renewed token needs no restart. The
//! client library does not trim the token, and a header cannot contain the line break at its end.
//!
//! Upstream: client-go `transport/token_source.go`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use kube::config::AuthInfo;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a token is used before the file is read again.
const REREAD: Duration = Duration::from_secs(60);

/// The token of a file.
pub(super) struct TokenFile {
    path: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    header: HeaderValue,
    until: Instant,
}

impl TokenFile {
    /// The file of a kubeconfig's user, which is removed from the user; `None` if another credential takes precedence.
    ///
    /// # Errors
    /// The file contains no token.
    pub(super) fn take(user: &mut AuthInfo) -> Result<Option<Self>, String> {
        let has_password = user.username.is_some() && user.password.is_some();
        if user.token.is_some() || user.auth_provider.is_some() || has_password {
            return Ok(None);
        }
        user.token_file.take().map(|path| Self::open(Path::new(&path))).transpose()
    }

    fn open(path: &Path) -> Result<Self, String> {
        let header = read(path).map_err(|problem| format!("the token file {} {problem}", path.display()))?;
        let current = Mutex::new(Current { header, until: Instant::now() + REREAD });
        Ok(TokenFile { path: path.to_owned(), current })
    }

    /// The header with the token.
    pub(super) fn header(&self) -> HeaderValue {
        let mut current = self.current.lock();
        if current.until <= Instant::now() {
            match read(&self.path) {
                Ok(header) => current.header = header,
                // As upstream: some programs remove the file after their start.
                Err(problem) => {
                    tracing::warn!(
                        "the token file {} {problem}; its last token stays in use",
                        self.path.display()
                    );
                }
            }
            current.until = Instant::now() + REREAD;
        }
        current.header.clone()
    }

    /// Reads the file again before the next request: the server has rejected the token.
    pub(super) fn rejected(&self) {
        self.current.lock().until = Instant::now();
    }
}

/// The header with the token of a file. The error continues a sentence about the file.
fn read(path: &Path) -> Result<HeaderValue, String> {
    let text = input_file::read_text(path, MAX_CONFIG).map_err(|error| format!("cannot be read: {error}"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err("is empty: write a token into it".to_owned());
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| "contains a character that no HTTP header may contain".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn user(path: &Path) -> AuthInfo {
        AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_token_is_used_after_a_minute_or_a_rejection() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write("  one\n");
        let token = TokenFile::take(&mut user(file.path())).unwrap().unwrap();
        write("two");
        assert_eq!(token.header(), "Bearer one");
        tokio::time::advance(REREAD).await;
        assert_eq!(token.header(), "Bearer two");
        write("three");
        token.rejected();
        assert_eq!(token.header(), "Bearer three");
        write("\n");
        token.rejected();
        assert_eq!(token.header(), "Bearer three", "an empty file");
        assert!(token.header().is_sensitive());
    }

    #[test]
    fn unusable_files_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, part) in [
            (&b" \n"[..], "is empty"),
            (b"hush\0", "no HTTP header may contain"),
            (b"hush\xff", "cannot be read"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let error = TokenFile::take(&mut user(file.path())).err().unwrap();
            assert!(error.contains(part) && !error.contains("hush"), "{error}");
        }
        assert!(
            TokenFile::take(&mut user(Path::new("/nowhere/t"))).err().unwrap().contains("cannot be read")
        );
        let mut other = AuthInfo { token: Some("t".to_owned().into()), ..user(Path::new("/nowhere/t")) };
        assert!(TokenFile::take(&mut other).unwrap().is_none(), "the token takes precedence");
    }
}
