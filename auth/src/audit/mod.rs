//! The audit log: which requests are recorded, in how much detail, and the form of the records. Pure: the API server's `audit`
//! module collects the records and writes them.
//!
//! * [`level`]: levels and stages.
//! * [`policy`]: the policy file, its validation, and the default policy.
//! * [`rules`]: the first rule of a policy that matches a request.
//! * [`event`]: the record of one stage of a request. [`view`]: its JSON. [`legacy`]: its form as a line of text.
//! * [`source_ips`]: the addresses of the client and of its proxies.

mod default_policy;
pub mod event;
pub mod legacy;
pub mod level;
pub mod policy;
pub mod rules;
pub mod source_ips;
pub mod view;

pub use event::{Event, ObjectNames, RequestProgress, RequestRecord, ResponseStatus};
pub use level::{Level, Stage, Stages};
pub use policy::{Policy, PolicyError};
pub use rules::RequestAudit;
