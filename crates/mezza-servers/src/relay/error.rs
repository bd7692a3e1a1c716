//! Why a relay does not run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::store::StoreError;
use mezza_host::api::{Exit, Fault};
use mezza_host::tls::IdentityError;

/// Why a relay could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The relay's key.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No relay was made in this folder.
    #[error("there is no relay in {dir} yet; make one with `mezza relay init`")]
    Missing {
        /// Which folder.
        dir: PathBuf,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process serves this folder.
    #[error("{dir} is in use by another relay; stop that one, or choose another folder")]
    InUse {
        /// Which folder.
        dir: PathBuf,
    },
    /// The port cannot be had.
    #[error(
        "cannot listen on {address}: {source}; choose another with the setting relay_listen, or `mezza relay run --listen`"
    )]
    Listen {
        /// Where it was tried.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}; this is a bug, please report it")]
    Tls(#[from] rustls::Error),
    /// A file or thread of the relay.
    #[error("the relay cannot use {what}: {source}; check its folder and the system's limits")]
    Io {
        /// Which one.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The file that keeps the relay's date.
    #[error("{0}")]
    Date(Fault),
    /// The writer thread ended before it was told to.
    #[error("the writer of the relay ended by itself; this is a bug, please report it")]
    WriterGone,
}

impl RelayError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::Missing { .. } => Exit::NotFound,
            Self::Identity(IdentityError::Modes { .. }) => Exit::Denied,
            Self::Identity(IdentityError::NotAKey { .. }) => Exit::Malformed,
            Self::Identity(IdentityError::Io { .. }) | Self::Io { .. } => Exit::CannotWrite,
            Self::Store(error) => error.exit_code(),
            Self::Date(fault) => fault.code,
            Self::InUse { .. } => Exit::Busy,
            Self::Listen { .. } => Exit::Config,
            Self::Tls(_) | Self::WriterGone => Exit::Bug,
        }
    }
}
