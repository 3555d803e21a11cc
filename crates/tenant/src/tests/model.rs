//! Random transactions against a plain model.
