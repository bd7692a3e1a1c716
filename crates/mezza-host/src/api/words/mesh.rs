//! Texts about the mesh.

use mezza_messenger::policy::NoteLife;

use super::CarrierFacts;
use super::aside::PartWords;
use crate::api::json::HealthLine;
use crate::api::{Exit, Fault};

/// The text for a note that waits because this device has no keys for the mesh.
pub(super) const NO_OWN_KEYS: &str =
    "waiting: you have no keys for the mesh; `mezza card --mesh` makes them";

/// Returns the name of a life, as options, settings and JSON contain it.
pub const fn name_life(life: NoteLife) -> &'static str {
    match life {
        NoteLife::Minute => "minute",
        NoteLife::HalfHour => "half-hour",
        NoteLife::HalfDay => "half-day",
    }
}

/// Returns the health line of the mesh. `trouble` is the reason why no node answers.
pub fn describe_health(trouble: Option<&str>, facts: &CarrierFacts) -> HealthLine {
    let bad = |text, next| HealthLine::bad("mesh", text, next);
    if let Some(trouble) = trouble {
        return bad(trouble, "look at `mezza mesh status`");
    }
    match facts.connections.first() {
        None => bad("the node has not told its time yet", "look again in a moment"),
        Some(mesh) if !mesh.own => bad(
            "your card has no keys for it, so nobody can write to you over it",
            "make them with `mezza card --mesh`",
        ),
        Some(mesh) if !mesh.up => HealthLine::good("mesh", "no neighbour is heard"),
        Some(mesh) => {
            HealthLine::good("mesh", &format!("neighbours are heard, at level {}", mesh.caps.level))
        }
    }
}

/// Describes a key tree that did not load.
pub(super) fn tree_aside() -> PartWords {
    let next = "make new keys with `mezza card --mesh`; your contacts get the new card with your \
                next note";
    ("mesh keys".into(), "the keys for the mesh".into(), next)
}

/// Returns the fault for keys that cannot be made, because the clock is not accurate enough.
pub(super) fn no_clock() -> Fault {
    let text = "nobody vouches for the clock of this device, and keys for the mesh depend on it";
    let next = "compare date and time, set them if they are wrong, then `mezza card --mesh \
                --confirm-clock`";
    Fault::new(Exit::Config, text, next)
}

/// Returns the fault for a card that has no room for the keys of the mesh.
pub fn no_room() -> Fault {
    let text = "the card has no room for the keys of the mesh";
    let next =
        "make room with a shorter name, or one relay with a shorter host: `mezza card renew`";
    Fault::new(Exit::No, text, next)
}

/// Returns the fault for a node that runs without the mesh, or whose mesh node has not reported its
/// time.
pub fn no_mesh() -> Fault {
    let text = "this node is in no mesh, or has not heard its own clock yet";
    let next = "write `mesh = true` into config.toml and start the node again; then look at \
                `mezza doctor`";
    Fault::new(Exit::Unreachable, text, next)
}

#[cfg(test)]
mod tests {
    use mezza_core::Time;
    use mezza_messenger::CarrierId;
    use mezza_messenger::carriers::mesh::CAPS;
    use mezza_messenger::io::Places;
    use mezza_messenger::view::ConnectionView;

    use super::*;

    #[test]
    fn node_24_the_line_of_the_mesh_says_what_was_proven() {
        let facts = |connections: &[(bool, bool)]| CarrierFacts {
            connections: connections
                .iter()
                .map(|(own, up)| ConnectionView {
                    carrier: CarrierId::MESH,
                    relay: None,
                    own: *own,
                    up: *up,
                    places: Places::default(),
                    left: None,
                    caps: CAPS,
                })
                .collect(),
            date: Time::default(),
            alone: 0,
            doubted: false,
            network: None,
        };
        let line = |trouble, connections: &[(bool, bool)]| {
            let line = describe_health(trouble, &facts(connections));
            (line.ok, line.text)
        };
        assert!(!line(None, &[]).0 && !line(None, &[(false, true)]).0);
        assert_eq!(line(None, &[(true, false)]), (true, "no neighbour is heard".into()));
        assert_eq!(line(None, &[(true, true)]), (true, "neighbours are heard, at level 2".into()));
        assert_eq!(line(Some("gone"), &[(true, true)]), (false, "gone".into()));
    }
}
