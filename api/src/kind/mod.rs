//! The [`Kind`] trait: a kind's names, scope and policies, and the pure rules that default and validate its
//! objects. The verbs are generic over this trait; a kind is one file that implements it and one
//! line in [`crate::registry::BUILTIN_KINDS`].

use jiff::Timestamp;
use serde_json::Value;

use crate::field_errors::FieldErrors;
use crate::object::Object;

mod handle;
mod requester;
mod write_context;

pub use handle::{KindRef, TypeRef};
pub use requester::Requester;
pub use write_context::{Permission, WriteContext};

/// The names of a kind, as in discovery.
#[derive(Debug)]
pub struct Names {
    /// API group, `""` for core.
    pub group: &'static str,
    /// Version, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `PersistentVolume`. The list kind has the suffix `List`.
    pub kind: &'static str,
    /// Resource in paths, such as `persistentvolumes`.
    pub plural: &'static str,
    /// Singular, such as `persistentvolume`.
    pub singular: &'static str,
    /// Short names, such as `pv`.
    pub short: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Name of the type in the schemas, such as `io.k8s.api.core.v1.PersistentVolume`.
    pub schema: &'static str,
}

impl Names {
    /// Whether these are the names of Secrets, whose values appear in no error and no log.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// `v1`, or `storage.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Names are unique in the cluster.
    Cluster,
    /// Names are unique in a namespace.
    Namespaced,
}

/// How object names are validated (reference: name validation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, at most 253 characters.
    Subdomain,
    /// RFC 1123 label, at most 63 characters.
    Label,
    /// RFC 1035 label, at most 63 characters: begins with a letter.
    Label1035,
    /// Anything that is one path segment.
    PathSegment,
}

/// The body of a successful DELETE that removed the object immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// The deleted object.
    Object,
    /// A `Status` with the object's name and uid.
    Status,
}

/// Whether a kind has a `/status` subresource, and what a write to it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSubresource {
    /// No subresource; `status`, if any, is an ordinary field.
    None,
    /// Changes the status and the metadata (labels, annotations, finalizers).
    WithMetadata,
    /// Changes only the status (VolumeAttachment).
    StatusOnly,
}

/// When `metadata.generation` is incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Never; a client's value is stored unchanged.
    Unmanaged,
    /// 1 at creation, incremented by each change of the spec.
    Spec,
    /// 1 at creation, incremented by each change of the spec or the annotations (Deployment).
    SpecAndAnnotations,
    /// Absent at creation, incremented by each change of the spec (CSIDriver).
    SpecFromZero,
    /// 1 at creation, incremented by each change outside the metadata and, where it is a subresource, the
    /// status (custom kinds).
    AllButMeta,
}

/// The policies that the verbs apply to a kind (reference: per-kind write policies, delete answers).
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// How names are validated.
    pub names: NameRule,
    /// Whether PUT without a resourceVersion is accepted.
    pub unconditional_update: bool,
    /// Whether PUT of a missing object creates it.
    pub create_on_update: bool,
    /// The response of DELETE.
    pub delete_answer: DeleteAnswer,
    /// The `/status` subresource.
    pub status: StatusSubresource,
    /// When the generation is incremented.
    pub generation: Generation,
}

impl Policy {
    /// The most common policy; a kind names only the differences.
    pub const DEFAULT: Policy = Policy {
        names: NameRule::Subdomain,
        unconditional_update: true,
        create_on_update: false,
        delete_answer: DeleteAnswer::Status,
        status: StatusSubresource::None,
        generation: Generation::Unmanaged,
    };
}

/// A kind that is never stored: a create evaluates the object and returns the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// TokenReview: authenticates a token.
    Token,
    /// SelfSubjectReview: returns the user of the request.
    SelfSubject,
    /// SubjectAccessReview: checks whether a user may perform an action.
    SubjectAccess,
    /// LocalSubjectAccessReview: the same within a namespace.
    LocalSubjectAccess,
    /// SelfSubjectAccessReview: checks whether the user of the request may perform an action.
    SelfSubjectAccess,
    /// SelfSubjectRulesReview: lists the actions that the user of the request may perform in a namespace.
    SelfSubjectRules,
}

/// The CustomResourceDefinition that defines a kind, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionId<'a> {
    /// Name of the definition.
    pub name: &'a str,
    /// UID of the definition.
    pub uid: &'a str,
    /// Digest of its versions: two definitions with the same digest serve objects in the same format.
    pub versions: &'a [u8; 32],
}

/// How an unknown field in a field selector is rejected; upstream has several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// `field label not supported: foo`
    NotSupported,
    /// `field label "foo" not supported for Job`
    NotSupportedByKind,
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: foo`
    NotSupportedByVersion,
    /// `"foo" is not a known field selector: only "metadata.name", "metadata.namespace"`
    NotKnown,
}

/// A column of a kind's table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading, such as `Reclaim Policy`.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    /// Description of the column.
    pub description: &'static str,
    /// 0 for columns that are always shown, 1 for those that `-o wide` adds.
    pub priority: i32,
}

/// The verbs of an ordinary resource, in discovery's order.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The fields of an object that `/scale` shows. A path is a list of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths<'a> {
    /// The desired number of replicas, the only field that a write to `/scale` changes.
    pub replicas: Vec<&'a str>,
    /// The current number of replicas.
    pub status_replicas: Vec<&'a str>,
    /// The selector of the replicas.
    pub selector: ScaleSelector<'a>,
}

/// The field with the selector of an object's replicas, and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector<'a> {
    /// No selector.
    None,
    /// A selector in string form (custom resources).
    Text(Vec<&'a str>),
    /// A map of labels (ReplicationController).
    Labels(Vec<&'a str>),
    /// A `LabelSelector`.
    LabelSelector(Vec<&'a str>),
}

/// A subresource besides `status` that discovery lists.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// Name, such as `binding`.
    pub name: &'static str,
    /// Group of its kind.
    pub group: &'static str,
    /// Version of its kind.
    pub version: &'static str,
    /// Its kind, such as `Binding`.
    pub kind: &'static str,
    /// Name of that kind's type in the schemas; `""` for a stream.
    pub schema: &'static str,
    /// Verbs, in discovery's order.
    pub verbs: &'static [&'static str],
}

/// A kind of object. Every method is pure: no I/O, and the current time is an argument.
///
/// The verbs call, for a create: `defaults`, (admission), `prepare_create`, `validate`,
/// `validate_create`, `warnings`; for an update: `defaults`, (admission), `prepare_update`,
/// `validate`, `validate_update`, `warnings`; for `/status`: `defaults`, `prepare_status`,
/// `validate_status`.
/// The verbs themselves process the metadata (names, uid, generation, finalizers, resourceVersion) and copy
/// `spec` or `status` from the stored object according to the [`Policy`] before they call the `prepare_` methods.
pub trait Kind: Send + Sync {
    /// The names.
    fn names(&self) -> &Names;
    /// The scope of its objects.
    fn scope(&self) -> Scope;
    /// The prefix of its objects' keys in the store, the same as in kube-apiserver: `/registry/pods/`.
    fn storage_prefix(&self) -> &'static str;
    /// The policies that the verbs apply.
    fn policy(&self) -> Policy {
        Policy::DEFAULT
    }
    /// The verbs, in discovery's order.
    fn verbs(&self) -> &'static [&'static str] {
        ALL_VERBS
    }
    /// Subresources besides `status`.
    fn subresources(&self) -> &'static [Subresource] {
        &[]
    }

    /// Sets the fields that the client omitted (reference: defaulting). Runs on every write.
    fn defaults(&self, _object: &mut Object) {}
    /// Prepares a new object for the store: drops or sets the status, system labels and similar fields.
    fn prepare_create(&self, _object: &mut Object, _now: Timestamp) {}
    /// Records the user of the request in a new object (CertificateSigningRequest).
    fn set_requester(&self, _object: &mut Object, _requester: &Requester<'_>) {}
    /// Prepares an update of the main resource; the status is already the stored one.
    fn prepare_update(&self, _object: &mut Object, _old: &Object, _now: Timestamp) {}
    /// Prepares an update of `/status`; the spec is already the stored one.
    fn prepare_status(&self, _object: &mut Object, _old: &Object, _now: Timestamp) {}

    /// Validates a whole object, new or changed. The verbs validate the metadata first.
    fn validate(&self, _object: &Object, _errors: &mut FieldErrors) {}
    /// Validates a new object, in addition to `validate`.
    fn validate_create(&self, _object: &Object, _errors: &mut FieldErrors) {}
    /// Validates a change, in addition to `validate`.
    fn validate_update(&self, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Validates a change through `/status`.
    fn validate_status(&self, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Copies to `object`, the stored one, the part of the spec that a subresource other than `/status`
    /// may change (`ephemeralcontainers` and `resize` of pods).
    fn take_part(&self, _subresource: &str, _given: &Object, _object: &mut Object) {}
    /// Prepares an update through such a subresource.
    fn prepare_part(&self, _subresource: &str, _object: &mut Object, _old: &Object, _now: Timestamp) {}
    /// Validates a change through such a subresource, in addition to `validate`.
    fn validate_part(&self, _subresource: &str, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Validates a new object, or with `old` a change through `/status`, against the namespace and the user of the
    /// request. Runs before the other rules.
    fn validate_in_context(
        &self,
        _object: &Object,
        _old: Option<&Object>,
        _context: &dyn WriteContext,
        _errors: &mut FieldErrors,
    ) {
    }
    /// The texts of the `Warning` headers.
    fn warnings(&self, _object: &Object, _old: Option<&Object>) -> Vec<String> {
        Vec::new()
    }

    /// The grace period of a delete in seconds. `None` if the kind has no graceful deletion, so that only
    /// finalizers can block the removal. `requested` is the client's value.
    fn grace_period(&self, _object: &Object, _requested: Option<i64>) -> Option<i64> {
        None
    }
    /// Marks the object as terminating (the phase of a namespace), in addition to its deletionTimestamp.
    fn begin_delete(&self, _object: &mut Object) {}
    /// Whether something other than `metadata.finalizers` blocks the removal of a terminating object
    /// (`spec.finalizers` of a namespace).
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Whether objects of this kind can own others, so that a delete may have a propagation policy.
    fn has_dependents(&self) -> bool {
        true
    }
    /// Whether a delete without a propagation policy orphans the dependents.
    fn orphans_by_default(&self) -> bool {
        false
    }
    /// The text of the `Warning` header of a delete without a propagation policy.
    fn delete_warning(&self) -> Option<&'static str> {
        None
    }

    /// The fields that `/scale` shows and changes. A kind with these paths lists the subresource as well.
    fn scale(&self) -> Option<ScalePaths<'_>> {
        None
    }

    /// Names of the fields that field selectors may use besides metadata.name and
    /// metadata.namespace.
    fn selectable(&self) -> &[&'static str] {
        &[]
    }
    /// Fields that upstream does not support in field selectors, although users ask for them. A server that
    /// must match upstream rejects them (the server's `extra_field_selectors`).
    fn extra_selectable(&self) -> &'static [&'static str] {
        &[]
    }
    /// The value of one of the [`Kind::selectable`] or [`Kind::extra_selectable`] fields; `""` if the field is
    /// absent.
    fn field(&self, object: &Object, name: &str) -> String {
        let path: Vec<&str> = name.split('.').collect();
        object.str_at(&path).to_owned()
    }
    /// How unknown fields in field selectors are rejected.
    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotKnown
    }

    /// The columns of its table in JSON form, if they are not in [`Kind::columns`].
    fn own_columns(&self) -> Option<&Value> {
        None
    }
    /// The columns of its table, the name first; an empty list stands for upstream's default table.
    fn columns(&self) -> &'static [Column] {
        &[]
    }
    /// The cells of an object's row, one per column.
    fn cells(&self, _object: &Object, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }
    /// The cells of the row of an object in its stored form, if they differ from those of its shown form: upstream prints a row before
    /// it converts the object to the version of the request.
    fn cells_of_stored(&self, _stored: &Object, _now: Timestamp) -> Option<Vec<Value>> {
        None
    }
    /// The `conditions` of an object's row (finished pods).
    fn row_conditions(&self, _object: &Object) -> Option<Value> {
        None
    }

    /// Whether the first update of an object is written even if it changes nothing. Upstream does so
    /// where it stores a new object without a field that every read defaults (a claim's phase).
    fn first_update_writes(&self) -> bool {
        false
    }

    /// Whether objects of this kind allocate keys ([`Kind::reserved`]).
    fn reserves(&self) -> bool {
        false
    }
    /// The keys in the store that an object allocates exclusively, such as an address. The commits that write the
    /// object also allocate and release them.
    fn reserved(&self, _object: &Object) -> Vec<String> {
        Vec::new()
    }
    /// The deprecation message of this kind, for a `Warning` in every response.
    fn deprecated(&self) -> Option<&str> {
        None
    }

    /// The review that a create of this kind performs; `None` for kinds that are stored.
    fn review(&self) -> Option<Review> {
        None
    }
    /// Whether the store contains objects of this kind.
    fn is_stored(&self) -> bool {
        self.review().is_none()
    }

    /// Whether this kind is a view of another kind's stored objects.
    fn is_view(&self) -> bool {
        false
    }
    /// The annotations that upstream adds when it converts an object to this version. Metadata without its object lacks them.
    fn converted_annotations(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether reads transform the stored bytes: views, and custom kinds, whose schema may have changed
    /// since an object was stored.
    fn reads_through(&self) -> bool {
        self.is_view()
    }
    /// The CustomResourceDefinition of this kind; `None` for built-in kinds.
    fn definition(&self) -> Option<DefinitionId<'_>> {
        None
    }
    /// Whether a CustomResourceDefinition defines this kind.
    fn is_custom(&self) -> bool {
        self.definition().is_some()
    }
    /// Whether the CustomResourceDefinition of this kind is being deleted.
    fn is_terminating(&self) -> bool {
        false
    }
    /// The kind of a list of its objects, such as `PodList`.
    fn list_kind(&self) -> String {
        format!("{}List", self.names().kind)
    }
    /// The version in which the objects of a custom kind are stored, for discovery.
    fn storage_version(&self) -> Option<&'static str> {
        None
    }
    /// The OpenAPI schema of a custom kind, copied from its definition.
    fn openapi_schema(&self) -> Option<Value> {
        None
    }
    /// Drops the fields that the schema of a custom kind does not declare, and appends their paths to `dropped`.
    ///
    /// # Errors
    /// The metadata, the kind or the version of an embedded object has a wrong type. The text is upstream's.
    fn prune(&self, _object: &mut Value, _dropped: &mut Vec<String>) -> Result<(), String> {
        Ok(())
    }
    /// The type of its objects.
    fn struct_type(&self) -> Option<TypeRef> {
        let types = orlop_openapi::types();
        types.named(self.names().schema).map(|id| TypeRef::Builtin(types.get(id)))
    }
    /// Another version of a custom kind, itself included. [`crate::registry::sibling`] knows the built-in kinds, too.
    fn custom_sibling(&self, _api_version: &str) -> Option<KindRef> {
        None
    }
    /// A finalizer that a delete adds, so that the kind's own cleanup runs first.
    fn deletion_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Converts this kind's form to the stored form. Only for views.
    fn to_stored(&self, object: Object) -> Object {
        object
    }
    /// Converts the stored form to this kind's form. Only for views.
    fn to_shown(&self, object: Object) -> Object {
        object
    }
}
