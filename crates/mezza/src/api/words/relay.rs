//! Words that are of relays alone.

use crate::api::{Exit, Fault};

/// Where a note is that a relay took.
pub(super) const HANDED: &str = "the relay took it";

pub(super) fn too_many() -> Fault {
    Fault::new(Exit::Usage, "a card holds one relay", "leave out the others")
}
