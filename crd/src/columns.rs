//! Table columns of custom kinds: the subset of JSONPath that definitions support, and the cells.
//!
//! Upstream: client-go `util/jsonpath`, apiextensions-apiserver `pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use orlop_api::registry::ago;
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Value, json};

/// Maximum number of columns of a version. Upstream has no limit, but each row of a table has them.
pub(crate) const MAX_COLUMNS: usize = 100;

/// A column: its path and type.
#[derive(Debug)]
pub(crate) struct Column {
    path: JsonPath,
    kind: String,
}

/// The columns of a version, and their descriptions in a table.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    pub(crate) shown: Value,
}

/// Steps that the cells of one row may take together: values that a path visits, and text. A definition's own columns
/// take about ten; `..a..b..c` takes a number that is exponential in the number of its parts.
const ROW_STEPS: u64 = 100_000;
/// How much text of a cell counts as one step, bytes.
const BYTES_PER_STEP: usize = 64;

const NAME: &str = "The name of the object, unique within its namespace and kind.";
const AGE: &str = "When the object was created, by the clock of the server.";

impl Columns {
    /// Reads the columns of a version of a definition; the default is the age.
    pub(crate) fn of(version: &Value) -> Self {
        let own = version["additionalPrinterColumns"].as_array().filter(|columns| !columns.is_empty());
        let age = json!([{"name": "Age", "type": "date", "description": AGE, "jsonPath": ".metadata.creationTimestamp"}]);
        let given = own.or(age.as_array()).cloned().unwrap_or_default();
        let mut shown = vec![
            json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0}),
        ];
        let mut columns = Vec::new();
        for column in given.iter().take(MAX_COLUMNS) {
            let text = |name: &str| column[name].as_str().unwrap_or_default();
            let Ok(path) = JsonPath::parse(text("jsonPath")) else { continue };
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
                description => description.to_owned(),
            };
            shown.push(json!({
                "name": text("name"), "type": text("type"), "format": text("format"),
                "description": description, "priority": column["priority"].as_i64().unwrap_or(0),
            }));
            columns.push(Column { path, kind: text("type").to_owned() });
        }
        Columns { columns, shown: shown.into() }
    }

    /// Returns the cells of an object's row, starting with the name. Cells that need more than [`ROW_STEPS`] steps are
    /// empty.
    pub(crate) fn cells(&self, name: &str, object: &Value, now: Timestamp) -> Vec<Value> {
        let steps = Steps::new(ROW_STEPS);
        let cells = self.columns.iter().map(|column| {
            let found = column.path.first(object, &steps).ok().flatten();
            let cell = found.map(|value| cell(&column.kind, value, now)).unwrap_or_default();
            let length = cell.as_str().map_or(0, str::len);
            steps.take(length / BYTES_PER_STEP).map_or(Value::Null, |()| cell)
        });
        std::iter::once(Value::from(name)).chain(cells).collect()
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", value) => value.to_string().into(),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(_) => value.clone(),
            #[allow(clippy::cast_possible_truncation)]
            None => number.as_f64().map(|number| Value::from(number as i64)).unwrap_or_default(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => ago(time, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A path into JSON: `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    /// An index, counted from the end if negative.
    Item(i64),
    /// Start and end, each counted from the end if negative.
    Range(i64, Option<i64>),
    Every,
    /// All descendants, at any depth.
    Anywhere,
    /// Items with a value at the path that satisfies the comparison.
    Where(Vec<String>, Compare, Value),
    /// Items with a value at the path.
    Has(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path, with or without surrounding braces.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("..") {
                steps.push(Step::Anywhere);
                rest = after;
                if !rest.starts_with('[') {
                    rest = name(rest, &mut steps)?;
                }
            } else if let Some(after) = rest.strip_prefix('.') {
                if after.is_empty() {
                    break;
                }
                rest = if after.starts_with('[') { after } else { name(after, &mut steps)? };
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after).ok_or_else(|| "unterminated array".to_owned())?;
                steps.push(bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                return Err(format!("is an invalid path: unrecognized character {:?}", rest.chars().next()));
            }
        }
        Ok(JsonPath(steps))
    }

    /// Returns the first value at the path.
    ///
    /// # Errors
    /// The search takes too many steps.
    pub(crate) fn first<'v>(&self, value: &'v Value, steps: &Steps) -> Result<Option<&'v Value>, OutOfSteps> {
        search(&self.0, value, steps)
    }
}

/// Parses the name of a member. A backslash escapes a dot.
fn name<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => return Err("is an invalid path: a name is missing".to_owned()),
        "*" => steps.push(Step::Every),
        _ => steps.push(Step::Member(name)),
    }
    Ok(&text[end..])
}

/// Returns the position of the bracket that closes the open one, ignoring brackets in quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (_, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::Every);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return filter_step(filter);
    }
    for quote in ['\'', '"'] {
        if let Some(name) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            return Ok(Step::Member(name.replace("\\.", ".")));
        }
    }
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("invalid array index {text}"));
    if let Some((from, to)) = text.split_once(':') {
        let from = if from.trim().is_empty() { 0 } else { number(from)? };
        let to = if to.trim().is_empty() { None } else { Some(number(to)?) };
        return Ok(Step::Range(from, to));
    }
    number(text).map(Step::Item)
}

fn filter_step(text: &str) -> Result<Step, String> {
    let path = |text: &str| -> Result<Vec<String>, String> {
        let text = text.trim().strip_prefix('@').ok_or("a filter begins with @")?;
        simple_path(text).ok_or_else(|| format!("the filter {text:?} is no simple path"))
    };
    for (sign, compare) in [
        ("==", Compare::Equal),
        ("!=", Compare::NotEqual),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ] {
        if let Some((left, right)) = text.split_once(sign) {
            let right = right.trim();
            let quoted = right.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
            let value = match quoted {
                Some(text) => Value::from(text),
                None => {
                    serde_json::from_str(right).map_err(|_| format!("cannot read {right} in a filter"))?
                }
            };
            return Ok(Step::Where(path(left)?, compare, value));
        }
    }
    path(text).map(Step::Has)
}

/// Parses a path that consists of member names: `.spec.replicas`, `.spec['a.b']`. `None` for any other path.
pub(crate) fn simple_path(text: &str) -> Option<Vec<String>> {
    if !text.starts_with('.') {
        return None;
    }
    let JsonPath(steps) = JsonPath::parse(text).ok()?;
    let names: Option<Vec<String>> = steps
        .into_iter()
        .map(|step| match step {
            Step::Member(name) => Some(name),
            Step::Item(_)
            | Step::Range(..)
            | Step::Every
            | Step::Anywhere
            | Step::Where(..)
            | Step::Has(_) => None,
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

/// Returns the first value at a path; one step for each value that it visits.
fn search<'v>(path: &[Step], value: &'v Value, steps: &Steps) -> Result<Option<&'v Value>, OutOfSteps> {
    steps.take(1)?;
    let Some((step, rest)) = path.split_first() else { return Ok(Some(value)) };
    let inner = || -> Box<dyn Iterator<Item = &'v Value>> {
        match value {
            Value::Array(list) => Box::new(list.iter()),
            Value::Object(map) => Box::new(map.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Box::new(std::iter::empty())
            }
        }
    };
    // The first value at the rest of the path below any of these.
    let below = |mut values: Box<dyn Iterator<Item = &'v Value> + '_>, path: &[Step]| {
        values.find_map(|value| search(path, value, steps).transpose()).transpose()
    };
    let count = value.as_array().map_or(0, |list| i64::try_from(list.len()).unwrap_or(i64::MAX));
    let from_end = |at: i64| if at < 0 { at + count } else { at };
    let at_path =
        |path: &[String], item: &'v Value| path.iter().try_fold(item, |value, name| value.get(name));
    match step {
        Step::Member(name) => below(Box::new(value.get(name).into_iter()), rest),
        Step::Item(at) => {
            let at = usize::try_from(from_end(*at)).ok();
            below(Box::new(at.and_then(|at| value.get(at)).into_iter()), rest)
        }
        Step::Range(from, to) => {
            let (from, to) = (from_end(*from).max(0), to.map_or(count, from_end).min(count));
            let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            let items = range.and_then(|(from, to)| value.as_array()?.get(from..to));
            below(Box::new(items.into_iter().flatten()), rest)
        }
        Step::Every => below(inner(), rest),
        Step::Anywhere => match search(rest, value, steps)? {
            Some(found) => Ok(Some(found)),
            None => below(inner(), path),
        },
        Step::Where(condition, compare, wanted) => {
            let fits = |item: &&'v Value| {
                at_path(condition, item).is_some_and(|there| compares(there, *compare, wanted))
            };
            steps.take(inner().count())?;
            below(Box::new(inner().filter(fits)), rest)
        }
        Step::Has(condition) => {
            steps.take(inner().count())?;
            below(Box::new(inner().filter(|item| at_path(condition, item).is_some())), rest)
        }
    }
}

fn compares(there: &Value, compare: Compare, wanted: &Value) -> bool {
    use std::cmp::Ordering;
    let order = match (there, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) if a == b => Some(Ordering::Equal),
        _ => None,
    };
    match compare {
        Compare::Equal => order == Some(Ordering::Equal),
        Compare::NotEqual => order != Some(Ordering::Equal),
        Compare::Less => order == Some(Ordering::Less),
        Compare::LessOrEqual => order.is_some_and(Ordering::is_le),
        Compare::Greater => order == Some(Ordering::Greater),
        Compare::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_select_values() {
        let object = json!({
            "spec": {"n": 3, "list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "a.b": "dot"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Busy", "status": "False"}]},
        });
        for (path, want) in [
            (".spec.n", json!(3)),
            ("{.spec.n}", json!(3)),
            (".spec.list[1].k", json!("b")),
            (".spec.list[-1].v", json!(2)),
            (".spec.list[0:1].v", json!(1)),
            (".spec.list[*].k", json!("a")),
            (".spec['a.b']", json!("dot")),
            (".spec.a\\.b", json!("dot")),
            (".status.conditions[?(@.type==\"Busy\")].status", json!("False")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (".spec.list[?(@.v>1)].k", json!("b")),
            (".spec.nope", json!(null)),
            (".spec.list[9]", json!(null)),
            ("..k", json!("a")),
        ] {
            let found = JsonPath::parse(path).unwrap().first(&object, &Steps::new(1_000));
            let found = found.unwrap().cloned().unwrap_or_default();
            assert_eq!(found, want, "{path}");
        }
        for bad in ["spec", ".spec[", ".spec[x]", ".a..", ".list[?(v)]"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cells_that_take_too_many_steps_are_empty() {
        let mut deep = json!({"b": 1});
        for _ in 0..80 {
            deep = json!({"a": deep});
        }
        let column = |path: &str| json!({"name": "X", "type": "string", "jsonPath": path});
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let columns = Columns::of(&json!({"additionalPrinterColumns":
            [column("..b"), column(&format!("{}..z", "..a".repeat(10))), column("..b")]}));
        assert_eq!(columns.cells("n", &deep, now), [json!("n"), json!("1"), json!(null), json!(null)]);

        // Many columns with the same long text.
        let text = "x".repeat(1 << 20);
        let columns = Columns::of(&json!({"additionalPrinterColumns": vec![column(".a"); 1_000]}));
        let cells = columns.cells("n", &json!({"a": text}), now);
        assert_eq!(cells.iter().filter(|cell| !cell.is_null()).count(), 7, "the name, and six cells");
    }

    #[test]
    fn simple_path_accepts_only_member_names() {
        assert_eq!(simple_path(".spec.replicas"), Some(vec!["spec".to_owned(), "replicas".to_owned()]));
        for other in ["", ".", "spec.x", ".spec[0]", ".spec.*", "..x"] {
            assert_eq!(simple_path(other), None, "{other}");
        }
    }

    #[test]
    fn cells_are_formatted_by_column_type() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (kind, value, want) in [
            ("string", json!("x"), json!("x")),
            ("string", json!(5), json!("5")),
            ("string", json!({"a": 1}), json!("{\"a\":1}")),
            ("integer", json!(5), json!(5)),
            ("integer", json!(5.7), json!(5)),
            ("integer", json!("5"), json!(null)),
            ("number", json!(1.5), json!(1.5)),
            ("boolean", json!(true), json!(true)),
            ("date", json!("2026-01-02T03:03:05Z"), json!("60s")),
            ("date", json!("x"), json!("<invalid>")),
        ] {
            assert_eq!(cell(kind, &value, now), want, "{kind} {value}");
        }
        let columns = Columns::of(&json!({}));
        let created = json!({"metadata": {"creationTimestamp": "2026-01-02T03:03:05Z"}});
        assert_eq!(columns.cells("n", &created, now), [json!("n"), json!("60s")]);
        assert_eq!(columns.shown[1]["name"], "Age");
    }
}
