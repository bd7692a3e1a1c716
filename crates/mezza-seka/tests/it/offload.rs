//! Super-frames: cut and joined, against the original and against a reading of the headers written apart.

use mezza_seka::offload::{
    Assembler, FRAGMENTS_MAX, JoinedRun, Joiner, NEXT, PARTIAL, SegmentKind, SegmentShape,
    TextPlace, VIRTIO_BYTES, VirtioHeader, fragment_flags, fragments_of,
};
use proptest::prelude::*;

const ROOM: usize = 1_427;

/// The sum of 16-bit words, folded.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A frame as an interface with offloads hands it over.
#[derive(Clone, Debug)]
struct Case {
    is_ip6: bool,
    is_tcp: bool,
    vlan: bool,
    options: usize,
    payload: Vec<u8>,
    segment: usize,
}

impl Case {
    fn headers(&self) -> (usize, usize, usize) {
        let ip = 14 + if self.vlan { 4 } else { 0 };
        let transport = ip + if self.is_ip6 { 40 } else { 20 };
        let payload = transport + if self.is_tcp { 20 + 4 * self.options } else { 8 };
        (ip, transport, payload)
    }

    /// The sum of the pseudo-header for a transport of so many bytes.
    fn pseudo(&self, frame: &[u8], bytes: usize) -> u16 {
        let (ip, ..) = self.headers();
        let addresses =
            if self.is_ip6 { &frame[ip + 8..ip + 40] } else { &frame[ip + 12..ip + 20] };
        let protocol = if self.is_tcp { 6_u16 } else { 17 };
        sum(&[addresses, &protocol.to_be_bytes(), &(bytes as u16).to_be_bytes()])
    }

    fn frame(&self) -> (VirtioHeader, Vec<u8>) {
        let (ip, transport, at) = self.headers();
        let mut frame = vec![0; at];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        if self.vlan {
            frame[12..16].copy_from_slice(&[0x81, 0, 0, 7]);
        }
        let kind: u16 = if self.is_ip6 { 0x86dd } else { 0x0800 };
        frame[ip - 2..ip].copy_from_slice(&kind.to_be_bytes());
        let total = at + self.payload.len();
        let protocol = if self.is_tcp { 6 } else { 17 };
        if self.is_ip6 {
            frame[ip] = 0x60;
            frame[ip + 4..ip + 6].copy_from_slice(&((total - ip - 40) as u16).to_be_bytes());
            frame[ip + 6] = protocol;
            frame[ip + 8..ip + 40].copy_from_slice(&[0x20; 32]);
        } else {
            frame[ip] = 0x45;
            frame[ip + 2..ip + 4].copy_from_slice(&((total - ip) as u16).to_be_bytes());
            frame[ip + 4..ip + 6].copy_from_slice(&0xfffe_u16.to_be_bytes());
            frame[ip + 8..ip + 10].copy_from_slice(&[64, protocol]);
            frame[ip + 12..ip + 20].copy_from_slice(&[10, 7, 0, 1, 10, 7, 0, 2]);
            let check = !sum(&[&frame[ip..ip + 20]]);
            frame[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
        }
        if self.is_tcp {
            frame[transport + 4..transport + 8].copy_from_slice(&0xffff_f000_u32.to_be_bytes());
            frame[transport + 12] = (((20 + 4 * self.options) / 4) << 4) as u8;
            // CWR, PSH, FIN, ACK.
            frame[transport + 13] = 0x80 | 0x08 | 0x01 | 0x10;
        } else {
            let bytes = ((total - transport) as u16).to_be_bytes();
            frame[transport + 4..transport + 6].copy_from_slice(&bytes);
        }
        let offset = if self.is_tcp { 16 } else { 6 };
        frame.extend_from_slice(&self.payload);
        let check = self.pseudo(&frame, total - transport);
        frame[transport + offset..transport + offset + 2].copy_from_slice(&check.to_be_bytes());
        let segments = match (self.is_tcp, self.is_ip6) {
            (true, false) => SegmentKind::Tcp4,
            (true, true) => SegmentKind::Tcp6,
            (false, _) => SegmentKind::Udp,
        };
        let virtio = VirtioHeader {
            needs_checksum: true,
            segments,
            header_bytes: at as u16,
            segment_bytes: self.segment as u16,
            checksum_start: transport as u16,
            checksum_offset: offset as u16,
        };
        (virtio, frame)
    }

    /// The segments as texts of frames.
    fn texts(&self) -> Vec<Vec<u8>> {
        let (virtio, mut frame) = self.frame();
        let SegmentShape::Segments(cut) = SegmentShape::for_frame(&virtio, &mut frame, ROOM) else {
            panic!("not cut")
        };
        let text = |index| {
            let mut text = vec![0; 1 + cut.segment_frame_bytes()];
            let (flags, bytes) = cut.write_segment(&frame, index, &mut text[1..]);
            text[0] = flags;
            text.truncate(1 + bytes);
            text
        };
        (0..cut.segment_count()).map(text).collect()
    }

    /// Holds a segment to what the kernel's own segmentation would make.
    fn check(&self, text: &[u8], index: usize, count: usize) {
        let (ip, transport, at) = self.headers();
        let (_, whole) = self.frame();
        let frame = &text[1..];
        let from = index * self.segment;
        assert_eq!(frame[at..], whole[at + from..(at + from + self.segment).min(whole.len())]);
        if self.is_ip6 {
            let bytes = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]);
            assert_eq!(usize::from(bytes), frame.len() - ip - 40);
        } else {
            let bytes = u16::from_be_bytes([frame[ip + 2], frame[ip + 3]]);
            assert_eq!(usize::from(bytes), frame.len() - ip);
            assert_eq!(sum(&[&frame[ip..ip + 20]]), 0xffff);
            let id = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]);
            assert_eq!(id, 0xfffe_u16.wrapping_add(index as u16));
        }
        let offset = transport + if self.is_tcp { 16 } else { 6 };
        let check = u16::from_be_bytes([frame[offset], frame[offset + 1]]);
        // 0 and 0xffff are the same number.
        assert_eq!(check % 0xffff, self.pseudo(frame, frame.len() - transport) % 0xffff);
        if self.is_tcp {
            let sequence = u32::from_be_bytes(*frame[transport + 4..].first_chunk().expect("TCP"));
            assert_eq!(sequence, 0xffff_f000_u32.wrapping_add(from as u32));
            let flags = frame[transport + 13];
            assert_eq!(flags & 0x80 != 0, index == 0, "CWR");
            assert_eq!(flags & 0x09 != 0, index + 1 == count, "FIN, PSH");
        }
        assert_eq!(text[0], PARTIAL | if index > 0 { NEXT } else { 0 });
    }
}

/// Returns the output of a joiner for these texts with their packet numbers: virtio header and frame.
fn join(texts: &[(u32, Vec<u8>)]) -> Vec<(VirtioHeader, Vec<u8>)> {
    let mut buffer = Vec::new();
    let mut places = Vec::new();
    for (packet, text) in texts {
        let start = buffer.len();
        buffer.extend_from_slice(text);
        places.push(TextPlace { packet: *packet, range: start..buffer.len() });
    }
    let mut joiner = Joiner::default();
    let mut joined = Vec::new();
    let mut emit = |run: &JoinedRun<'_>| {
        let virtio = VirtioHeader::decode(run.head.first_chunk().expect("a header"));
        let mut frame = run.head[VIRTIO_BYTES..].to_vec();
        run.pieces.iter().for_each(|piece| frame.extend_from_slice(&buffer[piece.clone()]));
        joined.push((virtio, frame));
    };
    for place in &places {
        joiner.push_text(&buffer, place, &mut emit);
    }
    joiner.finish_run(&mut emit);
    joined
}

fn cases() -> impl Strategy<Value = Case> {
    (any::<[bool; 3]>(), 0_usize..=10, 1_usize..=40, 64_usize..1_300, any::<u8>()).prop_map(
        |([is_ip6, is_tcp, vlan], options, count, segment, fill)| {
            let bytes = (segment * (count - 1) + 1 + segment * usize::from(fill) / 256).min(65_000);
            let payload = (0..bytes).map(|at| (at * 7) as u8 ^ fill).collect();
            Case { is_ip6, is_tcp, vlan, options, payload, segment }
        },
    )
}

proptest! {
    #[test]
    fn seka_70_cutting_then_joining_gives_the_original(case in cases()) {
        let texts = case.texts();
        for (index, text) in texts.iter().enumerate() {
            case.check(text, index, texts.len());
        }
        let (virtio, frame) = case.frame();
        let numbered: Vec<_> = (100..).zip(texts).collect();
        let count = numbered.len();
        let joined = join(&numbered);
        prop_assert_eq!(joined.len(), 1);
        let (given, whole) = &joined[0];
        prop_assert_eq!(whole, &frame);
        if count > 1 {
            prop_assert_eq!(given, &virtio);
        }
    }

    #[test]
    fn seka_70_any_subset_of_segments_gives_frames_that_are_whole(case in cases(), lost: u64) {
        let texts = case.texts();
        let kept: Vec<(u32, Vec<u8>)> = (100_u32..)
            .zip(texts.clone())
            .enumerate()
            .filter(|(index, _)| lost >> (index % 64) & 1 == 0)
            .map(|(_, text)| text)
            .collect();
        let joined = join(&kept);
        // All payload that arrived is there, in its order, and nothing else.
        let (_, _, at) = case.headers();
        let arrived: Vec<u8> = kept.iter().flat_map(|(_, text)| text[1 + at..].to_vec()).collect();
        let given: Vec<u8> = joined.iter().flat_map(|(_, frame)| frame[at..].to_vec()).collect();
        prop_assert_eq!(given, arrived);
        for (virtio, frame) in &joined {
            let (ip, ..) = case.headers();
            if !case.is_ip6 {
                prop_assert_eq!(sum(&[&frame[ip..ip + 20]]), 0xffff);
                let bytes = u16::from_be_bytes([frame[ip + 2], frame[ip + 3]]);
                prop_assert_eq!(usize::from(bytes), frame.len() - ip);
            }
            prop_assert!(virtio.needs_checksum);
        }
    }

    #[test]
    fn frames_of_any_content_never_panic(
        virtio: [u8; 10],
        mut frame in proptest::collection::vec(any::<u8>(), 0..300),
        texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..12),
    ) {
        let header = VirtioHeader::decode(&virtio);
        prop_assert_eq!(VirtioHeader::decode(&header.encode()).encode(), header.encode());
        if let SegmentShape::Segments(cut) = SegmentShape::for_frame(&header, &mut frame, 200) {
            let mut out = vec![0; cut.segment_frame_bytes()];
            for index in 0..cut.segment_count() {
                cut.write_segment(&frame, index, &mut out);
            }
        }
        let numbered: Vec<_> = (7..).zip(texts.clone()).collect();
        join(&numbered);
        let mut assembler = Assembler::default();
        for (packet, text) in numbered {
            assembler.push_fragment(packet, &text);
        }
    }
}

/// Sends a super-frame over a carrier with this room. Returns the frames that arrive.
fn over(case: &Case, room: usize) -> Vec<(VirtioHeader, Vec<u8>)> {
    let (virtio, mut frame) = case.frame();
    let shape = SegmentShape::for_frame(&virtio, &mut frame, room);
    let (SegmentShape::Segments(cut) | SegmentShape::FragmentedSegments { cut, .. }) = shape else {
        panic!("not cut: {shape:?}")
    };
    let mut texts = Vec::new();
    for index in 0..cut.segment_count() {
        let mut segment = vec![0; cut.segment_frame_bytes()];
        let (flags, bytes) = cut.write_segment(&frame, index, &mut segment);
        let count = fragments_of(bytes, room);
        for (at, part) in segment[..bytes].chunks(room).enumerate() {
            let flags = if count == 1 { flags } else { PARTIAL | fragment_flags(at, count) };
            texts.push([&[flags], part].concat());
        }
    }
    assert_eq!(texts.len(), shape.frame_count());
    assert!(texts.iter().all(|text| text.len() <= room + 1));
    let mut assembler = Assembler::default();
    let mut whole = Vec::new();
    for (packet, text) in (7..).zip(texts) {
        if Assembler::is_fragment(&text) {
            whole.extend(assembler.push_fragment(packet, &text).map(|text| (packet, text)));
        } else {
            whole.push((packet, text));
        }
    }
    join(&whole)
}

#[test]
fn seka_80_a_super_frame_with_segments_beyond_the_room_is_cut_to_the_room() {
    for (is_tcp, room) in [(true, 1_427), (true, 1_000), (true, 300), (false, 1_000), (false, 400)]
    {
        let payload: Vec<u8> = (0..14_600_u32).map(|at| at as u8).collect();
        let case = Case { is_ip6: false, is_tcp, vlan: false, options: 3, payload, segment: 1_460 };
        let (_, _, at) = case.headers();
        let joined = over(&case, room);
        let arrived: Vec<u8> = joined.iter().flat_map(|(_, frame)| frame[at..].to_vec()).collect();
        assert_eq!(arrived, case.payload, "TCP {is_tcp}, room {room}");
        // A datagram keeps its size; a stream may be cut anywhere.
        let datagrams =
            joined.len() == 10 && joined.iter().all(|(_, frame)| frame.len() == at + 1_460);
        assert!(is_tcp || datagrams, "{}", joined.len());
    }
    // Beyond four fragments nothing can be sent.
    let payload = vec![1; 6_000];
    let case =
        Case { is_ip6: true, is_tcp: false, vlan: true, options: 0, payload, segment: 3_000 };
    let (virtio, mut frame) = case.frame();
    assert_eq!(SegmentShape::for_frame(&virtio, &mut frame, 700), SegmentShape::Dropped);
    assert_eq!(SegmentShape::for_frame(&virtio, &mut frame, 0), SegmentShape::Dropped);
}

#[test]
fn seka_46_unknown_flags_drop_the_frame() {
    for flags in [0x10, 0x20, 0x40, 0x80, 0x0c] {
        let mut text = vec![0; 60];
        text[0] = flags;
        assert!(join(&[(1, text)]).is_empty(), "{flags:x}");
    }
    // R without a neighbour is delivered alone; P on headers that do not parse is dropped.
    let mut text = vec![0; 60];
    text[0] = NEXT;
    assert_eq!(join(&[(1, text.clone())]).len(), 1);
    text[0] = PARTIAL;
    assert!(join(&[(1, text)]).is_empty());
}

#[test]
fn fragments_are_put_together_and_a_gap_drops_them() {
    let frame: Vec<u8> = (0..1_514_u16).map(|at| at as u8).collect();
    let virtio = VirtioHeader::default();
    let room = 500;
    let SegmentShape::Fragments { count, bytes, flags } =
        SegmentShape::for_frame(&virtio, &mut frame.clone(), room)
    else {
        panic!("not cut")
    };
    assert_eq!((count, bytes, flags), (4, 500, 0));
    let texts: Vec<Vec<u8>> = frame
        .chunks(bytes)
        .enumerate()
        .map(|(index, part)| [&[flags | fragment_flags(index, count)], part].concat())
        .collect();
    let run = |order: &[(u32, usize)]| {
        let mut assembler = Assembler::default();
        let whole =
            order.iter().filter_map(|(packet, at)| assembler.push_fragment(*packet, &texts[*at]));
        whole.last()
    };
    let whole = run(&[(5, 0), (6, 1), (7, 2), (8, 3)]).expect("whole");
    assert_eq!(whole[1..], frame);
    for order in [[(5, 0), (6, 1), (8, 2), (9, 3)], [(5, 1), (6, 1), (7, 2), (8, 3)]] {
        assert!(run(&order).is_none(), "{order:?}");
    }
    assert_eq!(FRAGMENTS_MAX, 4);
    let mut long = vec![0; 5 * room];
    assert_eq!(SegmentShape::for_frame(&virtio, &mut long, room), SegmentShape::Dropped);
}
