//! placeholder: duration
