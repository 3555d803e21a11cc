//! Recovery over the simulated disk.
