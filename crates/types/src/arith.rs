//! Arithmetic of values.
