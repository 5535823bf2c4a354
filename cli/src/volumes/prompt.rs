//! Asks the user about one volume at a time.

use std::io::{self, BufRead, Write};

use super::compare::Row;
use super::report::{plain, size};

/// The change for a volume that the API does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Create a PersistentVolume for it.
    Adopt,
    /// Delete it in its driver.
    Delete,
}

/// Asks about each volume; stops when the user quits.
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

/// Asks to confirm a change that a flag requests.
pub(super) fn confirm(
    row: &Row,
    deed: Deed,
    answers: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<bool> {
    let (handle, driver, size) = (plain(&row.handle), &row.driver, size(row.bytes));
    let question = match deed {
        Deed::Adopt => format!("create a PersistentVolume for {handle} of driver {driver} ({size})? [y/n] "),
        Deed::Delete => format!("delete {handle} of driver {driver} ({size}) and all its data? [y/n] "),
    };
    Ok(ask(&question, &["y", "n"], answers, out)?.as_deref() == Some("y"))
}

/// Asks until the answer is a valid one; `None` at the end of the input.
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

    use super::super::compare::{RowKind, What};
    use super::*;

    fn row(handle: &str) -> Row {
        let (driver, object) = ("d".to_owned(), String::new());
        Row {
            driver,
            thing: RowKind::Volume,
            handle: handle.to_owned(),
            bytes: 1024,
            what: What::Unknown,
            object,
        }
    }

    #[test]
    fn each_volume_is_asked_about() {
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
    fn change_needs_an_explicit_yes() {
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
