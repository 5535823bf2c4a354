//! The results: values, and their rendering as a table, JSON and Markdown. Pure.
//!
//! JSON field names are stable and include their units.

use serde_json::{Map, Value, json};

use crate::args::{Output, RowName, Scale};
use crate::machine::Machine;

/// A named number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The JSON field name, which includes the unit: `p50_us`.
    pub(crate) field: &'static str,
    /// The displayed name: `p50`.
    pub(crate) label: &'static str,
    /// The displayed unit: `µs`.
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

impl Figure {
    pub(crate) fn new(field: &'static str, label: &'static str, unit: &'static str, value: f64) -> Self {
        Figure { field, label, unit, value }
    }
}

/// The figures of one server, or of both, under one condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    /// `10000 pairs`; empty for the only case of a row.
    pub(crate) name: String,
    pub(crate) server: Vec<Figure>,
    /// The same figures of the second server, if there is one.
    pub(crate) against: Vec<Figure>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: RowName,
    pub(crate) cases: Vec<Case>,
    /// Descriptions of all problems; empty for a valid result.
    pub(crate) problems: Vec<String>,
    pub(crate) seconds: f64,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) scale: Scale,
    /// A description of the measured server.
    pub(crate) server: String,
    pub(crate) against: Option<String>,
    pub(crate) rows: Vec<Row>,
    /// Rows that could not be measured on this machine, with the reason.
    pub(crate) left_out: Vec<(RowName, String)>,
}

impl Report {
    /// All problems of all rows.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| row.problems.iter().map(String::as_str))
    }

    /// The text for stdout.
    pub(crate) fn render(&self, output: Output) -> String {
        match output {
            Output::Table => self.table(),
            Output::Markdown => self.markdown(),
            Output::Json => format!("{:#}\n", self.json()),
        }
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        let left_out: Vec<Value> =
            self.left_out.iter().map(|(name, why)| json!({"row": name.name(), "why": why})).collect();
        let mut report = json!({
            "orlop_version": env!("CARGO_PKG_VERSION"),
            "scale": self.scale.name(),
            "server": self.server,
            "machine": {
                "cores": self.machine.cores,
                "cpu_model": self.machine.cpu_model,
                "memory_bytes": self.machine.memory_bytes,
                "kernel": self.machine.kernel,
                "file_system": self.machine.file_system.kind,
                "file_system_source": self.machine.file_system.source,
                "sync_of_2_kib_p50_us": self.machine.sync.p50_us,
                "sync_of_2_kib_p99_us": self.machine.sync.p99_us,
            },
            "rows": rows,
            "left_out": left_out,
            "problems": self.problems().collect::<Vec<_>>(),
        });
        if let Some(against) = &self.against {
            report["against"] = json!(against);
        }
        report
    }

    fn row_json(&self, row: &Row) -> Value {
        let fields = |figures: &[Figure]| {
            figures.iter().map(|figure| (figure.field.to_owned(), json!(figure.value))).collect::<Map<_, _>>()
        };
        let cases = row.cases.iter().map(|case| {
            let mut value = json!({"case": case.name, "server": fields(&case.server)});
            if !case.against.is_empty() {
                let ratios: Map<String, Value> = (case.server.iter())
                    .filter_map(|figure| {
                        Some((figure.field.to_owned(), json!(ratio(figure, &case.against)?)))
                    })
                    .collect();
                value["against"] = json!(fields(&case.against));
                value["ratio"] = json!(ratios);
            }
            value
        });
        let cases: Vec<Value> = cases.collect();
        json!({"row": row.name.name(), "seconds": row.seconds, "cases": cases, "problems": row.problems})
    }

    /// The lines before the table.
    fn preamble(&self) -> Vec<String> {
        let mut lines = vec![
            format!("orlop {}, scale {}", env!("CARGO_PKG_VERSION"), self.scale.name()),
            self.machine.words(),
            format!("server: {}", self.server),
        ];
        lines.extend(self.against.iter().map(|against| format!("against: {against}")));
        lines
    }

    /// The lines after the table.
    fn postscript(&self) -> Vec<String> {
        let left = self.left_out.iter().map(|(name, why)| format!("skipped: {}: {why}", name.name()));
        left.chain(self.problems().map(|problem| format!("WRONG: {problem}"))).collect()
    }

    /// The cells, header first. The name of a row or case appears only in its first line.
    fn cells(&self) -> Vec<Vec<String>> {
        let two = self.against.is_some();
        let mut head: Vec<String> = ["row", "case", "figure", "server"].map(str::to_owned).into();
        if two {
            head.extend(["against", "ratio"].map(str::to_owned));
        }
        let mut cells = vec![head];
        for row in &self.rows {
            let mut name = row.name.name();
            for case in &row.cases {
                let mut case_name = case.name.as_str();
                for figure in &case.server {
                    let value = |figure: &Figure| {
                        format!("{} {}", shown(figure.value), figure.unit).trim_end().to_owned()
                    };
                    let mut line =
                        vec![name.to_owned(), case_name.to_owned(), figure.label.to_owned(), value(figure)];
                    if two {
                        let other = case.against.iter().find(|other| other.field == figure.field);
                        line.push(other.map(value).unwrap_or_default());
                        line.push(ratio(figure, &case.against).map(shown).unwrap_or_default());
                    }
                    cells.push(line);
                    (name, case_name) = ("", "");
                }
            }
        }
        cells
    }

    fn table(&self) -> String {
        let cells = self.cells();
        let columns = cells.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|column| cells.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = self.preamble().join("\n") + "\n\n";
        for line in &cells {
            let padded = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                // Align numbers to the right.
                if column >= 3 { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        for line in self.postscript() {
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = String::new();
        for line in self.preamble() {
            text.push_str(&format!("{}  \n", escaped(&line)));
        }
        for (index, line) in self.cells().iter().enumerate() {
            let cells: Vec<String> = line.iter().map(|cell| escaped(cell)).collect();
            if index == 0 {
                text.push('\n');
            }
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
            if index == 0 {
                let rules =
                    line.iter().enumerate().map(|(column, _)| if column >= 3 { "---:" } else { "---" });
                text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
            }
        }
        for line in self.postscript() {
            text.push_str(&format!("\n{}\n", escaped(&line)));
        }
        text
    }
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

/// The ratio to the second server's figure; `None` if that is zero.
fn ratio(figure: &Figure, against: &[Figure]) -> Option<f64> {
    let other = against.iter().find(|other| other.field == figure.field)?;
    (other.value != 0.0).then(|| figure.value / other.value)
}

/// Three significant digits, with a comma every thousand: `12,345`, `123`, `12.3`, `1.23`, `0.0123`.
pub(crate) fn shown(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    if size >= 99.95 || (value.fract() == 0.0 && size >= 1.0) {
        return thousands(value.round());
    }
    let before = size.log10().floor();
    let digits = (2.0 - before).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.digits$}");
    // Rounding can add a digit: 9.996 becomes 10.00.
    let rounded: f64 = text.parse().unwrap_or(value);
    if rounded.abs() >= 10f64.powf(before + 1.0) && digits > 0 {
        format!("{value:.*}", digits - 1)
    } else {
        text
    }
}

fn thousands(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::from(if whole < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
