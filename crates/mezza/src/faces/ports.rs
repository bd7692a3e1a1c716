//! The loopback ports that the program uses by default, in one place, so that no two meet (MSG-82).
//!
//! | port | what |
//! |---|---|
//! | 7100 | the page |
//! | 7101 | the relay |
//! | 7106 | the mesh (UDP, and TCP for streams) |
//! | 7110-7117 | the metrics of the mixes of a network, by their position in the config |
//! | 7118, 7119 | the metrics of its entry and of its bucket store |
//!
//! If its port is taken, the page (and in the demonstration the relay) tries the next ports that
//! are not defaults.

use mezza_host::process::metrics::{BUCKET_PORT, ENTRY_PORT, MIX_PORT};
use mezza_servers::mesh::udp;

/// The port of the page.
pub(crate) const PAGE: u16 = 7_100;
/// The port of the relay.
pub(crate) const RELAY: u16 = 7_101;
/// The port of the mesh.
pub(crate) const MESH: u16 = udp::PORT;
/// Ports that are tried after a taken one.
pub(crate) const TRIES_MAX: u16 = 100;

/// Returns the requested port, then the ports to try if it is taken, without default ports of other
/// parts. 0 lets the system choose and stays 0.
pub(crate) fn candidates(wish: u16) -> impl Iterator<Item = u16> {
    let after = move |n| if wish == 0 { Some(0) } else { wish.checked_add(n) };
    let next = (1..=TRIES_MAX).filter_map(after).filter(|port| !is_default(*port));
    std::iter::once(wish).chain(next)
}

fn is_default(port: u16) -> bool {
    let metrics = MIX_PORT..=ENTRY_PORT.max(BUCKET_PORT);
    port == PAGE || port == RELAY || port == udp::PORT || metrics.contains(&port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mezza_mixnet::limits::MIXES_MAX;

    use super::*;
    use crate::faces::config::Settings;

    #[test]
    fn msg_82_default_ports_never_meet() {
        let mixes = (0..MIXES_MAX as u16).map(|at| MIX_PORT + at);
        let all: Vec<u16> =
            [PAGE, RELAY, udp::PORT, ENTRY_PORT, BUCKET_PORT].into_iter().chain(mixes).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        let settings = Settings::default();
        assert_eq!(settings.web_port, PAGE);
        assert!(settings.relay_listen.ends_with(&format!(":{RELAY}")));
        for own in [PAGE, RELAY] {
            let tried: Vec<u16> = candidates(own).collect();
            assert_eq!(tried[0], own);
            assert!(tried.len() > 80, "{}", tried.len());
            assert!(tried[1..].iter().all(|port| !all.contains(port)), "{tried:?}");
        }
    }

    #[test]
    fn a_wished_port_is_tried_even_if_it_is_a_default() {
        assert_eq!(candidates(RELAY).next(), Some(RELAY));
        assert!(candidates(0).all(|port| port == 0));
        assert_eq!(candidates(u16::MAX - 1).collect::<Vec<_>>(), [u16::MAX - 1, u16::MAX]);
    }
}
