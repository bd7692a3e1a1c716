//! Why there is no connection, or no longer.

use std::io;

use crate::api::Exit;
use crate::tls::Fingerprint;

/// Why a relay was not reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Somebody else answers there.
    #[error(
        "relay {host}:{port} shows key {shown}, your card says {expected}; do not continue, ask \
         its operator"
    )]
    WrongKey {
        /// As the card names it.
        host: String,
        /// TCP port.
        port: u16,
        /// Of the key that was shown.
        shown: Fingerprint,
        /// Of the key in the card.
        expected: Fingerprint,
    },
    /// Nothing answers at the address.
    #[error("relay {host}:{port} is not reachable ({source}); check your connection and try again")]
    Unreachable {
        /// As the card names it.
        host: String,
        /// TCP port.
        port: u16,
        /// The error of the system.
        source: io::Error,
    },
    /// The server there speaks another protocol.
    #[error("{host}:{port} is not a Mezzavoce relay; check host and port with its operator")]
    NotARelay {
        /// As the card names it.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The two clocks are more than a day apart.
    #[error("this computer and relay {host}:{port} disagree about the date; set the clock right")]
    Clock {
        /// As the card names it.
        host: String,
        /// TCP port.
        port: u16,
        /// The relay's time, ms since 1970.
        relay_ms: u64,
        /// Our time, ms since 1970.
        ours_ms: u64,
    },
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}; this is a bug, please report it")]
    Tls(rustls::Error),
}

impl ConnectError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::WrongKey { .. } | Self::Unreachable { .. } | Self::NotARelay { .. } => {
                Exit::Unreachable
            }
            Self::Clock { .. } => Exit::Config,
            Self::Tls(_) => Exit::Bug,
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The relay said good-bye.
    #[error("the relay closed the connection; connect again")]
    Closed,
    /// The network did.
    #[error("the connection to the relay broke ({0}); connect again")]
    Io(#[from] io::Error),
    /// The relay sent what is no frame.
    #[error("the relay sent what is no frame; tell its operator")]
    Malformed,
    /// Our frame is longer than a frame may be.
    #[error("longer than a relay frame may be; send less at once")]
    TooLong,
}
