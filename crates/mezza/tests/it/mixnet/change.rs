//! A network changes its config while it runs.

use std::io::Write as _;

use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::{client, network};
use mezza_core::Time;
use mezza_mixnet::Service;
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::guest::Guest;
use super::town::Town;

/// From now until the successor begins, ms: enough to read it on a loaded machine.
const AHEAD_MS: u64 = 10_000;
/// From one round of a town to the next, ms.
const INTERVAL_MS: u64 = 500;
/// The first round of the successor.
const FIRST: u64 = 1_000_000_000;

/// A successor that begins where a conversation round of the config would.
fn successor(before: &Config, guardian: &ServerKey) -> SignedConfig {
    let (_, talk) = before.find_policy(Service::Conversation).unwrap();
    let round = talk.round_at(mezza::testing::clock::now().plus_ms(AHEAD_MS)).unwrap();
    let valid_from = talk.open_time(round).unwrap();
    let mut next = Config { seq: 1, prev: before.hash(), valid_from, ..before.clone() };
    for service in &mut next.services {
        (service.base_round, service.base_time) = (FIRST, valid_from);
    }
    let mut signed = SignedConfig::new(next);
    signed.add_signature(SignatureSet::Predecessor, 0, &guardian.signer());
    signed
}

#[test]
fn rounds_go_on_when_guardians_change_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::start(folder.path());
    let uri = town.files.make_uri().unwrap();
    let genesis = network::read_config(&town.files.config_path()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The first round opens before the successor is made, however slow the machine is.
    let (mut guest, first) = runtime.block_on(async {
        let chain = client::join_network(&uri).await.unwrap();
        let mut guest = Guest::welcomed(&chain).await;
        let told = guest.told(Service::Conversation).await.settings;
        (guest, told)
    });
    let next =
        successor(genesis.config(), &ServerKey::load(&town.files.key_path("guardian")).unwrap());
    let mut file = std::fs::OpenOptions::new().append(true).open(town.files.config_path()).unwrap();
    file.write_all(&next.encode()).unwrap();
    for server in &town.servers {
        kill(Pid::from_raw(server.id().try_into().unwrap()), Signal::SIGHUP).unwrap();
    }
    let opened = |config: &[u8; 32], round: u64| -> Time {
        let of = [genesis.config(), next.config()].into_iter().find(|of| of.hash() == *config);
        of.unwrap().find_policy(Service::Conversation).unwrap().1.open_time(round).unwrap()
    };
    let opens = runtime.block_on(async {
        let mut opens = vec![(first.id.round, opened(&first.config, first.id.round).as_ms())];
        loop {
            let told = guest.told(Service::Conversation).await.settings;
            opens.push((told.id.round, opened(&told.config, told.id.round).as_ms()));
            if told.id.round > FIRST {
                return opens;
            }
        }
    });
    assert!(opens[0].0 < FIRST, "rounds of both configs: {opens:?}");
    // A busy machine opens no round now and then; those that open keep their places, and follow each other.
    let mut gaps = opens.windows(2).map(|pair| pair[1].1 - pair[0].1);
    assert!(gaps.all(|gap| gap > 0 && gap % INTERVAL_MS == 0), "{opens:?}\n{}", town.logs());
    let chain = runtime.block_on(client::join_network(&uri)).unwrap();
    assert_eq!(chain.head_hash(), next.config().hash());
}
