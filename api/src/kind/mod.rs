//! What a kind is: its names, its scope, its policies, and the pure rules that make and judge its
//! objects. The verbs are generic over this trait; a kind is one file that implements it and one
//! line in [`crate::registry::BUILTIN_KINDS`].

use jiff::Timestamp;
use serde_json::Value;

use crate::field_errors::FieldErrors;
use crate::object::Object;

mod handle;

pub use handle::{KindRef, TypeRef};

/// The names of a kind, as discovery tells them.
#[derive(Debug)]
pub struct Names {
    /// API group, `""` for core.
    pub group: &'static str,
    /// Version, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `PersistentVolume`. The list kind is this with `List` behind it.
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
    /// `v1`, or `storage.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One name space for all.
    Cluster,
    /// A name space per namespace.
    Namespaced,
}

/// How names of objects are validated (reference: name validation).
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

/// What a successful DELETE answers when the object is gone at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// The deleted object.
    Object,
    /// A `Status` with the object's name and uid.
    Status,
}

/// Whether a kind has a `/status` subresource and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSubresource {
    /// There is none; `status`, if any, is an ordinary member.
    None,
    /// Takes the status and the metadata (labels, annotations, finalizers).
    WithMetadata,
    /// Takes the status alone (VolumeAttachment).
    StatusOnly,
}

/// When `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Never; a client's value simply persists.
    Unmanaged,
    /// 1 at creation, one more with each change of the spec.
    Spec,
    /// 1 at creation, one more with each change of the spec or of the annotations (Deployment).
    SpecAndAnnotations,
    /// Absent at creation, one more with each change of the spec (CSIDriver).
    SpecFromZero,
    /// 1 at creation, one more with each change of anything but the metadata, and the status where
    /// that is a subresource (custom kinds).
    AllButMeta,
}

/// What the verbs need to know about a kind (reference: per-kind write policies, delete answers).
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// How names are validated.
    pub names: NameRule,
    /// Whether PUT without a resourceVersion is taken.
    pub unconditional_update: bool,
    /// Whether PUT of a missing object creates it.
    pub create_on_update: bool,
    /// What DELETE answers.
    pub delete_answer: DeleteAnswer,
    /// The `/status` subresource.
    pub status: StatusSubresource,
    /// When the generation grows.
    pub generation: Generation,
}

impl Policy {
    /// The commonest policy; kinds name what differs.
    pub const DEFAULT: Policy = Policy {
        names: NameRule::Subdomain,
        unconditional_update: true,
        create_on_update: false,
        delete_answer: DeleteAnswer::Status,
        status: StatusSubresource::None,
        generation: Generation::Unmanaged,
    };
}

/// A kind that is never stored: its objects are questions, and a create answers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Whose token this is.
    Token,
    /// Who asks.
    SelfSubject,
    /// Whether somebody may do something.
    SubjectAccess,
    /// The same within a namespace.
    LocalSubjectAccess,
    /// Whether who asks may do something.
    SelfSubjectAccess,
    /// What who asks may do in a namespace.
    SelfSubjectRules,
}

/// Which CustomResourceDefinition defines a kind, and which of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionId<'a> {
    /// Name of the definition.
    pub name: &'a str,
    /// UID of the definition.
    pub uid: &'a str,
    /// Digest of its versions: two definitions with the same digest serve objects in the same form.
    pub versions: &'a [u8; 32],
}

/// How an unknown field in a field selector is refused; upstream has two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// `field label not supported: foo`
    NotSupported,
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
    /// What the column shows.
    pub description: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
}

/// The verbs of an ordinary resource, in discovery's order.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Where an object keeps what `/scale` shows of it. A path is a list of member names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths<'a> {
    /// The number of replicas that is wanted; the one thing that a write of `/scale` changes.
    pub replicas: Vec<&'a str>,
    /// The number of replicas that there are.
    pub status_replicas: Vec<&'a str>,
    /// What the replicas are selected by.
    pub selector: ScaleSelector<'a>,
}

/// Where an object keeps the selector of its replicas, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector<'a> {
    /// There is none.
    None,
    /// Text that is a selector already (custom resources).
    Text(Vec<&'a str>),
    /// A map of labels (ReplicationController).
    Labels(Vec<&'a str>),
    /// A `LabelSelector`.
    LabelSelector(Vec<&'a str>),
}

/// A subresource besides `status` that discovery names.
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
    /// Name of that kind's type in the schemas; `""` for a stream, which OpenAPI leaves out.
    pub schema: &'static str,
    /// Verbs, in discovery's order.
    pub verbs: &'static [&'static str],
}

/// A kind of object. Every method is pure: no I/O, and time comes in as an argument.
///
/// The verbs call, for a create: `defaults`, (admission), `prepare_create`, `validate`,
/// `validate_create`, `warnings`; for an update: `defaults`, (admission), `prepare_update`,
/// `validate`, `validate_update`, `warnings`; for `/status`: `defaults`, `prepare_status`,
/// `validate_status`.
/// They do the metadata themselves (names, uid, generation, finalizers, resourceVersion) and copy
/// `spec` or `status` from the stored object as the [`Policy`] says before the `prepare_` methods.
pub trait Kind: Send + Sync {
    /// The names.
    fn names(&self) -> &Names;
    /// Where its objects live.
    fn scope(&self) -> Scope;
    /// Where its objects lie in the store, as kube-apiserver lays them out: `/registry/pods/`.
    fn storage_prefix(&self) -> &'static str;
    /// What the verbs need to know.
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

    /// Fills in what the client left out (reference: defaulting). Runs on every write.
    fn defaults(&self, _object: &mut Object) {}
    /// Makes a new object ready to be stored: drops or sets the status, system labels and the like.
    fn prepare_create(&self, _object: &mut Object, _now: Timestamp) {}
    /// The same for an update of the main resource; the status is already the stored one.
    fn prepare_update(&self, _object: &mut Object, _old: &Object, _now: Timestamp) {}
    /// The same for an update of `/status`; the spec is already the stored one.
    fn prepare_status(&self, _object: &mut Object, _old: &Object, _now: Timestamp) {}

    /// The rules for a whole object, new or changed. Metadata is validated by the verbs, before.
    fn validate(&self, _object: &Object, _errors: &mut FieldErrors) {}
    /// The rules for a new object, besides those of `validate`.
    fn validate_create(&self, _object: &Object, _errors: &mut FieldErrors) {}
    /// The rules for a change, besides those of `validate`.
    fn validate_update(&self, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// The rules for a change through `/status`.
    fn validate_status(&self, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Takes over into `object`, which is the stored one, what a subresource other than `/status`
    /// may change of the spec (`ephemeralcontainers` and `resize` of pods).
    fn take_part(&self, _subresource: &str, _given: &Object, _object: &mut Object) {}
    /// The rules for a change through such a subresource, besides those of `validate`.
    fn validate_part(&self, _subresource: &str, _object: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Texts for `Warning` headers.
    fn warnings(&self, _object: &Object, _old: Option<&Object>) -> Vec<String> {
        Vec::new()
    }

    /// Seconds that an object is given to end after a delete: `None` when the kind does not end
    /// gracefully, so that only finalizers can hold it. `requested` is what the client asked for.
    fn grace_period(&self, _object: &Object, _requested: Option<i64>) -> Option<i64> {
        None
    }
    /// Marks the object as ending (the phase of a namespace), besides its deletionTimestamp.
    fn begin_delete(&self, _object: &mut Object) {}
    /// Whether something besides `metadata.finalizers` holds a terminating object
    /// (`spec.finalizers` of a namespace).
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Whether objects of this kind can own others, so that a delete may ask what becomes of those.
    fn has_dependents(&self) -> bool {
        true
    }
    /// Whether a delete that does not say what becomes of dependents leaves them without an owner.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// What `/scale` shows and changes. A kind that has it names the subresource as well.
    fn scale(&self) -> Option<ScalePaths<'_>> {
        None
    }

    /// Names of the fields that field selectors may use besides metadata.name and
    /// metadata.namespace.
    fn selectable(&self) -> &[&'static str] {
        &[]
    }
    /// Fields that upstream cannot select by and people miss. A server that is to be exactly as
    /// upstream refuses them (the server's `extra_field_selectors`).
    fn extra_selectable(&self) -> &'static [&'static str] {
        &[]
    }
    /// The value of one of the [`Kind::selectable`] or [`Kind::extra_selectable`] fields; `""` when there is none.
    fn field(&self, object: &Object, name: &str) -> String {
        let path: Vec<&str> = name.split('.').collect();
        object.str_at(&path).to_owned()
    }
    /// How unknown fields in field selectors are refused.
    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotKnown
    }

    /// The columns of its table as the table shows them, where they are not in [`Kind::columns`].
    fn own_columns(&self) -> Option<&Value> {
        None
    }
    /// Columns of its table, the name first; an empty list stands for upstream's default table.
    fn columns(&self) -> &'static [Column] {
        &[]
    }
    /// The cells of an object's row, one per column.
    fn cells(&self, _object: &Object, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }
    /// The `conditions` of an object's row (pods that have ended).
    fn row_conditions(&self, _object: &Object) -> Option<Value> {
        None
    }

    /// Whether the first update of an object writes even when it changes nothing. So it is upstream
    /// where a new object is stored without something that every read fills in (a claim's phase).
    fn first_update_writes(&self) -> bool {
        false
    }

    /// Whether objects of this kind have something for themselves alone ([`Kind::reserved`]).
    fn reserves(&self) -> bool {
        false
    }
    /// What an object has for itself alone, such as an address: keys in the store that are taken and given
    /// back in the commits that write the object.
    fn reserved(&self, _object: &Object) -> Vec<String> {
        Vec::new()
    }
    /// Why nobody should use this kind any more, for a `Warning` with every answer.
    fn deprecated(&self) -> Option<&'static str> {
        None
    }

    /// What a create of this kind answers, when its objects are questions and never stored.
    fn review(&self) -> Option<Review> {
        None
    }
    /// Whether there are objects of this kind in the store.
    fn is_stored(&self) -> bool {
        self.review().is_none()
    }

    /// Whether this kind is another view of the objects of a kind that is stored in its own form.
    fn is_view(&self) -> bool {
        false
    }
    /// Whether what is read is not the stored bytes: views, and custom kinds, whose schema may say
    /// something new about objects that are stored already.
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
    /// The OpenAPI schema of a custom kind, as its definition has it.
    fn openapi_schema(&self) -> Option<Value> {
        None
    }
    /// Drops the fields that the schema of a custom kind does not declare, and appends their paths to `dropped`.
    fn prune(&self, _object: &mut Value, _dropped: &mut Vec<String>) {}
    /// The type of its objects.
    fn struct_type(&self) -> Option<TypeRef> {
        let types = orlop_openapi::types();
        types.named(self.names().schema).map(|id| TypeRef::Builtin(types.get(id)))
    }
    /// Another version of a custom kind, itself included. [`crate::registry::sibling`] knows the built-in kinds, too.
    fn custom_sibling(&self, _api_version: &str) -> Option<KindRef> {
        None
    }
    /// A finalizer that a delete adds, so that the kind's own cleaning up comes first.
    fn deletion_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// From this kind's form to the stored one. Only for views.
    fn to_stored(&self, object: Object) -> Object {
        object
    }
    /// From the stored form to this kind's. Only for views.
    fn to_shown(&self, object: Object) -> Object {
        object
    }
}
