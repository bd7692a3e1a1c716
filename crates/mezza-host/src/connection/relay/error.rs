//! Why there is no connection, or no longer.

use std::io;

use crate::api::Exit;
use crate::tls::Fingerprint;

/// Why a relay was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Somebody else answers there.
    #[error(
        "relay {relay} shows key {shown}, your card says {expected}; do not continue, ask \
         its operator"
    )]
    WrongKey {
        /// Its host and port, as the card names them.
        relay: String,
        /// Of the key that was shown.
        shown: Fingerprint,
        /// Of the key in the card.
        expected: Fingerprint,
    },
    /// Nothing answers at the address.
    #[error("relay {relay} is not reachable ({source}); check your connection and try again")]
    Unreachable {
        /// Its host and port, as the card names them.
        relay: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server of this host and port speaks another protocol.
    #[error("{0} is not a Mezzavoce relay; check host and port with its operator")]
    NotARelay(String),
    /// Our clock and that of the relay of this host and port are more than a day apart.
    #[error("this computer and relay {0} disagree about the date; set the clock right")]
    Clock(String),
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}; this is a bug, please report it")]
    Tls(rustls::Error),
}

impl ConnectError {
    /// The exit code of a program that ends with this error.
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
