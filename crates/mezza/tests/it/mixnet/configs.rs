//! Networks with many configs behind them take new members.

use std::net::{Ipv4Addr, SocketAddr};

use mezza::testing::api::Exit;
use mezza::testing::api::network_uri::NetworkUri;
use mezza::testing::servers::mixnet::demo::DemoFiles;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::network::{self, ConfigArchive};
use mezza::testing::servers::mixnet::{client, entry};
use mezza_core::Time;
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use mezza_mixnet::limits::CONFIGS_MAX;
use tokio::sync::watch;

/// A genesis that began a day ago, and its successors, one a second.
fn configs(files: &DemoFiles, count: usize) -> Vec<SignedConfig> {
    let guardian = ServerKey::load(&files.key_path("guardian")).unwrap();
    let mut next = network::read_config(&files.config_path()).unwrap().config().clone();
    next.valid_from = mezza::testing::clock::now().minus_ms(Time::DAY_MS);
    let mut all = Vec::new();
    for seq in 0..count {
        let mut signed = SignedConfig::new(next.clone());
        let set = if seq == 0 { SignatureSet::Own } else { SignatureSet::Predecessor };
        signed.add_signature(set, 0, &guardian.signer());
        all.push(signed);
        let valid_from = next.valid_from.plus_ms(1_000);
        let prev = next.hash();
        next = Config { seq: next.seq + 1, prev, valid_from, ..next };
        for service in &mut next.services {
            (service.base_round, service.base_time) = (service.base_round + 1_000, valid_from);
        }
    }
    all
}

/// An entry that serves these configs, the first of which are its own; somebody joins.
async fn join(files: &DemoFiles, archive: Vec<SignedConfig>, own: usize) -> Result<[u8; 32], Exit> {
    let ConfigArchive { chain, .. } =
        ConfigArchive::check_configs(archive[..own].to_vec(), mezza::testing::clock::now())
            .unwrap();
    let genesis = archive[0].config().hash();
    let options = entry::EntryServerOptions {
        network: ConfigArchive { chain, archive },
        key: ServerKey::load(&files.key_path("entry")).unwrap(),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        per_prefix: 0,
        once: false,
        metrics: 0,
    };
    let (stop, stopped) = watch::channel(false);
    let running = entry::start(options, stopped).await.unwrap();
    let uri = NetworkUri { genesis, address: running.address.to_string() };
    let joined = client::join_network(&uri).await;
    stop.send(true).unwrap();
    running.task.await.unwrap().unwrap();
    joined.map(|chain| chain.head_hash()).map_err(|fault| fault.code)
}

#[tokio::test]
async fn mix_43_networks_with_as_many_configs_as_they_may_have_take_new_members() {
    let folder = tempfile::tempdir().unwrap();
    let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let all = configs(&files, CONFIGS_MAX + 1);
    for count in [70, 100, CONFIGS_MAX] {
        let head = all[count - 1].config().hash();
        assert_eq!(join(&files, all[..count].to_vec(), count).await, Ok(head), "{count} configs");
    }
    // One more is refused by name, by who serves it and by who joins.
    let fault =
        ConfigArchive::check_configs(all.clone(), mezza::testing::clock::now()).unwrap_err();
    assert!(fault.to_string().contains("at most 1,024 configs"), "{fault}");
    assert_eq!(join(&files, all, CONFIGS_MAX).await, Err(Exit::No));
}
