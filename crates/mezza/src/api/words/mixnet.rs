//! Words that are of the mixnet alone.

use mezza_mixnet::client::ClientError;

use crate::api::{Exit, Fault};

/// Where a note is that the mixnet took.
pub(super) const HANDED: &str = "in the mixnet";

pub(super) fn too_many_networks() -> Fault {
    Fault::new(
        Exit::No,
        "this home has left 32 mixnets and remembers what was spent in each",
        "join one of those again, or use another folder with `--home DIR`",
    )
}

pub(super) fn set_aside() -> Fault {
    Fault::new(
        Exit::Malformed,
        "what is stored of a mixnet could not be read, and is not written over",
        "install the newest version, and look at `mezza doctor`",
    )
}

pub(super) fn bad_address() -> Fault {
    Fault::new(
        Exit::Usage,
        "the address of the network is longer than 255 bytes",
        "ask whoever gave you the link for a shorter one",
    )
}

/// The network's client refuses what the entry said, or what it was asked.
pub(super) fn client(error: ClientError) -> Fault {
    Fault::new(Exit::Unreachable, error.to_string(), "look at `mezza mixnet status`")
}
