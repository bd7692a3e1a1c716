//! A move over the local network: the file and its key go over one TCP connection.
//!
//! ```text
//! old -> new   "mezzavoce move lan 1\n" | bytes u64 | file      under a key that only the old device has
//! old <- new   1                                                the file is durable; digits are shown
//! old -> new   bytes u16 | key                                  sealed to the recipient (BACKUP-31)
//! old <- new   2                                                the vault is made
//! ```
//!
//! The connection needs no encryption of its own: the file is sealed, its key is sealed to the recipient, and
//! the digits show that the file arrived unchanged.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use mezza_host::api::{Exit, Fault};
use mezza_host::process::files;
use mezza_host::process::home::private;

/// The first bytes of the connection.
const HELLO: &[u8] = b"mezzavoce move lan 1\n";
/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 4 << 10;
/// Answers of the new device.
const STORED: u8 = 1;
const MADE: u8 = 2;
/// How long either side may be silent while the file is on its way.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the user may take to compare the digits.
const COMPARING: Duration = Duration::from_secs(3_600);
/// How long the new device may take to make its vault.
const MAKING: Duration = Duration::from_secs(600);
/// Room that must be left on the disk of the new device.
const SPARE_BYTES: u64 = 16 << 20;
const PIECE_BYTES: usize = 64 << 10;

/// The connection of the new device, once it has the file.
pub(super) struct ReceivedFile(TcpStream);

/// The connection of the old device, once the new one has the file.
pub(super) struct SentFile(TcpStream);

/// New device: waits for the old one, and stores its file. Connections of others are dropped.
///
/// # Errors
/// 75 if the address cannot be listened at, 73 if the disk refuses.
pub(super) fn receive_file(listener: &TcpListener, file: &Path) -> Result<ReceivedFile, Fault> {
    loop {
        // A connection that ended before it was accepted says nothing about the next one.
        let Ok((stream, _)) = listener.accept() else { continue };
        match take_file(stream, file)? {
            Some(received) => return Ok(received),
            // A scanner of ports, or a connection that broke: the old device tries again.
            None => drop(std::fs::remove_file(file)),
        }
    }
}

/// Listens at an address of this machine.
///
/// # Errors
/// 75 if that is not possible.
pub(super) fn listen(address: &str) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).map_err(|error| {
        let text = format!("{address} cannot be listened at: {error}");
        Fault::new(Exit::Busy, text, "name an address of this machine and a free port")
    })
}

/// Returns `None` if the other side is no old device, or breaks off.
fn take_file(mut stream: TcpStream, path: &Path) -> Result<Option<ReceivedFile>, Fault> {
    let mut head = [0; HELLO.len() + 8];
    let timed = stream.set_read_timeout(Some(SILENCE));
    if timed.and_then(|()| stream.read_exact(&mut head)).is_err() || !head.starts_with(HELLO) {
        // Other traffic of the network must not end the wait for the old device.
        return Ok(None);
    }
    let (_, length) = head.split_at(HELLO.len());
    let length = length.try_into().map_or(0, u64::from_be_bytes);
    // Checked before anything is stored: whoever connects may claim any length.
    let free = path.parent().and_then(files::free_bytes).unwrap_or(u64::MAX);
    if length > free.saturating_sub(SPARE_BYTES) {
        let text = format!("the file has {length} bytes, and {free} are free here");
        return Err(Fault::new(Exit::CannotWrite, text, "make room, and begin again"));
    }
    let cannot_write = |error: io::Error| private::cannot_write(path, &error);
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let out = file.as_mut().map_err(|error| private::cannot_write(path, error))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let Ok(count @ 1..) = stream.read(&mut piece[..most]) else { return Ok(None) };
        out.write_all(&piece[..count]).map_err(cannot_write)?;
        left -= count as u64;
    }
    out.sync_all().map_err(cannot_write)?;
    private::sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(stream.write_all(&[STORED]).is_ok().then_some(ReceivedFile(stream)))
}

impl ReceivedFile {
    /// Waits for the key. Returns `None` if the connection breaks: then the key is typed in.
    pub(super) fn receive_key(&mut self) -> Option<String> {
        self.0.set_read_timeout(Some(COMPARING)).ok()?;
        let mut length = [0; 2];
        self.0.read_exact(&mut length).ok()?;
        let length = usize::from(u16::from_be_bytes(length));
        let mut key = vec![0; length.min(KEY_BYTES_MAX)];
        self.0.read_exact(&mut key).ok()?;
        String::from_utf8(key).ok().filter(|key| key.len() == length)
    }

    /// Tells the old device that the vault is made. If it does not get this, nothing is lost.
    pub(super) fn confirm(mut self) {
        let _ = self.0.write_all(&[MADE]);
    }
}

/// Old device: sends the file to the new one.
///
/// # Errors
/// 69 if the new device cannot be reached, or breaks off.
pub(super) fn send_file(address: &str, path: &Path) -> Result<SentFile, Fault> {
    let unreachable = |error: io::Error| {
        let text = format!("{address} does not take the file: {error}");
        let next = "run `mezza move in --listen HOST:PORT` on the new device, then this again";
        Fault::new(Exit::Unreachable, text, next)
    };
    let mut file = File::open(path).map_err(|error| private::cannot_read(path, &error))?;
    let length = file.metadata().map_err(|error| private::cannot_read(path, &error))?.len();
    let mut stream = connect(address).map_err(unreachable)?;
    stream.set_write_timeout(Some(SILENCE)).map_err(unreachable)?;
    stream.write_all(HELLO).map_err(unreachable)?;
    stream.write_all(&length.to_be_bytes()).map_err(unreachable)?;
    io::copy(&mut file, &mut stream).map_err(unreachable)?;
    await_answer(&mut stream, STORED, SILENCE).map_err(unreachable)?;
    Ok(SentFile(stream))
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

fn await_answer(stream: &mut TcpStream, expected: u8, patience: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer[0] == expected { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

impl SentFile {
    /// Sends the key. Returns true if the new device has made its vault.
    pub(super) fn send_key(mut self, key: &str) -> bool {
        let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
        let bytes = [&length.to_be_bytes(), key.as_bytes()].concat();
        let sent = self.0.write_all(&bytes);
        sent.and_then(|()| await_answer(&mut self.0, MADE, MAKING)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other traffic to the port is dropped, and a file that breaks off leaves nothing.
    #[test]
    fn backup_33_what_is_no_move_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = folder.path().join("sent");
        std::fs::write(&sent, vec![7; 200_000]).unwrap();
        let old = std::thread::spawn(move || {
            for bytes in [&b"GET / HTTP/1.1\r\nHost: someone\r\n\r\n"[..], HELLO, b""] {
                TcpStream::connect(address).unwrap().write_all(bytes).unwrap();
            }
            let mut broken = TcpStream::connect(address).unwrap();
            broken.write_all(&[HELLO, &100_u64.to_be_bytes(), b"half"].concat()).unwrap();
            drop(broken);
            let connection = send_file(&address.to_string(), &sent).unwrap();
            connection.send_key("mezza-move:some key")
        });
        let mut received = receive_file(&listener, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 200_000]);
        assert_eq!(received.receive_key().as_deref(), Some("mezza-move:some key"));
        received.confirm();
        assert!(old.join().unwrap());
    }

    #[test]
    fn backup_33_a_claimed_length_is_checked_before_anything_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let listener = listen("127.0.0.1:0").unwrap();
        let mut old = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        old.write_all(&[HELLO, &u64::MAX.to_be_bytes()].concat()).unwrap();
        let fault = receive_file(&listener, &path).err().unwrap();
        assert_eq!(fault.code, Exit::CannotWrite);
        assert!(!path.exists());
    }
}
