//! placeholder: meta
