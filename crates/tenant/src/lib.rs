//! tenant
