//! governor
