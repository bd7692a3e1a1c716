//! The network interface of a link: a TAP device that takes and gives super-frames.

use std::io::{self, IoSlice};

use mezza_seka::offload::VIRTIO_BYTES;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use mezza_host::api::{Exit, Fault};

/// Bytes of a read: the virtio header, and a super-frame.
pub(super) const TAP_READ_BYTES: usize = VIRTIO_BYTES + 66 * 1024;
/// Destinations that a bridge never passes on (IEEE 802.1D, 802.3x): PAUSE among them.
const RESERVED: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];

/// A TAP device. It goes with this value, at the latest with the process.
pub(crate) struct Tap {
    device: SyncDevice,
    name: String,
}

impl Tap {
    /// Makes the device and brings it up.
    ///
    /// # Errors
    /// 77 without the right to make one.
    pub(crate) fn make(name: &str, mtu: u16) -> Result<Self, Fault> {
        let built = DeviceBuilder::new()
            .name(name)
            .layer(Layer::L2)
            .offload(true)
            .with(|builder| {
                builder.packet_information(false);
            })
            .build_sync();
        let device = built.map_err(|error| refused(name, &error))?;
        let ready = device.set_mtu(mtu).and_then(|()| device.enabled(true));
        ready.map_err(|error| refused(name, &error))?;
        Ok(Self { device, name: name.to_owned() })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads `virtio header | frame`, and waits if there is none.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.device.recv(buffer)
    }

    /// Writes `virtio header | frame` out of its parts.
    pub(super) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.device.send_vectored(parts)
    }

    /// The largest frame that it hands over whole, without headers of Ethernet.
    pub(crate) fn mtu(&self) -> u16 {
        self.device.mtu().unwrap_or_default()
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tap({})", self.name)
    }
}

fn refused(name: &str, error: &io::Error) -> Fault {
    let (code, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Denied, "run it as root or by its unit"),
        io::ErrorKind::NotFound => (Exit::Config, "load the kernel's module `tun`"),
        _ => (Exit::Busy, "look at `ip link`; another program may have a device of that name"),
    };
    Fault::new(code, format!("cannot create the TAP device {name}: {error}"), next)
}

/// Whether a frame may pass the tunnel: not what belongs to one cable, nor our own frames, which would
/// go round and round.
pub(super) fn may_pass(frame: &[u8]) -> bool {
    let kind = frame.get(12..14);
    !frame.starts_with(&RESERVED) && kind != Some(&mezza_seka::wire::ETHER_TYPE.to_be_bytes())
}
