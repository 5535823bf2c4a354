//! What admission found, besides its decision.

/// Warnings for the client, and annotations for the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Audit annotations. The first value of a key counts.
    pub(crate) annotations: Vec<(String, String)>,
}

impl Findings {
    /// Adds a warning, once.
    pub(crate) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Adds an audit annotation.
    pub(crate) fn annotate(&mut self, key: String, value: String) {
        if !self.annotations.iter().any(|(known, _)| *known == key) {
            self.annotations.push((key, value));
        }
    }
}
