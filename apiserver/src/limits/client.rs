//! Classification of a request, and the client that it is attributed to.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use axum::extract::Request;
use http::Method;

use super::connection::Connection;
use super::fair_queue::Client;
use crate::authentication::InThisProcess;
use crate::custom::Kinds;
use crate::exchange::info_of;
use crate::handler::long_running;
use orlop_api::query::Query;
use orlop_auth::UserInfo;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Health, version and metrics: never rejected.
    Free,
    /// A request of a controller in this process: counted, never rejected. True for writes.
    InThisProcess(bool),
    /// A watch of a controller in this process: never rejected.
    WatchInThisProcess,
    /// A watch.
    Watch,
    /// A read.
    Read,
    /// A write.
    Write,
}

/// Whether the path is served without a permit, even when the server is overloaded.
fn is_free(path: &str) -> bool {
    let first = path.get(1..).and_then(|path| path.split('/').next()).unwrap_or_default();
    matches!(first, "livez" | "readyz" | "healthz" | "version" | "metrics")
}

/// Whether the request may be a watch. This check comes first because it is cheap and rules out nearly all
/// requests; a definite answer requires parsing the request.
fn may_be_watch(request: &Request) -> bool {
    let hint = |text: &str| {
        text.contains("watch") || text.contains("follow") || text.contains("stream") || text.contains('%')
    };
    *request.method() == Method::GET
        && (hint(request.uri().path()) || request.uri().query().is_some_and(hint))
}

/// Classifies a request. `is_forwarded` is true if another server serves it.
pub(super) fn sort(kinds: &Kinds, request: &Request, is_forwarded: bool) -> Sort {
    let path = request.uri().path();
    if is_free(path) {
        return Sort::Free;
    }
    let own = request.extensions().get::<InThisProcess>().is_some();
    let is_watch = match is_forwarded {
        // The kinds of that server are not known here, so this is decided as for the time limit: requests without one must not hold
        // permits of the others.
        true => info_of(request).is_long_running(),
        false => {
            may_be_watch(request)
                && long_running::is_watch(kinds, request.method(), path, &Query::parse(request.uri().query()))
        }
    };
    if is_watch {
        return if own { Sort::WatchInThisProcess } else { Sort::Watch };
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if own {
        return Sort::InThisProcess(!reads);
    }
    if reads { Sort::Read } else { Sort::Write }
}

/// Keys of this process, so that no client can choose names with equal hashes.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The requests of a flow schema, or those of one of its namespaces, as one client.
pub(super) fn of_flow(schema: &str, namespace: &str) -> Client {
    Client(KEYS.hash_one((1, schema, namespace)))
}

/// The client of a request: the user if requests are authenticated, otherwise the IP address. On loopback, where
/// all clients share one address, the port as well, so each connection is a client.
pub(super) fn client(request: &Request) -> Client {
    let mut hasher = KEYS.build_hasher();
    let user = request.extensions().get::<UserInfo>().map(|user| user.username.as_str());
    // A server without authentication attributes every request to this user.
    if let Some(user) = user.filter(|user| *user != UserInfo::ADMIN) {
        (0, user).hash(&mut hasher);
        return Client(hasher.finish());
    }
    let peer = request.extensions().get::<Connection>().map(Connection::peer);
    let address = peer.map(|peer| peer.ip().to_canonical());
    address.hash(&mut hasher);
    if address.is_some_and(|address| address.is_loopback()) {
        peer.map(|peer| peer.port()).hash(&mut hasher);
    }
    Client(hasher.finish())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::Body;
    use orlop_store::MemoryBudget;

    use super::*;
    use crate::limits::connection::Connections;

    fn request(method: &str, uri: &str) -> Request {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    #[test]
    fn requests_are_classified() {
        for (method, uri, want) in [
            ("GET", "/api/v1/pods", Sort::Read),
            ("HEAD", "/api/v1/pods", Sort::Read),
            ("OPTIONS", "/", Sort::Read),
            ("GET", "/apis/nope", Sort::Read),
            ("POST", "/api/v1/namespaces", Sort::Write),
            ("DELETE", "/api/v1/pods?watch=1", Sort::Write),
            ("PATCH", "/x", Sort::Write),
            ("BREW", "/api/v1/pods", Sort::Write),
            ("GET", "/api/v1/pods?watch=1", Sort::Watch),
            ("GET", "/api/v1/pods?watch", Sort::Watch),
            ("GET", "/api/v1/pods?watch=yes", Sort::Watch),
            ("GET", "/api/v1/pods?w%61tch=1", Sort::Watch),
            ("GET", "/api/v1/pods?a=b&watch=true", Sort::Watch),
            ("GET", "/api/v1/watch/pods", Sort::Watch),
            ("GET", "/api/v1/w%61tch/pods", Sort::Watch),
            ("GET", "/apis/orlop.dev/v1/stream", Sort::Watch),
            ("GET", "/apis/orlop.dev/v1/stream?from=7&resource=pods", Sort::Watch),
            ("GET", "/apis/orlop.dev/v1/stream/", Sort::Watch),
            ("GET", "/apis/orlop.dev/v1/%73tream", Sort::Watch),
            ("GET", "/apis/orlop.dev/v1/streams", Sort::Read),
            ("GET", "/apis/orlop.dev/v1/stream?at=7&follow=false", Sort::Read),
            ("GET", "/apis/orlop.dev/v1/stream?at=7&until=9", Sort::Read),
            ("GET", "/apis/orlop.dev/v1/timeline", Sort::Read),
            ("GET", "/api/v1/pods?watch=0", Sort::Read),
            ("GET", "/api/v1/pods?watch=false", Sort::Read),
            // Not watches, although they look like them.
            ("GET", "/api/v1/namespaces/a/pods/b?watch=1", Sort::Read),
            ("GET", "/api/v1/namespaces/watch", Sort::Read),
            ("GET", "/api?watch=1", Sort::Read),
            ("GET", "/livez", Sort::Free),
            ("GET", "/readyz/ping", Sort::Free),
            ("GET", "/healthz?verbose", Sort::Free),
            ("GET", "/version", Sort::Free),
            ("GET", "/metrics", Sort::Free),
            ("GET", "/metricsx", Sort::Read),
            ("GET", "/", Sort::Read),
        ] {
            assert_eq!(sort(&Kinds::default(), &request(method, uri), false), want, "{method} {uri}");
        }
    }

    #[test]
    fn requests_of_controllers_in_this_process_are_classified() {
        for (method, uri, want) in [
            ("GET", "/api/v1/pods", Sort::InThisProcess(false)),
            ("POST", "/api/v1/pods", Sort::InThisProcess(true)),
            ("GET", "/api/v1/pods?watch=1", Sort::WatchInThisProcess),
        ] {
            let mut request = request(method, uri);
            request.extensions_mut().insert(InThisProcess);
            assert_eq!(sort(&Kinds::default(), &request, false), want, "{method} {uri}");
        }
    }

    #[test]
    fn requests_for_another_server_are_classified() {
        for (method, uri, want) in [
            ("GET", "/apis/g.example/v1", Sort::Read),
            ("GET", "/apis/g.example/v1/things", Sort::Read),
            ("HEAD", "/apis/g.example/v1/things", Sort::Read),
            ("POST", "/apis/g.example/v1/things", Sort::Write),
            ("GET", "/apis/g.example/v1/things?watch=true", Sort::Watch),
            ("GET", "/apis/g.example/v1/namespaces/n/things?watch", Sort::Watch),
            ("GET", "/apis/g.example/v1/things?w%61tch=1", Sort::Watch),
            ("GET", "/apis/g.example/v1/watch/things", Sort::Watch),
            ("GET", "/apis/g.example/v1/things?watch=false", Sort::Read),
            ("POST", "/apis/g.example/v1/things?watch=1", Sort::Write),
            ("GET", "/apis/g.example/v1/namespaces/n/things/x/log", Sort::Watch),
            ("POST", "/apis/g.example/v1/namespaces/n/things/x/exec", Sort::Watch),
        ] {
            assert_eq!(sort(&Kinds::default(), &request(method, uri), true), want, "{method} {uri}");
        }
    }

    #[test]
    fn clients_are_distinguished_by_user_address_or_connection() {
        let of = |user: &str, peer: &str| {
            let mut request = request("GET", "/api");
            if !user.is_empty() {
                request.extensions_mut().insert(UserInfo::new(user, []));
            }
            if !peer.is_empty() {
                let connection =
                    Connections::new(0, MemoryBudget::new(0)).open(peer.parse().unwrap()).unwrap();
                request.extensions_mut().insert(connection);
            }
            client(&request)
        };
        let admin = UserInfo::ADMIN;
        for (case, one, other, same) in [
            ("1 a user", ("ann", "10.0.0.1:1"), ("ann", "10.0.0.2:2"), true),
            ("2 two users", ("ann", "10.0.0.1:1"), ("bob", "10.0.0.1:1"), false),
            ("3 an address", (admin, "10.0.0.1:1"), (admin, "10.0.0.1:2"), true),
            ("4 two addresses", (admin, "10.0.0.1:1"), (admin, "10.0.0.2:1"), false),
            ("5 a connection over loopback", (admin, "127.0.0.1:1"), (admin, "127.0.0.1:1"), true),
            ("6 two connections over loopback", (admin, "127.0.0.1:1"), (admin, "127.0.0.1:2"), false),
            ("7 a user over loopback", ("ann", "127.0.0.1:1"), ("ann", "127.0.0.1:2"), true),
            ("8 no address", ("", ""), ("", ""), true),
            ("9 IPv4 mapped to IPv6", (admin, "[::ffff:10.0.0.1]:1"), (admin, "10.0.0.1:1"), true),
        ] {
            let equal = of(one.0, one.1) == of(other.0, other.1);
            assert_eq!(equal, same, "{case}");
        }
    }
}
