//! The files that decide about keys, levels, evidence and limits, and the tests that have to notice.
//!
//! Left out are encoders and decoders, cryptography and formats on disk: vectors, a second
//! implementation and fuzz targets hold those.

/// One file, below `src` of its crate.
pub struct File {
    pub path: &'static str,
    /// The decision that the file makes, for which it is listed.
    #[cfg_attr(not(test), expect(dead_code, reason = "for people and for the test of this list"))]
    pub about: &'static str,
}

/// A crate, and the tests that run for each of its mutants.
pub struct Examined {
    pub name: &'static str,
    pub files: &'static [File],
    /// The tests, as arguments of `cargo test`.
    pub tests: &'static [&'static str],
    /// Names of tests that are left out: they take minutes, need other programs, or wait.
    pub skipped: &'static [&'static str],
}

const fn file(path: &'static str, about: &'static str) -> File {
    File { path, about }
}

const LIB_AND_IT: &[&str] = &["--lib", "--test", "it"];

/// All of them.
pub const CRATES: [Examined; 7] = [
    Examined {
        name: "mezza-ratchet",
        files: &[
            file("negotiate.rs", "which suite two devices take"),
            file("bundle.rs", "which keys of others are accepted, and until when"),
            file("bundle/entry.rs", "which keys of one suite"),
            file("x3dh.rs", "which handshakes are accepted"),
            file("prekeys.rs", "which own keys live, and how long"),
            file("prekeys/rotation.rs", "when keys change"),
            file("session/chain.rs", "which message keys exist"),
            file("session/skipped.rs", "how many are kept"),
            file("conversation.rs", "which session a message belongs to"),
            file("conversation/open.rs", "what a message that does not open changes"),
        ],
        tests: LIB_AND_IT,
        skipped: &["interop::", "world"],
    },
    Examined {
        name: "mezza-mixnet",
        files: &[
            file("batch.rs", "who is permuted with whom"),
            file("mix/accept.rs", "which rounds, sizes and times a mix signs for"),
            file("mix/forward.rs", "when a batch leaves"),
            file("mix/backward.rs", "which replies leave, and what is wiped"),
            file("job/batch.rs", "which onions are forwarded"),
            file("job/noise.rs", "whether a trap came back"),
            file("client/machine/answers.rs", "levels, and what an answer changes"),
            file("client/machine/fill.rs", "which cell is filled"),
            file("client/machine/rounds.rs", "when a client sends, and what is charged"),
            file("privacy/ledger.rs", "how much of the promise is used"),
            file("stream/receiver.rs", "which cells are taken"),
            file("config/chain.rs", "which configs are followed"),
            file("config/check.rs", "which configs are sound"),
        ],
        tests: LIB_AND_IT,
        skipped: &["worlds::", "two_of_three::", "intersection::", "city::"],
    },
    Examined {
        name: "mezza-messenger",
        files: &[
            file("evidence.rs", "which state the facts prove"),
            file("policy.rs", "which carrier a pin allows"),
            file("receipt/window.rs", "what is acknowledged"),
            file(
                "carriers/mixnet/peer.rs",
                "when a contact has had its part of the mixnet's rounds",
            ),
            file(
                "carriers/relay/leaving.rs",
                "which way leads into a mailbox, and what it waits for",
            ),
            file("carriers/relay/connections.rs", "which connections are kept"),
            file("sessions/replay.rs", "what is taken for a repeat"),
            file("threads/quota.rs", "how much of a contact's notes is kept"),
            file("outbox.rs", "what is owed, sealed again, or given up"),
            file("device/arrive.rs", "what an arriving parcel changes, and its limits"),
            file("device/aside.rs", "what is not written over because it could not be read"),
            file("device/first.rs", "which bundle begins a session"),
            file("device/leave.rs", "what leaves, by which carrier, under which pin"),
        ],
        tests: LIB_AND_IT,
        skipped: &["world::", "town::", "model::"],
    },
    Examined {
        name: "mezza-seka",
        files: &[
            file("exchange.rs", "which tags fit"),
            file("pairing/heard.rs", "who is paired with"),
            file("pairing/digits.rs", "whether two users have compared"),
            file("peer/initiator.rs", "which attempts begin, and which answers are accepted"),
            file("peer/responder.rs", "which attempts are answered, and under which state"),
            file("peer/staged.rs", "what becomes true with a write"),
            file("peer/flush.rs", "what a write that fails changes"),
            file("peer/sessions.rs", "which sessions are open, and until when"),
            file("peer/alarm.rs", "whether the peer is still recognised"),
            file("window.rs", "which packets were seen"),
        ],
        tests: LIB_AND_IT,
        skipped: &["worlds::adverse", "model::search::long"],
    },
    Examined {
        name: "mezza",
        files: &[
            file("store/day.rs", "which bucket a record is sealed in, and when it is forgotten"),
            file("store/keyring.rs", "which keys are kept"),
            file("store/witness.rs", "whether a vault was put back"),
            file("carriers/pace.rs", "how fast a line may bring work"),
            file("process/limiter.rs", "how many connections come in before TLS"),
            file("process/limiter/room.rs", "which connection makes room for another"),
            file("process/rate.rs", "how often something may happen"),
            file("servers/relay/limits.rs", "how much a client may do"),
            file("servers/relay/usage.rs", "how much a client has done"),
            file("servers/relay/connection/requests.rs", "which requests are answered"),
            file("servers/relay/writer/apply.rs", "which jobs change the store"),
            file(
                "servers/relay/writer/bundles.rs",
                "which bundles and one-time keys are kept and given out",
            ),
            file("servers/relay/writer/job.rs", "how much waits for the writer"),
            file("servers/relay/writer/ledger.rs", "how full a mailbox is"),
            file("servers/relay/writer/shares.rs", "how much of the relay a site may fill"),
            file("faces/web/local_auth.rs", "who comes in"),
            file("process/home/private.rs", "which files are trusted"),
            file("faces/passphrase.rs", "which passphrases are taken"),
            file("faces/ports.rs", "which ports are tried"),
            file("faces/cli/show.rs", "what reaches a terminal"),
        ],
        tests: LIB_AND_IT,
        // Names of processes' tests; the modules `cli`, `node` and `mixnet` have tests of their own.
        skipped: &[
            "cli::a_kernel",
            "cli::cli_",
            "cli::every",
            "cli::json",
            "cli::msg_",
            "kill::",
            "mixnet::capture",
            "mixnet::change",
            "mixnet::configs",
            "mixnet::guardians",
            "mixnet::interop",
            "mixnet::links",
            "mixnet::people",
            "mixnet::processes",
            "mixnet::refusals",
            "mixnet::wipe",
            "node::a_relay",
            "node::an_identity",
            "node::node_",
            "postgres::",
            "silence::",
            "two_homes::",
        ],
    },
    Examined {
        name: "mezza-lanes",
        files: &[file("selftest.rs", "whether a kernel computes right")],
        tests: &["--lib"],
        skipped: &[],
    },
    Examined {
        name: "mezza-lab",
        files: &[
            file("row.rs", "which rows hold, and the exit code"),
            file("limit.rs", "directions of limits"),
            file("goals/node/talk/m1.rs", "limits that are figures of the run"),
            file("fit.rs", "lines through points"),
            file("shape.rs", "claims of the papers"),
        ],
        tests: &["--bins"],
        skipped: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_is_there_and_says_why() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for examined in &CRATES {
            for File { path, about } in examined.files {
                let file = root.join(examined.name).join("src").join(path);
                assert!(file.is_file(), "{} has moved", file.display());
                assert!(!about.is_empty(), "{path}");
            }
        }
    }
}
