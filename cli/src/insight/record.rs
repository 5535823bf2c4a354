//! `orlop record`: saves the server's past in a file that the page can replay. Every line is parsed before the
//! file gets its name, so a failed recording does not overwrite an earlier good file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use http_body_util::BodyExt as _;
use serde_json::Value;

use super::error::{InsightError, RECORDING_FORMAT as FORMAT, RecordError};
use super::kinds::GROUP;
use super::names::Point;
use super::session::Session;
use crate::output_file;

/// Saves the recording and returns a summary.
pub(super) async fn run(
    session: &Session,
    file: &Path,
    from: Option<&Point>,
) -> Result<String, InsightError> {
    let mut path = format!("{GROUP}/capture");
    if let Some(from) = from {
        path = format!("{path}?from={}", session.revision(from).await?);
    }
    let opened = session.open(&path).await;
    let response = opened.map_err(|cause| session.explained("save the history".to_owned(), cause))?;
    let mut body = response.into_body();
    let mut kept = Destination::open(file)?;
    let mut lines = Lines::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RecordError::BrokenOff(error.to_string()))?;
        let Ok(part) = frame.into_data() else { continue };
        lines.take(&part)?;
        kept.write(&part)?;
    }
    let said = lines.ended()?;
    kept.keep()?;
    Ok(match file == Path::new("-") {
        true => said,
        false => format!("{said} in {}; the page can replay it", file.display()),
    })
}

/// The destination of the lines.
enum Destination {
    Stdout,
    /// A temporary file that only its owner can read. It is renamed when it is complete.
    File {
        path: PathBuf,
        file: tempfile::NamedTempFile,
    },
}

impl Destination {
    fn open(path: &Path) -> Result<Self, RecordError> {
        if path == Path::new("-") {
            return Ok(Destination::Stdout);
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(RecordError::NoFolder { path: path.to_owned(), folder: folder.to_owned() });
        }
        let opened =
            output_file::check_replaceable(path).and_then(|()| tempfile::NamedTempFile::new_in(folder));
        match opened {
            Ok(file) => Ok(Destination::File { path: path.to_owned(), file }),
            Err(cause) => Err(RecordError::Write { path: path.to_owned(), cause }),
        }
    }

    fn write(&mut self, part: &[u8]) -> Result<(), RecordError> {
        let (path, written) = match self {
            Destination::Stdout => (Path::new("-"), io::stdout().write_all(part)),
            Destination::File { path, file } => (path.as_path(), file.write_all(part)),
        };
        written.map_err(|cause| RecordError::Write { path: path.to_owned(), cause })
    }

    fn keep(self) -> Result<(), RecordError> {
        match self {
            Destination::Stdout => Ok(()),
            Destination::File { path, file } => {
                let kept =
                    file.as_file().sync_all().and_then(|()| file.persist(&path).map_err(|error| error.error));
                kept.map(drop).map_err(|cause| RecordError::Write { path, cause })
            }
        }
    }
}

/// The lines received so far.
#[derive(Default)]
struct Lines {
    /// The incomplete last line.
    begun: Vec<u8>,
    count: u64,
    changes: u64,
    /// The revision of the first line.
    oldest: Option<String>,
    newest: Option<String>,
}

impl Lines {
    fn take(&mut self, part: &[u8]) -> Result<(), RecordError> {
        let mut rest = part;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.begun.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.begun);
            self.line(&line)?;
        }
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), RecordError> {
        self.count += 1;
        let entry: Value =
            serde_json::from_slice(line).map_err(|cause| RecordError::NoJson { line: self.count, cause })?;
        if self.count == 1 && entry["format"] != FORMAT {
            return Err(RecordError::OtherFormat(text(&entry["format"]).unwrap_or_default()));
        }
        match entry["type"].as_str() {
            Some("ERROR") => {
                return Err(RecordError::Refused(text(&entry["message"]).unwrap_or_default()));
            }
            Some("ADDED" | "MODIFIED" | "DELETED") => self.changes += 1,
            // Other lines have no object.
            Some(_) | None => {}
        }
        if self.count == 1 {
            self.oldest = text(&entry["revision"]);
        }
        self.newest = text(&entry["revision"]).or(self.newest.take());
        Ok(())
    }

    /// The summary of the recording.
    fn ended(self) -> Result<String, RecordError> {
        if !self.begun.is_empty() {
            return Err(RecordError::Unfinished);
        }
        if self.count == 0 {
            return Err(RecordError::BrokenOff("the response is empty".to_owned()));
        }
        let span = match (self.oldest, self.newest) {
            (Some(oldest), Some(newest)) => format!(", revisions {oldest} to {newest},"),
            (None, Some(newest)) => format!(", until revision {newest},"),
            (_, None) => String::new(),
        };
        Ok(format!("saved {} objects and changes{span}", self.changes))
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"type":"HEADER","format":"orlop.dev/stream.1","revision":"900","oldest":"12"}"#;

    fn of(parts: &[&str]) -> Result<String, String> {
        let mut lines = Lines::default();
        let mut all = || {
            for part in parts {
                lines.take(part.as_bytes())?;
            }
            std::mem::take(&mut lines).ended()
        };
        all().map_err(|error| error.to_string())
    }

    #[test]
    fn only_complete_recordings_are_accepted() {
        let head = format!("{HEADER}\n");
        let added = r#"{"type":"ADDED","resource":"pods","revision":"901","object":{}}"#;
        let line = format!("{added}\n");
        let saved = "saved 1 objects and changes, revisions 900 to 901,";
        for (case, parts, wanted) in [
            ("in one", vec![head.clone() + &line], Ok(saved)),
            ("in pieces", vec![head[..9].into(), head[9..].into(), added.into(), "\n".into()], Ok(saved)),
            ("nothing", vec![], Err("the response is empty")),
            ("half a line", vec![head.clone(), added.into()], Err("within a line")),
            ("not JSON", vec![head.clone(), "{\n".into()], Err("line 2 is not JSON")),
            ("another format", vec![line.clone()], Err("sends the format")),
            (
                "an end",
                vec![head, r#"{"type":"ERROR","code":410,"message":"gone"}"#.into(), "\n".into()],
                Err("gone"),
            ),
        ] {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            match (of(&parts), wanted) {
                (Ok(said), Ok(wanted)) => assert_eq!(said, wanted, "{case}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{case}: {error}"),
                (got, wanted) => panic!("{case}: got {got:?}, want {wanted:?}"),
            }
        }
    }

    #[test]
    fn named_pipe_is_not_replaced_by_a_recording() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a named pipe");
        let refused = Destination::open(&pipe).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("a named pipe")), "{refused:?}");
    }

    #[test]
    fn failed_recording_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("past");
        std::fs::write(&file, "good").expect("a file");
        let mut kept = Destination::open(&file).expect("it opens");
        kept.write(b"half").expect("it is written");
        drop(kept);
        assert_eq!(std::fs::read(&file).expect("it is there"), b"good");
        let mut kept = Destination::open(&file).expect("it opens");
        kept.write(b"whole").expect("it is written");
        kept.keep().expect("the file is saved");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    }
}
