//! placeholder: quantity
