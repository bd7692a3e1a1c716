//! A move over the local network: the file and its key go over one TCP connection.
//!
//! ```text
//! old -> new   "mezzavoce move lan 2\n"
//! old <- new   commitment[32]                  to a nonce that the new device draws for this connection
//! old -> new   bytes u16 | offer | file        the offer is sealed to the recipient, and names the file
//! old <- new   nonce[32] | proof[32]           the file is durable; both devices compute the digits
//! old -> new   bytes u16 | key                 sealed to the recipient (BACKUP-31)
//! old <- new   proof[32]                       the vault is made
//! ```
//!
//! The connection needs no encryption of its own: the file is sealed, the offer and the key are sealed to
//! the recipient, and the digits are equal only if both devices have one file and one connection.

mod receive;

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use mezza_core::PublicKey;
use mezza_host::api::{Exit, Fault};
use mezza_host::backup::{MoveNonce, MoveOffer, MoveStep, PROOF_BYTES, commit_to_nonce};
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
pub(super) use receive::{LanNotice, LanWait, WaitLimits, delete_files, listen, measure_room};

/// The first bytes of the connection.
const HELLO: &[u8] = b"mezzavoce move lan 2\n";
/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 4 << 10;
/// How long either side may be silent while the file is on its way.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the new device may take to read a whole file back from its disk.
const READING: Duration = Duration::from_secs(600);
/// How long the users may take to compare the digits, and the new device to make its vault.
const COMPARING: Duration = Duration::from_secs(3_600);

/// The connection of the old device, once the new one has the file.
pub(super) struct SentFile {
    stream: TcpStream,
    offer: MoveOffer,
    nonce: MoveNonce,
}

/// Old device: sends the file to the new one. Returns once the new device has proven that the whole file is
/// on its disk.
///
/// # Errors
/// 69 if the new device cannot be reached, breaks off, or proves nothing; 66 if the file cannot be read.
pub(super) fn send_file(
    address: &str,
    path: &Path,
    recipient: &PublicKey,
) -> Result<SentFile, Fault> {
    let offer = MoveOffer::describe_file(path, &mut OsRng)?;
    let sealed = offer.seal(recipient, &mut OsRng)?;
    let file = File::open(path).map_err(|error| private::cannot_read(path, &error))?;
    let exchange = || -> io::Result<(TcpStream, MoveNonce)> {
        let mut stream = connect(address)?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.write_all(HELLO)?;
        let mut commitment = [0; PROOF_BYTES];
        stream.read_exact(&mut commitment)?;
        stream.write_all(&with_length(&sealed))?;
        io::copy(&mut &file, &mut stream)?;
        stream.set_read_timeout(Some(READING))?;
        let mut nonce = [0; PROOF_BYTES];
        stream.read_exact(&mut nonce)?;
        let mut proof = [0; PROOF_BYTES];
        stream.read_exact(&mut proof)?;
        // A nonce that was not committed to could be chosen to fit the digits of another file.
        let is_proven =
            commit_to_nonce(&nonce) == commitment && offer.verify(MoveStep::Stored, &nonce, &proof);
        if is_proven { Ok((stream, nonce)) } else { Err(io::ErrorKind::InvalidData.into()) }
    };
    let (stream, nonce) = exchange().map_err(|error| {
        let text = format!("{address} does not take the file: {error}");
        let next = "run `mezza move in --listen HOST:PORT` on the new device, check the recipient, \
                    then run this again";
        Fault::new(Exit::Unreachable, text, next)
    })?;
    Ok(SentFile { stream, offer, nonce })
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, SILENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns `bytes u16 | bytes`. A longer text than a key or an offer is cut, and then opens nowhere.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), bytes].concat()
}

impl SentFile {
    /// Returns the digits that the new device shows for this connection.
    pub(super) fn digits(&self) -> String {
        self.offer.digits(&self.nonce)
    }

    /// Sends the key. Returns true if the new device has proven that it made its vault.
    pub(super) fn send_key(mut self, key: &str) -> bool {
        let mut exchange = || {
            self.stream.write_all(&with_length(key.as_bytes()))?;
            self.stream.set_read_timeout(Some(COMPARING))?;
            let mut proof = [0; PROOF_BYTES];
            self.stream.read_exact(&mut proof)?;
            io::Result::Ok(proof)
        };
        let proof = exchange();
        proof.is_ok_and(|proof| self.offer.verify(MoveStep::Made, &self.nonce, &proof))
    }
}

#[cfg(test)]
mod tests;
