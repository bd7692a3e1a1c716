//! The errors of a relay.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::store::StoreError;
use mezza_host::api::{Exit, Fault};
use mezza_host::tls::IdentityError;

/// Why a relay could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The relay's key cannot be loaded or made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The folder holds no relay.
    #[error("there is no relay in {dir} yet; make one with `mezza relay init`")]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process serves this folder.
    #[error("{dir} is in use by another relay; stop that one, or choose another folder")]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The port cannot be bound.
    #[error(
        "cannot listen on {address}: {source}; choose another with the setting relay_listen, or `mezza relay run --listen`"
    )]
    Listen {
        /// The address that was tried.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}; this is a bug, please report it")]
    Tls(#[from] rustls::Error),
    /// A file or thread of the relay failed.
    #[error("the relay cannot use {what}: {source}; check its folder and the system's limits")]
    Io {
        /// The file or thread.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The file with the relay's date cannot be written.
    #[error("{0}")]
    Date(Fault),
    /// The writer thread ended early.
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
