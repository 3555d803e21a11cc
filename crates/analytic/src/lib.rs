//! analytic
