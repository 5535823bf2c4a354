"""Schemathesis hooks for this API: which query parameters to avoid, which responses are server faults, and what other clients receive."""

import os

import requests
import schemathesis

# The token of the account `limited`, whose only role is READABLE.
LIMITED = os.environ["CONTRACT_LIMITED_TOKEN"]
READABLE = ("configmaps", "persistentvolumes")
# Every authenticated user has these rights (system:basic-user, system:discovery).
REVIEWS = (
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
)
DISCOVERY = ("/api", "/apis", "/openapi")
# These paths need no credentials (system:public-info-viewer).
PUBLIC = ("/version", "/version/", "/healthz", "/livez", "/readyz")

session = requests.Session()
# The environment may configure a proxy.
session.trust_env = False


@schemathesis.hook
def map_query(context, query):
    """Avoids watches, which never end, and future revisions, for which the server waits."""
    if query:
        query.pop("watch", None)
        # Choose deterministically, so that a seed reproduces the run.
        choice = len(str(sorted(query.items(), key=str)))
        if "resourceVersion" in query:
            query["resourceVersion"] = ["", "0", "1", "x"][choice % 4]
        if "limit" in query and choice % 2:
            query["limit"] = 1
    return query


@schemathesis.check
def fault_of_the_server(context, response, case):
    """Reports 5xx responses: in this test the disk is never full and the server never shuts down.

    Allows the 500 and 501 of upstream: to a POST to a subresource, such as an invalid binding, and to a GET of an unknown component.
    """
    below = case.method.upper() == "POST" and case.operation.path.rsplit("/", 2)[-2] == "{name}"
    unknown = case.operation.path == "/api/v1/componentstatuses/{name}"
    if response.status_code >= 500 and not ((below or unknown) and response.status_code in (500, 501)):
        raise AssertionError(f"{response.status_code}: {response.text}")


def is_permitted(method, template):
    """Whether the roles of the limited account permit a request, by the path in the document."""
    if method == "POST" and template in REVIEWS:
        return True
    if method not in ("GET", "HEAD"):
        return False
    parts = template.strip("/").split("/")
    is_core = parts[:2] == ["api", "v1"]
    if len(parts) <= (2 if is_core else 3):
        is_discovery = any(template == path or template.startswith(path + "/") for path in DISCOVERY)
        return is_discovery or template in PUBLIC
    rest = parts[2:] if is_core else []
    if rest[:2] == ["namespaces", "{namespace}"]:
        rest = rest[2:]
    return rest[:1] in ([name] for name in READABLE) and rest[1:] in ([], ["{name}"])


def send_as(response, token):
    """Sends the same request with other credentials, or with none."""
    request = response.request.copy()
    request.headers.pop("Authorization", None)
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return session.send(request, timeout=10)


@schemathesis.check
def rights_of_other_clients(context, response, case):
    """Sends each request again: as the limited account, with a damaged token, and without a token."""
    method, template = case.method.upper(), case.operation.path
    damaged = send_as(response, LIMITED + "x")
    if damaged.status_code != 401 or b"Unauthorized" not in damaged.content:
        raise AssertionError(f"a damaged token gets {damaged.status_code}: {damaged.text}")
    anonymous = send_as(response, None)
    if template not in PUBLIC and anonymous.status_code not in (401, 403):
        raise AssertionError(f"a request without a token gets {anonymous.status_code}: {anonymous.text}")
    limited = send_as(response, LIMITED)
    if is_permitted(method, template):
        if limited.status_code in (401, 403):
            raise AssertionError(f"the limited account gets {limited.status_code}: {limited.text}")
    elif limited.status_code != 403:
        raise AssertionError(f"the limited account gets {limited.status_code}, not 403: {limited.text}")
