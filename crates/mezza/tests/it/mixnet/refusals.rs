//! The options with which a server does not start, and its errors.

use std::path::Path;

use mezza::testing::api::json::Health;
use mezza::testing::servers::mixnet::demo::DemoFiles;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::network;
use mezza_core::Time;
use mezza_mixnet::config::{Config, NetworkId, SignatureSet, SignedConfig};

use super::town::Town;
use crate::program::{Program, mezza, mixnet_status, ok, until};
use crate::two_homes::World;

struct Place {
    folder: tempfile::TempDir,
    files: DemoFiles,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
        Self { folder, files }
    }

    /// Runs a role with a key to its end: exit code and what it said.
    fn run(&self, role: &str, key: &str, more: &[&str]) -> (Option<i32>, String) {
        let config = self.files.config_path();
        let key = self.files.key_path(key);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let config = text(&config);
        let key = text(&key);
        let args = ["mixnet", role, "--config", &config, "--key", &key, "--metrics", "0"];
        let output = mezza(self.folder.path(), &[&args[..], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn slow_a_server_with_the_wrong_key_noise_or_place_says_what_to_do() {
    let place = Place::new();
    let listen = ["--listen", "127.0.0.1:0"];
    let dir = place.files.buckets();
    let dir = ["--dir", dir.to_str().unwrap()];
    let cases = [
        (
            place.run("mix", "entry", &listen),
            78,
            "mix: this key is no mix of the config; use the key",
        ),
        (
            place.run("mix", "mix1", &listen),
            1,
            "mix: over a year of all services the noise of this config reaches delta 1.00e0, and your \
             --min-noise allows 1e-4; lower --min-noise, or ask the guardians for a config",
        ),
        (place.run("entry", "mix0", &listen), 78, "entry: this key is not that of the config's"),
        (
            place.run("bucket", "mix0", &[&listen[..], &dir].concat()),
            78,
            "bucket: this key is not that of the config's bucket store; use the key",
        ),
        // All three find their port in the config in the same way.
        (place.run("entry", "mix0", &[]), 78, "entry: this key is not that of the config's entry"),
        (place.run("mix", "entry", &[]), 78, "mix: this key is no mix of the config; use the key"),
        (
            place.run("bucket", "mix0", &dir),
            78,
            "bucket: this key is not that of the config's bucket",
        ),
        (
            place.run("entry", "entry", &["--listen", "192.0.2.1:7000"]),
            78,
            "choose another address with `--listen`",
        ),
        (
            place.run("entry", "entry", &["--listen", "127.0.0.1:0", "--once"]),
            69,
            "entry: mix 0 did not answer in 10 s; check its log",
        ),
    ];
    for ((code, said), expected_code, expected) in cases {
        assert_eq!(code, Some(expected_code), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn mix_15_one_process_has_a_key_at_a_time() {
    let place = Place::new();
    let config = place.files.config_path();
    let key = place.files.key_path("mix0");
    let args = [
        "mixnet",
        "mix",
        "--config",
        config.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--min-noise",
        "none",
        "--metrics",
        "0",
    ];
    let first = Program::start(place.folder.path(), &args, &[]);
    crate::program::until("the first", || first.out().contains("mix "));
    let (code, said) =
        place.run("mix", "mix0", &["--listen", "127.0.0.1:0", "--min-noise", "none"]);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("another mix runs with"), "{said}");
}

/// A config that has ended lets no round begin: each server says so when it starts.
#[test]
fn mix_87_a_server_whose_config_has_ended_says_so() {
    let place = Place::new();
    let path = place.files.config_path();
    let config = network::read_config(&path).unwrap().config().clone();
    let ended = Config { valid_until: config.valid_from.plus_ms(Time::MINUTE_MS), ..config };
    let mut signed = SignedConfig::new(ended);
    let guardian = ServerKey::load(&path.with_file_name("guardian.key")).unwrap();
    signed.add_signature(SignatureSet::Own, 0, &guardian.signer());
    std::fs::write(&path, signed.encode()).unwrap();

    let dir = place.files.buckets();
    let noise = ["--min-noise", "none"];
    let folder = ["--dir", dir.to_str().unwrap()];
    for (role, key, more) in
        [("mix", "mix0", &noise[..]), ("bucket", "bucket", &folder), ("entry", "entry", &[])]
    {
        let key = place.files.key_path(key);
        let common = ["mixnet", role, "--listen", "127.0.0.1:0", "--metrics", "0"];
        let files = ["--config", path.to_str().unwrap(), "--key", key.to_str().unwrap()];
        let args = [&common[..], &files, more].concat();
        let server = Program::start(place.folder.path(), &args, &[]);
        until("the warning", || server.log().contains("config of this network has ended"));
    }
}

/// Where the entry of a person's network was, that of another one answers now.
#[test]
fn slow_an_entry_that_serves_another_network_is_said() {
    let world = World::start();
    let mut town = Town::start(world.folder());
    let link = town.files.make_uri().unwrap();
    let home = world.init("Ann");
    let node = world.node(&home);
    ok(&home, &["mixnet", "join", &link.to_string()]);
    until("the mixnet", || mixnet_status(&home)["up"] == true);

    // The last of the servers is the entry.
    drop(town.servers.pop());
    let elsewhere = world.folder().join("elsewhere");
    let other = Town::with(&elsewhere, |_| link.address.clone());
    let light = || {
        let health: Health = node.client().unwrap().get("/v1/health").unwrap();
        health.lines.into_iter().find(|line| line.name == "mixnet").unwrap()
    };
    until("a bad light", || !light().ok && light().text.contains("another network"));
    // Nobody answers there any more, so nobody serves another network.
    drop(other);
    until("another light", || light().text.contains("no round comes back"));
}

/// The servers of a person's network serve another one: the same keys and addresses, another name.
#[test]
fn msg_123_slow_a_network_that_was_replaced_is_no_good_health() {
    let world = World::start();
    let town = Town::start(world.folder());
    let link = town.files.make_uri().unwrap();
    let home = world.init("Ann");
    let node = world.node(&home);
    ok(&home, &["mixnet", "join", &link.to_string()]);
    until("the mixnet", || mixnet_status(&home)["up"] == true);

    let path = town.files.config_path();
    drop(town);
    let before = network::read_config(&path).unwrap();
    let other = Config { network: NetworkId([7; 16]), ..before.config().clone() };
    let mut signed = SignedConfig::new(other);
    let guardian = path.with_file_name("guardian.key");
    signed.add_signature(SignatureSet::Own, 0, &ServerKey::load(&guardian).unwrap().signer());
    std::fs::write(&path, signed.encode()).unwrap();
    let _town = Town::start(world.folder());
    let light = || {
        let health: Health = node.client().unwrap().get("/v1/health").unwrap();
        health.lines.into_iter().find(|line| line.name == "mixnet").unwrap()
    };
    until("a bad light", || !light().ok && light().text.contains("another network"));
    let status = mezza(&home, &["mixnet", "status"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("carrier   down: the entry server announces rounds"), "{text}");
    assert_eq!(status.status.code(), Some(1), "{text}");
}
