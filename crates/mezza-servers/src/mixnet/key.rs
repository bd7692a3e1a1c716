//! The key file of a server or guardian: one line, `mezza-mix-key-1 ` and 64 hex digits, mode 0600.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Secret, Wiping};
use mezza_mixnet::sign::{Signer, VerifyKey};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::tls::TlsIdentity;

/// The text before the seed in a key file.
const HEAD: &[u8] = b"mezza-mix-key-1 ";
/// Bytes of the line, its end included.
const LINE_BYTES: usize = HEAD.len() + 64 + 1;

/// An Ed25519 key: one identity for links and signatures. `Debug` shows nothing of it.
pub struct ServerKey(Secret<32>);

impl ServerKey {
    /// Draws a fresh key without storing it.
    pub fn draw(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng))
    }

    /// Makes a key file; never overwrites an existing one.
    ///
    /// # Errors
    /// A file of that name exists, or a folder that cannot be written.
    pub fn make(path: &Path, rng: &mut dyn CryptoRng) -> Result<Self, Fault> {
        let key = Self::draw(rng);
        let mut line = Wiping::new(vec![0; LINE_BYTES]);
        line[..HEAD.len()].copy_from_slice(HEAD);
        HEXLOWER.encode_mut(key.0.expose(), &mut line[HEAD.len()..LINE_BYTES - 1]);
        line[LINE_BYTES - 1] = b'\n';
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Fault::new(
                Exit::CannotWrite,
                format!("{} is there already, and may be a key in use", path.display()),
                "choose another name",
            ),
            _ => private::cannot_write(path, &error),
        })?;
        let written = file.write_all(&line).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // A partial key file would block the next attempt.
            let _ = fs::remove_file(path);
            private::cannot_write(path, &error)
        })?;
        Ok(key)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// Exit code 66 if there is no such file, 77 if other users may read it, 65 if it holds no key.
    pub fn load(path: &Path) -> Result<Self, Fault> {
        let line = Wiping::new(private::read(path, LINE_BYTES + 1)?);
        Self::of_line(&line).ok_or_else(|| {
            Fault::new(
                Exit::Malformed,
                format!("{} is no key of a mixnet", path.display()),
                "make one with `mezza mixnet keygen --out FILE`",
            )
        })
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        let digits = line.strip_prefix(HEAD)?;
        let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
        if digits.len() != 64 {
            return None;
        }
        let mut whole = Ok(32);
        let seed = Secret::init_with(|seed| {
            whole = HEXLOWER.decode_mut(digits, seed).map_err(|_| ());
        });
        (whole == Ok(32)).then_some(Self(seed))
    }

    /// Returns the signer of this key.
    pub fn signer(&self) -> Signer {
        Signer::from_seed(&self.0)
    }

    /// Returns the public half, 32 bytes.
    pub fn public(&self) -> VerifyKey {
        self.signer().public_key()
    }

    /// Returns the TLS identity for links.
    ///
    /// # Errors
    /// If the primitive refuses the seed, which cannot happen: every seed is valid.
    pub fn identity(&self) -> Result<TlsIdentity, Fault> {
        TlsIdentity::from_seed(self.0.duplicate()).ok_or_else(|| Fault::bug("the key is refused"))
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::process::rng::OsRng;

    #[test]
    fn what_is_made_is_loaded_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.key");
        let made = ServerKey::make(&path, &mut OsRng).unwrap();
        assert_eq!(ServerKey::load(&path).unwrap().public(), made.public());
        assert_eq!(made.identity().unwrap().public(), &made.public());
        assert_eq!(ServerKey::make(&path, &mut OsRng).unwrap_err().code, Exit::CannotWrite);
        assert_eq!(format!("{made:?}"), "ServerKey");
    }

    #[test]
    fn lines_that_are_no_key() {
        let digits = "07".repeat(32);
        let good = format!("mezza-mix-key-1 {digits}\n");
        assert!(ServerKey::of_line(good.as_bytes()).is_some());
        for wrong in
            ["", "mezza-mix-key-2 ", &good[1..], &good[..good.len() - 2], &format!("{good}0")]
        {
            assert!(ServerKey::of_line(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(ServerKey::of_line(good.replace('7', "G").as_bytes()).is_none());
    }
}
