//! "Signal with Blake2, Chacha20 and Poly1305": its three tables, its two figures, and what it
//! did not look at.

mod tables;

use super::Experiment;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "signal-t1",
        about: "Table 1: BLAKE2b against SHA-512",
        rev: 1,
        peers: tables::PEERS,
        seconds: [15, 120, 400],
        run: tables::hashes,
    },
    Experiment {
        id: "signal-t2",
        about: "Table 2: ChaCha20-Poly1305 on a short text",
        rev: 1,
        peers: tables::PEERS,
        seconds: [15, 120, 400],
        run: tables::short_text,
    },
    Experiment {
        id: "signal-t3",
        about: "Table 3: ChaCha20-Poly1305 on a 1.4 MB file",
        rev: 1,
        peers: tables::PEERS,
        seconds: [20, 150, 500],
        run: tables::file,
    },
];
