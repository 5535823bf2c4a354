//! `orlop keys`: manages the keys of service account tokens.

use std::error::Error;

use jiff::{SignedDuration, Timestamp};
use orlop_apiserver::service_account::key_file::{key_file, rotate};

use crate::args::{KeysCommand, RotateArgs};
use crate::owner;

/// Runs the command and returns the text to print.
pub(crate) fn run(command: KeysCommand) -> Result<String, Box<dyn Error>> {
    let KeysCommand::Rotate(RotateArgs { data_dir, keep_old }) = command;
    owner::check(&data_dir)?;
    if !data_dir.join("STORE").try_exists()? {
        return Err(
            format!("there is no store in {}: use the --data-dir of the server", data_dir.display()).into()
        );
    }
    let (path, now) = (key_file(&data_dir), Timestamp::now());
    let kept = SignedDuration::try_from(keep_old).unwrap_or(SignedDuration::MAX);
    let keys = rotate(&path, now, kept)?;
    let end = match now.checked_add(kept) {
        _ if keep_old.is_zero() => "tokens of the previous key are invalid".to_owned(),
        Ok(end) => {
            format!("tokens of the previous key are valid until {}", end.strftime("%Y-%m-%dT%H:%M:%SZ"))
        }
        Err(_) => "tokens of the previous key stay valid".to_owned(),
    };
    Ok(format!("{}: the signing key is now {}; {end}\n", path.display(), keys.signing().public().id()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    #[test]
    fn keys_are_not_rotated_in_a_directory_of_another_user() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("STORE"), "").unwrap();
        let data_dir = owner::tests::of_other_user(dir.path());
        // Without root, `/` has no store: the check of the owner comes first.
        let error = run(KeysCommand::Rotate(RotateArgs { data_dir, keep_old: Duration::ZERO })).unwrap_err();
        assert!(error.to_string().contains("belongs to the user with the ID"), "{error}");
    }

    #[test]
    fn rotation_needs_a_store_and_reports_the_end_of_old_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let rotate = |keep_old| {
            let data_dir = dir.path().to_owned();
            run(KeysCommand::Rotate(RotateArgs { data_dir, keep_old })).map_err(|error| error.to_string())
        };
        assert!(rotate(Duration::ZERO).unwrap_err().contains("there is no store in"));
        std::fs::write(dir.path().join("STORE"), "").unwrap();
        for (keep, wanted) in [
            (Duration::ZERO, "tokens of the previous key are invalid"),
            (Duration::from_secs(3600), "tokens of the previous key are valid until 2"),
            (Duration::MAX, "tokens of the previous key stay valid"),
        ] {
            let text = rotate(keep).unwrap();
            assert!(text.contains(wanted), "{text}");
        }
    }
}
