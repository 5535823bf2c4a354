//! The findings of admission besides its decision.

/// Maximum size of a text of a webhook or a policy in the findings or in an error, bytes.
pub(crate) const MAX_TEXT: usize = 4 << 10;
/// Maximum size of all warnings, bytes.
const MAX_WARNINGS_TEXT: usize = 4 << 10;
/// Maximum number of warnings: each new one is compared with all others.
const MAX_WARNINGS: usize = 64;
/// Maximum number of annotations: each new one is compared with all others.
const MAX_ANNOTATIONS: usize = 64;
/// Maximum size of the key of an annotation, bytes: a DNS name, a slash and a name.
const MAX_KEY: usize = 253 + 1 + 63;

/// Warnings for the client, and annotations for the audit log. Findings beyond the limits are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Audit annotations. The first value of a key counts.
    pub(crate) annotations: Vec<(String, String)>,
    /// The size of the warnings, bytes.
    warnings_text: usize,
}

impl Findings {
    /// Adds a warning, once. The last one that does not fit is cut.
    pub(crate) fn warn(&mut self, text: String) {
        let left = MAX_WARNINGS_TEXT - self.warnings_text;
        if left == 0 || self.warnings.len() >= MAX_WARNINGS || self.warnings.contains(&text) {
            return;
        }
        if text.len() > left {
            let text = cut(&text, left).to_owned();
            self.warnings_text = MAX_WARNINGS_TEXT;
            self.warnings.extend((!text.is_empty()).then_some(text));
        } else {
            self.warnings_text += text.len();
            self.warnings.push(text);
        }
    }

    /// Adds an audit annotation. The value is cut.
    pub(crate) fn annotate(&mut self, key: String, value: String) {
        let fits = self.annotations.len() < MAX_ANNOTATIONS && key.len() <= MAX_KEY;
        if fits && !self.annotations.iter().any(|(known, _)| *known == key) {
            let value = if value.len() > MAX_TEXT { cut(&value, MAX_TEXT).to_owned() } else { value };
            self.annotations.push((key, value));
        }
    }
}

/// The longest prefix of a text with at most `max` bytes.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded() {
        let mut findings = Findings::default();
        findings.warn("first".to_owned());
        findings.warn("first".to_owned());
        findings.warn("é".repeat(1 << 20));
        findings.warn("last".to_owned());
        assert_eq!(findings.warnings.len(), 2);
        assert_eq!(findings.warnings[0], "first");
        assert!((MAX_WARNINGS_TEXT - 6..=MAX_WARNINGS_TEXT - 5).contains(&findings.warnings[1].len()));

        let mut findings = Findings::default();
        (0..1000).for_each(|at| findings.warn(at.to_string()));
        assert_eq!(findings.warnings.len(), MAX_WARNINGS);
    }

    #[test]
    fn annotations_are_bounded() {
        let mut findings = Findings::default();
        findings.annotate("k".repeat(MAX_KEY + 1), "long key".to_owned());
        findings.annotate("a".to_owned(), "é".repeat(1 << 20));
        findings.annotate("a".to_owned(), "second".to_owned());
        (0..1000).for_each(|at| findings.annotate(at.to_string(), String::new()));
        assert_eq!(findings.annotations.len(), MAX_ANNOTATIONS);
        assert_eq!((findings.annotations[0].0.as_str(), findings.annotations[0].1.len()), ("a", MAX_TEXT));
    }
}
