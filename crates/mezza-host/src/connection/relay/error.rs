//! Errors of connecting to a relay, and of a connection.

use std::io;

use crate::api::Exit;
use crate::tls::Fingerprint;

/// Why a connection to a relay failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server proved another key.
    #[error(
        "relay {relay} shows key {shown}, your card says {expected}; do not continue, ask \
         its operator"
    )]
    WrongKey {
        /// Host and port of the relay, as the card names them.
        relay: String,
        /// Fingerprint of the proved key.
        shown: Fingerprint,
        /// Fingerprint of the key in the card.
        expected: Fingerprint,
    },
    /// The address does not respond.
    #[error("relay {relay} is not reachable ({source}); check your connection and try again")]
    Unreachable {
        /// Host and port of the relay, as the card names them.
        relay: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server at this host and port uses another protocol.
    #[error("{0} is not a Mezzavoce relay; check host and port with its operator")]
    NotARelay(String),
    /// Our clock and that of the relay at this host and port differ by more than a day.
    #[error("this computer and relay {0} disagree about the date; set the clock right")]
    Clock(String),
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}; this is a bug, please report it")]
    Tls(rustls::Error),
}

impl ConnectError {
    /// Returns the exit code of a program that ends with this error.
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::WrongKey { .. } | Self::Unreachable { .. } | Self::NotARelay(_) => {
                Exit::Unreachable
            }
            Self::Clock(_) => Exit::Config,
            Self::Tls(_) => Exit::Bug,
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The relay closed the connection in an orderly way.
    #[error("the relay closed the connection; connect again")]
    Closed,
    /// The network failed.
    #[error("the connection to the relay broke ({0}); connect again")]
    Io(#[from] io::Error),
    /// The relay sent a malformed frame.
    #[error("the relay sent what is no frame; tell its operator")]
    Malformed,
    /// Our frame exceeds the maximum length.
    #[error("longer than a relay frame may be; send less at once")]
    TooLong,
}
