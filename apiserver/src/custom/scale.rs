//! The scale of custom kinds.
