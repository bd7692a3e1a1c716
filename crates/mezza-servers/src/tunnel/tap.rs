//! The network interface of a link: a TAP device that reads and writes super-frames.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use mezza_seka::offload::VIRTIO_BYTES;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use mezza_host::api::{Exit, Fault};

/// Bytes of a read: the virtio header, and a super-frame.
pub(super) const TAP_READ_BYTES: usize = VIRTIO_BYTES + 66 * 1024;
/// The destination address of PAUSE, which is only for the cable itself (IEEE 802.3, annex 31B).
const PAUSE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

/// A TAP device. The kernel removes it when this value is dropped or the process ends.
pub(crate) struct Tap {
    device: SyncDevice,
    name: String,
    number: u32,
}

impl Tap {
    /// Makes the device and brings it up.
    ///
    /// # Errors
    /// 77 without the right to make one.
    pub(crate) fn make(name: &str, mtu: u16, mac: [u8; 6]) -> Result<Self, Fault> {
        // Building would attach to an existing device of this name that belongs to another program.
        if let Ok(number) = if_nametoindex(name) {
            let text = format!("there is an interface {name} already (number {number})");
            return Err(Fault::new(Exit::Busy, text, "remove it, or give the link another name"));
        }
        let built = DeviceBuilder::new()
            .name(name)
            .layer(Layer::L2)
            .offload(true)
            // Set the MAC before the device comes up: the IPv6 link-local address is derived from
            // it.
            .mac_addr(mac)
            .mtu(mtu)
            .with(|builder| {
                builder.packet_information(false);
            })
            .build_sync();
        let device = built.map_err(|error| describe_refusal(name, &error))?;
        device.enabled(true).map_err(|error| describe_refusal(name, &error))?;
        // Reads wait in `poll`, which has a time limit.
        device.set_nonblocking(true).map_err(|error| describe_refusal(name, &error))?;
        let number = if_nametoindex(name).map_err(|error| describe_refusal(name, &error.into()))?;
        Ok(Self { device, name: name.to_owned(), number })
    }

    /// Returns the name of the interface.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the interface of this name is still this device.
    pub(crate) fn is_there(&self) -> bool {
        if_nametoindex(self.name.as_str()).is_ok_and(|number| number == self.number)
    }

    /// Reads `virtio header | frame`. Waits until a frame comes, or for `wait_ms`. Returns the bytes of the
    /// frame, or `None` if none came in time.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        wait_ms: Option<u16>,
    ) -> io::Result<Option<usize>> {
        loop {
            match self.device.recv(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            let wait = wait_ms.map_or(PollTimeout::NONE, PollTimeout::from);
            let mut polled = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, wait) {
                Ok(0) => return Ok(None),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes `virtio header | frame` out of its parts.
    pub(super) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.device.send_vectored(parts)
    }

    /// Returns the MTU: the largest frame of the interface, without Ethernet header.
    pub(crate) fn mtu(&self) -> u16 {
        self.device.mtu().unwrap_or_default()
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tap({})", self.name)
    }
}

fn describe_refusal(name: &str, error: &io::Error) -> Fault {
    let (code, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Denied, "run it as root or by its unit"),
        io::ErrorKind::NotFound => (Exit::Config, "load the kernel's module `tun`"),
        _ => (Exit::Busy, "look at `ip link`; another program may have a device of that name"),
    };
    Fault::new(code, format!("cannot create the TAP device {name}: {error}"), next)
}

/// Returns true if a frame may pass the tunnel (SEKA-84): not PAUSE, nor frames of links
/// themselves, which would loop. BPDUs and LLDP pass: between two bridges the tunnel is the cable.
pub(super) fn may_pass(frame: &[u8]) -> bool {
    let kind = frame.get(12..14);
    !frame.starts_with(&PAUSE) && kind != Some(&mezza_seka::wire::ETHER_TYPE.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seka_84_what_bridges_say_passes_and_what_one_cable_says_does_not() {
        let frame = |to: [u8; 6], kind: u16| {
            [&to[..], &[2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), &[0; 46]].concat()
        };
        // BPDU, LLDP, IS-IS, broadcast.
        for to in [
            [1, 0x80, 0xc2, 0, 0, 0],
            [1, 0x80, 0xc2, 0, 0, 14],
            [1, 0x80, 0xc2, 0, 0, 0x14],
            [0xff; 6],
        ] {
            assert!(may_pass(&frame(to, 0x0026)), "{to:?}");
        }
        assert!(!may_pass(&frame(PAUSE, 0x8808)));
        assert!(!may_pass(&frame([0xff; 6], mezza_seka::wire::ETHER_TYPE)));
    }
}
