//! TLS 1.3 between a client and a relay, and on the links of a mixnet: the server proves one
//! Ed25519 key as a raw public key (RFC 7250), the client knows this key beforehand. Clients stay
//! anonymous; servers of a mixnet that dial each other prove their keys too.
//!
//! There are no certificates, no names (no SNI), no tickets, no resumption and no early data:
//! nothing links two connections of one client, and only the card authenticates a relay.

/// Implements the check that the peer holds a raw Ed25519 key, for TLS 1.3 only. For a verifier
/// with a `provider`.
macro_rules! proves_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
            let spki = rustls::pki_types::SubjectPublicKeyInfoDer::from(cert.as_ref());
            let algorithms = &self.provider.signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature_with_raw_key(message, &spki, dss, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            vec![rustls::SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

mod client;
mod identity;
mod peers;
mod server;

pub use client::{Pin, client_config, link_client_config};
pub use identity::{Fingerprint, IdentityError};
pub use identity::{TlsIdentity, fingerprint};
pub use peers::{AllowedClientKeys, peer_key};
pub use server::link_server_config;
pub use server::server_config;

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;

/// The prefix of an Ed25519 `SubjectPublicKeyInfo` (RFC 8410), before its 32 key bytes.
const SPKI_HEAD: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Returns the only TLS provider of this program, whose lists of suites all connections share.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

/// Returns the raw Ed25519 key in the place of a certificate.
fn raw_key(end_entity: &CertificateDer<'_>) -> Option<[u8; 32]> {
    end_entity.strip_prefix(&SPKI_HEAD)?.try_into().ok()
}
