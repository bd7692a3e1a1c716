//! The virtio header of an interface with offloads, and the headers of Ethernet, IP, TCP and UDP
//! that cutting and joining need.

/// Bytes of [`VirtioHeader`].
pub const VIRTIO_BYTES: usize = 10;

/// Flag: the checksum of the frame is unfinished.
const NEEDS_CHECKSUM: u8 = 1;
/// Type: no super-frame.
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Flag in the type: only the first segment of the super-frame has CWR set.
const GSO_ECN: u8 = 0x80;

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IP6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
/// VLAN tags that are skipped before the type of a frame.
const VLANS_MAX: usize = 2;

/// TCP: the offset of its flags, and the three flags that differ between segments.
pub(super) const TCP_FLAGS: usize = 13;
pub(super) const TCP_FIN: u8 = 0x01;
pub(super) const TCP_PUSH: u8 = 0x08;
pub(super) const TCP_CWR: u8 = 0x80;

/// The header before each frame of an interface with offloads (virtio 1.2, section 5.1.6, in the byte
/// order of the machine): 10 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// The checksum is unfinished: the sum of the pseudo-header, at `checksum_start +
    /// checksum_offset`.
    pub needs_checksum: bool,
    /// The kind of super-frame.
    pub segments: SegmentKind,
    /// Bytes of all headers; a hint.
    pub header_bytes: u16,
    /// Bytes of payload of each segment.
    pub segment_bytes: u16,
    /// Offset of the TCP or UDP header.
    pub checksum_start: u16,
    /// Offset of the checksum in that header.
    pub checksum_offset: u16,
}

/// The kind of super-frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentKind {
    /// No super-frame.
    #[default]
    None,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams of equal length.
    Udp,
    /// A kind that was not requested from the interface.
    Other(u8),
}

impl VirtioHeader {
    /// Decodes the 10 bytes.
    pub fn decode(bytes: &[u8; VIRTIO_BYTES]) -> Self {
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            segments: match bytes[1] & !GSO_ECN {
                GSO_NONE => SegmentKind::None,
                GSO_TCP4 => SegmentKind::Tcp4,
                GSO_TCP6 => SegmentKind::Tcp6,
                GSO_UDP => SegmentKind::Udp,
                other => SegmentKind::Other(other),
            },
            header_bytes: number(2),
            segment_bytes: number(4),
            checksum_start: number(6),
            checksum_offset: number(8),
        }
    }

    /// Encodes the 10 bytes.
    pub fn encode(&self) -> [u8; VIRTIO_BYTES] {
        let mut bytes = [0; VIRTIO_BYTES];
        bytes[0] = if self.needs_checksum { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = match self.segments {
            SegmentKind::None => GSO_NONE,
            SegmentKind::Tcp4 => GSO_TCP4,
            SegmentKind::Tcp6 => GSO_TCP6,
            SegmentKind::Udp => GSO_UDP,
            SegmentKind::Other(other) => other,
        };
        let numbers =
            [self.header_bytes, self.segment_bytes, self.checksum_start, self.checksum_offset];
        for (number, place) in numbers.iter().zip(bytes[2..].chunks_exact_mut(2)) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

/// The layers of a frame with TCP or UDP over IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// Offset of the IP header.
    pub ip: usize,
    pub is_ip6: bool,
    /// Offset of the TCP or UDP header.
    pub transport: usize,
    pub is_tcp: bool,
    /// Offset of the payload.
    pub payload: usize,
}

impl Layers {
    /// Parses the headers. Returns `None` for other protocols, IP fragments, and malformed headers.
    pub fn parse_frame(frame: &[u8]) -> Option<Self> {
        let mut ip = ETHERNET_BYTES;
        let mut kind = read_word(frame, 12)?;
        // Deeper tags are not parsed: such a frame stays whole rather than being cut at a wrong
        // offset.
        for _ in 0..VLANS_MAX {
            if matches!(kind, 0x8100 | 0x88a8) {
                kind = read_word(frame, ip + 2)?;
                ip += VLAN_BYTES;
            }
        }
        let (is_ip6, transport, protocol) = match kind {
            0x0800 => {
                let head = *frame.get(ip)?;
                let header_bytes = usize::from(head & 0x0f) * 4;
                // More-fragments flag and fragment offset: only the first fragment has a TCP or UDP
                // header.
                let is_fragment = read_word(frame, ip + 6)? & 0x3fff != 0;
                // IPv4 headers have at least 20 bytes (RFC 791). A shorter one would overlap the
                // payload.
                if head >> 4 != 4 || header_bytes < 20 || is_fragment {
                    return None;
                }
                (false, ip + header_bytes, *frame.get(ip + 9)?)
            }
            // IPv6 extension headers are not parsed, so such frames are not cut.
            0x86dd if *frame.get(ip)? >> 4 == 6 => (true, ip + IP6_BYTES, *frame.get(ip + 6)?),
            _ => return None,
        };
        let (is_tcp, header_bytes) = match protocol {
            6 => (true, usize::from(*frame.get(transport + 12)? >> 4) * 4),
            17 => (false, UDP_BYTES),
            _ => return None,
        };
        let payload = transport + header_bytes;
        // A data offset below 5 words points into the TCP header itself (RFC 9293).
        let sound = (!is_tcp || header_bytes >= 20) && payload <= frame.len();
        sound.then_some(Self { ip, is_ip6, transport, is_tcp, payload })
    }

    /// Returns the offset of the checksum in the TCP or UDP header.
    pub fn checksum_offset(&self) -> usize {
        if self.is_tcp { 16 } else { 6 }
    }

    /// Returns the kind of a super-frame with these layers.
    pub fn segment_kind(&self) -> SegmentKind {
        match (self.is_tcp, self.is_ip6) {
            (true, false) => SegmentKind::Tcp4,
            (true, true) => SegmentKind::Tcp6,
            (false, _) => SegmentKind::Udp,
        }
    }

    /// Sets the lengths in the headers for a frame of `frame_bytes`, where they were those of
    /// `before_bytes`, and corrects the IPv4 checksum and the pseudo-header sum.
    pub fn set_length(&self, headers: &mut [u8], before_bytes: usize, frame_bytes: usize) {
        if self.is_ip6 {
            put_word(headers, self.ip + 4, (frame_bytes - self.ip - IP6_BYTES) as u16);
        } else {
            // The length is covered by the IPv4 checksum, so it is computed again.
            put_word(headers, self.ip + 2, (frame_bytes - self.ip) as u16);
            self.finish_ip4(headers);
        }
        if !self.is_tcp {
            put_word(headers, self.transport + 4, (frame_bytes - self.transport) as u16);
        }
        let at = self.transport + self.checksum_offset();
        if let Some(sum) = read_word(headers, at) {
            let before = before_bytes - self.transport;
            let after = frame_bytes - self.transport;
            // The sum of the pseudo-header contains the length: subtract the old one and add the
            // new one (RFC 1624).
            put_word(
                headers,
                at,
                fold_sum(u64::from(sum) + u64::from(!(before as u16)) + after as u64),
            );
        }
    }

    /// Computes the checksum of the IPv4 header.
    pub fn finish_ip4(&self, headers: &mut [u8]) {
        if self.is_ip6 {
            return;
        }
        // The checksum field counts as zero while it is computed (RFC 791).
        put_word(headers, self.ip + 10, 0);
        let sum = sum_of(&headers[self.ip..self.transport]);
        put_word(headers, self.ip + 10, !fold_sum(sum));
    }
}

/// Reads the 16 bits at `at`, big-endian.
pub(super) fn read_word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes 16 bits if there is room.
pub(super) fn put_word(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = value.to_be_bytes();
    }
}

/// Returns the sum of 16-bit words (RFC 1071), not folded yet.
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let sum = words.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    words.remainder().first().map_or(sum, |last| sum + (u64::from(*last) << 8))
}

/// Folds a sum into 16 bits.
pub(super) fn fold_sum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}
