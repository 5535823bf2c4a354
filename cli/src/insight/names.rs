//! Parses the names of objects and points in time: `KIND/NAME`, `KIND/NAME@REV`, `KIND/NAME@REV..REV`. Pure.
//!
//! As in kubectl, the kind may also be a word of its own, followed by the names of one or more objects.

use jiff::Timestamp;

/// An object as the user named it; the kind is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The kind as written: `pvc`, `PersistentVolume`, `deployments.apps`.
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A point in the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A revision of the server.
    Revision(u64),
    /// A wall-clock time.
    Time(Timestamp),
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Point::Revision(revision) => write!(f, "revision {revision}"),
            Point::Time(time) => write!(f, "{time}"),
        }
    }
}

/// A name that cannot be parsed, and the expected format.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{0:?} is not an object: use KIND/NAME, such as pvc/data, or KIND NAME, such as pvc data")]
    Object(String),
    #[error(
        "{0:?} has a kind of its own and objects with a kind: use KIND/NAME for each object, such as pvc/data pod/web, or KIND once, such \
         as pvc data logs"
    )]
    Mixed(String),
    #[error("{0:?} is neither a revision such as 1234 nor a time such as 2026-01-31T12:00:00Z")]
    Point(String),
    #[error(
        "{0:?} has no revision: use KIND/NAME@REV, such as pvc/data@1234 (`orlop history` shows revisions)"
    )]
    NoPoint(String),
    #[error("{0:?} is a range, but one revision is required: use KIND/NAME@REV")]
    Span(String),
    #[error("{0:?} is not a claim: use NAMESPACE/NAME, such as default/data")]
    Claim(String),
    #[error("{0:?} has no kind: use a kind, such as pvc, or KIND/NAME")]
    Kind(String),
    #[error("{given:?} is an object of the kind {kind:?}, but the command requires a {wanted}")]
    OtherKind { given: String, kind: String, wanted: &'static str },
}

/// Parses `KIND/NAME`.
pub(crate) fn object(text: &str) -> Result<Named, NameError> {
    let wrong = || NameError::Object(text.to_owned());
    let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
    if kind.is_empty() || name.is_empty() || name.contains(['/', '@']) || kind.contains('@') {
        return Err(wrong());
    }
    Ok(Named { kind: kind.to_owned(), name: name.to_owned() })
}

/// Parses objects, each with `parse`: `KIND/NAME...` or `KIND NAME...`.
pub(crate) fn several<T>(
    words: &[String],
    parse: impl Fn(&str) -> Result<T, NameError>,
) -> Result<Vec<T>, NameError> {
    match words.iter().filter(|word| word.contains('/')).count() {
        0 => match words {
            [kind, names @ ..] if !names.is_empty() => {
                names.iter().map(|name| parse(&format!("{kind}/{name}"))).collect()
            }
            _ => Err(NameError::Object(words.join(" "))),
        },
        combined if combined == words.len() => words.iter().map(|word| parse(word)).collect(),
        _ => Err(NameError::Mixed(words.join(" "))),
    }
}

/// Parses a revision or a time.
pub(crate) fn point(text: &str) -> Result<Point, NameError> {
    let wrong = || NameError::Point(text.to_owned());
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Point::Revision).map_err(|_| wrong());
    }
    text.parse().map(Point::Time).map_err(|_| wrong())
}

/// Parses `KIND/NAME@REV` or `KIND/NAME`.
pub(crate) fn object_at(text: &str) -> Result<(Named, Option<Point>), NameError> {
    let Some((named, when)) = text.split_once('@') else { return Ok((object(text)?, None)) };
    if when.contains("..") {
        return Err(NameError::Span(text.to_owned()));
    }
    Ok((object(named)?, Some(point(when)?)))
}

/// Parses `KIND/NAME@REV..REV`. Without the second revision, the range ends now.
pub(crate) fn object_between(text: &str) -> Result<(Named, Point, Option<Point>), NameError> {
    let (named, span) = text.split_once('@').ok_or_else(|| NameError::NoPoint(text.to_owned()))?;
    let (from, to) = span.split_once("..").unwrap_or((span, ""));
    let to = if to.is_empty() { None } else { Some(point(to)?) };
    Ok((object(named)?, point(from)?, to))
}

/// Parses `NS/CLAIM` to (namespace, name).
pub(crate) fn claim(text: &str) -> Result<(String, String), NameError> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        Some(_) | None => Err(NameError::Claim(text.to_owned())),
    }
}

/// Parses `KIND`, `KIND NAME` or `KIND/NAME` to (kind, name).
pub(crate) fn some_or_one(words: &[String]) -> Result<(String, Option<String>), NameError> {
    let wrong = || NameError::Kind(words.join(" "));
    match words {
        [one] if one.contains('/') => object(one).map(|named| (named.kind, Some(named.name))),
        [kind] if !kind.is_empty() => Ok((kind.clone(), None)),
        [kind, name] if !kind.is_empty() && !kind.contains('/') => {
            let named = object(&format!("{kind}/{name}"))?;
            Ok((named.kind, Some(named.name)))
        }
        _ => Err(wrong()),
    }
}

/// Parses a name whose kind the command implies. If the kind is written too, it must be the same.
pub(crate) fn of_kind(
    text: &str,
    resource: &'static str,
    wanted: &'static str,
    known_as: &[&str],
) -> Result<Named, NameError> {
    let named = match text.contains('/') {
        true => object(text)?,
        false => object(&format!("{resource}/{text}"))?,
    };
    let kind = named.kind.to_ascii_lowercase();
    if kind != resource && !known_as.contains(&kind.as_str()) {
        return Err(NameError::OtherKind { given: text.to_owned(), kind: named.kind, wanted });
    }
    Ok(Named { kind: resource.to_owned(), name: named.name })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(kind: &str, name: &str) -> Named {
        Named { kind: kind.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn objects_are_parsed() {
        for (text, wanted) in [
            ("pvc/data", Some(named("pvc", "data"))),
            ("deployments.v1.apps/web", Some(named("deployments.v1.apps", "web"))),
            ("clusterroles/system:node", Some(named("clusterroles", "system:node"))),
            ("pvc", None),
            ("pvc/", None),
            ("/data", None),
            ("default/pvc/data", None),
            ("pvc/data@7", None),
        ] {
            assert_eq!(object(text).ok(), wanted, "{text}");
        }
    }

    #[test]
    fn several_objects_are_parsed_as_in_kubectl() {
        let split = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (line, wanted) in [
            ("pvc/data", Ok(vec![named("pvc", "data")])),
            ("pvc data", Ok(vec![named("pvc", "data")])),
            ("PersistentVolumeClaims data", Ok(vec![named("PersistentVolumeClaims", "data")])),
            ("pvc/data pod/web", Ok(vec![named("pvc", "data"), named("pod", "web")])),
            ("deploy.apps web api", Ok(vec![named("deploy.apps", "web"), named("deploy.apps", "api")])),
            ("pvc", Err(NameError::Object("pvc".into()))),
            ("", Err(NameError::Object(String::new()))),
            ("pvc ", Err(NameError::Object("pvc/".into()))),
            (" data", Err(NameError::Object("/data".into()))),
            ("pvc pvc/data", Err(NameError::Mixed("pvc pvc/data".into()))),
            ("pvc/data web", Err(NameError::Mixed("pvc/data web".into()))),
            ("pvc/a/b", Err(NameError::Object("pvc/a/b".into()))),
            ("pvc data@7", Err(NameError::Object("pvc/data@7".into()))),
        ] {
            assert_eq!(several(&split(line), object), wanted, "{line:?}");
        }
        let at = |name, point| (named("pvc", name), point);
        assert_eq!(
            several(&split("pvc a@7 b"), object_at),
            Ok(vec![at("a", Some(Point::Revision(7))), at("b", None)])
        );
        assert_eq!(several(&[], object), Err(NameError::Object(String::new())));
    }

    #[test]
    fn revisions_and_times_are_parsed() {
        let noon = Point::Time("2026-01-31T12:00:00Z".parse().unwrap());
        for (text, wanted) in [
            ("7", Some(Point::Revision(7))),
            ("2026-01-31T12:00:00Z", Some(noon.clone())),
            ("2026-01-31T13:00:00+01:00", Some(noon.clone())),
            ("", None),
            ("-7", None),
            ("99999999999999999999999", None),
            ("yesterday", None),
        ] {
            assert_eq!(point(text).ok(), wanted, "{text}");
        }
        let data = named("pvc", "data");
        assert_eq!(object_at("pvc/data@7"), Ok((data.clone(), Some(Point::Revision(7)))));
        assert_eq!(object_at("pvc/data"), Ok((data.clone(), None)));
        assert_eq!(object_between("pvc/data"), Err(NameError::NoPoint("pvc/data".into())));
        assert_eq!(object_at("pvc/data@7..9"), Err(NameError::Span("pvc/data@7..9".into())));
        for (text, from, to) in [
            ("pvc/data@7..9", Point::Revision(7), Some(Point::Revision(9))),
            ("pvc/data@7..", Point::Revision(7), None),
            ("pvc/data@7", Point::Revision(7), None),
            ("pvc/data@7..2026-01-31T12:00:00Z", Point::Revision(7), Some(noon.clone())),
        ] {
            assert_eq!(object_between(text), Ok((data.clone(), from, to)), "{text}");
        }
        for text in ["pvc/data@..9", "pvc/data@7..9..11", "pvc@7..9", "pvc/data@"] {
            assert!(object_between(text).is_err(), "{text}");
        }
    }

    #[test]
    fn claims_and_kinds_are_parsed() {
        assert_eq!(claim("ns/data"), Ok(("ns".into(), "data".into())));
        for text in ["data", "ns/", "/data", "a/b/c"] {
            assert_eq!(claim(text), Err(NameError::Claim(text.into())));
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (given, wanted) in [
            (words(&["pv"]), Some(("pv".to_owned(), None))),
            (words(&["pv", "a"]), Some(("pv".to_owned(), Some("a".to_owned())))),
            (words(&["pv/a"]), Some(("pv".to_owned(), Some("a".to_owned())))),
            (words(&["pv/a", "b"]), None),
            (words(&["pv", "a/b"]), None),
            (words(&[""]), None),
        ] {
            assert_eq!(some_or_one(&given).ok(), wanted, "{given:?}");
        }
        let of = |text| of_kind(text, "persistentvolumes", "volume", &["pv"]);
        assert_eq!(of("a"), Ok(named("persistentvolumes", "a")));
        assert_eq!(of("PV/a"), Ok(named("persistentvolumes", "a")));
        let other = NameError::OtherKind { given: "pvc/a".into(), kind: "pvc".into(), wanted: "volume" };
        assert_eq!(of("pvc/a"), Err(other));
    }
}
