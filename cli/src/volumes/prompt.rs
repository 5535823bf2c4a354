//! Asking a person, one volume at a time.

use std::io::{self, BufRead, Write};

use super::compare::Row;
use super::report::{plain, size};

/// What is to be done about a volume that the API does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A PersistentVolume is made for it.
    Adopt,
    /// The driver deletes it.
    Delete,
}

/// Asks what to do about each; stops when the person does.
pub(super) fn choose<'a>(
    rows: &[&'a Row],
    answers: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<Vec<(&'a Row, Deed)>> {
    let mut chosen = Vec::new();
    for row in rows {
        let question = format!(
            "\n{} of driver {} ({}) is unknown to the API.\n\
             [a]dopt it as a PersistentVolume, [d]elete it with its data, [l]eave it, [q]uit? ",
            plain(&row.handle),
            row.driver,
            size(row.bytes)
        );
        match ask(&question, &["a", "d", "l", "q"], answers, out)?.as_deref() {
            Some("a") => chosen.push((*row, Deed::Adopt)),
            Some("d") => chosen.push((*row, Deed::Delete)),
            Some("l") => {}
            _ => break,
        }
    }
    Ok(chosen)
}

/// Asks whether a deed that was given as a flag is meant.
pub(super) fn confirm(
    row: &Row,
    deed: Deed,
    answers: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<bool> {
    let (handle, driver, size) = (plain(&row.handle), &row.driver, size(row.bytes));
    let question = match deed {
        Deed::Adopt => format!("make a PersistentVolume for {handle} of driver {driver} ({size})? [y/n] "),
        Deed::Delete => format!("delete {handle} of driver {driver} ({size}) and all its data? [y/n] "),
    };
    Ok(ask(&question, &["y", "n"], answers, out)?.as_deref() == Some("y"))
}

/// Asks until the answer is one of those that are offered; none at the end of the input.
fn ask(
    question: &str,
    offered: &[&str],
    answers: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<Option<String>> {
    loop {
        write!(out, "{question}")?;
        out.flush()?;
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let answer = line.trim().to_ascii_lowercase();
        if offered.contains(&answer.as_str()) {
            return Ok(Some(answer));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::compare::{Thing, What};
    use super::*;

    fn row(handle: &str) -> Row {
        let (driver, object) = ("d".to_owned(), String::new());
        Row {
            driver,
            thing: Thing::Volume,
            handle: handle.to_owned(),
            bytes: 1024,
            what: What::Unknown,
            object,
        }
    }

    #[test]
    fn one_volume_at_a_time() {
        let rows = ["a", "b", "c", "d"].map(row);
        let rows: Vec<&Row> = rows.iter().collect();
        for (answers, wanted) in [
            ("a\nd\nl\n", vec![("a", Deed::Adopt), ("b", Deed::Delete)]),
            ("l\nq\na\n", vec![]),
            ("what?\n\nD\nq\n", vec![("a", Deed::Delete)]),
            ("", vec![]),
        ] {
            let mut out = Vec::new();
            let chosen = choose(&rows, &mut answers.as_bytes(), &mut out).unwrap();
            let chosen: Vec<_> = chosen.iter().map(|(row, deed)| (row.handle.as_str(), *deed)).collect();
            assert_eq!(chosen, wanted, "{answers:?}");
        }
    }

    #[test]
    fn nothing_is_meant_without_a_yes() {
        for (answer, wanted) in
            [("y\n", true), ("Y\n", true), ("n\n", false), ("", false), ("\nno\nn\n", false)]
        {
            let mut out = Vec::new();
            let meant = confirm(&row("a"), Deed::Delete, &mut answer.as_bytes(), &mut out).unwrap();
            assert_eq!(meant, wanted, "{answer:?}");
            assert!(String::from_utf8(out).unwrap().contains("delete a of driver d (1Ki) and all its data"));
        }
    }
}
