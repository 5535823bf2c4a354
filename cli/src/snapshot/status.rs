//! The content of a snapshot file, as a table or as JSON.

use std::fmt::Write as _;

use orlop_store::archive::Summary;
use serde_json::json;

use crate::args::Output;

/// A time in RFC 3339.
pub(super) fn time(time_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(time_ms) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => format!("{time_ms} ms"),
    }
}

/// The kind of a topic: `/registry/pods/` is `pods`.
fn kind(topic: &str) -> &str {
    topic.strip_prefix("/registry/").unwrap_or(topic).trim_matches('/')
}

pub(super) fn render(summary: &Summary, output: Output) -> String {
    match output {
        Output::Table => table(summary),
        Output::Json => {
            let header = &summary.header;
            let kinds: serde_json::Map<_, _> =
                summary.topics.iter().map(|(topic, count)| (kind(topic).to_owned(), json!(count))).collect();
            let document = json!({
                "format": orlop_store::archive::FORMAT,
                "store": header.store_text(),
                "revision": header.revision.0,
                "time": time(header.time_ms),
                "records": header.records,
                "bytes": summary.bytes,
                "fileBytes": summary.file_bytes,
                "kinds": kinds,
            });
            format!("{document:#}\n")
        }
    }
}

fn table(summary: &Summary) -> String {
    let header = &summary.header;
    let mut out = String::new();
    for (name, value) in [
        ("STORE", header.store_text()),
        ("REVISION", header.revision.to_string()),
        ("TIME", time(header.time_ms)),
        ("RECORDS", header.records.to_string()),
        ("BYTES", summary.bytes.to_string()),
        ("FILE BYTES", summary.file_bytes.to_string()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<12}{value}");
    }
    let _ = writeln!(out, "\n{:<28}RECORDS", "KIND");
    for (topic, count) in &summary.topics {
        let _ = writeln!(out, "{:<28}{count}", kind(topic));
    }
    out
}

#[cfg(test)]
mod tests {
    use orlop_store::Revision;
    use orlop_store::archive::Header;

    use super::*;

    #[test]
    fn status_is_printed_as_table_and_json() {
        let topics = [("/registry/pods/".to_owned(), 2), ("/registry/x.io/things/".to_owned(), 1)];
        let summary = Summary {
            header: Header {
                store: [0x11; 16],
                revision: Revision(77),
                time_ms: 1_700_000_000_000,
                records: 3,
            },
            bytes: 1234,
            file_bytes: 567,
            topics: topics.into(),
        };
        let json: serde_json::Value =
            serde_json::from_str(&render(&summary, Output::Json)).unwrap_or_default();
        assert_eq!(json["kinds"], json!({ "pods": 2, "x.io/things": 1 }));
        assert_eq!(
            (json["revision"].as_u64(), json["time"].as_str()),
            (Some(77), Some("2023-11-14T22:13:20Z"))
        );
        let table = render(&summary, Output::Table);
        for line in ["REVISION    77\n", "BYTES       1234\n", "pods                        2\n"] {
            assert!(table.contains(line), "{table}");
        }
    }
}
