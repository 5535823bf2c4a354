//! placeholder: fields
