//! The client's side of TLS: one pinned key instead of a certificate authority.

use std::sync::{Arc, Mutex, PoisonError};

use mezza_messenger::relay_wire::ALPN;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, Error};

use super::{TlsIdentity, provider, raw_key};

/// Accepts exactly one Ed25519 key, and remembers the key that the server proved.
#[derive(Debug)]
pub struct Pin {
    /// The pinned key; `None`: any key.
    key: Option<[u8; 32]>,
    shown: Mutex<Option<[u8; 32]>>,
    provider: Arc<CryptoProvider>,
}

impl Pin {
    /// Makes a pin on the key of a card.
    pub fn new(key: [u8; 32]) -> Arc<Self> {
        Self::from_key(Some(key))
    }

    /// Makes a pin that accepts any Ed25519 key: only for the connection that fetches a network's
    /// configs, which are verified themselves (MIX-1).
    pub fn any() -> Arc<Self> {
        Self::from_key(None)
    }

    fn from_key(key: Option<[u8; 32]>) -> Arc<Self> {
        Arc::new(Self { key, shown: Mutex::new(None), provider: provider() })
    }

    /// Returns the Ed25519 key that the server proved instead of the pinned one, if any.
    pub fn other_key(&self) -> Option<[u8; 32]> {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.filter(|key| self.key.is_some_and(|pinned| *key != pinned))
    }
}

/// Returns client settings: TLS 1.3 only, ALPN `mezza-relay/1`, raw public keys, no name, no
/// resumption.
///
/// Made for each connection, so that no state passes from one to the next.
pub fn client_config(pin: Arc<Pin>) -> Result<Arc<ClientConfig>, Error> {
    link_client_config(pin, ALPN, None)
}

/// Returns client settings for another protocol name. With `own` this side proves a key too.
pub fn link_client_config(
    pin: Arc<Pin>,
    protocol: &[u8],
    own: Option<&TlsIdentity>,
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(pin.provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pin);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let resolver = AlwaysResolvesClientRawPublicKeys::new(own.certified_key()?);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = raw_key(end_entity).ok_or(CertificateError::BadEncoding)?;
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        if self.key.is_none_or(|pinned| key == pinned) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    proves_raw_keys!();
}
