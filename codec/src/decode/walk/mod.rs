//! Walks a document once: checks every value against the arena of types, drops and records unknown fields,
//! canonicalizes scalars, and omits or fills in empty values as upstream's structs would.
//!
//! A value of a wrong type does not end the walk: a syntax error anywhere in the text takes precedence.

mod go_types;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use orlop_openapi::{Field, Presence, Scalar, Shape, StructType, TypeId, Types, types};
use serde_json::{Map, Value};

use super::scalar::{self, Refused};
use super::source::{Source, SyntaxError, Token};
use super::values::ValueBudget;

/// Maximum nesting depth of lists and objects. The server, and clients with JSON parsers that stop at 128 levels,
/// must be able to read a stored object back, also inside a list or an event.
pub(super) const MAX_DEPTH: usize = 100;
/// Maximum number of findings (upstream: the strict decoder's limit).
pub(crate) const MAX_FINDINGS: usize = 100;
/// Maximum total length of the findings, bytes. Each contains a full path, and keys can be long.
pub(crate) const MAX_FINDINGS_TEXT: usize = 1 << 20;

/// A problem in the document that lenient validation tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// The type has no such field.
    Unknown(String),
    /// The field occurs more than once.
    Duplicate(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Quotes in names are escaped, as in Go.
            Finding::Unknown(path) => write!(f, "unknown field {path:?}"),
            Finding::Duplicate(path) => write!(f, "duplicate field {path:?}"),
        }
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) object: Map<String, Value>,
    /// In order of appearance.
    pub(super) findings: Vec<Finding>,
    /// `apiVersion` and `kind` of the document itself; empty if missing.
    pub(super) type_meta: (String, String),
    /// The error if `kind` or `apiVersion` is not a string.
    pub(super) bad_type_meta: Option<String>,
    /// The error about the first value that has a wrong type or that its own parser rejects.
    pub(super) misfit: Option<String>,
}

/// Walks a whole document. `null` is treated as an empty object.
pub(super) fn walk<'a, S: Source<'a>>(source: &mut S, ty: TypeId) -> Result<Walked, SyntaxError> {
    let types = types();
    let mut walker = Walker {
        source,
        types,
        is_open: types.get(ty).open,
        path: Vec::new(),
        seen: HashSet::new(),
        findings_text: 0,
        done: Walked::default(),
        refused: None,
        budget: ValueBudget::new(),
        lifetime: std::marker::PhantomData,
    };
    let token = walker.source.value()?;
    match token {
        Token::Null => walker.done.object = zero_map(types.get(ty)),
        Token::Object => walker.done.object = walker.structure(types.get(ty))?,
        Token::Bool(_) | Token::Number(_) | Token::String(_) | Token::Array => {
            walker.done.bad_type_meta = Some(format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                scalar::kind(&token)
            ));
            walker.source.skip(&token)?;
        }
    }
    let mut done = walker.done;
    done.misfit = walker.refused.or(done.misfit);
    Ok(done)
}

/// An empty object of a type, with only the members that are always written.
pub(super) fn zero_map(ty: &StructType) -> Map<String, Value> {
    let fields = ty.always.iter().filter_map(|name| ty.field(name));
    fields.map(|field| (field.name.clone(), zero_field(field))).collect()
}

/// The value written for an unset field of [`Presence::Always`].
fn zero_field(field: &Field) -> Value {
    if field.nullable { Value::Null } else { zero_value(&field.shape) }
}

/// Whether upstream has a pointer or raw bytes here, so that an unset value is written as `null`.
fn is_pointer(shape: &Shape) -> bool {
    matches!(shape, Shape::Struct(_) | Shape::Json)
}

/// The value that replaces a `null` in a list or map.
fn zero_value(shape: &Shape) -> Value {
    match shape {
        Shape::Struct(id) => Value::Object(zero_map(types().get(*id))),
        Shape::Map(_) => Value::Object(Map::new()),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Scalar(scalar) => scalar::zero(*scalar),
        Shape::Json | Shape::Either(_) | Shape::Inline(_) | Shape::Deduced => Value::Null,
    }
}

/// The number of objects in a value of [`zero_value`].
fn objects(value: &Value) -> usize {
    value.as_object().map_or(0, |members| 1 + members.values().map(objects).sum::<usize>())
}

/// One step of the path to a value.
pub(super) enum Step<'a> {
    Field(&'static str),
    Index(usize),
    Key(Cow<'a, str>),
}

struct Walker<'s, 'a, S> {
    source: &'s mut S,
    types: &'static Types,
    /// Whether only the metadata of the document has a type.
    is_open: bool,
    path: Vec<Step<'a>>,
    seen: HashSet<Finding>,
    /// Total length of the findings, bytes.
    findings_text: usize,
    done: Walked,
    /// The first error from a value's own parser; it takes precedence over type errors.
    refused: Option<String>,
    budget: ValueBudget,
    lifetime: std::marker::PhantomData<&'a ()>,
}

impl<'a, S: Source<'a>> Walker<'_, 'a, S> {
    /// Reads the members of a struct after its start.
    fn structure(&mut self, ty: &'static StructType) -> Result<Map<String, Value>, SyntaxError> {
        self.budget.object().map_err(SyntaxError)?;
        let mut members = Map::new();
        // Members omitted because they are empty still count as duplicates when they occur again. Each is recorded once,
        // so the list is at most as long as the type has fields.
        let mut omitted: Vec<&str> = Vec::new();
        while let Some(key) = self.source.key()? {
            if self.path.is_empty() && (key == "kind" || key == "apiVersion") {
                self.type_meta(key == "kind")?;
                continue;
            }
            let Some(field) = ty.field(&key) else {
                if ty.open {
                    let token = self.source.value()?;
                    let value = self.free(token, self.path.len())?;
                    members.insert(key.into_owned(), value);
                    continue;
                }
                self.note(|path| Finding::Unknown(join(path, &key)));
                let token = self.source.value()?;
                self.source.skip(&token)?;
                continue;
            };
            let was_omitted = omitted.contains(&field.name.as_str());
            let was_written = members.remove(&field.name).is_some();
            if was_omitted || was_written {
                self.note(|path| Finding::Duplicate(join(path, &key)));
            }
            self.path.push(Step::Field(&field.name));
            let value = self.field(ty, field)?;
            self.path.pop();
            match value {
                Some(value) => {
                    members.insert(field.name.clone(), value);
                }
                None if was_omitted => {}
                None => omitted.push(&field.name),
            }
        }
        for name in &ty.always {
            if !members.contains_key(name)
                && let Some(field) = ty.field(name)
            {
                let value = self.filled_in(zero_field(field))?;
                members.insert(name.clone(), value);
            }
        }
        Ok(members)
    }

    /// Reads `kind` or `apiVersion` of the document itself.
    fn type_meta(&mut self, is_kind: bool) -> Result<(), SyntaxError> {
        let token = self.source.value()?;
        let (name, place) = match is_kind {
            true => ("kind", &mut self.done.type_meta.1),
            false => ("apiVersion", &mut self.done.type_meta.0),
        };
        let duplicate = !place.is_empty();
        match token {
            Token::String(text) => *place = text.into_owned(),
            Token::Null => {}
            Token::Bool(_) | Token::Number(_) | Token::Array | Token::Object => {
                self.source.skip(&token)?;
                let found = scalar::kind(&token);
                let text =
                    format!("json: cannot unmarshal {found} into Go struct field .{name} of type string");
                self.done.bad_type_meta.get_or_insert(text);
            }
        }
        if duplicate {
            self.note(|_| Finding::Duplicate(name.to_owned()));
        }
        Ok(())
    }

    /// Reads the value of a field; `None` if the field is omitted.
    fn field(
        &mut self,
        ty: &'static StructType,
        field: &'static Field,
    ) -> Result<Option<Value>, SyntaxError> {
        let token = self.source.value()?;
        if matches!(token, Token::Null) {
            return Ok(None);
        }
        let value = self.value(ty, &field.shape, token)?;
        Ok(match field.presence {
            Presence::OmitEmpty if scalar::is_zero(&value) && !is_zero_text(&field.shape) => None,
            // The zero time, and values that do not fit.
            Presence::Pointer | Presence::Always if value.is_null() => None,
            // An empty list counts as unset, and unset is written as `null`. Empty strings and empty structs stay.
            Presence::Always
                if field.nullable
                    && !value.is_string()
                    && scalar::is_zero(&value)
                    && !is_pointer(&field.shape) =>
            {
                None
            }
            Presence::OmitEmpty | Presence::Pointer | Presence::Always => Some(value),
        })
    }

    /// Reads a value other than `null`. `ty` is the enclosing struct, for error messages.
    fn value(
        &mut self,
        ty: &'static StructType,
        shape: &'static Shape,
        mut token: Token<'a>,
    ) -> Result<Value, SyntaxError> {
        match (shape, &token) {
            (_, Token::Array | Token::Object) if self.path.len() > MAX_DEPTH => self.too_deep(&token),
            (Shape::Struct(id), Token::Object) => self.structure(self.types.get(*id)).map(Value::Object),
            (Shape::Map(inner), Token::Object) => self.map(ty, inner).map(Value::Object),
            (Shape::List(inner), Token::Array) => self.list(ty, inner).map(Value::Array),
            (Shape::Scalar(scalar), _) => {
                let read = scalar::read(*scalar, &mut token);
                self.source.skip(&token)?;
                Ok(read.unwrap_or_else(|refused| self.refuse(ty, shape, refused)))
            }
            (Shape::Either(id), Token::Object) => self.structure(self.types.get(*id)).map(Value::Object),
            (Shape::Either(_), Token::Array) => self.list(ty, shape).map(Value::Array),
            // Custom kinds do not use the arena (see `decode::custom`).
            (Shape::Json | Shape::Either(_) | Shape::Inline(_) | Shape::Deduced, _) => {
                self.free(token, self.path.len())
            }
            (Shape::Struct(_) | Shape::Map(_) | Shape::List(_), _) => {
                self.source.skip(&token)?;
                let found = scalar::kind(&token).to_owned();
                Ok(self.refuse(ty, shape, Refused::Type(found)))
            }
        }
    }

    fn map(
        &mut self,
        ty: &'static StructType,
        inner: &'static Shape,
    ) -> Result<Map<String, Value>, SyntaxError> {
        let mut members = Map::new();
        while let Some(key) = self.source.key()? {
            self.member_of(&members)?;
            let value = match self.source.value()? {
                Token::Null => self.zero_value(inner)?,
                token => {
                    if matches!(inner, Shape::Struct(_)) {
                        self.path.push(Step::Key(key.clone()));
                        let value = self.value(ty, inner, token)?;
                        self.path.pop();
                        value
                    } else {
                        self.value(ty, inner, token)?
                    }
                }
            };
            if let Some(place) = members.get_mut(key.as_ref()) {
                *place = value;
                self.note(|path| Finding::Duplicate(join(path, &key)));
            } else {
                members.insert(key.into_owned(), value);
            }
        }
        Ok(members)
    }

    fn list(&mut self, ty: &'static StructType, inner: &'static Shape) -> Result<Vec<Value>, SyntaxError> {
        let mut items = Vec::new();
        while self.source.item()? {
            self.budget.value().map_err(SyntaxError)?;
            let value = match self.source.value()? {
                Token::Null => self.zero_value(inner)?,
                token => {
                    self.path.push(Step::Index(items.len()));
                    let value = self.value(ty, inner, token)?;
                    self.path.pop();
                    value
                }
            };
            items.push(value);
        }
        Ok(items)
    }

    /// Accounts for another member of a map. A map without members takes no memory of its own.
    fn member_of(&self, members: &Map<String, Value>) -> Result<(), SyntaxError> {
        let more = if members.is_empty() { self.budget.object() } else { Ok(()) };
        more.and_then(|()| self.budget.value()).map_err(SyntaxError)
    }

    /// The value that replaces a `null` in a list or map.
    fn zero_value(&self, shape: &Shape) -> Result<Value, SyntaxError> {
        self.filled_in(zero_value(shape))
    }

    /// Accounts for the objects in a value that the document lacks, as if it had them: clients send them back.
    fn filled_in(&self, value: Value) -> Result<Value, SyntaxError> {
        for _ in 0..objects(&value) {
            self.budget.object().map_err(SyntaxError)?;
        }
        Ok(value)
    }

    /// Skips a value nested too deeply and records the error.
    fn too_deep(&mut self, token: &Token<'a>) -> Result<Value, SyntaxError> {
        self.source.skip(token)?;
        self.refused.get_or_insert_with(|| format!("a value is nested more than {MAX_DEPTH} levels deep"));
        Ok(Value::Null)
    }

    /// Reads a value of any type.
    fn free(&mut self, token: Token<'a>, depth: usize) -> Result<Value, SyntaxError> {
        if depth > MAX_DEPTH && matches!(token, Token::Array | Token::Object) {
            return self.too_deep(&token);
        }
        Ok(match token {
            Token::Null => Value::Null,
            Token::Bool(value) => Value::Bool(value),
            Token::Number(text) => scalar::number(&text).map(Value::Number).unwrap_or_default(),
            Token::String(text) => Value::String(text.into_owned()),
            Token::Array => {
                let mut items = Vec::new();
                while self.source.item()? {
                    self.budget.value().map_err(SyntaxError)?;
                    let token = self.source.value()?;
                    items.push(self.free(token, depth + 1)?);
                }
                Value::Array(items)
            }
            Token::Object => {
                let mut members = Map::new();
                while let Some(key) = self.source.key()? {
                    self.member_of(&members)?;
                    let token = self.source.value()?;
                    members.insert(key.into_owned(), self.free(token, depth + 1)?);
                }
                Value::Object(members)
            }
        })
    }

    /// Records the error if it is the first, and returns `null` in place of the value.
    fn refuse(&mut self, ty: &StructType, shape: &Shape, refused: Refused) -> Value {
        match refused {
            Refused::Content(text) => {
                self.refused.get_or_insert(text);
            }
            Refused::Type(found) if self.done.misfit.is_none() => {
                // Upstream decodes the metadata of custom objects on its own, so the error does not name `metadata`.
                let path = self.path.get(usize::from(self.is_open)..).unwrap_or_default();
                let mut fields = path.iter().filter_map(|step| match step {
                    Step::Field(name) => Some(*name),
                    Step::Index(_) | Step::Key(_) => None,
                });
                let field = self.path.iter().rev().find_map(|step| match step {
                    Step::Field(name) => ty.field(name),
                    Step::Index(_) | Step::Key(_) => None,
                });
                let wanted = field
                    .map_or_else(|| go_types::of_shape(shape), |field| go_types::of_field(ty, field, shape));
                let place = match fields.next() {
                    Some(first) => {
                        let rest: String = fields.map(|name| format!(".{name}")).collect();
                        format!("Go struct field {}.{first}{rest}", ty.short_name)
                    }
                    None => "Go value".to_owned(),
                };
                self.done.misfit =
                    Some(format!("json: cannot unmarshal {found} into {place} of type {wanted}"));
            }
            Refused::Type(_) => {}
        }
        Value::Null
    }

    fn note(&mut self, finding: impl FnOnce(&[Step<'a>]) -> Finding) {
        if self.done.findings.len() >= MAX_FINDINGS || self.findings_text > MAX_FINDINGS_TEXT {
            return;
        }
        let finding = finding(&self.path);
        let (Finding::Unknown(text) | Finding::Duplicate(text)) = &finding;
        self.findings_text += text.len();
        if self.seen.insert(finding.clone()) {
            self.done.findings.push(finding);
        }
    }
}

/// A quantity is never omitted as empty, even if [`scalar::is_zero`] considers its text empty.
fn is_zero_text(shape: &Shape) -> bool {
    matches!(shape, Shape::Scalar(Scalar::Quantity))
}

/// `spec.containers[0].foo`
pub(super) fn join(path: &[Step<'_>], last: &str) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Field(name) => push_name(&mut text, name),
            Step::Key(key) => push_name(&mut text, key),
        }
    }
    push_name(&mut text, last);
    text
}

fn push_name(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}

#[cfg(test)]
mod tests;
