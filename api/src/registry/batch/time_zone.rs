//! The names of time zones.

use orlop_apimachinery::cron::time_zone;

use crate::validate::{FieldErrors, Path};

const LONGEST_PART: usize = 14;

/// Validates the time zone of a CronJob.
pub(super) fn validate_time_zone(name: Option<&str>, path: &Path, errors: &mut FieldErrors) {
    let Some(name) = name else { return };
    if name.is_empty() {
        return errors.invalid(path, name, "timeZone must be nil or non-empty string");
    }
    let unknown = format!("unknown time zone {name}");
    let is_part = |part: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=LONGEST_PART).contains(&part.len())
            && part.bytes().all(is_valid)
    };
    if !name.split('/').all(is_part) {
        return errors.invalid(path, name, &unknown);
    }
    if name.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, name, why);
    }
    if time_zone(name).is_none() {
        errors.invalid(path, name, &unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::testing::causes;

    #[test]
    fn only_known_time_zones_are_valid() {
        let explicit = "Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        for (name, want) in [
            (None, None),
            (Some("Etc/UTC"), None),
            (Some("UTC"), None),
            (Some("Europe/Berlin"), None),
            (Some("America/Argentina/Rio_Gallegos"), None),
            (Some(""), Some("Invalid value: \"\": timeZone must be nil or non-empty string")),
            (Some("Mars/Base"), Some("Invalid value: \"Mars/Base\": unknown time zone Mars/Base")),
            (
                Some("europe/berlin"),
                Some("Invalid value: \"europe/berlin\": unknown time zone europe/berlin"),
            ),
            (Some("../UTC"), Some("Invalid value: \"../UTC\": unknown time zone ../UTC")),
            (Some("Local"), Some(explicit)),
        ] {
            let want: Vec<_> = want.iter().map(|text| ("FieldValueInvalid", "z", *text)).collect();
            let found = causes(|errors| validate_time_zone(name, &Path::new("z"), errors));
            assert_eq!(found, want, "{name:?}");
        }
    }
}
