//! Fuzz targets: one per decoder, one per machine.
//!
//! A target takes bytes and must not panic. Decoders must satisfy `encode(decode(x)) = x` where a
//! form is canonical; machines are driven by a list of operations encoded in the bytes, and every
//! refusal must leave the encoded state unchanged.
//!
//! The targets are independent of a fuzzer: `fuzz_targets/` passes them to libFuzzer, `main.rs`
//! runs them on the stable compiler with random bytes and with damaged copies of [`Target::seeds`].

mod backup;
mod conversation;
mod decoders;
mod device;
mod frames;
mod guard;
mod hibe;
mod keyed_peer;
#[path = "../../crates/mezza-seka/tests/it/stage.rs"]
#[expect(dead_code, reason = "the link's own tests use the rest")]
mod link_stage;
mod mesh;
mod mixnet;
mod mixnet_decoders;
#[path = "../../crates/mezza-messenger/tests/it/model.rs"]
mod model;
mod mutate;
#[path = "../../crates/mezza-messenger/tests/it/saved.rs"]
#[expect(dead_code, reason = "the device's own tests use the rest")]
mod saved;
mod seka;
#[path = "../../crates/mezza-messenger/tests/it/stage.rs"]
#[expect(dead_code, reason = "the device's own tests use the rest")]
mod stage;
mod vault;

use mezza_sim::operations;
pub use mutate::Mutator;

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target on the command line.
    pub name: &'static str,
    /// Takes any bytes; a panic is a finding.
    pub run: fn(&[u8]),
    /// Valid inputs, for mutation and for a corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "card", run: decoders::check_card, seeds: decoders::card_seeds },
    Target { name: "uri", run: decoders::check_uri, seeds: decoders::uri_seeds },
    Target { name: "note", run: decoders::check_note, seeds: decoders::note_seeds },
    Target { name: "envelope", run: decoders::check_envelope, seeds: decoders::envelope_seeds },
    Target { name: "window", run: decoders::check_window, seeds: decoders::window_seeds },
    Target { name: "list", run: decoders::check_list, seeds: decoders::list_seeds },
    Target { name: "hibe_card", run: hibe::check_card, seeds: hibe::card_seeds },
    Target { name: "hibe_envelope", run: hibe::check_envelope, seeds: hibe::envelope_seeds },
    Target { name: "hibe_detect", run: hibe::check_detect, seeds: hibe::detect_seeds },
    Target { name: "hibe_store", run: hibe::check_store, seeds: hibe::store_seeds },
    Target { name: "hibe_tree", run: hibe::run_operations, seeds: operations::random_lists },
    Target { name: "frames", run: frames::check_frames, seeds: frames::frame_seeds },
    Target { name: "guard_decoders", run: guard::check_decoders, seeds: guard::decoder_seeds },
    Target { name: "guard_machine", run: guard::run_machine, seeds: operations::random_lists },
    Target {
        name: "link_connection",
        run: frames::check_link_frames,
        seeds: frames::link_frame_seeds,
    },
    Target { name: "link_frames", run: seka::check_frames, seeds: seka::frame_seeds },
    Target { name: "link_offload", run: seka::check_offload, seeds: operations::random_lists },
    Target { name: "link_pairing", run: seka::run_pairing, seeds: operations::random_lists },
    Target { name: "link_peers", run: seka::run_peers, seeds: operations::random_lists },
    Target { name: "link_record", run: seka::check_record, seeds: seka::record_seeds },
    Target { name: "link_stream", run: seka::check_stream, seeds: operations::random_lists },
    Target {
        name: "mix_frames",
        run: mixnet_decoders::check_frames,
        seeds: mixnet_decoders::frame_seeds,
    },
    Target {
        name: "mix_config",
        run: mixnet_decoders::check_config,
        seeds: mixnet_decoders::config_seeds,
    },
    Target {
        name: "mix_objects",
        run: mixnet_decoders::check_objects,
        seeds: mixnet_decoders::object_seeds,
    },
    Target { name: "bundle", run: conversation::check_bundle, seeds: conversation::bundle_seeds },
    Target {
        name: "message",
        run: conversation::check_message,
        seeds: conversation::message_seeds,
    },
    Target { name: "stored", run: conversation::check_stored, seeds: conversation::stored_seeds },
    Target {
        name: "conversation",
        run: conversation::run_operations,
        seeds: operations::random_lists,
    },
    Target { name: "device", run: device::run_operations, seeds: operations::random_lists },
    Target { name: "keyed_peer", run: keyed_peer::run_operations, seeds: operations::random_lists },
    Target { name: "records", run: device::check_records, seeds: device::record_seeds },
    Target { name: "mesh_frames", run: mesh::check_frames, seeds: mesh::frame_seeds },
    Target { name: "mesh_node", run: mesh::run_node, seeds: operations::random_lists },
    Target { name: "mesh_traces", run: mesh::check_traces, seeds: mesh::trace_seeds },
    Target { name: "mixnet_client", run: mixnet::run_client, seeds: operations::random_lists },
    Target { name: "mixnet_record", run: mixnet::check_record, seeds: mixnet::record_seeds },
    Target { name: "mixnet_rows", run: mixnet::check_rows, seeds: mixnet::row_seeds },
    Target { name: "backup_archive", run: backup::archive, seeds: backup::archive_seeds },
    Target { name: "vault_head", run: vault::check_head, seeds: vault::head_seeds },
    Target { name: "vault_ring", run: vault::check_ring, seeds: vault::ring_seeds },
    Target { name: "vault_body", run: vault::check_body, seeds: vault::body_seeds },
];

/// Runs the target of this name on `data`.
///
/// # Panics
/// If there is no such target, or the target has a finding.
pub fn run_target(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").run)(data);
}
