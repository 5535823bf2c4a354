//! The table of tokens. Pure.

use jiff::Timestamp;
use orlop_apimachinery::duration;
use orlop_client::bootstrap_token::BootstrapToken;

const HEAD: [&str; 6] = ["TOKEN ID", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"];

/// The columns of `kubeadm token list`, with the ID in place of the token.
pub(super) fn table(tokens: &[BootstrapToken], now: Timestamp) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(tokens.iter().map(|token| row(token, now)));
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        text += padded.join("   ").trim_end();
        text.push('\n');
    }
    text
}

fn row(token: &BootstrapToken, now: Timestamp) -> [String; 6] {
    let (ttl, expires) = match token.expiration {
        None => ("<forever>".to_owned(), "<never>".to_owned()),
        Some(end) if end <= now => ("<invalid>".to_owned(), end.to_string()),
        Some(end) => (duration::human(end.duration_since(now).as_secs()), end.to_string()),
    };
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let usages: Vec<&str> = {
        let mut names: Vec<_> = token.usages.iter().map(|usage| usage.name()).collect();
        names.sort_unstable();
        names
    };
    // Descriptions come from other users, and must not control the terminal.
    let description: String =
        token.description.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    [
        token.id.clone(),
        ttl,
        expires,
        or_none(usages.join(",")),
        or_none(description),
        or_none(token.groups.join(",")),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_client::bootstrap_token::Usage;

    use super::*;

    #[test]
    fn table_shows_everything_but_the_secret() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let token = |id: &str, expiration: Option<&str>| {
            let mut token = BootstrapToken::new(id, "0123456789abcdef").unwrap();
            token.expiration = expiration.map(|text| text.parse().unwrap());
            token
        };
        let mut described = token("aaaaaa", Some("2026-11-26T14:00:00Z"));
        described.usages = Usage::ALL.to_vec();
        described.groups = vec!["system:bootstrappers:a".to_owned()];
        described.description = "for\tn1".to_owned();
        let tokens = [described, token("bbbbbb", Some("2026-11-26T11:00:00Z")), token("cccccc", None)];
        let want = "\
TOKEN ID   TTL         EXPIRES                USAGES                   DESCRIPTION   EXTRA GROUPS
aaaaaa     120m        2026-11-26T14:00:00Z   authentication,signing   for n1        system:bootstrappers:a
bbbbbb     <invalid>   2026-11-26T11:00:00Z   <none>                   <none>        <none>
cccccc     <forever>   <never>                <none>                   <none>        <none>
";
        assert_eq!(table(&tokens, now), want);
    }
}
