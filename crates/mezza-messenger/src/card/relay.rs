//! The address of a device at a relay: a relay entry, as cards, slots and relay addresses contain
//! it.

use alloc::string::String;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use mezza_core::{DecodeError, Reader, Writer, labelled_hash, snapshot};

use crate::io::RelayConnectionId;
use crate::relay_wire::MailboxAddress;

/// Maximum length of a host name in bytes (RFC 1035, section 2.3.4, without the final dot).
const NAME_BYTES_MAX: usize = 253;
/// Maximum length of one label of a host name in bytes (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// The Ed25519 key by which a relay proves itself in TLS, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayKey(pub [u8; 32]);

snapshot!(struct RelayKey(bytes));

impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayKey")
    }
}

/// A mailbox at a relay.
///
/// Wire form: `relay key[32] | address[16] | port u16 | len u8 | host`, 51 B and the host.
#[derive(Clone, PartialEq, Eq)]
pub struct RelayEntry {
    /// The key that the relay proves in TLS.
    pub key: RelayKey,
    /// The mailbox, 16 bytes.
    pub address: MailboxAddress,
    /// TCP port, 1 to 65,535.
    pub port: u16,
    /// Lower-case ASCII name or IP literal without brackets ([`host_is_sound`]).
    pub host: String,
}

snapshot!(struct RelayEntry { key, address, port, host });

impl RelayEntry {
    /// Returns true if a reader accepts port and host.
    pub fn is_sound(&self) -> bool {
        self.port != 0 && host_is_sound(&self.host)
    }

    /// Returns the identifier of the connection to this relay: `H_16("mezza/line", key | port |
    /// host)`.
    pub fn connection_id(&self) -> RelayConnectionId {
        let port = self.port.to_be_bytes();
        let host = self.host.as_bytes();
        RelayConnectionId(labelled_hash("mezza/line", &[&self.key.0, &port, host]))
    }

    /// Returns true if both entries use the same connection (key, port and host are equal).
    pub fn shares_connection(&self, other: &Self) -> bool {
        (&self.key, self.port, &self.host) == (&other.key, other.port, &other.host)
    }

    /// Returns the length of the wire form in bytes.
    pub fn wire_bytes(&self) -> usize {
        51 + self.host.len()
    }

    /// Appends the wire form.
    pub fn write(&self, w: &mut Writer) {
        w.put_bytes(&self.key.0).put_bytes(&self.address.0);
        write_place(w, self.port, &self.host);
    }

    /// Reads the wire form from the front of the reader.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = RelayKey(r.read_array()?);
        let address = MailboxAddress::read(r)?;
        let (port, host) = read_place(r)?;
        Ok(Self { key, address, port, host })
    }
}

impl fmt::Debug for RelayEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayEntry")
    }
}

/// Appends port and host: `port u16 | len u8 | host`.
pub(crate) fn write_place(w: &mut Writer, port: u16, host: &str) {
    w.put_u16(port).put_var8(host.as_bytes());
}

/// Reads port and host: `port u16 | len u8 | host`.
pub(crate) fn read_place(r: &mut Reader<'_>) -> Result<(u16, String), DecodeError> {
    let port = r.read_u16()?;
    let host = core::str::from_utf8(r.read_var8()?).map_err(|_| DecodeError::Value)?;
    // Port 0 is refused: it means "any port" to an operating system.
    if port == 0 || !host_is_sound(host) {
        return Err(DecodeError::Value);
    }
    Ok((port, host.into()))
}

/// Returns true if `host` is a lower-case ASCII name or an IP literal without brackets.
///
/// A host whose last label consists of digits must be an IPv4 address. Otherwise another program
/// could read the name as an address (WHATWG URL, section 3.5).
pub fn host_is_sound(host: &str) -> bool {
    // Each host has one spelling. With two spellings one relay would count as two connections
    // (MSG-50).
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        return false;
    }
    // IP literals are accepted without brackets and zone only.
    if host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    let last_is_a_number =
        host.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    host.len() <= NAME_BYTES_MAX && !last_is_a_number && host.split('.').all(label_is_sound)
}

fn label_is_sound(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let long = "a".repeat(64);
        let good = ["relay.example.org", "localhost", "192.0.2.7", "2001:db8::1", "::1", "a-1.b2"];
        let bad = [
            "",
            ".",
            "a..b",
            "a.",
            "Relay.example",
            "2001:DB8::1",
            "[::1]",
            "1.2.3",
            "999.1.1.1",
            "-a",
            "a-",
            "a_b",
            "a b",
            "a/b",
            "ä.example",
            "::1%eth0",
            &long,
        ];
        for host in good {
            assert!(host_is_sound(host), "{host}");
        }
        for host in bad {
            assert!(!host_is_sound(host), "{host}");
        }
    }
}
