//! Connects a client to the entry. The first connection accepts any key and fetches the configs,
//! which are checked from the pin on. The second requires the key that the config names (MIX-1).

use std::sync::Arc;
use std::time::Duration;

use mezza_mixnet::config::{Chain, SignedConfig};
use mezza_mixnet::limits::CONFIGS_MAX;
use mezza_mixnet::wire::{Frame, LinkDeframer};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::network::{describe_refusal, in_force};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::now;
use mezza_host::connection::link::{self, DialError, dial, dial_with};
use mezza_host::tls::{Pin, link_client_config};

/// Time limit for fetching the configs.
const JOIN: Duration = Duration::from_secs(20);
/// Bytes read at once.
const READ_BYTES: usize = 4_096;

/// Fetches the configs of a network and checks them from the pin to the newest.
///
/// # Errors
/// Exit code 69 if the entry cannot be reached, 1 if its configs do not belong to this network, 78
/// if no config is in force.
pub async fn join_network(uri: &NetworkUri) -> Result<Chain, Fault> {
    let configs = timeout(JOIN, fetch_configs(&uri.address)).await;
    let configs = configs.ok().and_then(Result::ok).ok_or_else(|| {
        let text = format!("join: the entry at {} does not answer", uri.address);
        Fault::new(Exit::Unreachable, text, "check the address, and that you are online")
    })?;
    let differs = || {
        Fault::new(
            Exit::No,
            "join: config hash differs from the link you opened; the link or the server is wrong",
            "get the link again from a person you trust",
        )
    };
    let (genesis, later) = configs.split_first().ok_or_else(differs)?;
    if genesis.config().hash() != uri.genesis {
        return Err(differs());
    }
    let mut chain = Chain::begin(&uri.genesis, genesis).map_err(describe_refusal)?;
    for config in later {
        chain.accept_config(config, now()).map_err(describe_refusal)?;
    }
    if chain.current_config(now()).is_none() {
        let text = "join: no config of this network is in force now";
        return Err(Fault::new(Exit::Config, text, "set the clock, or ask the guardians for one"));
    }
    Ok(chain)
}

/// Sends `GET_CONFIG` from genesis on and collects the configs. This connection carries nothing
/// else.
async fn fetch_configs(address: &str) -> Result<Vec<SignedConfig>, DialError> {
    let mut stream = dial(address, link::CLIENT, Pin::any(), None).await?;
    let ask = Frame::FetchConfig { from: [0; 32] }.encode().map_err(|_| DialError::Refused)?;
    stream.write_all(&ask).await?;
    stream.flush().await?;
    let mut splitter = LinkDeframer::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut configs = Vec::new();
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(DialError::Refused);
        }
        let mut input = &buffer[..count];
        while let Some(bytes) = splitter.next_frame(&mut input).map_err(|_| DialError::Refused)? {
            let Ok(Frame::Config { left, config }) = Frame::decode(&bytes) else {
                return Err(DialError::Refused);
            };
            configs.push(SignedConfig::decode(&config).map_err(|_| DialError::Refused)?);
            // Accept one config above the limit, so that the chain refuses it with its own error.
            if left == 0 || configs.len() > CONFIGS_MAX {
                return Ok(configs);
            }
        }
    }
}

/// Connects to the entry server of the config in force; serves any number of connections with the
/// same settings.
pub struct EntryClient {
    address: String,
    tls: Arc<ClientConfig>,
}

impl EntryClient {
    /// Returns the address of the entry and the TLS settings that require its key.
    ///
    /// # Errors
    /// [`DialError::Tls`].
    pub fn from_chain(chain: &Chain) -> Result<Self, DialError> {
        let entry = &in_force(chain).coordinator;
        let tls = link_client_config(Pin::new(entry.key), link::CLIENT, None);
        Ok(Self { address: entry.address.clone(), tls: tls.map_err(DialError::Tls)? })
    }

    /// Opens a connection on which the entry proves its key.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn connect(&self) -> Result<Box<TlsStream<TcpStream>>, DialError> {
        dial_with(&self.address, link::CLIENT, Arc::clone(&self.tls)).await
    }
}
