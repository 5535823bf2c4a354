//! Links in proxied responses. A page of a pod knows nothing of the path under which clients see it, so links that begin with `/` get
//! that path in front. Pure.
//!
//! Upstream: apimachinery `pkg/util/proxy/transport.go`.

use lol_html::errors::RewritingError;
use lol_html::html_content::Element;
use lol_html::send::{HtmlRewriter, Settings};
use lol_html::{MemorySettings, OutputSink, element};

/// The most memory that one page needs, bytes: a page whose tag is longer breaks.
const PAGE_MEMORY: usize = 1 << 20;

/// What links of a proxied server mean.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// The path of the proxy, which ends with `/proxy`.
    pub(super) prefix: String,
    /// The names of the server itself: in the request of the client, and in that to the proxied server.
    pub(super) hosts: [String; 2],
}

impl Links {
    /// The link as clients need it; `None` if it stays as it is: it leads elsewhere, is relative, or has the prefix already.
    pub(super) fn rewritten(&self, link: &str) -> Option<String> {
        let path = match link.split_once("//") {
            Some(("" | "http:" | "https:", rest)) => {
                let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let (host, path) = rest.split_at(at);
                self.hosts.iter().any(|own| own == host).then_some(path)?
            }
            Some(_) | None => link,
        };
        let is_own = path
            .strip_prefix(self.prefix.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match path {
            _ if is_own && path.len() == link.len() => None,
            _ if is_own => Some(path.to_owned()),
            _ if path.starts_with('/') => Some(format!("{}{path}", self.prefix)),
            // A URL without a path.
            _ if path.len() < link.len() => Some(format!("{}/{path}", self.prefix)),
            _ => None,
        }
    }

    /// Rewrites the links of a page while it arrives.
    pub(super) fn rewriter<'s, O: OutputSink>(self, sink: O) -> HtmlRewriter<'s, O> {
        let handler =
            element!("*", move |element: &mut Element<'_, '_, lol_html::send::SendHandlerTypes>| {
                for name in link_attributes(&element.tag_name()) {
                    if let Some(link) = element.get_attribute(name).and_then(|link| self.rewritten(&link)) {
                        element.set_attribute(name, &link)?;
                    }
                }
                Ok(())
            });
        let memory = MemorySettings::new().with_max_allowed_memory_usage(PAGE_MEMORY);
        let settings = Settings::new_send().with_strict(false).with_memory_settings(memory);
        let settings = settings.append_element_content_handler(handler);
        HtmlRewriter::new(settings, sink)
    }
}

/// The attributes of an element that contain one link.
fn link_attributes(element: &str) -> &'static [&'static str] {
    match element {
        "a" | "area" | "base" | "link" => &["href"],
        "applet" => &["codebase"],
        "audio" | "embed" | "script" | "source" | "track" => &["src"],
        "blockquote" | "del" | "ins" | "q" => &["cite"],
        "body" => &["background"],
        "button" => &["formaction"],
        "command" => &["icon"],
        "form" => &["action"],
        "frame" | "iframe" => &["longdesc", "src"],
        "head" => &["profile"],
        "html" => &["manifest"],
        "img" => &["longdesc", "src", "usemap"],
        "input" => &["formaction", "src", "usemap"],
        "object" => &["classid", "codebase", "data", "usemap"],
        "video" => &["poster", "src"],
        _ => &[],
    }
}

/// Why a page cannot be rewritten.
pub(super) fn reason(error: &RewritingError) -> String {
    format!("the page of the proxied server cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links {
            prefix: "/api/v1/namespaces/n/pods/p/proxy".to_owned(),
            hosts: ["localhost:8001".to_owned(), "10.0.0.1:80".to_owned()],
        }
    }

    #[test]
    fn absolute_paths_of_the_server_get_the_prefix() {
        for (link, want) in [
            ("/", Some("/api/v1/namespaces/n/pods/p/proxy/")),
            ("/a/b?c=d#e", Some("/api/v1/namespaces/n/pods/p/proxy/a/b?c=d#e")),
            ("http://10.0.0.1:80/a", Some("/api/v1/namespaces/n/pods/p/proxy/a")),
            ("//localhost:8001/a/", Some("/api/v1/namespaces/n/pods/p/proxy/a/")),
            ("https://localhost:8001", Some("/api/v1/namespaces/n/pods/p/proxy/")),
            ("http://localhost:8001?a", Some("/api/v1/namespaces/n/pods/p/proxy/?a")),
            ("/api/v1/namespaces/n/pods/p/proxy/a", None),
            (
                "http://10.0.0.1:80/api/v1/namespaces/n/pods/p/proxy/a",
                Some("/api/v1/namespaces/n/pods/p/proxy/a"),
            ),
            (
                "/api/v1/namespaces/n/pods/p/proxya",
                Some("/api/v1/namespaces/n/pods/p/proxy/api/v1/namespaces/n/pods/p/proxya"),
            ),
            ("a/b", None),
            ("?a", None),
            ("#a", None),
            ("", None),
            ("http://other.example/a", None),
            ("mailto:a//b", None),
            ("javascript://10.0.0.1:80/", None),
        ] {
            assert_eq!(links().rewritten(link).as_deref(), want, "{link}");
        }
    }

    #[test]
    fn links_of_a_page_are_rewritten_in_any_pieces() {
        let page = r#"<!doctype html><title>/a</title><a href="/a" id='/b'>/c</a><IMG SRC=/d><script>"/e"</script>
            <form action='http://10.0.0.1:80/f'><!-- <a href="/g"> --><a href=h>"#;
        let want = r#"<!doctype html><title>/a</title><a href="P/a" id='/b'>/c</a><IMG src="P/d"><script>"/e"</script>
            <form action="P/f"><!-- <a href="/g"> --><a href=h>"#
            .replace('P', &links().prefix);
        for size in [1, 7, page.len()] {
            let mut out = Vec::new();
            let mut rewriter = links().rewriter(|piece: &[u8]| out.extend_from_slice(piece));
            for piece in page.as_bytes().chunks(size) {
                rewriter.write(piece).expect("HTML");
            }
            rewriter.end().expect("HTML");
            assert_eq!(String::from_utf8_lossy(&out).to_lowercase(), want.to_lowercase(), "pieces of {size}");
        }
    }

    /// A tag without end needs no more than the limit.
    #[test]
    fn endless_tag_is_an_error() {
        let mut rewriter = links().rewriter(|_: &[u8]| {});
        let piece = vec![b'a'; 64 << 10];
        rewriter.write(b"<a href=\"").expect("HTML");
        assert!((0..100).any(|_| rewriter.write(&piece).is_err()));
    }
}
