//! CEL.
