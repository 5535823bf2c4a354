//! The report, as a table or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::{Row, RowKind, What, is_amiss};
use crate::args::Output;

const HEADS: [&str; 6] = ["DRIVER", "KIND", "HANDLE", "SIZE", "WHAT", "OBJECT"];

pub(super) fn render(rows: &[Row], output: Output) -> String {
    match output {
        Output::Table => table(rows),
        Output::Json => {
            let shown: Vec<Value> = rows.iter().map(shown).collect();
            format!("{:#}\n", json!({"amiss": is_amiss(rows), "rows": shown}))
        }
    }
}

fn shown(row: &Row) -> Value {
    let what = match row.what {
        What::Known => "known",
        What::BeingMade => "beingMade",
        What::Missing => "missing",
        What::Unknown => "unknown",
    };
    json!({"driver": row.driver, "kind": thing(row.thing), "handle": row.handle, "bytes": row.bytes, "what": what,
        "object": row.object})
}

/// The result in words.
pub(super) fn words(what: What) -> &'static str {
    match what {
        What::Known => "known",
        What::BeingMade => "being created",
        What::Missing => "missing in the driver",
        What::Unknown => "unknown to the API",
    }
}

fn thing(thing: RowKind) -> &'static str {
    match thing {
        RowKind::Volume => "volume",
        RowKind::Snapshot => "snapshot",
    }
}

/// A size in the largest unit that represents it exactly; empty if the driver reports none.
pub(super) fn size(bytes: i64) -> String {
    let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"].into_iter().peekable();
    let mut rest = bytes;
    while let Some(unit) = units.next() {
        if rest == 0 || rest % 1024 != 0 || units.peek().is_none() {
            return if bytes == 0 { "-".to_owned() } else { format!("{rest}{unit}") };
        }
        rest /= 1024;
    }
    bytes.to_string()
}

/// Escapes a handle: a driver can choose any text, which must not control the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn table(rows: &[Row]) -> String {
    let lines: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let handle = if row.handle.is_empty() { "-".to_owned() } else { plain(&row.handle) };
            let object = if row.object.is_empty() { "-".to_owned() } else { row.object.clone() };
            let (thing, what) = (thing(row.thing).to_owned(), words(row.what).to_owned());
            [row.driver.clone(), thing, handle, size(row.bytes), what, object]
        })
        .collect();
    let heads = HEADS.map(str::to_owned);
    let width = |column: usize| {
        let all = lines.iter().chain([&heads]);
        all.map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    for line in [&heads].into_iter().chain(&lines) {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:<width$}  ");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    let count = |what: What| rows.iter().filter(|row| row.what == what && !row.handle.is_empty()).count();
    let verdict = if is_amiss(rows) { "differences found" } else { "no differences" };
    let _ = writeln!(
        out,
        "\n{verdict}: {} known, {} unknown to the API, {} missing in the driver, {} being created",
        count(What::Known),
        count(What::Unknown),
        count(What::Missing),
        count(What::BeingMade)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(handle: &str, bytes: i64, what: What) -> Row {
        let (driver, object) = ("d".to_owned(), String::new());
        Row { driver, thing: RowKind::Volume, handle: handle.to_owned(), bytes, what, object }
    }

    #[test]
    fn sizes_use_the_largest_exact_unit() {
        for (bytes, text) in
            [(0, "-"), (1, "1"), (1024, "1Ki"), (3 << 30, "3Gi"), (1500, "1500"), (5 << 60, "5120Pi")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn report_is_printed_as_table_and_json() {
        let rows = [row("long-handle", 1 << 30, What::Unknown), row("h\u{1b}[2J", 0, What::Known)];
        let wanted = "DRIVER  KIND    HANDLE       SIZE  WHAT                OBJECT\n\
                      d       volume  long-handle  1Gi   unknown to the API  -\n\
                      d       volume  h?[2J        -     known               -\n\n\
                      differences found: 1 known, 1 unknown to the API, 0 missing in the driver, 0 being created\n";
        assert_eq!(render(&rows, Output::Table), wanted);
        let json: Value = serde_json::from_str(&render(&rows, Output::Json)).unwrap_or_default();
        assert_eq!((&json["amiss"], &json["rows"][0]["what"]), (&json!(true), &json!("unknown")));
        assert_eq!(json["rows"][0]["bytes"], 1 << 30);
    }
}
