//! Two devices without a relay, and a mesh between them that the test holds in its hands.

mod keys;
mod kills;
mod lives;
mod meadow;
mod regressions;
mod talk;
