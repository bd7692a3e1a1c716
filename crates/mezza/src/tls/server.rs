//! The relay's side of TLS.

use std::sync::Arc;

use mezza_messenger::relay_wire::ALPN;
use rustls::ServerConfig;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;

use super::{Identity, provider};

/// TLS 1.3 alone, one raw public key, ALPN `mezza-relay/1`, nothing to resume with.
pub fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, rustls::Error> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(identity.certified()?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
