//! Links: frames, records, super-frames, and the two machines driven by operations.

use mezza_core::{PortableBackend, Time};
use mezza_seka::offload::{Assembler, JoinedRun, Joiner, SegmentShape, TextPlace, VirtioHeader};
use mezza_seka::stream::{RecordType, Records, body_bytes};
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::wire::{B1, B2, HandshakeFrame, Ke1, Ke2, Ke3, Nudge, S1, S2, S3};
use mezza_seka::{PairingInput, PeerInput, PeerRecord, SessionUsage};
use mezza_sim::Operations;

use crate::link_stage::{Device, Frames, exchange, paired, store_key};

type Suite = DefaultSuite<PortableBackend>;

/// Checks that a decoded frame encodes to the same bytes.
pub fn check_frames(data: &[u8]) {
    fn same<F: HandshakeFrame>(data: &[u8]) {
        if let Ok(frame) = F::decode(2, data) {
            assert_eq!(frame.encode(), data);
        }
    }
    same::<B1>(data);
    same::<B2>(data);
    same::<S1>(data);
    same::<S2>(data);
    same::<S3>(data);
    same::<Ke1>(data);
    same::<Ke2>(data);
    same::<Ke3>(data);
    same::<Nudge>(data);
}

/// Returns the frames of a pairing and of an exchange.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let lengths =
        [(0x10, 68), (0x11, 68), (0x12, 68), (0x13, 84), (0x14, 84), (0x15, 88), (0x17, 56)];
    lengths
        .into_iter()
        .map(|(kind, bytes)| {
            let mut frame = vec![2; bytes];
            frame[..8].copy_from_slice(&[1, kind, 2, 0, 0, 0, 1, 1]);
            frame
        })
        .collect()
}

/// Opens sealed records.
pub fn check_record(data: &[u8]) {
    let _ = PeerRecord::open(&store_key(), data);
    let half = data.len() / 2;
    let _ = PeerRecord::open_newest(&store_key(), [&data[..half], &data[half..]]);
    let _ = body_bytes(data);
}

/// Returns the sealed records of a pairing.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let (sides, _) = paired::<Suite>();
    sides[0].writes.iter().map(|(_, sealed)| sealed.clone()).collect()
}

/// Handles frames from an interface, and from a peer with keys.
pub fn check_offload(data: &[u8]) {
    let mut operations = Operations::new(data);
    let room = 64 + operations.draw_below(200) * 8;
    let header = operations.next_bytes(10);
    let mut frame = operations.next_bytes(400);
    if let Some(header) = header.first_chunk() {
        let header = VirtioHeader::decode(header);
        if let SegmentShape::Segments(cut) = SegmentShape::for_frame(&header, &mut frame, room) {
            let mut out = vec![0; cut.segment_frame_bytes()];
            for index in 0..cut.segment_count() {
                cut.write_segment(&frame, index, &mut out);
            }
        }
    }
    let mut joiner = Joiner::default();
    let mut assembler = Assembler::default();
    let mut emit = |run: &JoinedRun<'_>| assert!(run.pieces.iter().all(|p| p.end <= frame.len()));
    while let Some(step) = operations.next_kind(3) {
        let start = operations.draw_below(frame.len());
        let end = start + operations.draw_below(frame.len() - start + 1);
        let packet = operations.draw_below(4) as u32;
        if step == 0 {
            assembler.push_fragment(packet, &frame[start..end]);
        } else if start < end {
            joiner.push_text(&frame, &TextPlace { packet, range: start..end }, &mut emit);
        }
    }
    joiner.finish_run(&mut emit);
}

/// Drives two peers: frames that are late, repeated, damaged or lost, and all inputs of a driver.
pub fn run_peers(data: &[u8]) {
    let (mut sides, mut now) = paired::<Suite>();
    let mut operations = Operations::new(data);
    let mut air = Vec::new();
    while let Some(step) = operations.next_kind(10) {
        let at = operations.draw_below(2);
        for (from, side) in sides.iter_mut().enumerate() {
            air.extend(side.sent.drain(..).map(|frame| (1 - from, frame)));
        }
        if air.len() > 64 {
            air.drain(..32);
        }
        let number = u64::from(operations.next_byte());
        let _ = match step {
            0 | 1 if !air.is_empty() => {
                let (to, frame) = air[operations.draw_below(air.len())].clone();
                sides[to].hear(&frame, now)
            }
            2 if !air.is_empty() => {
                let (to, mut frame) = air[operations.draw_below(air.len())].clone();
                let place = operations.draw_below(frame.len());
                frame[place] ^= operations.next_byte() | 1;
                sides[to].hear(&frame, now)
            }
            3 => {
                now = now.plus_ms(number * number * 20);
                sides[at].wake(now);
                Ok(())
            }
            4 => sides[at].give(PeerInput::Rekey, now),
            5 => sides[at].give(PeerInput::Carrier(number & 1 == 1), now),
            6 => {
                sides[at].slow_disk = number & 1 == 1;
                sides[at].give(PeerInput::StoreFailed(number), now)
            }
            7 => sides[at].give(PeerInput::Stored(number), now),
            8 => {
                let attempt = number as u32;
                let sent = number as u32 * 1_000_000;
                sides[at].give(PeerInput::Used(SessionUsage { attempt, sent, received: sent }), now)
            }
            _ => sides[at].give(PeerInput::Wanted, now),
        };
    }
}

/// Drives a pairing with all possible frames on the link.
pub fn run_pairing(data: &[u8]) {
    let mut operations = Operations::new(data);
    let sas = operations.draw_below(2) == 1;
    let mut devices = [1, 2].map(|own| Device::<Suite>::new(own, |settings| settings.sas = sas));
    let mut now = Time::from_ms(1_000);
    let mut air = Vec::new();
    while let Some(step) = operations.next_kind(6) {
        let at = operations.draw_below(2);
        for (from, device) in devices.iter_mut().enumerate() {
            air.extend(device.sent.drain(..).map(|frame| (1 - from, frame)));
        }
        if air.len() > 64 {
            air.drain(..32);
        }
        match step {
            0 | 1 if !air.is_empty() => {
                let (to, frame) = air[operations.draw_below(air.len())].clone();
                devices[to].hear(&frame, now);
            }
            2 if !air.is_empty() => {
                let (to, mut frame) = air[operations.draw_below(air.len())].clone();
                let place = operations.draw_below(frame.len());
                frame[place] ^= operations.next_byte() | 1;
                devices[to].hear(&frame, now);
            }
            3 => devices[at].give(PairingInput::Confirm(operations.draw_below(4) > 0), now),
            4 => {
                let frame = operations.next_bytes(90);
                devices[at].hear(&frame, now);
            }
            _ => {
                now = now.plus_ms(u64::from(operations.next_byte()) * 8);
                devices[at].wake(now);
            }
        }
    }
}

/// Seals and opens the records of a stream.
pub fn check_stream(data: &[u8]) {
    let (mut sides, now) = paired::<Suite>();
    assert!(exchange(&mut sides, now));
    let [mut one, mut two] =
        sides.map(|mut side| Records::<Frames>::new(side.sessions.pop().expect("a session").0));
    let sealed = one.seal(RecordType::Data, &data[..data.len().min(300)]).expect("sealed");
    let _ = two.open(data);
    assert!(two.open(&sealed).is_ok());
}
