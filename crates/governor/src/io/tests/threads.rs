//! Threads.
