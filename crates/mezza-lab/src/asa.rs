//! Algorithm substitution attacks (thesis, section 3.2): the tampered device, and the attacker who
//! observes the wire. For the lab alone.

pub mod cell;
pub mod element;
pub mod portfolio;
pub mod sampling;
pub mod session;
pub mod statistics;
pub mod symbol;

pub use element::Element;
pub use sampling::RejectionSampling;
pub use symbol::{AttackKey, Planted, Sequence};
