//! Whole handshakes, both sides in one process, as the lab's line protocol asks for them:
//!
//! ```text
//! wireguard      initiation, response and the first frame (boringtun 0.7.1)
//! tls-ed25519    TLS 1.3, certificates with Ed25519 keys on both sides (rustls 0.23, aws-lc)
//! tls-p256       the same with ECDSA P-256
//! ```

use std::sync::Arc;

use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use mezza_lab_measuring::rate::{self, Call};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// Operations that it measures.
const OPS: &[&str] = &["wireguard", "tls-ed25519", "tls-p256"];

fn main() -> std::io::Result<()> {
    rate::serve("boringtun 0.7.1, rustls 0.23", OPS, &prepare_call)
}

fn prepare_call(op: &str, _: usize, calls: usize) -> Result<Call, String> {
    match op {
        "wireguard" => Ok(make_wireguard_call(calls)),
        "tls-ed25519" => make_tls_call(&PKCS_ED25519).map_err(|error| error.to_string()),
        "tls-p256" => make_tls_call(&PKCS_ECDSA_P256_SHA256).map_err(|error| error.to_string()),
        _ => Err(format!("no operation {op}")),
    }
}

/// A fresh pair of devices for each call, made before.
fn make_wireguard_call(calls: usize) -> Call {
    let key = |byte: u8| StaticSecret::from([byte; 32]);
    let device = |own: u8, peer: u8, index: u32| {
        let public = PublicKey::from(&key(own));
        let limiter = Arc::new(RateLimiter::new(&public, u64::MAX));
        Tunn::new(key(own), PublicKey::from(&key(peer)), None, None, index, Some(limiter))
    };
    let mut pairs: Vec<_> = (0..calls).map(|_| (device(1, 2, 1), device(2, 1, 2))).collect();
    Box::new(move |n| {
        let (one, two) = &mut pairs[n];
        let mut first = [0; 2_048];
        let mut second = [0; 2_048];
        let TunnResult::WriteToNetwork(initiation) =
            one.format_handshake_initiation(&mut first, false)
        else {
            panic!("no initiation")
        };
        let TunnResult::WriteToNetwork(response) = two.decapsulate(None, initiation, &mut second)
        else {
            panic!("no response")
        };
        let TunnResult::WriteToNetwork(confirmation) = one.decapsulate(None, response, &mut first)
        else {
            panic!("no confirmation")
        };
        assert!(matches!(two.decapsulate(None, confirmation, &mut second), TunnResult::Done));
    })
}

/// Configurations once, a connection for each call.
fn make_tls_call(
    algorithm: &'static SignatureAlgorithm,
) -> Result<Call, Box<dyn std::error::Error>> {
    let certificate = || -> Result<_, rcgen::Error> {
        let key = KeyPair::generate_for(algorithm)?;
        let made = CertificateParams::new(vec!["peer.example".to_owned()])?.self_signed(&key)?;
        Ok((made.der().clone(), PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()))))
    };
    let (client, client_key) = certificate()?;
    let (server, server_key) = certificate()?;
    let roots = |trusted| -> Result<Arc<RootCertStore>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted)?;
        Ok(Arc::new(roots))
    };
    let verifier = WebPkiClientVerifier::builder(roots(client.clone())?).build()?;
    let mut served = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.clone()], server_key)?;
    served.send_tls13_tickets = 0;
    let asked = ClientConfig::builder()
        .with_root_certificates(roots(server)?)
        .with_client_auth_cert(vec![client], client_key)?;
    let served = Arc::new(served);
    let asked = Arc::new(asked);
    let name = ServerName::try_from("peer.example")?;
    Ok(Box::new(move |_| {
        let mut client = ClientConnection::new(Arc::clone(&asked), name.clone()).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(&served)).expect("a server");
        let mut wire = Vec::with_capacity(8_192);
        while client.is_handshaking() || server.is_handshaking() {
            wire.clear();
            while client.wants_write() {
                client.write_tls(&mut wire).expect("memory");
            }
            let mut read = wire.as_slice();
            while !read.is_empty() {
                server.read_tls(&mut read).expect("memory");
                server.process_new_packets().expect("a client that is trusted");
            }
            wire.clear();
            while server.wants_write() {
                server.write_tls(&mut wire).expect("memory");
            }
            let mut read = wire.as_slice();
            while !read.is_empty() {
                client.read_tls(&mut read).expect("memory");
                client.process_new_packets().expect("a server that is trusted");
            }
        }
    }))
}
