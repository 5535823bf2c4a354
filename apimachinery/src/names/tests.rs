use proptest::prelude::*;

use super::*;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SLASHES: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

#[test]
fn every_rule() {
    let long = "a".repeat(254);
    let label = "a".repeat(64);
    let prefixed_subdomain = format!("prefix part {SUBDOMAIN}");
    type Rule = fn(&str) -> Vec<String>;
    let rows: &[(Rule, &str, &[&str])] = &[
        (dns_subdomain, "a.b-c.1", &[]),
        (dns_subdomain, &label, &[]),
        (dns_subdomain, "", &[SUBDOMAIN]),
        (dns_subdomain, "A", &[SUBDOMAIN]),
        (dns_subdomain, "a..b", &[SUBDOMAIN]),
        (dns_subdomain, "a-", &[SUBDOMAIN]),
        (dns_subdomain, "-a", &[SUBDOMAIN]),
        (dns_subdomain, "a_b", &[SUBDOMAIN]),
        (dns_subdomain, &long, &["must be no more than 253 characters"]),
        (dns_subdomain_prefix, "a-", &[]),
        (dns_subdomain_prefix, "a.-", &[]),
        (dns_subdomain_prefix, "-", &[SUBDOMAIN]),
        (dns_subdomain_prefix, "Bad_", &[SUBDOMAIN]),
        (dns_subdomain_prefix, "\u{e4}-", &[]),
        (dns_label, "a-1", &[]),
        (dns_label, "dd.d", &["must not contain dots"]),
        (dns_label, "a_b", &[LABEL]),
        (dns_label, "", &[LABEL]),
        (dns_label, &label, &["must be no more than 63 characters"]),
        (dns_label_prefix, "a-", &[]),
        (dns1035_label, "a1", &[]),
        (dns1035_label_prefix, "a-", &[]),
        (
            dns1035_label,
            "1a",
            &[
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (path_segment, "A b:c", &[]),
        (path_segment, ".", &["may not be '.'"]),
        (path_segment, "..", &["may not be '..'"]),
        (path_segment, "%/", &["may not contain '/'", "may not contain '%'"]),
        (path_segment_prefix, "..", &[]),
        (path_segment_prefix, "a/", &["may not contain '/'"]),
        (qualified_name, "a", &[]),
        (qualified_name, "example.com/A_b.c-d", &[]),
        (qualified_name, "", &["name part must be non-empty", KEY]),
        (qualified_name, "a b", &[KEY]),
        (qualified_name, "a/", &["name part must be non-empty", KEY]),
        (qualified_name, "/a", &["prefix part must be non-empty"]),
        (qualified_name, "a/b/c", &[SLASHES]),
        (qualified_name, "A.B/c", &[&prefixed_subdomain]),
        (qualified_name, &label, &["name part must be no more than 63 bytes"]),
        (label_value, "", &[]),
        (label_value, "a_B.c-d", &[]),
        (label_value, "-a", &[VALUE]),
        (label_value, "a.", &[VALUE]),
        (label_value, "\u{e4}", &[VALUE]),
        (label_value, &label, &["must be no more than 63 bytes"]),
        (config_map_key, ".a", &[]),
        (config_map_key, "", &[CONFIG_KEY]),
        (config_map_key, "bad/key", &[CONFIG_KEY]),
        (config_map_key, ".", &["must not be '.'"]),
        (config_map_key, "..", &["must not be '..'"]),
        (config_map_key, "..a", &["must not start with '..'"]),
        (config_map_key, &long, &["must be no more than 253 characters"]),
        (env_var_name, "my var-1.x", &[]),
        (env_var_name, "a=b", &[ENV]),
        (env_var_name, "a\u{e4}", &[ENV]),
        (env_var_name, "", &["environment variable name must be non-empty"]),
        (csi_driver_name, "A.b", &[]),
        (csi_driver_name, "a_b", &[SUBDOMAIN]),
        (port_name, "http-1", &[]),
        (port_name, "80", &["must contain at least one letter (a-z)"]),
        (port_name, "a23456789012345x", &["must be no more than 15 characters"]),
        (
            port_name,
            "-A--",
            &[
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
        (http_header_name, "X-Y", &[]),
        (
            http_header_name,
            "a b",
            &[
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            ],
        ),
        (percent, "25%", &[]),
        (percent, "25", &[PERCENT]),
        (percent, "%", &[PERCENT]),
    ];
    for (i, (rule, text, expected)) in rows.iter().enumerate() {
        assert_eq!(rule(text), *expected, "row {i}: {text:?}");
    }
}

proptest! {
    #[test]
    fn validation_never_panics(text in "(\\PC|[a-zA-Z0-9./%=-]){0,70}") {
        for rule in [
            dns_subdomain, dns_subdomain_prefix, dns_label, dns_label_prefix, dns1035_label,
            dns1035_label_prefix, path_segment, path_segment_prefix, qualified_name, label_value,
            config_map_key, env_var_name, csi_driver_name, port_name, http_header_name, percent,
        ] {
            let _ = rule(&text);
        }
    }
}
