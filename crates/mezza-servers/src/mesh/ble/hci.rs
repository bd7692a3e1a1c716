//! Opens a Bluetooth controller: the kernel's, or a virtual one over TCP or a Unix socket.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use bt_hci_serial::SerialTransport;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embedded_io_adapters::tokio_1::FromTokio;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use mezza_host::api::{Exit, Fault};

/// The address of a Bluetooth controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HciPlace {
    /// A controller of this system by its number, through the user channel of Linux.
    User(u16),
    /// HCI packets over TCP, as virtual controllers offer them.
    Tcp(String),
    /// HCI packets over a Unix socket.
    Unix(PathBuf),
}

impl FromStr for HciPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let user = text.strip_prefix("hci").and_then(|number| number.parse().ok());
        let tcp = text.strip_prefix("tcp:").filter(|address| address.contains(':'));
        match (user, tcp, text.strip_prefix("unix:")) {
            (Some(number), ..) => Ok(Self::User(number)),
            (_, Some(address), _) => Ok(Self::Tcp(address.to_owned())),
            (.., Some(path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            _ => Err("hci0, tcp:HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

type Reads = Box<dyn AsyncRead + Unpin>;
type Writes = Box<dyn AsyncWrite + Unpin>;
/// HCI on a stream of bytes.
pub(super) type HciStream = SerialTransport<NoopRawMutex, FromTokio<Reads>, FromTokio<Writes>>;

/// Opens a stream to a virtual controller.
pub(super) async fn open_tcp(address: &str) -> io::Result<HciStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok(SerialTransport::new(FromTokio::new(Box::new(reader)), FromTokio::new(Box::new(writer))))
}

/// Opens a stream to a virtual controller on a Unix socket.
pub(super) async fn open_unix(path: &PathBuf) -> io::Result<HciStream> {
    let (reader, writer) = UnixStream::connect(path).await?.into_split();
    Ok(SerialTransport::new(FromTokio::new(Box::new(reader)), FromTokio::new(Box::new(writer))))
}

/// Opens the controller once and closes it, so that the user learns of an error at once.
///
/// # Errors
/// Exit codes 69, 75 or 77, as for [`Ble::open`](super::Ble::open).
pub(super) async fn probe_controller(place: &HciPlace) -> Result<(), Fault> {
    let opened = match place {
        HciPlace::User(number) => bt_hci_linux::Transport::new(*number).map(drop),
        HciPlace::Tcp(address) => open_tcp(address).await.map(drop),
        HciPlace::Unix(path) => open_unix(path).await.map(drop),
    };
    opened.map_err(|error| describe_refusal(place, &error))
}

fn describe_refusal(place: &HciPlace, error: &io::Error) -> Fault {
    match (place, error.kind()) {
        (HciPlace::User(number), io::ErrorKind::PermissionDenied) => Fault::new(
            Exit::Denied,
            format!("hci{number} is not ours to open"),
            "run with CAP_NET_ADMIN; see docs/guide/mesh.md",
        ),
        (HciPlace::User(number), io::ErrorKind::ResourceBusy) => Fault::new(
            Exit::Busy,
            format!("hci{number} is in use"),
            "stop bluetoothd and `hciconfig` it down, or name another controller",
        ),
        (HciPlace::User(number), _) => {
            let text = format!("there is no hci{number} here: {error}");
            Fault::new(Exit::Unreachable, text, "`hciconfig` lists those that this system has")
        }
        _ => {
            let text = format!("no Bluetooth controller answers: {error}");
            Fault::new(Exit::Unreachable, text, "--ble takes hci0, tcp:HOST:PORT or unix:PATH")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_their_words() {
        let place = |text: &str| text.parse::<HciPlace>().ok();
        assert_eq!(place("hci1"), Some(HciPlace::User(1)));
        assert_eq!(place("tcp:127.0.0.1:9001"), Some(HciPlace::Tcp("127.0.0.1:9001".into())));
        assert_eq!(place("unix:/run/hci"), Some(HciPlace::Unix("/run/hci".into())));
        for bad in ["", "hci", "hci70000", "tcp:9001", "unix:", "usb:0"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_controller_that_is_not_there_is_told() {
        let place = HciPlace::Unix("/nowhere/at/all".into());
        let fault = probe_controller(&place).await.err().unwrap();
        assert_eq!(fault.code, Exit::Unreachable);
    }
}
