//! placeholder: labels
