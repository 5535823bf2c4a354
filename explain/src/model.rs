//! The fields of an answer, as documented in docs/insight.md. Contains no decisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The group and version of answers.
pub const API_VERSION: &str = "orlop.dev/v1";

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The constant `Why`.
    pub kind: String,
    /// The constant [`API_VERSION`].
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The explained object.
    pub object: About,
    /// The object's phase, or `Terminating`.
    pub state: String,
    /// The cause of the wait, and its resolution, in one or two sentences.
    pub summary: String,
    /// Whether the object needs attention.
    pub severity: Severity,
    /// The causes, the most important first.
    pub causes: Vec<Cause>,
    /// The candidate volumes; only for a claim that searches for a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Candidates>,
    /// The finalizers that block the deletion of a terminating object.
    #[serde(default)]
    pub blocked_by: Vec<Blocker>,
}

impl Why {
    /// An empty answer about an object.
    pub fn about(reference: Reference, meta: &ObjectMeta) -> Self {
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

    /// Adds a cause; the severity of the answer is the highest of its causes.
    pub fn push(&mut self, severity: Severity, cause: Cause) {
        self.severity = self.severity.max(severity);
        self.causes.push(cause);
    }

    /// The answer for a user that may not read the related objects: the codes of the causes and their meanings.
    pub fn without_related(self) -> Self {
        let mut causes: Vec<Cause> = Vec::new();
        for cause in self.causes {
            if causes.iter().all(|known| known.code != cause.code) {
                causes.push(Cause::new(cause.code, cause.code.meaning(), Vec::new()));
            }
        }
        let meaning = causes.first().map_or("No cause is known.", |cause| cause.message.as_str());
        let summary = format!(
            "{meaning} Details need the right to list pods, persistentvolumeclaims, events and resourcequotas, and \
             persistentvolumes, nodes and the kinds of storage.k8s.io."
        );
        let finalizers = self.blocked_by.into_iter().map(|blocker| Blocker {
            message: String::new(),
            objects: Vec::new(),
            fix: None,
            ..blocker
        });
        let blocked_by = finalizers.collect();
        let Self { kind, api_version, object, state, severity, .. } = self;
        Self { kind, api_version, object, state, summary, severity, causes, candidates: None, blocked_by }
    }

    /// Uses the first cause as the summary if there is no other.
    pub(super) fn finish(&mut self) {
        if self.summary.is_empty()
            && let Some(first) = self.causes.first()
        {
            self.summary.clone_from(&first.message);
        }
    }
}

/// The explained object.
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

/// How urgent a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// There is no problem.
    Ok,
    /// The object continues by itself, or waits for something that usually follows.
    Waiting,
    /// The problem does not resolve by itself.
    Attention,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Reference {
    pub kind: String,
    pub api_version: String,
    /// Plural name, with the group if there is one.
    pub resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl Reference {
    /// A reference to an existing object.
    pub fn to<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let ObjectMeta { namespace, name, uid, .. } = object.meta();
        let named = Self::named::<K>(namespace.as_deref(), name.as_deref().unwrap_or_default());
        Self { uid: uid.clone(), ..named }
    }

    /// A reference to an object that may be missing.
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

    /// The object as `Kind namespace/name`, for sentences.
    pub fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// The arguments that select the object in kubectl.
    pub fn arguments(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {} -n {namespace}", self.resource, self.name),
            None => format!("{} {}", self.resource, self.name),
        }
    }
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The stable code; see docs/why.md.
    pub code: Code,
    /// A message with names, amounts and the next step.
    pub message: String,
    /// The related objects.
    #[serde(default)]
    pub objects: Vec<Reference>,
    /// The time at which the object continues by itself, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Cause {
    /// A cause without a fix.
    pub fn new(code: Code, message: impl Into<String>, objects: Vec<Reference>) -> Self {
        Self { code, message: message.into(), objects, until: None, fix: None }
    }

    /// Adds a fix, if there is one.
    pub fn fixed_by(mut self, fix: Option<Fix>) -> Self {
        self.fix = fix;
        self
    }

    /// Adds the time at which the object continues by itself.
    pub fn until(mut self, time: Option<&str>) -> Self {
        self.until = time.map(str::to_owned);
        self
    }
}

/// A fix of a cause: a change of one object, an object to create, one to delete, or a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// The effect of the fix, and what to consider before.
    pub message: String,
    /// The fix as a shell command.
    pub command: String,
    /// The fix as a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    /// An object to delete; it is deleted before `create`, if both are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<Reference>,
    /// An object to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Value>,
    /// A plan (docs/insight.md, Plans). If there is also a patch, both end the same cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Verb>,
}

/// A patch of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    /// The object to patch.
    pub target: Reference,
    /// The patch type: `merge` (RFC 7386).
    #[serde(rename = "type")]
    pub type_: String,
    /// The body of the patch.
    pub body: Value,
}

/// A plan for an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verb {
    /// The verb in the path.
    pub verb: String,
    /// The object of the plan.
    pub target: Reference,
    /// The `PlanOptions`.
    pub options: Value,
}

/// Quotes text for the shell: a quote inside ends the quoted text, is escaped, and starts it again.
fn quoted(body: &Value) -> String {
    format!("'{}'", body.to_string().replace('\'', r"'\''"))
}

impl Fix {
    /// A fix that applies a merge patch.
    pub fn merge(target: Reference, body: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("kubectl patch {} --type merge -p {}", target.arguments(), quoted(&body)),
            patch: Some(Patch { target, type_: "merge".to_owned(), body }),
            ..Self::default()
        }
    }

    /// A fix that creates an object.
    pub fn create(object: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("echo {} | kubectl create -f -", quoted(&object)),
            create: Some(object),
            ..Self::default()
        }
    }

    /// A fix that deletes an object and recreates it with changes of immutable fields.
    pub fn recreate(old: Reference, object: Value, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("echo {} | kubectl replace --force -f -", quoted(&object)),
            delete: Some(old),
            create: Some(object),
            ..Self::default()
        }
    }

    /// A fix that deletes an object.
    pub fn delete(target: Reference, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            command: format!("kubectl delete {}", target.arguments()),
            delete: Some(target),
            ..Self::default()
        }
    }

    /// A fix by a plan; `command` is the orlop command that carries it out.
    pub fn plan(target: Reference, verb: &str, options: Value, command: String, message: &str) -> Self {
        Self {
            message: message.to_owned(),
            command,
            plan: Some(Verb { verb: verb.to_owned(), target, options }),
            ..Self::default()
        }
    }

    /// Adds a plan, whose command replaces that of the patch.
    pub fn or_plan(self, plan: Self) -> Self {
        Self { command: plan.command, plan: plan.plan, ..self }
    }
}

/// The candidate volumes of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    /// The number of all volumes.
    pub total: usize,
    /// The number of volumes that fit.
    pub fit: usize,
    /// The other volumes, counted by the first rule that they fail, the most frequent first.
    pub by_rule: Vec<RuleCount>,
    /// The nearest volumes: fewest failed rules, then reserved for the claim, then least difference in size, then by name.
    pub nearest: Vec<Candidate>,
}

/// The number of volumes that fail a rule first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// The rule.
    pub rule: Rule,
    /// The number of volumes.
    pub count: usize,
}

/// A candidate volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The volume's name.
    pub volume: String,
    /// The verdict of every rule.
    pub verdicts: Vec<RuleVerdict>,
    /// The first failed rule; absent if the volume fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Rule>,
    /// The change that makes the volume fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// The verdict of one rule on one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule.
    pub rule: Rule,
    /// Whether the volume passes.
    pub ok: bool,
    /// The verdict as text.
    pub message: String,
}

/// The rules by which a volume is judged, in the binder's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// The volume is not reserved for another claim.
    ClaimRef,
    /// The volume offers the access modes.
    AccessModes,
    /// The volume is large enough.
    Size,
    /// The volume mode (Filesystem or Block) equals the claim's.
    VolumeMode,
    /// The volume attributes class equals the claim's.
    AttributesClass,
    /// The volume is not being deleted.
    Terminating,
    /// The volume is Available.
    Phase,
    /// The volume's labels match the claim's selector.
    Selector,
    /// The storage class equals the claim's.
    Class,
    /// The volume can be used on a node where the claim's pod may run. Checked only if the class waits for a pod.
    NodeAffinity,
}

/// A finalizer that blocks the deletion of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The finalizer.
    pub finalizer: String,
    /// The component that removes the finalizer.
    pub owner: String,
    /// The condition that this component waits for.
    pub message: String,
    /// The objects that it waits for.
    pub objects: Vec<Reference>,
    /// The fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

macro_rules! codes {
    ($($name:ident: $meaning:literal,)*) => {
        /// The codes of causes. They are stable because users search for them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// The meaning of the code.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $meaning,)*
                }
            }

            /// All codes with their meanings; docs/why.md contains the same table.
            pub const ALL: &'static [(Code, &'static str, &'static str)] =
                &[$((Code::$name, stringify!($name), $meaning),)*];
        }
    };
}

codes! {
    Binding: "A volume fits and will be bound soon.",
    NoVolumeFits: "No existing volume fits the claim.",
    ReservedUnfit: "A volume is reserved for the claim and does not fit it.",
    NoDefaultClass: "The claim names no class and there is no default class.",
    DefaultClassComing: "The claim names no class and will get the default class soon.",
    WaitsForPod: "The class delays binding until a pod uses the claim, and no pod uses it.",
    PodNotScheduled: "The class delays binding until the claim's pod is scheduled, and the pod is not scheduled yet.",
    ClassMissing: "The class does not exist.",
    BindingModeMissing: "The class has no volumeBindingMode.",
    ProvisioningOff: "Dynamic provisioning is disabled on this server.",
    NoProvisioner: "The class has the provisioner kubernetes.io/no-provisioner, so you must create its volumes.",
    PluginMissing: "The class names an in-tree plugin that does not exist.",
    ProvisionerMissing: "The class names a provisioner that is not registered.",
    WaitsForProvisioner: "A provisioner is creating a volume.",
    ProvisioningFailed: "The last attempt to provision a volume failed.",
    SourceMissing: "The data source of the volume does not exist.",
    SourceNotReady: "The data source of the volume is not ready yet.",
    SourceUnfit: "The volume cannot be created from the claim's data source.",
    PopulatorAwaited: "A volume populator fills the volume.",
    AttributesClassMissing: "The volume attributes class does not exist.",
    NoRoomLeft: "The driver does not report sufficient capacity where the pod may run.",
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
    ReclaimFailed: "Deleting or scrubbing the volume failed. The controller retries, unless the policy is now Retain.",
    UnknownPolicy: "The reclaim policy is unknown.",
    ClaimMissing: "A claim that the pod uses does not exist.",
    ClaimNotBound: "A claim that the pod uses is not bound.",
    ClaimsLeftOut: "The pod uses more claims than one answer explains.",
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
    Starting: "The volumes are ready to be mounted, and the node is starting the pod.",
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
    ServiceAccountMissing: "The service account of the pods does not exist.",
    CreationFailed: "A required object was rejected.",
    SyncFailing: "A controller fails on the object and retries it with back-off.",
    Finalizers: "The object is being deleted and has finalizers.",
    GracePeriod: "The pod is in its termination grace period.",
}
