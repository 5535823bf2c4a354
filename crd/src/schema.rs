//! The structural form of a schema, built once per version, so that pruning, defaults, validation and field
//! ownership do not parse JSON schemas again.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use orlop_apimachinery::steps::{OutOfSteps, Steps};
use orlop_openapi::{Field, ListType, Merge, Presence, Scalar, Shape, StructType, types};
use serde_json::{Map, Value};

use crate::pattern::{self, Pattern};
use crate::rule::Rule;

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    /// Unspecified: any value is valid.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Type::Any,
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Type::Any => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// How the items of a list are identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Items {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Constraints on a value besides its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    /// The compiled pattern and its source.
    pub(crate) pattern: Option<(Pattern, String)>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) allowed: Vec<Value>,
    /// The allowed values as JSON, if there are many.
    allowed_texts: HashSet<String>,
    pub(crate) required: Vec<String>,
    pub(crate) format: String,
}

/// The schema of a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub(crate) ty: Type,
    pub(crate) properties: BTreeMap<String, Schema>,
    /// The schema of values under other keys; `additionalProperties: true` is an empty schema.
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) nullable: bool,
    /// Whether undeclared members are preserved.
    pub(crate) preserve: bool,
    /// Whether the value is an embedded object with apiVersion, kind and metadata.
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list: Items,
    pub(crate) atomic_map: bool,
    pub(crate) default: Option<Value>,
    /// The names of the properties that have a default.
    pub(crate) defaulted: Vec<String>,
    /// Whether this schema or a nested one has a default.
    pub(crate) defaults_inside: bool,
    /// Most values have no limits and share one instance.
    pub(crate) limits: Arc<Limits>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) rules: Vec<Rule>,
    /// Whether this schema or a nested one has rules.
    pub(crate) rules_inside: bool,
    /// Whether values of this schema are or contain embedded objects.
    pub(crate) embeds_inside: bool,
    /// Whether values of this schema are or contain sets, or lists of type `map`.
    pub(crate) keyed_inside: bool,
}

impl Schema {
    /// Reads the schema in a `JSONSchemaProps` without its rules.
    pub(crate) fn without_rules(props: &Value) -> Self {
        Schema::read(props, |_| Vec::new())
    }

    /// Reads the schema in a `JSONSchemaProps`. `compile` compiles the rules of `x-kubernetes-validations`.
    pub(crate) fn read(props: &Value, compile: fn(&Value) -> Vec<Rule>) -> Self {
        let of = |props: &Value| Schema::read(props, compile);
        let text = |name: &str| props[name].as_str().unwrap_or_default();
        let flag = |name: &str| props[name].as_bool().unwrap_or_default();
        let list =
            |name: &str| -> Vec<Schema> { props[name].as_array().into_iter().flatten().map(of).collect() };
        let one = |name: &str| props[name].is_object().then(|| Box::new(of(&props[name])));
        let properties = props["properties"].as_object().into_iter().flatten();
        let keys = || props["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
        let mut schema = Schema {
            ty: Type::parse(text("type")).unwrap_or_default(),
            properties: properties.map(|(name, schema)| (name.clone(), of(schema))).collect(),
            additional: match &props["additionalProperties"] {
                Value::Bool(true) => Some(Box::default()),
                Value::Object(_) => one("additionalProperties"),
                _ => None,
            },
            items: one("items"),
            nullable: flag("nullable"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list: match text("x-kubernetes-list-type") {
                "set" => Items::Set,
                "map" => Items::Map(keys().filter_map(Value::as_str).map(str::to_owned).collect()),
                _ => Items::Atomic,
            },
            atomic_map: text("x-kubernetes-map-type") == "atomic",
            default: props.get("default").filter(|value| !value.is_null()).cloned(),
            defaulted: Vec::new(),
            defaults_inside: false,
            limits: Limits::shared(props),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: one("not"),
            rules: compile(&props["x-kubernetes-validations"]),
            rules_inside: false,
            embeds_inside: false,
            keyed_inside: false,
        };
        let has_default = schema.properties.iter().filter(|(_, property)| property.default.is_some());
        schema.defaulted = has_default.map(|(name, _)| name.clone()).collect();
        schema.defaults_inside =
            schema.default.is_some() || schema.children().any(|child| child.defaults_inside);
        schema.embeds_inside = schema.embedded || schema.children().any(|child| child.embeds_inside);
        let is_keyed = schema.list != Items::Atomic;
        schema.keyed_inside = is_keyed || schema.children().any(|child| child.keyed_inside);
        schema.rules_inside = !schema.rules.is_empty() || schema.children().any(|child| child.rules_inside);
        schema
    }

    /// Returns the schemas of the nested values.
    fn children(&self) -> impl Iterator<Item = &Schema> {
        self.properties.values().chain(self.additional.as_deref()).chain(self.items.as_deref())
    }

    /// Returns the type of an object of this schema, for field ownership.
    pub(crate) fn root_type(&self, name: &str) -> Arc<StructType> {
        let mut ty = self.structure(name);
        ty.fields.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
        add_metadata(&mut ty);
        Arc::new(ty)
    }

    fn structure(&self, name: &str) -> StructType {
        let fields = self.properties.iter().map(|(name, schema)| (name.clone(), schema.field(name)));
        let mut ty = StructType {
            name: name.to_owned(),
            short_name: name.rsplit_once('.').map_or(name, |(_, last)| last).to_owned(),
            description: String::new(),
            fields: fields.collect(),
            order: Vec::new(),
            always: Vec::new(),
            atomic: self.atomic_map,
            numbers: Default::default(),
            open: self.preserve,
        };
        if self.embedded {
            for name in ["apiVersion", "kind"] {
                let text = Schema { ty: Type::String, ..Schema::default() };
                ty.fields.entry(name.to_owned()).or_insert_with(|| text.field(name));
            }
            add_metadata(&mut ty);
        }
        ty
    }

    fn field(&self, name: &str) -> Field {
        let is_list = self.ty == Type::Array;
        Field {
            name: name.to_owned(),
            shape: self.shape(),
            presence: Presence::Pointer,
            nullable: self.nullable,
            merge: Merge {
                list_type: is_list.then(|| match &self.list {
                    Items::Atomic => ListType::Atomic,
                    Items::Set => ListType::Set,
                    Items::Map(keys) => ListType::Map(keys.clone()),
                }),
                atomic_map: self.atomic_map,
                ..Merge::default()
            },
            number: None,
            description: String::new(),
            required: false,
            default: self.default.clone(),
        }
    }

    fn shape(&self) -> Shape {
        if self.int_or_string {
            return Shape::Scalar(Scalar::IntOrString);
        }
        match self.ty {
            Type::Any => Shape::Deduced,
            Type::String => Shape::Scalar(Scalar::String),
            Type::Integer => Shape::Scalar(Scalar::Int64),
            Type::Number => Shape::Scalar(Scalar::Float),
            Type::Boolean => Shape::Scalar(Scalar::Bool),
            Type::Array => Shape::List(Box::new(self.items.as_ref().map_or(Shape::Deduced, |i| i.shape()))),
            Type::Object => match &self.additional {
                Some(values) if self.properties.is_empty() => Shape::Map(Box::new(values.shape())),
                _ => Shape::Inline(Arc::new(self.structure(""))),
            },
        }
    }
}

fn add_metadata(ty: &mut StructType) {
    const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let Some(id) = types().named(META) else { return };
    let any = Schema::default();
    ty.fields.insert("metadata".to_owned(), Field { shape: Shape::Struct(id), ..any.field("metadata") });
}

/// The most values of an `enum` that are compared one after another.
const FEW: usize = 16;

impl Limits {
    /// Whether the value is in the `enum`.
    pub(crate) fn allows(&self, value: &Value, steps: &Steps) -> Result<bool, OutOfSteps> {
        if self.allowed.len() <= FEW {
            return Ok(self.allowed.contains(value));
        }
        let text = value.to_string();
        steps.take(text.len() / 64)?;
        Ok(self.allowed_texts.contains(&text))
    }

    /// The members of a schema that limits are read from.
    const MEMBERS: [&str; 15] = [
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "maxProperties",
        "minProperties",
        "multipleOf",
        "enum",
        "required",
        "format",
    ];

    fn shared(props: &Value) -> Arc<Self> {
        static NONE: LazyLock<Arc<Limits>> = LazyLock::new(Arc::default);
        let has_some = Self::MEMBERS.iter().any(|member| props.get(member).is_some());
        if has_some { Arc::new(Limits::of(props)) } else { NONE.clone() }
    }

    fn of(props: &Value) -> Self {
        let count = |name: &str| props[name].as_u64();
        let flag = |name: &str| props[name].as_bool().unwrap_or_default();
        let pattern = props["pattern"].as_str().filter(|pattern| !pattern.is_empty());
        let required = props["required"].as_array().into_iter().flatten();
        Limits {
            maximum: props["maximum"].as_f64(),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: props["minimum"].as_f64(),
            exclusive_minimum: flag("exclusiveMinimum"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: pattern.and_then(|text| Some((pattern::compile(text).ok()?, text.to_owned()))),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            multiple_of: props["multipleOf"].as_f64(),
            allowed_texts: match props["enum"].as_array() {
                Some(allowed) if allowed.len() > FEW => allowed.iter().map(Value::to_string).collect(),
                Some(_) | None => HashSet::new(),
            },
            allowed: props["enum"].as_array().cloned().unwrap_or_default(),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
            format: props["format"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// Returns the members of an object; empty for any other value.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
