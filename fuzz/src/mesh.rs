//! Frames and files that a mesh decodes, and a node driven by operations.

use mezza_core::{Machine, Time};
use mezza_mesh::cell::{CELL_BYTES, HEAD_BYTES};
use mezza_mesh::node::{Input, LinkKind, NodeSettings, Output};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::wire::sketch::{SYMBOLS_MAX, SketchSymbol, estimate_symbols, find_difference};
use mezza_mesh::{CellLife, Grade, MeshCell, MeshNetwork, Node, bundle};
use mezza_sim::crowd::movement::trace::{ContactTrace, PlaceTrace};
use mezza_sim::{Operations, SimRng, handle_checked};

/// 2027-01-15 08:00 UTC.
const START_MS: u64 = 1_800_000_000_000;

/// Checks that decoded frames, cells, sketches and bundles encode to the same bytes.
pub fn check_frames(data: &[u8]) {
    if let Ok(frame) = WireFrame::decode(data) {
        // Unknown flags of a beacon are encoded as zero.
        if !matches!(frame, WireFrame::Beacon { .. }) {
            assert_eq!(frame.encode(), data);
        }
        if let WireFrame::Sync { key, symbols, .. } = &frame {
            let sent: Vec<_> = symbols.iter().copied().map(Some).collect();
            let ours = vec![SketchSymbol::default(); sent.len()];
            if let Some(found) = find_difference(*key, &sent, &ours) {
                assert!(found.theirs.len() + found.ours.len() <= sent.len());
            }
            assert!(estimate_symbols(&sent, &ours) <= SYMBOLS_MAX);
        }
    }
    if let Ok(cell) = MeshCell::decode(data) {
        let facts = cell.facts();
        assert_eq!(MeshCell::new(facts.life, facts.tick, cell.payload()), Ok(cell));
    }
    if let Ok(cells) = bundle::decode(data) {
        assert!(cells.len() * CELL_BYTES[0] <= data.len());
    }
}

/// Returns a frame of each kind, a cell and a bundle.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let cell = make_cell(7, 3);
    let name = [1; 6];
    let head = |kind: u8, rest: &[u8]| [&[kind][..], &name, rest].concat();
    let more = [&[2; 6][..], &[0, 0, 0, 0, 0, 0, 0, 5, 0, 24, 0, 16]].concat();
    vec![
        [&[1][..], &[9; 4], &name, &[2; 13]].concat(),
        head(2, &[1, 0, 0, 0, 0, 0, 0, 0, 9]),
        head(3, &[&[2; 6][..], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 9]].concat()),
        head(4, cell.bytes()),
        head(5, &[&[2; 6][..], &[0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, 1], &[3; 22]].concat()),
        head(6, &[2, 2, 2, 2, 2, 2, 0, 9]),
        head(7, &[]),
        head(8, &more),
        cell.bytes().to_vec(),
        bundle::encode([&cell]),
    ]
}

fn make_cell(tick: u32, content: u8) -> MeshCell {
    let mut payload = vec![content; CELL_BYTES[0] - HEAD_BYTES];
    (payload[0], payload[1]) = (0x10, tick as u8);
    MeshCell::new(CellLife::Minute, tick, &payload).expect("a cell of class 0")
}

/// Parses traces of other tools: they are accepted, or refused with a line number.
pub fn check_traces(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.lines().count();
    let refused = [ContactTrace::parse_one(text).err(), ContactTrace::parse_list(text, 20).err()];
    assert!(refused.into_iter().flatten().all(|error| (1..=lines).contains(&error.line)));
    for trace in [PlaceTrace::parse_positions(text), PlaceTrace::parse_bonnmotion(text)]
        .into_iter()
        .flatten()
    {
        for device in trace.points.keys() {
            trace.place_at(*device, 5.0);
        }
    }
}

/// Returns a few lines of each kind.
pub fn trace_seeds() -> Vec<Vec<u8>> {
    [
        "10 CONN 1 2 up\n12 CONN 1 2 down\n",
        "20 1 2\n40 1 2\n",
        "0 7 0 0\n9 7 3 4\n",
        "0 0 0 9 3 4\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Drives a node with two peers, whose frames are encoded in the bytes: no panic, and a refusal
/// changes nothing.
pub fn run_node(data: &[u8]) {
    let settings =
        NodeSettings { store_bytes: 16 * 512, carried_bytes: 16 * 512, ..NodeSettings::default() };
    let mut node = Node::new(settings, MeshNetwork::new("open", None), Time::from_ms(1));
    let mut rng = SimRng::new(1, 0);
    let mut now = 1_000_u64;
    let mut operations = Operations::new(data);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while let Some(kind) = operations.next_kind(9) {
        let tick = node.status(Time::from_ms(now)).cur;
        let link = operations.draw_below(3) as u32;
        let input = match kind {
            0 => Input::LinkUp {
                link,
                kind: [LinkKind::Cast, LinkKind::StreamAlone, LinkKind::Stream]
                    [operations.draw_below(3)],
                frame_bytes_max: [1_200, 4_160][operations.draw_below(2)],
                delay_us: 0,
                room: operations.draw_below(200),
            },
            1 => Input::LinkDown { link },
            2 => Input::Rtc {
                time: Time::from_ms(START_MS + now + 1_000 * operations.draw_below(200) as u64),
                grade: [Grade::None, Grade::Poor, Grade::Fair, Grade::Good]
                    [operations.draw_below(4)],
            },
            3 => Input::Originate {
                ticket: 1,
                life: CellLife::ALL[operations.draw_below(4)],
                tick: tick + operations.draw_below(3) as u32,
                payload: make_cell(tick, operations.next_byte()).payload().to_vec(),
            },
            4 => Input::Import { cell: make_cell(tick, operations.next_byte()).bytes().to_vec() },
            5 => Input::Room { link, frames: operations.draw_below(50) },
            6 => [Input::TrustNeighbours, Input::Leave][operations.draw_below(40) / 39].clone(),
            // A frame of the node itself, one under a peer's name, or random bytes.
            _ => Input::Frame {
                link,
                source: operations.draw_below(3) as u64,
                bytes: make_frame(&mut operations, &seen),
            },
        };
        let _ = handle_checked(&mut node, input, Time::from_ms(now), rng.rng());
        now += [0, 1, 60, 1_500, 31_000][operations.draw_below(5)];
        node.wake(Time::from_ms(now), rng.rng());
        while let Some(output) = node.poll() {
            if let Output::Send { frame, .. } = output
                && seen.len() < 64
            {
                seen.push(frame);
            }
        }
    }
}

/// Returns a frame that the node sent, under another name or damaged, or random bytes.
fn make_frame(operations: &mut Operations<'_>, seen: &[Vec<u8>]) -> Vec<u8> {
    let count = seen.len();
    let Some(known) =
        seen.get(operations.draw_below(count)).filter(|_| operations.draw_below(4) > 0)
    else {
        return operations.next_bytes(40);
    };
    let mut frame = known.clone();
    let at = if frame[0] == 1 { 5 } else { 1 };
    frame[at..at + 6].fill(operations.draw_below(3) as u8);
    if operations.draw_below(4) == 0 {
        let last = operations.draw_below(frame.len());
        frame[last] ^= operations.next_byte();
    }
    frame
}
