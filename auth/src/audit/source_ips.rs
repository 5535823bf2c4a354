//! The addresses of the client of a request and of its proxies.
//!
//! Upstream: apimachinery `pkg/util/net/http.go` (SourceIPs).

use std::net::IpAddr;

use http::HeaderMap;

/// Maximum number of addresses: headers of clients contain thousands.
const MOST: usize = 16;

/// The addresses in `X-Forwarded-For` and `X-Real-Ip`, and last the peer of the connection. A client can forge all but the last.
pub fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let address = |text: &str| text.trim().parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let forwarded = text("x-forwarded-for").split(',').filter_map(address);
    let mut found: Vec<IpAddr> = forwarded.take(MOST).collect();
    let real = address(text("x-real-ip")).filter(|ip| !found.contains(ip));
    found.extend(real);
    let peer = peer.map(|ip| ip.to_canonical());
    found.extend(peer.filter(|ip| found.last() != Some(ip)));
    found.iter().map(IpAddr::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_the_last_address() {
        let peer = Some("10.0.0.9");
        for (case, forwarded, real, peer, want) in [
            ("1 no proxy", "", "", peer, &["10.0.0.9"][..]),
            ("2 in this process", "", "", None, &[]),
            ("3 proxies", "10.0.0.1, 10.0.0.2", "", peer, &["10.0.0.1", "10.0.0.2", "10.0.0.9"]),
            ("4 the real address", "", "10.0.0.1", peer, &["10.0.0.1", "10.0.0.9"]),
            ("5 a known real address", "10.0.0.1,10.0.0.2", "10.0.0.1", None, &["10.0.0.1", "10.0.0.2"]),
            ("6 the peer is the last proxy", "10.0.0.1,10.0.0.9", "", peer, &["10.0.0.1", "10.0.0.9"]),
            ("7 no addresses", "unknown,, 1.2.3", "x", peer, &["10.0.0.9"]),
            ("8 IPv6", "2001:db8::1", "", Some("::ffff:10.0.0.9"), &["2001:db8::1", "10.0.0.9"]),
        ] {
            let mut headers = HeaderMap::new();
            for (name, text) in [("x-forwarded-for", forwarded), ("x-real-ip", real)] {
                if !text.is_empty() {
                    headers.insert(name, text.parse().expect("a header"));
                }
            }
            let peer = peer.map(|peer| peer.parse().expect("an address"));
            assert_eq!(source_ips(&headers, peer), want, "{case}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", ["10.0.0.1"; 500].join(",").parse().expect("a header"));
        assert_eq!(source_ips(&headers, None).len(), MOST);
    }
}
