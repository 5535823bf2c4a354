//! Commands for certificate requests: `certificate approve` and `certificate deny`.

use super::{Row, row, run};
use crate::harness::plane::{Layout, Plane};

/// Two requests of the user `ann` in the group `readers`.
const REQUESTS: &str = concat!(
    "
apiVersion: v1
kind: List
items:
- apiVersion: certificates.k8s.io/v1
  kind: CertificateSigningRequest
  metadata: {name: good}
  spec: &spec
    signerName: example.com/none
    usages: [client auth]
    request: ",
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIYU1JR0NBZ0VBTUNBeEVEQU9CZ05WQkFvTUIzSmxZV1JsY25N",
    "eEREQUtCZ05WQkFNTUEyRnViakJaTUJNRwpCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQkZpNlhDOEZuTHZPNyt0QkFpSk5L",
    "RHZ1U1FDY0VRZHE2MFZZCllNTjlqU1ZtRlgvTXg0SXo0MlN1dUxUamtjeUtRaCs0WU5VOG9hcFRRT3VWZzRvV1l4R2dBREFLQmdn",
    "cWhrak8KUFFRREFnTkhBREJFQWlCaUp6eHpSZ1J2SW10YVRKWkFKSFp2M3RJWk5YbnYyKzZGRlEzdTVzcTlwQUlnVi9YNApiNUpO",
    "WThHWG9wL291RkMvaGJUVFNiZEdVdU43UFBDODd0ZXNUUTA9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=",
    "
- apiVersion: certificates.k8s.io/v1
  kind: CertificateSigningRequest
  metadata: {name: bad}
  spec: *spec
"
);

/// On a server without controllers.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("certificate approve", &["create", "-f", "-"]).reads(REQUESTS).tells(&["good created", "bad created"]),
        row("get", &["get", "csr", "good"]).says(
            "NAME   AGE   SIGNERNAME         REQUESTOR      REQUESTEDDURATION   CONDITION\ngood   AGE   example.com/none   system:admin   <none>              Pending",
        ),
        row("certificate approve", &["certificate", "approve", "good"])
            .says("certificatesigningrequest.certificates.k8s.io/good approved"),
        row("certificate deny", &["certificate", "deny", "bad"])
            .says("certificatesigningrequest.certificates.k8s.io/bad denied"),
        row("certificate deny", &["certificate", "deny", "good"])
            .refuses(&["error: certificate signing request \"good\" is already Approved"]),
        row("certificate deny", &["get", "csr", "--no-headers"]).tells(&["<none> Denied\n", "<none> Approved\n"]),
        row("describe", &["describe", "csr", "good"]).tells(&[
            "Requesting User: system:admin\nSigner: example.com/none\nStatus: Approved\n",
            "Common Name: ann\n",
            "Organization: readers\n",
        ]),
    ]
}

#[tokio::test]
async fn certificate_requests_are_approved_and_denied() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    run(&plane.kubectl(), &rows()).await;
}
