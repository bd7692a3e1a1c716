//! The entry with a TLS that nobody here wrote: `GnuTLS`, with raw public keys.

use std::io::Write as _;
use std::process::{Command, Stdio};

use mezza::testing::servers::mixnet::{client, demo};
use mezza_mixnet::config::SignedConfig;
use mezza_mixnet::wire::Frame;
use mezza_mixnet::wire::frame::{LENGTH_BYTES, VERSION};

/// TLS 1.3 alone; a raw public key (RFC 7250) of the server, none of the client.
const PRIORITY: &str = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CTYPE-ALL:+CTYPE-SRV-RAWPK:+CTYPE-CLI-X509";

/// The next frame of a stream.
fn frame(stream: &mut impl std::io::Read) -> Frame {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes).unwrap();
    Frame::decode(&bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_gnutls_is_welcomed_and_gets_the_configs() {
    if Command::new("gnutls-cli").arg("--version").output().is_err() {
        println!("SKIPPED interop: no gnutls-cli; apt install gnutls-bin");
        let required = std::env::var_os("MEZZA_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!required, "MEZZA_REQUIRE_ALL=1, but there is no gnutls-cli");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = demo::DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let running = demo::start_from_files(&files).await.unwrap();
    let chain = client::join_network(&running.uri).await.unwrap();
    let (_, port) = running.uri.address.rsplit_once(':').unwrap();
    let port = port.to_owned();
    let log = folder.path().join("log");
    let head = chain.head_hash();
    let talk = move || {
        let mut client = Command::new("gnutls-cli");
        client.args(["--priority", PRIORITY, "--alpn", "mezza-mix-client/1", "--disable-sni"]);
        client.args(["--no-ca-verification", "--insecure", "--logfile", log.to_str().unwrap()]);
        client.args(["--port", &port, "127.0.0.1"]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut client = client.spawn().unwrap();
        let mut input = client.stdin.take().unwrap();
        let mut output = client.stdout.take().unwrap();
        let ask = Frame::FetchConfig { from: [0; 32] };
        let hello = Frame::Hello { version: VERSION, config: [0; 32] };
        input.write_all(&[ask.encode().unwrap(), hello.encode().unwrap()].concat()).unwrap();
        let told = [frame(&mut output), frame(&mut output)];
        client.kill().unwrap();
        client.wait().unwrap();
        told
    };
    let told = tokio::task::spawn_blocking(talk).await.unwrap();
    let [Frame::Config { left: 0, config }, Frame::Welcome { head: its, .. }] = told else {
        panic!("{told:?}");
    };
    assert_eq!((SignedConfig::decode(&config).unwrap().config().hash(), its), (head, head));
    running.stop().await.unwrap();
}
