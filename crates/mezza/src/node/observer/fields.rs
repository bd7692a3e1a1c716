//! Names for bytes: TLS records and relay frames, field by field (relay 1.2).

use data_encoding::HEXLOWER;
use mezza_messenger::relay_wire::{ClientFrame, LENGTH_BYTES, RelayFrame};

use mezza_host::api::json::ObserverField;
use mezza_host::connection::tap::Direction;
use mezza_host::store::RecordHeader;

/// Most records of one event that are named.
const RECORDS_MAX: usize = 16;
/// Bytes of a value that are shown.
const VALUE_BYTES_MAX: usize = 40;

/// A field that is no part of the bytes.
pub(super) fn about(name: &str, value: String) -> ObserverField {
    ObserverField { name: name.into(), value, offset: 0, len: 0 }
}

/// TLS records (RFC 8446, 5.1): type u8, version u16, length u16, and what is encrypted.
pub(super) fn tls(bytes: &[u8]) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes, at: 0, fields: Vec::new() };
    for _ in 0..RECORDS_MAX {
        let Some(&[kind, 3, _, high, low]) = cut.bytes.get(cut.at..cut.at + 5) else { break };
        let length = usize::from(high) << 8 | usize::from(low);
        let (name, what) = match kind {
            20 => ("change cipher spec", "plain"),
            21 => ("alert", "plain"),
            22 => ("handshake", "hello in the clear"),
            23 => ("application data", "encrypted"),
            _ => break,
        };
        cut.named("record", 1, name);
        cut.named("version", 2, "TLS 1.3 writes 1.2 here");
        cut.number("length", 2);
        let rest = cut.bytes.len() - cut.at;
        cut.named("content", length.min(rest), what);
    }
    cut.rest("continued");
    cut.fields
}

/// One relay frame with its length field.
pub(super) fn frame(bytes: &[u8], direction: Direction) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes, at: 0, fields: Vec::new() };
    cut.number("length", LENGTH_BYTES);
    let body = bytes.get(LENGTH_BYTES..).unwrap_or_default();
    match direction {
        Direction::ToRelay => client(&mut cut, ClientFrame::decode(body).ok()),
        Direction::ToClient => relay(&mut cut, RelayFrame::decode(body).ok()),
    }
    cut.rest("rest");
    cut.fields
}

/// One sealed record of the vault: nonce, then what is encrypted; kind, row and bucket stand
/// beside it in the database.
pub(super) fn record(place: RecordHeader, body: &[u8]) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes: body, at: 0, fields: Vec::new() };
    cut.fields.push(about("kind", place.kind.to_string()));
    cut.fields.push(about("row", place.id.to_string()));
    cut.fields.push(about("bucket", format!("{:08x}", place.bucket.0)));
    cut.bytes("nonce", 24);
    let rest = body.len().saturating_sub(24);
    cut.named("sealed", rest, "padded, and encrypted under the bucket key");
    cut.fields
}

fn client(cut: &mut FieldCursor<'_>, frame: Option<ClientFrame>) {
    let Some(frame) = frame else { return cut.named("kind", 1, "not understood") };
    match frame {
        ClientFrame::Open { .. } => {
            cut.kind("OPEN");
            cut.number("req", 2);
            cut.bytes("token", 32);
            cut.number("box kind", 1);
        }
        ClientFrame::Close { .. } => {
            cut.kind("CLOSE");
            cut.number("req", 2);
            cut.bytes("token", 32);
        }
        ClientFrame::Put { envelope, .. } => {
            cut.kind("PUT");
            cut.number("req", 2);
            cut.bytes("address", 16);
            cut.number("ttl_h", 2);
            cut.envelope(envelope.len());
        }
        ClientFrame::Watch { .. } => {
            cut.kind("WATCH");
            cut.number("req", 2);
            cut.number("box", 2);
            cut.bytes("token", 32);
        }
        ClientFrame::Taken { mails, .. } => {
            cut.kind("TAKEN");
            cut.number("box", 2);
            cut.number("count", 1);
            cut.bytes("mails", 4 * mails.len());
        }
        ClientFrame::BundleSet { bundle, keys, .. } => {
            cut.kind("BUNDLE_SET");
            cut.number("req", 2);
            cut.bytes("token", 32);
            cut.number("flags", 1);
            cut.number("bundle length", 2);
            cut.bytes("bundle", bundle.len());
            cut.number("one-time keys", 2);
            cut.bytes("keys", 36 * keys.len());
        }
        ClientFrame::BundleGet { .. } => {
            cut.kind("BUNDLE_GET");
            cut.number("req", 2);
            cut.bytes("address", 16);
        }
        ClientFrame::Ping => cut.kind("PING"),
        #[allow(unreachable_patterns, reason = "the wire may grow")]
        _ => cut.kind("newer"),
    }
}

fn relay(cut: &mut FieldCursor<'_>, frame: Option<RelayFrame>) {
    let Some(frame) = frame else { return cut.named("kind", 1, "not understood") };
    match frame {
        RelayFrame::Hello { .. } => {
            cut.kind("HELLO");
            cut.number("version", 1);
            cut.number("now ms", 6);
            cut.number("envelope max", 4);
            cut.number("ttl_h max", 2);
        }
        RelayFrame::Mail { envelope, .. } => {
            cut.kind("MAIL");
            cut.number("box", 2);
            cut.number("nr", 4);
            cut.envelope(envelope.len());
        }
        RelayFrame::Bundle { bundle, key, .. } => {
            cut.kind("BUNDLE");
            cut.number("req", 2);
            cut.number("bundle length", 2);
            cut.bytes("bundle", bundle.len());
            cut.bytes("one-time key", if key.is_some() { 36 } else { 0 });
        }
        RelayFrame::Displaced { .. } => {
            cut.kind("DISPLACED");
            cut.number("box", 2);
            cut.number("over", 1);
        }
        RelayFrame::Stock { .. } => {
            cut.kind("STOCK");
            cut.number("box", 2);
            cut.number("left", 2);
        }
        RelayFrame::Done { .. } => {
            cut.kind("DONE");
            cut.number("req", 2);
            cut.number("code", 1);
            cut.number("retry_s", 2);
        }
        RelayFrame::Ping => cut.kind("PING"),
        #[allow(unreachable_patterns, reason = "the wire may grow")]
        _ => cut.kind("newer"),
    }
}

/// Walks over bytes and names them.
pub(super) struct FieldCursor<'a> {
    /// All of them.
    pub bytes: &'a [u8],
    /// Where the next field begins.
    pub at: usize,
    /// The fields named so far.
    pub fields: Vec<ObserverField>,
}

impl FieldCursor<'_> {
    fn kind(&mut self, name: &str) {
        self.named("kind", 1, name);
    }

    /// The sealed layer of messenger 3.5; all that the relay can tell is its size.
    fn envelope(&mut self, length: usize) {
        self.number("envelope version", 1);
        self.bytes("encapsulated key", 32);
        self.named("sealed", length.saturating_sub(33), "encrypted for the reader alone");
    }

    /// Bytes with a value in words.
    pub(super) fn named(&mut self, name: &str, len: usize, value: &str) {
        if len == 0 || self.at + len > self.bytes.len() {
            return;
        }
        self.fields.push(ObserverField {
            name: name.into(),
            value: value.into(),
            offset: self.at,
            len,
        });
        self.at += len;
    }

    /// A big-endian number of at most 8 bytes.
    pub(super) fn number(&mut self, name: &str, len: usize) {
        let bytes = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        self.named(name, len, &value.to_string());
    }

    /// Bytes as hexadecimal digits.
    pub(super) fn bytes(&mut self, name: &str, len: usize) {
        let bytes = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        let shown = HEXLOWER.encode(&bytes[..bytes.len().min(VALUE_BYTES_MAX)]);
        let more = if bytes.len() > VALUE_BYTES_MAX { ".." } else { "" };
        self.named(name, len, &format!("{shown}{more}"));
    }

    /// Whatever was not named.
    pub(super) fn rest(&mut self, name: &str) {
        let len = self.bytes.len() - self.at;
        self.named(name, len, &format!("{len} bytes"));
    }
}
