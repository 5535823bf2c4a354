//! The target of a connection: the parts of its name in the request, its object, and the error if the server cannot connect to it.

use std::net::IpAddr;

use crate::dispatch;
use crate::encode::stored;
use crate::kubelet_client::address::is_somewhere_else;
use crate::registry::KindRef;
use crate::verbs::request::Request;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// The address of a pod, if the server connects to it.
///
/// # Errors
/// 400: it is none, or that of no other machine.
pub(super) fn allowed(address: &str) -> Result<IpAddr, ApiError> {
    let address = Some(address).filter(|address| is_somewhere_else(address));
    address
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| ApiError::bad_request("address not allowed"))
}

/// The port in the name of a target.
///
/// # Errors
/// 503 with Go's text: it is no number of a port.
pub(super) fn port_number(port: &str) -> Result<u16, ApiError> {
    let number = port.parse().ok().filter(|port| *port > 0);
    number.ok_or_else(|| {
        ApiError::unreachable(format!(
            "error trying to reach service: dial tcp: address {port}: invalid port"
        ))
    })
}

/// Splits `[SCHEME:]NAME[:PORT]` into its parts.
pub(super) fn split<'a>(id: &'a str, what: &str) -> Result<(&'a str, &'a str, &'a str), ApiError> {
    let parts: Vec<&str> = id.split(':').collect();
    let is_scheme = |scheme: &str| matches!(scheme, "" | "http" | "https");
    match parts.as_slice() {
        [name] if !name.is_empty() => Ok(("", name, "")),
        [name, port] if !name.is_empty() => Ok(("", name, port)),
        [scheme, name, port] if is_scheme(scheme) && !name.is_empty() => Ok((scheme, name, port)),
        _ => Err(ApiError::bad_request(format!("invalid {what} request {id:?}"))),
    }
}

/// An object in the namespace of the request.
pub(super) fn named(request: &Request, kind: &KindRef, name: &str) -> Result<Object, ApiError> {
    let key = dispatch::key(&**kind, &request.resource.namespace, name);
    let record = request.head().get(&key).cloned();
    let record = record.ok_or_else(|| ApiError::not_found(kind.names(), name))?;
    stored::decode_as(&**kind, &record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_ids_are_split_into_scheme_name_and_port() {
        for (id, want) in [
            ("a", Ok(("", "a", ""))),
            ("a:80", Ok(("", "a", "80"))),
            ("https:a:http", Ok(("https", "a", "http"))),
            ("https:a:", Ok(("https", "a", ""))),
            ("ftp:a:80", Err("invalid pod request \"ftp:a:80\"")),
            (":80", Err("invalid pod request \":80\"")),
        ] {
            let got = split(id, "pod").map_err(|error| error.message);
            assert_eq!(got.as_ref().map(|parts| *parts).map_err(String::as_str), want, "{id}");
        }
    }
}
