//! The form of an answer, field by field as docs/insight.md tells it. Nothing is decided here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::subject::Subject;

/// The group and version of answers.
pub const API_VERSION: &str = "orlop.dev/v1";

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// `Why`.
    pub kind: String,
    /// [`API_VERSION`].
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// What was asked about.
    pub object: About,
    /// Its phase, or `Terminating`.
    pub state: String,
    /// What it waits for and what would end it, in one sentence or two.
    pub summary: String,
    /// Whether somebody has to do something.
    pub severity: Severity,
    /// Why it is not further, the most important first.
    pub causes: Vec<Cause>,
    /// The volumes that a claim could have; only of a claim that searches one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Candidates>,
    /// What keeps an object that shall go.
    #[serde(default)]
    pub blocked_by: Vec<Blocker>,
}

impl Why {
    /// An answer that says nothing yet.
    pub fn about(subject: &Subject) -> Self {
        let (reference, meta) = (subject.reference(), subject.meta());
        Self {
            kind: "Why".to_owned(),
            api_version: API_VERSION.to_owned(),
            object: About {
                kind: reference.kind,
                namespace: reference.namespace,
                name: reference.name,
                uid: reference.uid,
                resource_version: meta.resource_version.clone(),
            },
            state: String::new(),
            summary: String::new(),
            severity: Severity::Ok,
            causes: Vec::new(),
            candidates: None,
            blocked_by: Vec::new(),
        }
    }

    /// Adds a cause; the answer is as grave as its gravest cause.
    pub fn push(&mut self, severity: Severity, cause: Cause) {
        self.severity = self.severity.max(severity);
        self.causes.push(cause);
    }

    /// The first cause is the summary where nothing else was written.
    pub(super) fn finish(&mut self) {
        if self.summary.is_empty()
            && let Some(first) = self.causes.first()
        {
            self.summary.clone_from(&first.message);
        }
    }
}

/// The object of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct About {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Whether somebody has to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All is well.
    Ok,
    /// It goes on by itself, or waits for what is usually still to come.
    Waiting,
    /// It does not end by itself.
    Attention,
}

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Reference {
    pub kind: String,
    pub api_version: String,
    /// Plural, with its group where it has one.
    pub resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl Reference {
    /// A reference to an object that is there.
    pub fn to<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let ObjectMeta { namespace, name, uid, .. } = object.meta();
        let named = Self::named::<K>(namespace.as_deref(), name.as_deref().unwrap_or_default());
        Self { uid: uid.clone(), ..named }
    }

    /// A reference to one that may be missing.
    pub fn named<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> Self {
        let (group, plural) = (K::group(&()), K::plural(&()));
        Self {
            kind: K::kind(&()).into_owned(),
            api_version: K::api_version(&()).into_owned(),
            resource: if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") },
            namespace: namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned),
            name: name.to_owned(),
            uid: None,
        }
    }

    /// `Kind namespace/name`, for sentences.
    pub fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// The arguments by which kubectl finds it.
    pub fn arguments(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {} -n {namespace}", self.resource, self.name),
            None => format!("{} {}", self.resource, self.name),
        }
    }
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Stable; see docs/why.md.
    pub code: Code,
    /// For people: names, amounts, the next step.
    pub message: String,
    /// What it is about.
    #[serde(default)]
    pub objects: Vec<Reference>,
    /// When it goes on by itself, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What would end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Cause {
    /// A cause without a fix.
    pub fn new(code: Code, message: impl Into<String>, objects: Vec<Reference>) -> Self {
        Self { code, message: message.into(), objects, until: None, fix: None }
    }

    /// With what would end it, if there is such a thing.
    pub fn fixed_by(mut self, fix: Option<Fix>) -> Self {
        self.fix = fix;
        self
    }

    /// With the time at which it goes on by itself.
    pub fn until(mut self, time: Option<&str>) -> Self {
        self.until = time.map(str::to_owned);
        self
    }
}

/// What would end a cause: one change of one object, an object to make, one to delete, or a safe verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// What it does, and what to think of before.
    pub message: String,
    /// The same to be copied into a shell.
    pub command: String,
    /// The same as a request: a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    /// An object that has to go; before `create`, where both are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<Reference>,
    /// An object to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Value>,
    /// A safe verb (docs/insight.md, Plans). Where there is a patch too, both do the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Verb>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    /// Of which object.
    pub target: Reference,
    /// `merge` (RFC 7386).
    #[serde(rename = "type")]
    pub type_: String,
    /// The patch.
    pub body: Value,
}

/// A safe verb on an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verb {
    /// Its name in the path.
    pub verb: String,
    /// Of which object.
    pub target: Reference,
    /// `PlanOptions`.
    pub options: Value,
}

/// Text in single quotes: a quote inside ends them, is written, and begins them again.
fn quoted(body: &Value) -> String {
    format!("'{}'", body.to_string().replace('\'', r"'\''"))
}

impl Fix {
    /// A merge patch.
    pub fn merge(target: Reference, body: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("kubectl patch {} --type merge -p {}", target.arguments(), quoted(&body)),
            patch: Some(Patch { target, type_: "merge".to_owned(), body }),
            ..Self::default()
        }
    }

    /// An object to make.
    pub fn create(object: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("echo {} | kubectl create -f -", quoted(&object)),
            create: Some(object),
            ..Self::default()
        }
    }

    /// An object that is deleted and made anew with changes that it does not allow while it is there.
    pub fn anew(old: Reference, object: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("echo {} | kubectl replace --force -f -", quoted(&object)),
            delete: Some(old),
            create: Some(object),
            ..Self::default()
        }
    }

    /// An object that has to go.
    pub fn delete(target: Reference, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("kubectl delete {}", target.arguments()),
            delete: Some(target),
            ..Self::default()
        }
    }

    /// A safe verb; `command` is how this program calls it.
    pub fn plan(target: Reference, verb: &str, options: Value, command: String, message: &str) -> Self {
        Self {
            message: message.to_owned(),
            command,
            plan: Some(Verb { verb: verb.to_owned(), target, options }),
            ..Self::default()
        }
    }

    /// The same with a safe verb, whose command is told in place of the patch's.
    pub fn or_plan(self, plan: Self) -> Self {
        Self { command: plan.command, plan: plan.plan, ..self }
    }
}

/// The volumes that a claim could have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    /// All volumes.
    pub total: usize,
    /// Those against which nothing speaks.
    pub fit: usize,
    /// The others by the first rule against them, the most frequent first.
    pub by_rule: Vec<RuleCount>,
    /// The nearest: fewest rules against them, then least too much.
    pub nearest: Vec<Candidate>,
}

/// How many volumes a rule speaks against first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// The rule.
    pub rule: Rule,
    /// How many.
    pub count: usize,
}

/// One volume that a claim could have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub volume: String,
    /// Every rule with what it says.
    pub verdicts: Vec<RuleVerdict>,
    /// The first that speaks against it; absent when it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Rule>,
    /// What would make it fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// What one rule says of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule.
    pub rule: Rule,
    /// Whether it lets the volume pass.
    pub ok: bool,
    /// In words.
    pub message: String,
}

/// The rules by which a volume is judged, in the order in which the binder asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// It points to no other claim.
    ClaimRef,
    /// It offers the access modes.
    AccessModes,
    /// It is large enough.
    Size,
    /// Filesystem or Block, as the claim.
    VolumeMode,
    /// The same volume attributes class.
    AttributesClass,
    /// It is not being deleted.
    Terminating,
    /// It is Available.
    Phase,
    /// Its labels match the claim's selector.
    Selector,
    /// The same storage class.
    Class,
    /// A node where the claim's pod may run can use it; only asked where the class waits for a pod.
    NodeAffinity,
}

/// What keeps an object that shall go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The finalizer.
    pub finalizer: String,
    /// Who removes it.
    pub owner: String,
    /// What that waits for.
    pub message: String,
    /// By name.
    pub objects: Vec<Reference>,
    /// What would end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

macro_rules! codes {
    ($($name:ident: $meaning:literal,)*) => {
        /// The codes of causes. Stable: people search for them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All with what they mean; docs/why.md is this table.
            pub const ALL: &'static [(Code, &'static str, &'static str)] =
                &[$((Code::$name, stringify!($name), $meaning),)*];
        }
    };
}

codes! {
    Binding: "A volume fits and will be bound soon.",
    NoVolumeFits: "No volume fits, and no provisioner creates one.",
    ReservedUnfit: "A volume is reserved for the claim and does not fit it.",
    NoDefaultClass: "The claim names no class and there is no default class.",
    DefaultClassComing: "The claim names no class and will get the default class soon.",
    WaitsForPod: "The class binds when a pod uses the claim, and none does.",
    PodNotScheduled: "The class binds when a pod is scheduled, and the pod is not scheduled yet.",
    ClassMissing: "The class does not exist.",
    BindingModeMissing: "The class has no volumeBindingMode.",
    ProvisioningOff: "Dynamic provisioning is disabled on this server.",
    NoProvisioner: "The class has no provisioner, and no existing volume fits.",
    PluginMissing: "The class names an in-tree plugin that does not exist.",
    ProvisionerMissing: "The class names a provisioner that is not registered.",
    WaitsForProvisioner: "A provisioner is creating a volume.",
    ProvisioningFailed: "The last attempt to provision a volume failed.",
    SourceMissing: "The data source of the volume does not exist.",
    SourceNotReady: "The data source of the volume is not ready yet.",
    SourceUnfit: "The volume cannot be created from the claim's data source.",
    PopulatorAwaited: "A volume populator fills the volume.",
    AttributesClassMissing: "The volume attributes class does not exist.",
    NoRoomLeft: "The driver reports no sufficient capacity where the pod may run.",
    NodeMissing: "The node selected for the claim does not exist.",
    VolumeMissing: "The claim names a volume that does not exist.",
    VolumeUnfit: "The claim names a volume that does not fit.",
    VolumeTaken: "The claim names a volume that is bound to another claim.",
    VolumeStolen: "The volume was assigned to another claim during binding.",
    LostName: "The volumeName of a bound claim was removed.",
    LostVolume: "The volume of a bound claim does not exist.",
    LostToOther: "The volume of a bound claim points to another claim.",
    ResizePending: "The claim requests more than its capacity.",
    ModifyPending: "The claim requests another attributes class.",
    NotLookedAt: "No controller has processed the volume yet.",
    FreeVolume: "The volume is available.",
    ReservedForAbsent: "The volume is reserved for a claim that does not exist.",
    ReservedForPending: "The volume is reserved for a claim that is not bound to it yet.",
    Retained: "The claim was deleted, and policy Retain keeps the volume with its data.",
    DeletionPending: "The claim was deleted, and policy Delete is deleting the storage.",
    RecyclePending: "The claim was deleted, and policy Recycle is scrubbing the volume.",
    ReclaimFailed: "Deleting or scrubbing failed; it is retried.",
    UnknownPolicy: "The reclaim policy is unknown.",
    ClaimMissing: "A claim that the pod uses does not exist.",
    ClaimNotBound: "A claim that the pod uses is not bound.",
    ClaimTerminating: "A claim that the pod uses is being deleted.",
    Unschedulable: "No node fits the pod.",
    VolumePinsPod: "A volume of the pod can be used on some nodes only, and the pod cannot run there.",
    NotScheduled: "The scheduler has not processed the pod yet.",
    HeldByNode: "A single-node volume is still attached to another node.",
    AttachPending: "A volume is not attached to the node yet.",
    AttachFailed: "A volume could not be attached.",
    DriverNotOnNode: "The driver of a volume is not registered on the node.",
    MountFailed: "A volume could not be mounted on the node.",
    OwnershipChanging: "The files of a volume are being assigned to the pod's group.",
    Starting: "The volumes are mounted; the pod starts.",
    NodeUnready: "The node reports that it is not ready.",
    NodeLost: "The node sends no heartbeats.",
    NodeUnsaid: "The node has not reported its status yet.",
    NodeOutOfService: "The node has the out-of-service taint.",
    NodeCordoned: "The node is cordoned.",
    DriverFull: "A driver on the node has reached its volume limit.",
    DetachPending: "A volume is being detached.",
    DetachFailed: "A volume could not be detached.",
    ForcedDetach: "The volume will be detached by force.",
    NodeGone: "The node of an attachment does not exist.",
    VolumeGone: "The volume of an attachment does not exist.",
    DriverGone: "The driver of an attachment is not registered.",
    QuotaExceeded: "A quota of the namespace rejects a required object.",
    CreationFailed: "A required object was rejected.",
    Finalizers: "The object is being deleted and has finalizers.",
    GracePeriod: "The pod is in its termination grace period.",
}
