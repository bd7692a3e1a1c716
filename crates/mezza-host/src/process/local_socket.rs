//! A Unix socket in a folder of mode 0700: both ends check that the other one runs as the same user.
//!
//! A loopback port belongs to the first program of any user that takes it. A name in a folder of
//! mode 0700 belongs to its owner, and the kernel reports the user at the other end of a
//! connection.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use super::home::private;
use crate::api::{Exit, Fault};

/// The mode of the socket.
const SOCKET_MODE: u32 = 0o600;
/// The longest path that fits a socket address, in bytes; the kernel takes 107.
const PATH_BYTES_MAX: usize = 100;

/// Makes a listening socket at `path`, whose folder must be ours with mode 0700. Replaces an
/// existing socket: the caller holds the lock of the folder, so that socket has no server.
///
/// # Errors
/// Exit code 73 if the socket cannot be made, 77 if the folder is accessible to other users.
pub fn listen_at(path: &Path) -> Result<UnixListener, Fault> {
    private::check_folder(parent_folder(path))?;
    let listen = || {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let address = SocketAddress::for_path(path)?;
        let listener = UnixListener::bind(&address.path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|error: io::Error| {
        let text = format!("the socket {} cannot be made: {error}", path.display());
        Fault::new(Exit::CannotWrite, text, "choose a folder on another disk with `--home DIR`")
    })
}

/// Connects to the socket at `path` and checks that a process of our own user serves it.
///
/// # Errors
/// Exit code 69 if no process listens there, 77 if the folder or the process at the other end is of
/// another user.
pub fn connect_to(path: &Path) -> Result<UnixStream, Fault> {
    let absent = |_| Fault::new(Exit::Unreachable, "no node is running", "start one");
    if path.symlink_metadata().is_err() {
        return Err(absent(io::ErrorKind::NotFound.into()));
    }
    private::check_folder(parent_folder(path))?;
    let address = SocketAddress::for_path(path).map_err(absent)?;
    let stream = UnixStream::connect(&address.path).map_err(absent)?;
    // The folder is ours now, but may have been another user's when the socket was made.
    if is_own_user(&stream) {
        return Ok(stream);
    }
    let text = format!("{} is served by a process of another user", path.display());
    Err(Fault::new(Exit::Denied, text, "remove the socket and start the node again"))
}

/// Returns true if the process at the other end runs as our own user.
pub fn is_own_user(stream: &impl AsFd) -> bool {
    peer_user(stream) == Some(geteuid().as_raw())
}

/// Returns the number of the user at the other end, or `None` if the kernel does not report it.
pub(crate) fn peer_user(stream: &impl AsFd) -> Option<u32> {
    getsockopt(stream, PeerCredentials).ok().map(|peer| peer.uid())
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path short enough for a socket address.
struct SocketAddress {
    path: PathBuf,
    /// Keeps the folder's descriptor in `path` open.
    _folder: Option<File>,
}

impl SocketAddress {
    /// Returns `path`, or for a longer path the same file by the descriptor of its folder.
    fn for_path(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: path.to_path_buf(), _folder: None });
        }
        let folder = File::open(parent_folder(path))?;
        let by_number = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { path: by_number.join(name), _folder: Some(folder) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// Makes a folder of mode 0700 whose path has at least `bytes` bytes.
    fn folder_of(bytes: usize) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let mut path = root.path().to_path_buf();
        while path.as_os_str().len() < bytes {
            path.push("a-folder-with-a-name");
        }
        path.push("run");
        private::make_folder(&path).unwrap();
        (root, path)
    }

    #[test]
    fn node_20_a_path_of_any_length_is_served_and_an_old_socket_replaced() {
        for bytes in [0, 300] {
            let (_root, folder) = folder_of(bytes);
            let path = folder.join("api.sock");
            assert_eq!(connect_to(&path).unwrap_err().code, Exit::Unreachable);
            drop(listen_at(&path).unwrap());
            assert_eq!(connect_to(&path).unwrap_err().code, Exit::Unreachable, "nobody serves it");
            let listener = listen_at(&path).unwrap();
            let mut stream = connect_to(&path).unwrap();
            listener.set_nonblocking(false).unwrap();
            let (mut served, _) = listener.accept().unwrap();
            assert!(is_own_user(&served) && is_own_user(&stream));
            stream.write_all(b"hello").unwrap();
            drop(stream);
            let mut heard = String::new();
            served.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "hello");
        }
    }

    #[test]
    fn node_20_a_folder_that_others_may_enter_is_refused() {
        let (_root, folder) = folder_of(0);
        let path = folder.join("api.sock");
        let _listener = listen_at(&path).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(connect_to(&path).unwrap_err().code, Exit::Denied);
        assert_eq!(listen_at(&path).unwrap_err().code, Exit::Denied);
    }
}
