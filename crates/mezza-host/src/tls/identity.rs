//! The relay's Ed25519 key: its file, its public half, and its fingerprint.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use mezza_core::{Secret, Wiping};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::SPKI_HEAD;

/// The prefix of a PKCS#8 Ed25519 private key (RFC 8410), before its 32 seed bytes.
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The name of the key file in a relay's folder.
const FILE: &str = "key";

/// The first 32 bits of a relay key, as users compare them: `5F3A-91C0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 4]);

/// Returns the fingerprint of a relay key: its first 8 hexadecimal digits.
pub fn fingerprint(key: &[u8; 32]) -> Fingerprint {
    let [a, b, c, d, ..] = *key;
    Fingerprint([a, b, c, d])
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a:02X}{b:02X}-{c:02X}{d:02X}")
    }
}

/// Why a relay key cannot be loaded or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file or its folder cannot be read or made.
    #[error("cannot use the relay key {path}: {source}; make the folder readable for this user")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Users other than the owner may access the file.
    #[error("{path} is open to other users; run `chmod go= {path}` and start again")]
    Modes {
        /// The file or folder.
        path: PathBuf,
    },
    /// The file does not hold 32 bytes that make a key.
    #[error("{path} is not a relay key; restore it from a copy, or remove it to make a new one")]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
}

/// A relay's Ed25519 key pair.
pub struct TlsIdentity {
    seed: Secret<32>,
    public: [u8; 32],
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity({})", fingerprint(&self.public))
    }
}

impl TlsIdentity {
    /// Derives the pair of `seed`. Returns `None` if the primitive refuses the seed.
    pub fn from_seed(seed: Secret<32>) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose()).ok()?;
        let public = pair.public_key().as_ref().try_into().ok()?;
        Some(Self { seed, public })
    }

    /// Reads the key of the relay in `dir`, without making one.
    pub fn load(dir: &Path) -> Result<Self, IdentityError> {
        let path = dir.join(FILE);
        refuse_loose(dir)?;
        refuse_loose(&path)?;
        let mut file = fs::File::open(&path).map_err(io_error_at(&path))?;
        let seed = read_seed(&mut file).map_err(io_error_at(&path))?;
        seed.and_then(Self::from_seed).ok_or(IdentityError::NotAKey { path })
    }

    /// Reads the key of the relay in `dir`; makes folder (0700) and key (0600) at the first start.
    pub fn load_or_make(dir: &Path) -> Result<Self, IdentityError> {
        if dir.join(FILE).exists() {
            return Self::load(dir);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error_at(dir))?;
        refuse_loose(dir)?;
        write_seed(dir).map_err(io_error_at(&dir.join(FILE)))?;
        Self::load(dir)
    }

    /// Returns the public key, as a card carries it.
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// Returns the signing key for rustls, with the raw public key in place of a certificate.
    pub(super) fn certified_key(&self) -> Result<Arc<CertifiedKey>, rustls::Error> {
        let mut pkcs8 = Wiping::new(PKCS8_HEAD.to_vec());
        pkcs8.extend_from_slice(self.seed.expose());
        let signer = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_slice()))?;
        let spki = [SPKI_HEAD.as_slice(), self.public.as_slice()].concat();
        Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer)))
    }
}

fn io_error_at(path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.to_owned();
    |source| IdentityError::Io { path, source }
}

/// Refuses a file or folder that group or others may access.
#[expect(clippy::verbose_bit_mask, reason = "file modes are masks")]
fn refuse_loose(path: &Path) -> Result<(), IdentityError> {
    let mode = fs::metadata(path).map_err(io_error_at(path))?.permissions().mode();
    if mode & 0o077 == 0 { Ok(()) } else { Err(IdentityError::Modes { path: path.to_owned() }) }
}

/// Reads the seed. Returns `None` if the file has not 32 bytes.
fn read_seed(file: &mut fs::File) -> io::Result<Option<Secret<32>>> {
    if file.metadata()?.len() != 32 {
        return Ok(None);
    }
    let mut result = Ok(());
    let seed = Secret::init_with(|bytes| result = file.read_exact(bytes));
    result.map(|()| Some(seed))
}

/// Draws a seed and makes it durable under its name before the key is published.
fn write_seed(dir: &Path) -> io::Result<()> {
    let mut drawn = Ok(());
    let seed = Secret::<32>::init_with(|bytes| drawn = getrandom::fill(bytes));
    drawn?;
    let draft = dir.join("key.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(seed.expose())?;
    file.sync_all()?;
    fs::rename(&draft, dir.join(FILE))?;
    fs::File::open(dir)?.sync_all()
}
