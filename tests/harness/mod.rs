//! The test harness: a control plane, a client, kubectl, and waiting for conditions.
//!
//! ```ignore
//! let plane = Plane::start().await;
//! let http = plane.http();
//! http.create("/api/v1/persistentvolumes", &volume).await;
//! http.until(CLAIM, "bound", |claim| claim["status"]["phase"] == "Bound").await;
//! plane.kill_and_restart().await;
//! ```

// Each helper is used by some tests, not by every one.
#![allow(dead_code)]

pub(crate) mod browser;
pub(crate) mod csi;
pub(crate) mod http;
pub(crate) mod kubectl;
pub(crate) mod machine;
pub(crate) mod plane;
pub(crate) mod process;
pub(crate) mod wait;
