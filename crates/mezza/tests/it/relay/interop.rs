//! The relay with a client that nobody here wrote: Python's hashlib and `GnuTLS`.

use std::path::Path;
use std::process::Command;

use mezza::testing::clock::Clock;

use super::fixture::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_over_gnutls_puts_and_fetches() {
    let found = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(missing) = ["python3", "gnutls-cli"].into_iter().find(|program| !found(program)) {
        println!("SKIPPED interop: no {missing}; apt install python3 gnutls-bin");
        let required = std::env::var_os("MEZZA_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!required, "MEZZA_REQUIRE_ALL=1, but there is no {missing}");
        return;
    }
    let place = Place::sqlite();
    let mut config = place.config();
    config.clock = Clock::system();
    let relay = place.start_with(config).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/relay/interop.py");
    let mut client = Command::new("python3");
    client.arg("-B").arg(script).args(["127.0.0.1", &relay.handle.address().port().to_string()]);
    let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n", "{output:?}");
    relay.stop().await;
}
