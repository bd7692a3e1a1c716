//! The required parts of a handshake with a relay, and the parts that it must not have.

use std::sync::Arc;

use mezza::testing::connection::relay::{ConnectError, connect_relay};
use mezza::testing::tls::{Pin, client_config};
use mezza_messenger::card::RelayKey;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::fixture::*;

async fn handshake(
    relay: &Relay,
    change: impl FnOnce(&mut ClientConfig),
) -> std::io::Result<usize> {
    let config = client_config(Pin::new(relay.handle.key().0)).unwrap();
    let mut config = Arc::into_inner(config).unwrap();
    change(&mut config);
    let socket = TcpStream::connect(relay.handle.address()).await?;
    let name = ServerName::try_from("relay.example").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    stream.read(&mut [0; 64]).await
}

#[tokio::test]
async fn a_connection_without_our_protocol_name_is_closed() {
    let place = Place::sqlite();
    let relay = place.start().await;
    assert!(handshake(&relay, |_| ()).await.unwrap() > 0);
    assert!(!matches!(handshake(&relay, |c| c.alpn_protocols.clear()).await, Ok(1..)));
    let other = |c: &mut ClientConfig| c.alpn_protocols = vec![b"h2".to_vec()];
    assert!(handshake(&relay, other).await.is_err());
    relay.stop().await;
}

/// The first bytes of a client name nobody; no extension 0 (server name), 35 (ticket), 41
/// (pre-shared key) or 42 (early data) is among them, and 20 (raw public keys) is.
#[tokio::test]
async fn the_client_hello_names_nobody_and_resumes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let first = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 2_048];
        let count = socket.read(&mut bytes).await.unwrap();
        bytes.truncate(count);
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        bytes
    });
    let clock = Place::sqlite().clock.clock();
    let error =
        connect_relay(&RelayKey([7; 32]), "localhost", port, &clock, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotARelay { .. }), "{error:?}");
    let hello = first.await.unwrap();
    let extensions = extensions(&hello);
    for absent in [0, 35, 41, 42] {
        assert!(!extensions.contains(&absent), "{extensions:?}");
    }
    assert!(extensions.contains(&20), "{extensions:?}");
}

/// The extension numbers of a TLS record with a `ClientHello` (RFC 8446, 4.1.2).
fn extensions(record: &[u8]) -> Vec<u16> {
    use mezza_core::wire::Reader;
    // Record header 5, handshake header 4, version 2, random 32.
    let mut r = Reader::new(&record[43..]);
    r.read_var8().unwrap();
    r.read_var16().unwrap();
    r.read_var8().unwrap();
    let mut list = Reader::new(r.read_var16().unwrap());
    let mut found = Vec::new();
    while !list.is_empty() {
        found.push(list.read_u16().unwrap());
        list.read_var16().unwrap();
    }
    found
}
