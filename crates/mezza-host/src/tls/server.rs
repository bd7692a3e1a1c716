//! The server's side of TLS.

use std::sync::Arc;

use mezza_messenger::relay_wire::ALPN;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoClientAuth, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{Error, ServerConfig};

use super::{AllowedClientKeys, TlsIdentity, provider};

/// Returns server settings: TLS 1.3 only, one raw public key, ALPN `mezza-relay/1`, no resumption;
/// clients stay anonymous.
pub fn server_config(identity: &TlsIdentity) -> Result<Arc<ServerConfig>, Error> {
    make_config(identity, &[ALPN], Arc::new(NoClientAuth {}))
}

/// Returns server settings for other protocol names. With `peers` only clients that prove one of
/// these keys are accepted.
pub fn link_server_config(
    identity: &TlsIdentity,
    protocols: &[&[u8]],
    peers: Option<Arc<AllowedClientKeys>>,
) -> Result<Arc<ServerConfig>, Error> {
    let clients: Arc<dyn ClientCertVerifier> = match peers {
        Some(keys) => keys,
        None => Arc::new(NoClientAuth {}),
    };
    make_config(identity, protocols, clients)
}

fn make_config(
    identity: &TlsIdentity,
    protocols: &[&[u8]],
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, Error> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(identity.certified_key()?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
