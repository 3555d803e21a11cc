//! pgproto
