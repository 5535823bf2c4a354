//! The default pull policy of an image.

/// The default pull policy: `Always` for images without a tag or digest and for `latest`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let rest = match name.split_once('/') {
        // A first component with a dot, a port or capital letters is a registry, as is `localhost`.
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first =>
        {
            rest
        }
        Some(_) | None => name,
    };
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        Some(_) | None => (rest, ""),
    };
    // An invalid image name has no tag either; validation reports it.
    let is_name = !path.is_empty() && !path.contains(|c: char| c.is_uppercase() || c.is_whitespace());
    let latest = tag == "latest" || (tag.is_empty() && !digest);
    if is_name && latest { "Always" } else { "IfNotPresent" }
}
