//! placeholder: names
