//! The kind of a custom resource: one version of a definition, in the form that the verbs use.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use orlop_api::object::Object;
use orlop_api::registry::{
    DefinitionId, DeleteAnswer, Generation, Kind, KindRef, NameRule, Names, Policy, ScalePaths,
    ScaleSelector, Scope, StatusSubresource, Subresource, TypeRef, UnknownField,
};
use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::Steps;
use orlop_apimachinery::version::version_order;
use orlop_openapi::StructType;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::columns::{Columns, simple_path};
use crate::definition::{MAX_NAMES, can_be_served, condition, is_established, prefix};
use crate::names::{intern, intern_list};
use crate::scale::ScaleMembers;
use crate::schema::Schema;
use crate::{coerce, default, prune, rules, validate};

/// The verbs of a custom kind, in discovery's order.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Maximum length of the accepted names, bytes. The validation of definitions ensures it, but clients may write the
/// status, too.
const MAX_LABEL: usize = 63;

const SCALE: &[Subresource] = &[Subresource {
    name: "scale",
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    schema: "io.k8s.api.autoscaling.v1.Scale",
    verbs: &["get", "patch", "update"],
}];

/// A version of a definition.
#[derive(Debug)]
pub(crate) struct Version {
    names: Names,
    pub(crate) served: bool,
    /// The schema and the type for field ownership, compiled on first use: patterns and rules take a
    /// millisecond to compile, and a starting server may have hundreds of definitions.
    compiled: OnceLock<(Schema, Arc<StructType>)>,
    has_status: bool,
    scale: Option<ScaleMembers>,
    columns: Columns,
    /// Names of the selectable fields; the next field has their paths.
    selectable: Vec<&'static str>,
    selectable_paths: Vec<Vec<String>>,
    deprecation: Option<String>,
    /// The schema of the definition as JSON text: only documents need it, and a parsed value is ten times as
    /// large.
    raw: Box<[u8]>,
}

/// A served definition.
#[derive(Debug)]
pub struct Definition {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// Digest of the versions as written in the definition.
    shown: [u8; 32],
    pub(crate) accepted: Value,
    /// Whether the definition is being deleted.
    pub is_terminating: bool,
    scope: Scope,
    prefix: &'static str,
    list_kind: String,
    /// `None` if the storage version is not served.
    storage_version: Option<&'static str>,
    pub(crate) versions: Vec<Version>,
}

impl Definition {
    /// Compiles a stored definition; `None` if its names are not accepted, or are those of a built-in kind.
    pub fn of(object: &Object) -> Option<Self> {
        if !is_established(object) {
            return None;
        }
        let group = object.str_at(&["spec", "group"]);
        let accepted = object.at(&["status", "acceptedNames"])?;
        let text = |name: &str| accepted[name].as_str().unwrap_or_default();
        let list = |name: &str| -> &'static [&'static str] {
            let list = accepted[name].as_array().into_iter().flatten().filter_map(Value::as_str);
            let list = list.filter(|text| text.len() <= MAX_LABEL).take(MAX_NAMES);
            intern_list(&list.collect::<Vec<_>>())
        };
        let is_long = |name: &str| text(name).len() > MAX_LABEL;
        if text("plural").is_empty() || ["plural", "singular", "kind"].into_iter().any(is_long) {
            return None;
        }
        if !can_be_served(object, group, text("plural")) {
            return None;
        }
        let group = intern(group);
        let plural = intern(text("plural"));
        let mut reversed: Vec<&str> = group.split('.').collect();
        reversed.reverse();
        let versions = object.at(&["spec", "versions"]).and_then(Value::as_array)?;
        let versions = versions.iter().map(|version| {
            let name = intern(version["name"].as_str().unwrap_or_default());
            let names = Names {
                group,
                version: name,
                kind: intern(text("kind")),
                plural,
                singular: intern(text("singular")),
                short: list("shortNames"),
                categories: list("categories"),
                schema: intern(&format!("{}.{name}.{}", reversed.join("."), text("kind"))),
            };
            Version::of(version, names, object)
        });
        let all = object.at(&["spec", "versions"]).and_then(Value::as_array)?;
        let storage = all.iter().find(|version| version["storage"] == true && version["served"] == true);
        let made = Definition {
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            generation: object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            shown: Sha256::digest(object.at(&["spec", "versions"])?.to_string()).into(),
            accepted: accepted.clone(),
            is_terminating: object.is_terminating() || condition(object, "Terminating") == "True",
            scope: match object.str_at(&["spec", "scope"]) {
                "Cluster" => Scope::Cluster,
                _ => Scope::Namespaced,
            },
            prefix: intern(&prefix(group, plural)),
            list_kind: text("listKind").to_owned(),
            storage_version: storage.and_then(|version| version["name"].as_str()).map(intern),
            versions: Some(versions.collect()).filter(|versions: &Vec<Version>| !versions.is_empty())?,
        };
        Some(made)
    }

    /// Whether compiling the definition `object` would have the same result.
    pub fn is_same(&self, object: &Object) -> bool {
        let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        let terminating = object.is_terminating() || condition(object, "Terminating") == "True";
        self.uid == object.uid()
            && self.generation == generation
            && self.is_terminating == terminating
            && is_established(object)
            && object.at(&["status", "acceptedNames"]) == Some(&self.accepted)
    }

    /// Whether both definitions show objects in the same form.
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.shown == other.shown
    }

    /// Returns the name, the UID and the digest of the versions.
    pub fn id(&self) -> DefinitionId<'_> {
        DefinitionId { name: &self.name, uid: &self.uid, versions: &self.shown }
    }

    /// Returns the store prefix of its objects.
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }
}

impl Version {
    fn of(version: &Value, names: Names, definition: &Object) -> Self {
        let raw = &version["schema"]["openAPIV3Schema"];
        let scale = &version["subresources"]["scale"];
        let path = |name: &str| simple_path(scale[name].as_str().unwrap_or_default());
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let selectable: Vec<(&str, Vec<String>)> = selectable
            .filter_map(|field| field["jsonPath"].as_str())
            .filter_map(|text| Some((text.trim_start_matches('.'), simple_path(text)?)))
            .collect();
        Version {
            served: version["served"] == true,
            compiled: OnceLock::new(),
            has_status: version["subresources"]["status"].is_object(),
            scale: path("specReplicasPath").zip(path("statusReplicasPath")).map(|(spec, status)| {
                ScaleMembers {
                    spec_replicas: spec,
                    status_replicas: status,
                    selector: path("labelSelectorPath"),
                }
            }),
            columns: Columns::of(version),
            selectable: selectable.iter().map(|(name, _)| intern(name)).collect(),
            selectable_paths: selectable.into_iter().map(|(_, path)| path).collect(),
            deprecation: (version["deprecated"] == true).then(|| {
                let own = version["deprecationWarning"].as_str();
                own.map_or_else(|| default_deprecation(&names, definition), str::to_owned)
            }),
            raw: raw.to_string().into_bytes().into(),
            names,
        }
    }

    fn compiled(&self) -> &(Schema, Arc<StructType>) {
        self.compiled.get_or_init(|| {
            let schema = Schema::of(&self.raw());
            let ty = schema.root_type(self.names.schema);
            (schema, ty)
        })
    }
}

/// The warning of a deprecated version without one of its own: it names the newest later version that is not deprecated.
fn default_deprecation(names: &Names, definition: &Object) -> String {
    let warning = format!("{} {} is deprecated", names.api_version(), names.kind);
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let usable = versions.filter(|version| version["served"] == true && version["deprecated"] != true);
    let later = usable
        .filter_map(|version| version["name"].as_str())
        .filter(|name| version_order(name, names.version).is_lt())
        .min_by(|a, b| version_order(a, b));
    match later {
        Some(version) => format!("{warning}; use {}/{version} {}", names.group, names.kind),
        None => warning,
    }
}

impl Version {
    /// Returns the schema as written in the definition.
    pub(crate) fn raw(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or_default()
    }
}

/// A kind of objects: a version of a definition.
#[derive(Debug)]
pub struct CustomKind {
    definition: Arc<Definition>,
    at: usize,
}

impl CustomKind {
    /// Returns the kinds of the served versions.
    pub fn all(definition: &Arc<Definition>) -> impl Iterator<Item = Self> {
        let served = definition.versions.iter().enumerate().filter(|(_, version)| version.served);
        served.map(|(at, _)| CustomKind { definition: definition.clone(), at })
    }

    /// Returns the kind of the first version. A definition has at least one.
    pub fn first(definition: &Arc<Definition>) -> Self {
        CustomKind { definition: definition.clone(), at: 0 }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.definition.versions[self.at]
    }

    /// Returns the names of the kind.
    pub fn own_names(&self) -> &Names {
        &self.version().names
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.version().compiled().0
    }

    /// Returns the object with apiVersion and kind, as its schema validates it. Of the metadata, only `name` and
    /// `generateName` are included.
    fn whole(&self, object: &Object) -> Value {
        let mut map: Map<String, Value> = object.0.clone();
        let metadata: Map<String, Value> = ["name", "generateName"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), object.at(&["metadata", name])?.clone())))
            .collect();
        map.insert("metadata".to_owned(), metadata.into());
        map.insert("apiVersion".to_owned(), self.own_names().api_version().into());
        map.insert("kind".to_owned(), self.own_names().kind.into());
        Value::Object(map)
    }

    fn judge(&self, part: JudgedPart, object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
        let value = self.whole(object);
        let old = old.map(|old| self.whole(old));
        let root = Path::default();
        if !default::fits(self.schema(), &value) {
            return errors.invalid_unshown(&root, "the object and its defaults are too large");
        }
        if part == JudgedPart::All {
            validate::validate(self.schema(), &root, &value, old.as_ref(), errors);
        } else if let (Some(schema), Some(status)) =
            (self.schema().properties.get("status"), value.get("status"))
        {
            // The messages contain the place within the status.
            let mut found = FieldErrors::new();
            let old = old.as_ref().and_then(|old| old.get("status"));
            validate::validate(schema, &root, status, old, &mut found);
            errors.extend_below(&Path::new("status"), found);
        }
        if let Some(scale) = &self.version().scale {
            if part == JudgedPart::All {
                scale.check_spec(object, errors);
            }
            scale.check_status(object, errors);
        }
        if part == JudgedPart::All {
            validate::embedded::validate(self.schema(), &root, &value, errors);
        }
        validate::list_types::validate(self.schema(), &value, old.as_ref(), errors);
        if !self.schema().rules_inside {
            return;
        }
        if errors.is_full() || errors.causes().iter().any(|cause| BLOCKING.contains(&cause.reason)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            return errors.invalid(&root, Value::Null, why);
        }
        rules::judge(self.schema(), &value, old.as_ref(), errors);
    }
}

/// The types of errors after which the rules are not checked (upstream: apiextensions-apiserver
/// `pkg/registry/customresource/strategy.go`, `hasBlockingErr`).
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// The part of an object that a write validates against the schema.
#[derive(Clone, Copy, PartialEq)]
enum JudgedPart {
    All,
    Status,
}

impl Kind for CustomKind {
    fn names(&self) -> &Names {
        self.own_names()
    }

    fn scope(&self) -> Scope {
        self.definition.scope
    }

    fn storage_prefix(&self) -> &'static str {
        self.definition.prefix
    }

    fn policy(&self) -> Policy {
        Policy {
            names: NameRule::Subdomain,
            unconditional_update: false,
            create_on_update: false,
            delete_answer: DeleteAnswer::Status,
            status: match self.version().has_status {
                true => StatusSubresource::StatusOnly,
                false => StatusSubresource::None,
            },
            generation: Generation::AllButMeta,
        }
    }

    fn verbs(&self) -> &'static [&'static str] {
        VERBS
    }

    fn scale(&self) -> Option<ScalePaths<'_>> {
        let members = self.version().scale.as_ref()?;
        fn texts(path: &[String]) -> Vec<&str> {
            path.iter().map(String::as_str).collect()
        }
        Some(ScalePaths {
            replicas: texts(&members.spec_replicas),
            status_replicas: texts(&members.status_replicas),
            selector: members
                .selector
                .as_deref()
                .map_or(ScaleSelector::None, |path| ScaleSelector::Text(texts(path))),
        })
    }

    fn subresources(&self) -> &'static [Subresource] {
        if self.version().scale.is_some() { SCALE } else { &[] }
    }

    fn defaults(&self, object: &mut Object) {
        let metadata = object.0.remove("metadata");
        let mut value = Value::Object(std::mem::take(&mut object.0));
        // If the defaults are too large, the validation rejects the object, and a stored one is shown without some.
        let _ = default::fill(self.schema(), &mut value, &Steps::new(default::MAX_WEIGHT));
        object.0 = Object::from_value(value).0;
        // Defaults that a schema declares for metadata are ignored.
        object.0.remove("metadata");
        if let Some(metadata) = metadata {
            object.0.insert("metadata".to_owned(), metadata);
        }
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        if self.version().has_status {
            object.0.remove("status");
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        self.judge(JudgedPart::All, object, None, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        self.judge(JudgedPart::All, object, Some(old), errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        self.judge(JudgedPart::Status, object, Some(old), errors);
    }

    fn deprecated(&self) -> Option<&str> {
        self.version().deprecation.as_deref()
    }

    fn selectable(&self) -> &[&'static str] {
        &self.version().selectable
    }

    fn field(&self, object: &Object, name: &str) -> String {
        let version = self.version();
        let at = version.selectable.iter().position(|known| *known == name);
        let Some(path) = at.and_then(|at| version.selectable_paths.get(at)) else { return String::new() };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match object.at(&path) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
        }
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn own_columns(&self) -> Option<&Value> {
        Some(&self.version().columns.shown)
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        // The paths of the columns read the object as a single value.
        let value = Value::Object(object.0.clone());
        self.version().columns.cells(object.name(), &value, now)
    }

    fn reads_through(&self) -> bool {
        true
    }

    fn definition(&self) -> Option<DefinitionId<'_>> {
        Some(self.definition.id())
    }

    fn is_terminating(&self) -> bool {
        self.definition.is_terminating
    }

    fn list_kind(&self) -> String {
        self.definition.list_kind.clone()
    }

    fn storage_version(&self) -> Option<&'static str> {
        self.definition.storage_version
    }

    fn openapi_schema(&self) -> Option<Value> {
        Some(self.version().raw())
    }

    fn prune(&self, object: &mut Value, dropped: &mut Vec<String>) -> Result<(), String> {
        prune::prune(self.schema(), object, true, dropped);
        let coerced = coerce::coerce(self.schema(), &Path::default(), object, dropped);
        coerced.map_err(|mistyped| mistyped.to_string())
    }

    fn struct_type(&self) -> Option<TypeRef> {
        Some(TypeRef::Custom(self.version().compiled().1.clone()))
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        let versions = self.definition.versions.iter();
        let at = versions.clone().position(|version| version.names.api_version() == api_version)?;
        Some(KindRef::Custom(Arc::new(CustomKind { definition: self.definition.clone(), at })))
    }

    fn to_shown(&self, object: Object) -> Object {
        let mut value = object.into_value();
        prune::prune_stored(self.schema(), &mut value);
        coerce::coerce_stored(self.schema(), &mut value);
        let mut object = Object::from_value(value);
        self.defaults(&mut object);
        object
    }
}
