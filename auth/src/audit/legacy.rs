//! The form of an event as one line of text (`--audit-log-format=legacy`).
//!
//! Upstream: apiserver `pkg/audit/format.go`.

use crate::request_info::RequestTarget;

use super::event::Event;

/// The event as a line, without its end. Quotes escape line breaks, so clients cannot begin a line.
pub fn line(event: &Event) -> String {
    let request = &event.request;
    let user = request.user.as_ref().filter(|user| !user.username.is_empty());
    let (name, groups) = match user {
        Some(user) if user.groups.is_empty() => (user.username.as_str(), "<none>".to_owned()),
        Some(user) => (user.username.as_str(), quoted(&user.groups)),
        None => ("<none>", "<none>".to_owned()),
    };
    let (as_name, as_groups) = match &event.progress.impersonated {
        Some(user) => (user.username.as_str(), quoted(&user.groups)),
        None => ("<self>", "<lookup>".to_owned()),
    };
    let namespace = match &request.info.target {
        RequestTarget::Resource(at) if !at.namespace.is_empty() => at.namespace.as_str(),
        RequestTarget::Resource(_) | RequestTarget::Path(_) => "<none>",
    };
    let response = event.progress.status.as_ref();
    let response = response.map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
    let ip = request.source_ips.first().map_or("<unknown>", String::as_str);
    format!(
        "{} AUDIT: id={:?} stage={:?} ip={ip:?} method={:?} user={name:?} groups={groups:?} as={as_name:?} \
         asgroups={as_groups:?} user-agent={:?} namespace={namespace:?} uri={:?} response=\"{response}\"",
        request.received,
        request.audit_id,
        event.stage.name(),
        request.info.verb,
        request.user_agent,
        request.uri,
    )
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserInfo;
    use crate::audit::event::testing::event;
    use crate::audit::{ResponseStatus, Stage};

    #[test]
    fn line_has_upstreams_words() {
        let mut event = event(Stage::RequestReceived);
        assert_eq!(
            line(&event),
            r#"2026-01-02T03:04:05.000006Z AUDIT: id="id-1" stage="RequestReceived" ip="10.0.0.1" method="get" user="ann" groups="\"devs\",\"system:authenticated\"" as="<self>" asgroups="<lookup>" user-agent="kubectl/v1.36.0" namespace="n" uri="/api/v1/namespaces/n/pods/a" response="<deferred>""#
        );
        event.progress.impersonated = Some(UserInfo::anonymous());
        event.progress.status = Some(ResponseStatus::of_code(200));
        let request = std::sync::Arc::make_mut(&mut event.request);
        (request.user, request.source_ips) = (None, Vec::new());
        request.user_agent = "a\nforged".to_owned();
        let text = line(&event);
        for part in [
            r#"ip="<unknown>""#,
            r#"user="<none>" groups="<none>" as="system:anonymous" asgroups="\"system:unauthenticated\"""#,
            r#"user-agent="a\nforged""#,
            r#"response="200""#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.lines().count(), 1);
    }
}
