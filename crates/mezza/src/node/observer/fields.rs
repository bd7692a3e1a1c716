//! Names for bytes: TLS records and relay frames, field by field (relay 1.2).

use data_encoding::HEXLOWER;
use mezza_messenger::relay_wire::{ClientFrame, LENGTH_BYTES, RelayFrame};

use mezza_host::api::json::ObserverField;
use mezza_host::connection::tap::Direction;
use mezza_host::store::RecordHeader;

/// Maximum number of TLS records named in one event.
const RECORDS_MAX: usize = 16;
/// Shown bytes of a value.
const VALUE_BYTES_MAX: usize = 40;

/// Makes a field that stands for no bytes of the event.
pub(super) fn make_field(name: &str, value: String) -> ObserverField {
    ObserverField { name: name.into(), value, offset: 0, len: 0 }
}

/// Splits TLS records (RFC 8446, 5.1): type u8, version u16, length u16, encrypted part.
pub(super) fn split_tls(bytes: &[u8]) -> Vec<ObserverField> {
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
        cut.push_named("record", 1, name);
        cut.push_named("version", 2, "TLS 1.3 writes 1.2 here");
        cut.push_number("length", 2);
        let rest = cut.bytes.len() - cut.at;
        cut.push_named("content", length.min(rest), what);
    }
    cut.push_rest("continued");
    cut.fields
}

/// Splits one relay frame with its length field.
pub(super) fn split_frame(bytes: &[u8], direction: Direction) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes, at: 0, fields: Vec::new() };
    cut.push_number("length", LENGTH_BYTES);
    let body = bytes.get(LENGTH_BYTES..).unwrap_or_default();
    match direction {
        Direction::ToRelay => push_client(&mut cut, ClientFrame::decode(body).ok()),
        Direction::ToClient => push_relay(&mut cut, RelayFrame::decode(body).ok()),
    }
    cut.push_rest("rest");
    cut.fields
}

/// Splits one sealed record of the vault: nonce, then the encrypted part. Kind, row and bucket are
/// separate columns of the database.
pub(super) fn split_record(place: RecordHeader, body: &[u8]) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes: body, at: 0, fields: Vec::new() };
    cut.fields.push(make_field("kind", place.kind.to_string()));
    cut.fields.push(make_field("row", place.id.to_string()));
    cut.fields.push(make_field("bucket", format!("{:08x}", place.bucket.0)));
    cut.push_bytes("nonce", 24);
    let rest = body.len().saturating_sub(24);
    cut.push_named("sealed", rest, "padded, and encrypted under the bucket key");
    cut.fields
}

fn push_client(cut: &mut FieldCursor<'_>, frame: Option<ClientFrame>) {
    let Some(frame) = frame else { return cut.push_named("kind", 1, "not understood") };
    match frame {
        ClientFrame::Open { .. } => {
            cut.push_kind("OPEN");
            cut.push_number("req", 2);
            cut.push_bytes("token", 32);
            cut.push_number("box kind", 1);
        }
        ClientFrame::Close { .. } => {
            cut.push_kind("CLOSE");
            cut.push_number("req", 2);
            cut.push_bytes("token", 32);
        }
        ClientFrame::Put { envelope, .. } => {
            cut.push_kind("PUT");
            cut.push_number("req", 2);
            cut.push_bytes("address", 16);
            cut.push_number("ttl_h", 2);
            cut.push_envelope(envelope.len());
        }
        ClientFrame::Watch { .. } => {
            cut.push_kind("WATCH");
            cut.push_number("req", 2);
            cut.push_number("box", 2);
            cut.push_bytes("token", 32);
        }
        ClientFrame::Taken { mails, .. } => {
            cut.push_kind("TAKEN");
            cut.push_number("box", 2);
            cut.push_number("count", 1);
            cut.push_bytes("mails", 4 * mails.len());
        }
        ClientFrame::BundleSet { bundle, keys, .. } => {
            cut.push_kind("BUNDLE_SET");
            cut.push_number("req", 2);
            cut.push_bytes("token", 32);
            cut.push_number("flags", 1);
            cut.push_number("bundle length", 2);
            cut.push_bytes("bundle", bundle.len());
            cut.push_number("one-time keys", 2);
            cut.push_bytes("keys", 36 * keys.len());
        }
        ClientFrame::BundleGet { .. } => {
            cut.push_kind("BUNDLE_GET");
            cut.push_number("req", 2);
            cut.push_bytes("address", 16);
        }
        ClientFrame::Ping => cut.push_kind("PING"),
        #[allow(unreachable_patterns, reason = "the wire may grow")]
        _ => cut.push_kind("newer"),
    }
}

fn push_relay(cut: &mut FieldCursor<'_>, frame: Option<RelayFrame>) {
    let Some(frame) = frame else { return cut.push_named("kind", 1, "not understood") };
    match frame {
        RelayFrame::Hello { .. } => {
            cut.push_kind("HELLO");
            cut.push_number("version", 1);
            cut.push_number("now ms", 6);
            cut.push_number("envelope max", 4);
            cut.push_number("ttl_h max", 2);
        }
        RelayFrame::Mail { envelope, .. } => {
            cut.push_kind("MAIL");
            cut.push_number("box", 2);
            cut.push_number("nr", 4);
            cut.push_envelope(envelope.len());
        }
        RelayFrame::Bundle { bundle, key, .. } => {
            cut.push_kind("BUNDLE");
            cut.push_number("req", 2);
            cut.push_number("bundle length", 2);
            cut.push_bytes("bundle", bundle.len());
            cut.push_bytes("one-time key", if key.is_some() { 36 } else { 0 });
        }
        RelayFrame::Displaced { .. } => {
            cut.push_kind("DISPLACED");
            cut.push_number("box", 2);
            cut.push_number("over", 1);
        }
        RelayFrame::Stock { .. } => {
            cut.push_kind("STOCK");
            cut.push_number("box", 2);
            cut.push_number("left", 2);
        }
        RelayFrame::Done { .. } => {
            cut.push_kind("DONE");
            cut.push_number("req", 2);
            cut.push_number("code", 1);
            cut.push_number("retry_s", 2);
        }
        RelayFrame::Ping => cut.push_kind("PING"),
        #[allow(unreachable_patterns, reason = "the wire may grow")]
        _ => cut.push_kind("newer"),
    }
}

/// A cursor that names consecutive bytes.
pub(super) struct FieldCursor<'a> {
    /// All bytes of the event.
    pub bytes: &'a [u8],
    /// The offset of the next field.
    pub at: usize,
    /// The fields named so far.
    pub fields: Vec<ObserverField>,
}

impl FieldCursor<'_> {
    fn push_kind(&mut self, name: &str) {
        self.push_named("kind", 1, name);
    }

    /// Adds the sealed layer of messenger 3.5; the relay learns only its size.
    fn push_envelope(&mut self, length: usize) {
        self.push_number("envelope version", 1);
        self.push_bytes("encapsulated key", 32);
        self.push_named("sealed", length.saturating_sub(33), "encrypted for the reader alone");
    }

    /// Adds a field of `len` bytes with a value in words.
    pub(super) fn push_named(&mut self, name: &str, len: usize, value: &str) {
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

    /// Adds a big-endian number of at most 8 bytes.
    pub(super) fn push_number(&mut self, name: &str, len: usize) {
        let bytes = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        self.push_named(name, len, &value.to_string());
    }

    /// Adds bytes as hexadecimal digits.
    pub(super) fn push_bytes(&mut self, name: &str, len: usize) {
        let bytes = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        let shown = HEXLOWER.encode(&bytes[..bytes.len().min(VALUE_BYTES_MAX)]);
        let more = if bytes.len() > VALUE_BYTES_MAX { ".." } else { "" };
        self.push_named(name, len, &format!("{shown}{more}"));
    }

    /// Adds the remaining bytes as one field.
    pub(super) fn push_rest(&mut self, name: &str) {
        let len = self.bytes.len() - self.at;
        self.push_named(name, len, &format!("{len} bytes"));
    }
}
