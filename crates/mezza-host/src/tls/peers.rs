//! Clients of a link that prove one of the keys known to the server.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error};

use super::{provider, raw_key};

/// Accepts clients that prove one of several Ed25519 keys.
#[derive(Debug)]
pub struct AllowedClientKeys {
    keys: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl AllowedClientKeys {
    /// Accepts clients that prove one of `keys`.
    pub fn new(keys: Vec<[u8; 32]>) -> Arc<Self> {
        Arc::new(Self { keys, provider: provider() })
    }
}

/// Returns the key that the peer of a finished handshake proved; `None` for anonymous clients.
pub fn peer_key(connection: &rustls::CommonState) -> Option<[u8; 32]> {
    connection.peer_certificates()?.first().and_then(raw_key)
}

impl ClientCertVerifier for AllowedClientKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = raw_key(end_entity).ok_or(CertificateError::BadEncoding)?;
        if self.keys.contains(&key) {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    proves_raw_keys!();
}
