//! Static bearer tokens from a CSV file: `token,user,uid,"group1,group2"`.
//!
//! The format is upstream's `--token-auth-file`, which upstream reads once; [`TokenFile::reload`] reads it again. An emptied file
//! removes all tokens; a damaged one changes nothing, because an editor may not have finished.
//! Tokens are kept as digests and compared without a hint from the time that it takes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file;
use parking_lot::RwLock;

use crate::UserInfo;
use crate::constant_time::{SecretDigest, digest, is_same_digest};
use crate::limits::{self, MAX_TOKEN_BYTES, UserTooLarge};

/// Maximum size of a file, bytes.
const MAX_FILE: u64 = 16 << 20;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A line is wrong.
    #[error("the token file {}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem; never the line itself, which contains a token.
        problem: &'static str,
    },
    /// A user is too large.
    #[error("the token file {}, line {line}: {error}", path.display())]
    User {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The limit that the user exceeds.
        #[source]
        error: UserTooLarge,
    },
    /// It contains no token, so no client could authenticate.
    #[error("the token file {} contains no token; its lines are: token,user,uid,\"group1,group2\"", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The valid tokens and their users.
pub struct TokenFile {
    path: PathBuf,
    entries: RwLock<Entries>,
}

/// Digests of tokens, and their users.
type Entries = Vec<([u8; 32], UserInfo)>;

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenFile({} tokens)", self.entries.read().len())
    }
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        Ok(TokenFile { entries: RwLock::new(Self::read(path)?), path: path.to_owned() })
    }

    /// Reads the file again. If it contains no token, all tokens become invalid. If it cannot be used for another reason, the
    /// previous tokens stay valid.
    ///
    /// # Errors
    /// It cannot be read, a line is wrong, or it contains no token.
    pub fn reload(&self) -> Result<(), TokenFileError> {
        let read = Self::read(&self.path);
        match read {
            Ok(entries) => {
                *self.entries.write() = entries;
                Ok(())
            }
            Err(error @ TokenFileError::Empty { .. }) => {
                self.entries.write().clear();
                Err(error)
            }
            Err(
                error @ (TokenFileError::Read { .. }
                | TokenFileError::Line { .. }
                | TokenFileError::User { .. }),
            ) => Err(error),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(path: &Path) -> Result<Entries, TokenFileError> {
        let failed = |error| TokenFileError::Read { path: path.to_owned(), error };
        let text = input_file::read_text(path, MAX_FILE).map_err(failed)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Entries, TokenFileError> {
        let mut entries = Entries::new();
        let mut known = HashSet::new();
        // Editors of other systems write a byte order mark, which would belong to the first token.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let wrong = |problem| TokenFileError::Line { path: path.to_owned(), line: index + 1, problem };
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() {
                continue;
            }
            let fields = fields(line).map_err(wrong)?;
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(wrong("a line needs at least token,user,uid"));
            };
            let token = token.trim();
            if token.is_empty() || name.is_empty() {
                return Err(wrong("token and user must not be empty"));
            }
            check_token(token).map_err(wrong)?;
            let groups = rest.first().map_or("", String::as_str);
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            let mut user = UserInfo::new(name, groups.map(str::to_owned));
            user.uid.clone_from(uid);
            limits::check(&user).map_err(|error| TokenFileError::User {
                path: path.to_owned(),
                line: index + 1,
                error,
            })?;
            let digest = digest(token.as_bytes());
            if !known.insert(digest) {
                return Err(wrong("this token is on an earlier line too"));
            }
            entries.push((digest, user));
        }
        if entries.is_empty() {
            return Err(TokenFileError::Empty { path: path.to_owned() });
        }
        Ok(entries)
    }

    /// The user of the token with this digest. The time of the search does not depend on the token.
    pub fn user_of_digest(&self, token: &SecretDigest) -> Option<UserInfo> {
        let mut found = None;
        let entries = self.entries.read();
        for (known, user) in entries.iter() {
            // Compares all entries, also after one is equal.
            if is_same_digest(known, &token.0) {
                found = Some(user);
            }
        }
        found.cloned()
    }
}

/// Checks that a request can send a token.
fn check_token(token: &str) -> Result<(), &'static str> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err("the token is longer than 32 KiB: use a shorter one");
    }
    // A blank would end the token in the header.
    match token.bytes().any(|byte| byte == b' ' || byte.is_ascii_control()) {
        true => Err(
            "the token contains a blank or a control character, which no request can send: use a token without them",
        ),
        false => Ok(()),
    }
}

/// The fields of one CSV line. A field in quotes may hold commas, and `""` for a quote.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let field;
        (field, rest) = match rest.trim_start_matches(' ').strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                if rest[..end].contains('"') {
                    return Err("a quote inside a field that does not begin with one");
                }
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Ok(fields),
            None => return Err("text after a closing quote"),
        }
    }
}

/// The field up to its closing quote, and what comes after it.
fn quoted_field(mut rest: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    loop {
        let end = rest.find('"').ok_or("a quote is not closed")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TokenFile, String> {
        let path = PathBuf::from("tokens.csv");
        let entries = TokenFile::parse(text, &path).map_err(|error| error.to_string())?;
        Ok(TokenFile { path, entries: RwLock::new(entries) })
    }

    fn user_of(file: &TokenFile, token: &[u8]) -> Option<UserInfo> {
        file.user_of_digest(&SecretDigest::of(token))
    }

    #[test]
    fn lines_become_users() {
        let file =
            parse("t1,ann,u1,\"g1, g2\"\n\nt2,bob,\r\n \"t,\"\"3\", ,u3,g9\n").map_err(|e| panic!("{e}"));
        let file = file.unwrap_or_else(|()| unreachable!());
        let ann = user_of(&file, b"t1");
        let mut want = UserInfo::new("ann", ["g1".to_owned(), "g2".to_owned()]);
        want.uid = "u1".to_owned();
        assert_eq!(ann, Some(want));
        let bob = user_of(&file, b"t2").map(|user| (user.username, user.groups.join(" ")));
        assert_eq!(bob, Some(("bob".to_owned(), "system:authenticated".to_owned())));
        assert!(user_of(&file, b"t,\"3").is_some());
        for wrong in ["", "t", "t11", "T1", "ann"] {
            assert_eq!(user_of(&file, wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn errors_of_invalid_files_do_not_contain_tokens() {
        let cases = [
            ("", "contains no token"),
            ("secret,ann\n", "line 1: a line needs at least"),
            ("a,b,c\n,ann,u\n", "line 2: token and user"),
            ("secret,,u\n", "token and user"),
            ("secret,ann,u,\"g\n", "not closed"),
            ("secret,ann,u,\"g\"x\n", "after a closing quote"),
            ("secret,a\"nn,u\n", "a quote inside"),
            ("secret,ann,u\nsecret,bob,u\n", "line 2: this token"),
            ("secret;ann;u\n", "a line needs at least"),
            ("se cret,ann,u\n", "line 1: the token contains a blank or a control character"),
            ("secret\0,ann,u\n", "a control character"),
            ("a,b,c\nsecret\tx,ann,u\n", "line 2: the token contains a blank or a control character"),
            ("secret\rx,ann,u\n", "a control character"),
            ("\"secret\nx\",ann,u\n", "line 1: a quote is not closed"),
            ("\"\",ann,u\n", "token and user"),
            ("\"secret\"\"\n", "not closed"),
        ];
        let long = format!("{},ann,u\n", "secret".repeat(MAX_TOKEN_BYTES / 6 + 1));
        let many_groups = (0..1001).map(|nth| format!("g{nth}")).collect::<Vec<_>>().join(",");
        let groups = format!("secret,ann,u,\"{many_groups}\"\n");
        let cases = cases.into_iter().chain([
            (long.as_str(), "line 1: the token is longer than 32 KiB"),
            (groups.as_str(), "line 1: the user has more than 1000 groups"),
        ]);
        for (text, part) in cases {
            let error = parse(text).map(|_| ()).expect_err(text);
            assert!(error.contains(part), "{text:.60}: {error}");
            assert!(!error.contains("secret"), "{text:.60}: {error}");
        }
        assert!(TokenFile::load(Path::new("/nowhere/t.csv")).is_err());
    }

    #[test]
    fn unreadable_files_are_reported_with_a_reason() {
        let dir = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = dir.path().join("tokens.csv");
        let problem = || {
            let error = TokenFile::load(&path).map(|_| ()).expect_err("unusable");
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", reason.unwrap_or_default())
        };
        assert!(problem().ends_with("tokens.csv cannot be read: No such file or directory (os error 2)"));
        std::fs::write(&path, b"secret\xff,ann,u").unwrap_or_else(|error| panic!("{error}"));
        assert!(problem().ends_with("stream did not contain valid UTF-8"), "{}", problem());
        let file = std::fs::File::create(&path).unwrap_or_else(|error| panic!("{error}"));
        file.set_len(MAX_FILE + 1).unwrap_or_else(|error| panic!("{error}"));
        assert!(problem().ends_with("it is larger than 16 MiB"), "{}", problem());
        std::fs::remove_file(&path).unwrap_or_else(|error| panic!("{error}"));
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap_or_else(|error| panic!("{error}"));
        assert!(problem().ends_with("it is a character device, not a regular file"), "{}", problem());
    }

    #[test]
    fn cost_of_a_long_file_is_linear() {
        let text = |lines: usize| (0..lines).map(|n| format!("t{n},u{n},{n}\n")).collect::<String>();
        orlop_apimachinery::thread_time::assert_linear("a token file", 500, text, |text| parse(text).is_ok());
    }

    #[test]
    fn changed_file_is_read_again_an_empty_one_removes_all_and_a_damaged_one_changes_nothing() {
        let path = std::env::temp_dir().join(format!("orlop-tokens-{}.csv", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
        write("t1,ann,u\n");
        let file = TokenFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        for (text, is_read, ann, bob) in [
            ("t2,bob,u\n", true, false, true),
            ("t1\n", false, false, true),
            ("", false, false, false),
            ("t1,ann,u\n", true, true, false),
            ("t2,bob,u\nx\n", false, true, false),
        ] {
            write(text);
            assert_eq!(file.reload().is_ok(), is_read, "{text}");
            let known = |token: &[u8]| user_of(&file, token).is_some();
            assert_eq!((known(b"t1"), known(b"t2")), (ann, bob), "{text}");
        }
        let _ = std::fs::remove_file(&path);
        assert!(file.reload().is_err(), "a missing file");
        assert!(user_of(&file, b"t1").is_some());
    }

    #[test]
    fn debug_shows_no_token() {
        let file = parse("secret,ann,u\n").map(|file| format!("{file:?}"));
        assert_eq!(file.as_deref(), Ok("TokenFile(1 tokens)"));
    }
}
