//! The query string of a request.

use orlop_apimachinery::query::{query_bool, query_int};

use crate::status::ApiError;

/// Query parameters in their original order. The first of repeated parameters counts, except in
/// [`Query::all`].
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after the `?`.
    pub fn parse(raw: Option<&str>) -> Self {
        Query(form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// Whether the parameter is present.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The value of the parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value; `""` if absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean; absent means false.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(query_bool)
    }

    /// An integer; absent or empty is `None`.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => query_int(text).map(Some).map_err(ApiError::bad_request),
        }
    }
}
