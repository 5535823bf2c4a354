//! The document of the endpoints that upstream does not document: health, metrics, the documents themselves, snapshots, the sign-in of
//! the web page.

use serde_json::{Map, Value, json};

use crate::head::{VERSION, info};

/// The path of the document in the index.
pub(crate) const PATH: &str = "orlop";

/// The document.
pub(crate) fn document() -> Value {
    json!({"openapi": VERSION, "info": info(), "paths": orlop()})
}

fn answer(description: &str, media: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {media: {"schema": schema}}})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// A GET operation.
fn get(id: &str, tag: &str, description: &str, parameters: &Value, responses: &Value) -> Value {
    json!({"get": {
        "operationId": id, "tags": [tag], "description": description,
        "parameters": parameters, "responses": with_errors(responses, &[]),
    }})
}

/// The responses with those that every endpoint may return, and further errors.
fn with_errors(responses: &Value, further: &[(&str, &str)]) -> Value {
    let mut responses = responses.clone();
    let general = [
        ("401", "The credentials do not identify a user."),
        ("403", "The user is not permitted to perform this request."),
        ("429", "Too many requests. Retry after the time in the Retry-After header."),
    ];
    // A further error replaces the general one with the same code.
    for (code, why) in general.iter().chain(further) {
        // Errors that precede the lookup of the path are JSON; those of the request limits are plain text.
        let mut refusal = answer(why, "application/json", &json!({"type": "object"}));
        refusal["content"]["text/plain"] = json!({"schema": text()});
        responses[*code] = refusal;
    }
    responses
}

/// A JSON object whose fields are all required texts.
fn texts(fields: &[(&str, &str)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, description)| {
            ((*name).to_owned(), json!({"type": "string", "description": description}))
        })
        .collect();
    json!({"type": "object", "required": names, "properties": properties})
}

/// The endpoints with which the web page signs in.
fn sign_in() -> [(&'static str, Value); 2] {
    const NO_SIGN_IN: &str = "The web page of this server has no sign-in.";
    let exchanged = texts(&[
        ("token", "The bearer token of the session."),
        ("user", "The name of the user."),
        ("expires", "The time at which the session ends."),
    ]);
    let exchange = json!({"post": {
        "operationId": "signIn", "tags": ["signIn"],
        "description": "Exchanges a code for the token of a session of the web page. A code is valid once. This endpoint requires no credentials.",
        "parameters": [],
        "requestBody": {"required": true, "content": {"application/json": {"schema": texts(&[("code", "The code.")])}}},
        "responses": with_errors(
            &json!({"200": answer("The session.", "application/json", &exchanged)}),
            &[
                ("400", "The body is not a JSON object with a code."),
                ("401", "The code is unknown, used or expired."),
                ("403", "The request is from a page of another origin."),
                ("404", NO_SIGN_IN),
                ("429", "Too many wrong codes. Retry after the time in the Retry-After header."),
            ],
        ),
    }});
    let created = texts(&[
        ("code", "The code."),
        ("link", "A link to the web page that contains the code."),
        ("expires", "The time at which the code becomes invalid."),
    ]);
    let codes = json!({"post": {
        "operationId": "createSignInCode", "tags": ["signIn"],
        "description": "Creates a code with which the web page signs in as the user of the request. Sessions of the web page and impersonated users cannot create codes.",
        "parameters": [],
        "responses": with_errors(
            &json!({"201": answer("The code.", "application/json", &created)}),
            &[("404", NO_SIGN_IN)],
        ),
    }});
    [("/orlop/sign-in", exchange), ("/orlop/sign-in/codes", codes)]
}

fn parameter(name: &str, place: &str, kind: &str, description: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "description": description,
        "schema": {"type": kind}})
}

fn health(name: &str, what: &str) -> [(String, Value); 2] {
    let plain = |description: &str| answer(description, "text/plain", &text());
    let all = get(
        &format!("get{name}"),
        "health",
        &format!("{what} Without parameters it is one word."),
        &json!([
            parameter("verbose", "query", "string", "One line for each check."),
            parameter("exclude", "query", "string", "A check that does not count."),
        ]),
        &json!({"200": plain("All is well."), "500": plain("A check has failed.")}),
    );
    let one = get(
        &format!("get{name}Check"),
        "health",
        &format!("One check of /{name}."),
        &json!([parameter("check", "path", "string", "Its name, as the verbose form has it.")]),
        &json!({"200": plain("It is well."), "404": plain("There is no such check."), "500": plain("It has failed.")}),
    );
    [(format!("/{name}"), all), (format!("/{name}/{{check}}"), one)]
}

fn orlop() -> Value {
    let none = json!([]);
    let object = json!({"type": "object"});
    let mut paths = json!({
        "/metrics": get("getMetrics", "metrics", "Counts and times of this server, as Prometheus reads them.", &none,
            &json!({"200": answer("The metrics.", "text/plain", &text())})),
        "/openapi/v2": get("getOpenApiV2", "documents", "The schemas of all kinds, in the old form.", &none,
            &json!({"200": answer("The document.", "application/json", &object)})),
        "/openapi/v3": get("getOpenApiV3", "documents", "Where the documents of all groups are.", &none,
            &json!({"200": answer("Addresses by path.", "text/plain", &text())})),
        "/orlop/snapshot": get("getSnapshot", "snapshot",
            "All objects of one revision in one file, as `orlop snapshot restore` reads it. Secrets are in it.", &none,
            &json!({"200": answer("The snapshot.", "application/octet-stream", &json!({"type": "string", "format": "binary"}))})),
    });
    for (name, what) in [
        ("livez", "Whether the server lives."),
        ("readyz", "Whether the server can take requests."),
        ("healthz", "The old name of /livez."),
    ] {
        for (path, item) in health(name, what) {
            paths[path] = item;
        }
    }
    for (path, item) in sign_in() {
        paths[path] = item;
    }
    paths
}
