//! The meter against the paper's examples, against a recomputation from the trace, and against broken schedulers.

mod causes;
mod paper;
mod recomputed;
mod rows;
