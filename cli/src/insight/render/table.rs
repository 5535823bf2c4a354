//! Formats the server's tables like kubectl: columns as wide as their content, three spaces between them, nothing
//! truncated.

use serde_json::Value;

use super::characters::{visible, width_of};
use super::fields::{items, text};
use super::look::Style;
use super::page::{Page, Paint, padded};

/// Formats a table; `with_namespaces` adds a column with the namespaces.
pub(crate) fn table(document: &Value, with_namespaces: bool, look: Style) -> String {
    let shown: Vec<(usize, String)> = items(document, "columnDefinitions")
        .iter()
        .enumerate()
        // The other columns are for wide output.
        .filter(|(_, column)| column["priority"].as_i64().unwrap_or_default() == 0)
        .map(|(index, column)| (index, visible(&text(column, "name").to_uppercase())))
        .collect();
    let rows = items(document, "rows");
    if rows.is_empty() {
        return "No objects found\n".to_owned();
    }
    let mut lines = vec![shown.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>()];
    for row in rows {
        lines.push(shown.iter().map(|(index, _)| cell(&row["cells"][*index])).collect());
    }
    if with_namespaces {
        let namespaces = rows.iter().map(|row| visible(text(&row["object"]["metadata"], "namespace")));
        let first = std::iter::once("NAMESPACE".to_owned()).chain(namespaces);
        for (line, namespace) in lines.iter_mut().zip(first) {
            line.insert(0, namespace);
        }
    }
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            lines.iter().filter_map(|line| line.get(column)).map(|cell| width_of(cell)).max().unwrap_or(0)
        })
        .collect();
    let mut page = Page::new(look);
    for (index, line) in lines.iter().enumerate() {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| padded(cell, *width)).collect();
        let paint = if index == 0 { Paint::Head } else { Paint::Plain };
        page.whole(0, &[(paint, padded.join("   ").trim_end())]);
    }
    page.text()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => visible(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
