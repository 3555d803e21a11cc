//! What promises cost: with 500 tenants at once ([`crowd`]), where one tenant does what it can to harm the others ([`hostile`]), and
//! where there is nobody to be kept from ([`governor`]).

mod attacks;
mod crowd;
mod governor;
mod hostile;
mod interleaved;
mod verdicts;

pub(super) use crowd::part as crowd;
pub(super) use governor::part as governor;
pub(super) use hostile::part as hostile;
