//! Failures of other people's meshes, one test each. The story stands above its test.

use std::collections::{BTreeMap, BTreeSet};

use crate::crowd::{START, grid};
use crate::lone::{CAST, Lone};
use crate::town::{Town, payload};
use mezza_core::Machine;
use mezza_mesh::crew::CrewSettings;
use mezza_mesh::limits::SECOND;
use mezza_mesh::node::{Error, Input, LinkKind, NodeSettings, Output};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::{CellLife, Grade, MeshCell, MeshNetwork, Node};
use mezza_sim::{SimRng, Time};

/// The frames of one kind that a resident sent.
fn sent(town: &Town, n: usize, kind: u8) -> Vec<Vec<u8>> {
    let frames = town.residents[n].sent.iter();
    frames.filter(|(_, frame)| frame[0] == kind).map(|(_, frame)| frame.clone()).collect()
}

/// The name that a resident uses now.
fn name(town: &Town, n: usize) -> Vec<u8> {
    sent(town, n, 1).last().unwrap()[5..11].to_vec()
}

/// `EmberTalk` named messages by Java's 32-bit hash and ignored the second of two that collide. Two payloads
/// with the same such hash both arrive.
#[test]
fn embertalk_two_cells_with_one_weak_hash_both_arrive() {
    let java = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0_i32, |hash, b| hash.wrapping_mul(31).wrapping_add(i32::from(b.cast_signed())))
    };
    let mut town = Town::new(2, 1, &NodeSettings::default()).room().start();
    town.run(3_000);
    let tick = town.tick(0);
    let [mut one, mut other] = [payload(0, tick, 5), payload(0, tick, 5)];
    // "Aa" and "BB" have the same hash.
    one[100..102].copy_from_slice(b"Aa");
    other[100..102].copy_from_slice(b"BB");
    assert_eq!(java(&one), java(&other));
    for (ticket, payload) in [(1, one.clone()), (2, other.clone())] {
        town.give(0, Input::Originate { ticket, life: CellLife::Minute, tick, payload });
    }
    town.run(3_000);
    assert!([one, other].iter().all(|payload| town.residents[1].cells.contains_key(payload)));
}

/// `EmberTalk` counted a message's age from its receipt, again at each hop, so that a ring kept it alive for
/// ever. Ten ticks later all stores of a ring are empty.
#[test]
fn embertalk_a_ring_of_three_forgets() {
    let mut town = Town::new(3, 2, &NodeSettings::default()).room().start();
    town.run(3_000);
    town.send(0, 7);
    town.run(10 * 30_000);
    assert!(town.shorts().iter().all(Vec::is_empty));
}

/// `EmberTalk` put what came from all peers into one buffer. Frames of two links and two senders that come
/// interleaved are each their own.
#[test]
fn embertalk_two_links_do_not_mix() {
    let settings = NodeSettings::default();
    let mut node = Node::new(settings, MeshNetwork::new("open", None), Time::from_ms(0));
    let mut rng = SimRng::new(3, 0);
    let now = Time::from_ms(5);
    for link in [0, 1] {
        let kind = LinkKind::Cast;
        let up = Input::LinkUp { link, kind, frame_bytes_max: 1_200, delay_us: 0, room: 1 };
        node.handle(up, now, rng.rng()).unwrap();
    }
    let time = Time::from_ms(crate::town::START_MS);
    node.handle(Input::Rtc { time, grade: Grade::Good }, now, rng.rng()).unwrap();
    let mut town = Town::new(2, 4, &NodeSettings::default()).room().start();
    town.run(2_000);
    for (link, n) in [(0, 0_usize), (1, 1)] {
        let bytes = sent(&town, n, 1).last().unwrap().clone();
        node.handle(Input::Frame { link, source: n as u64, bytes }, now, rng.rng()).unwrap();
    }
    // What one of them says on the other's link is a stranger's.
    let mut bytes = vec![2];
    bytes.extend(name(&town, 0));
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let wrong =
        node.handle(Input::Frame { link: 1, source: 0, bytes: bytes.clone() }, now, rng.rng());
    assert_eq!(wrong, Err(Error::Stranger));
    node.handle(Input::Frame { link: 0, source: 0, bytes }, now, rng.rng()).unwrap();
}

/// `EmberTalk` and `BitChat` allocated what a length field asked for. Nothing is allocated before a number is
/// compared with its bound, and with the bytes that are there.
#[test]
fn mesh_41_a_number_allocates_nothing() {
    let head = |kind: u8, rest: &[u8]| [&[kind][..], &[1; 6], rest].concat();
    let symbols = |n: u8| [&[2; 6][..], &[0; 8], &[0, 1, 0, 0, n]].concat();
    for bytes in [
        head(2, &[144]),
        head(2, &[255; 30]),
        head(3, &[&[2; 6][..], &[144, 0]].concat()),
        head(5, &symbols(53)),
        head(5, &symbols(u8::MAX)),
    ] {
        assert!(WireFrame::decode(&bytes).is_err(), "{bytes:?}");
    }
    assert!(mezza_mesh::bundle::decode(b"MZB1\xff\xff\xff\xff").is_err());
    assert_eq!(mezza_mesh::bundle::decode(b"MZB1\x00\x00\x40\x00").map(|cells| cells.len()), Ok(0));
}

/// Bridgefy's messages named sender and receiver, and its devices kept their names. No four bytes of a
/// device's frames stay across a change of its name, beside those that all devices send alike.
#[test]
fn mesh_30_no_bytes_link_two_names() {
    let mut town = Town::new(2, 5, &NodeSettings::default()).room().start();
    town.run(1_000_000);
    let frames = &town.residents[0].sent;
    let names: BTreeSet<Vec<u8>> =
        frames.iter().filter(|(_, f)| f[0] == 1).map(|(_, f)| f[5..11].to_vec()).collect();
    assert!(names.len() >= 2, "a name lasts 10 to 15 minutes");
    let renamed = |o: &Output| matches!(o, Output::NewName { .. });
    assert!(town.residents[0].said.iter().any(renamed));
    // Bytes 1 to 4 are the network's, 11 to 13 the time's upper half, the same for all; flags, and the
    // number and sum of the cells that all hold (none here), come last.
    let private = |frame: &[u8]| match frame[0] {
        1 => frame[5..11].to_vec(),
        // An empty comparison: the names and the nonce. Its parameters and symbols are the same for all.
        5 => frame[1..21].to_vec(),
        _ => frame[1..].to_vec(),
    };
    let windows = |name: &[u8]| {
        let of_name =
            frames.iter().filter(|(_, f)| f[if f[0] == 1 { 5..11 } else { 1..7 }] == *name);
        let windows = of_name
            .flat_map(|(_, f)| private(f).windows(4).map(<[u8]>::to_vec).collect::<Vec<_>>());
        windows.collect::<BTreeSet<_>>()
    };
    let all: Vec<_> = names.iter().map(|name| windows(name)).collect();
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            // Names of neighbours are addressed too; theirs change as well.
            let both: Vec<_> = one.intersection(other).collect();
            let heard = sent(&town, 1, 1);
            let of_neighbour =
                |w: &Vec<u8>| heard.iter().any(|f| f[5..11].windows(4).any(|n| n == w));
            assert!(both.iter().all(|w| of_neighbour(w)), "{both:?}");
        }
    }
}

/// A comparison shows sums of ids. No eight bytes of them stay for the same cells under another name.
#[test]
fn mesh_30_comparisons_of_the_same_cells_do_not_link_two_names() {
    let settings = NodeSettings { carried_bytes: 1 << 20, ..NodeSettings::default() };
    let mut town = Town::new(2, 9, &settings).room().start();
    let tick = town.tick(0);
    for n in 0..10 {
        let cell = crate::courier::cell(mezza_mesh::CellLife::HalfDay, tick, 0, n);
        let cell = cell.bytes().to_vec();
        town.give(0, Input::Restore { cell, bringer: 1 });
    }
    town.run(1_000_000);
    // Nonces, sums and checks, by name.
    let mut windows = BTreeMap::<Vec<u8>, BTreeSet<Vec<u8>>>::new();
    for frame in sent(&town, 0, 5) {
        assert!(frame[22] == 1 && frame[25] > 1, "a sketch of some cells");
        let of_name = windows.entry(frame[1..7].to_vec()).or_default();
        // Symbols of no cell are zeros for everybody, and the count of a symbol is a small number.
        let sums = frame[26..].chunks(22).map(|symbol| &symbol[..20]);
        let sums = sums.filter(|sum| sum.iter().any(|byte| *byte != 0));
        let parts = [&frame[13..21]].into_iter().chain(sums);
        of_name.extend(parts.flat_map(|part| part.windows(8).map(<[u8]>::to_vec)));
    }
    assert!(windows.len() >= 2, "a name lasts 10 to 15 minutes");
    let all: Vec<_> = windows.values().collect();
    for (at, one) in all.iter().enumerate() {
        assert!(all[at + 1..].iter().all(|other| one.is_disjoint(other)));
    }
}

/// Bridgefy compressed, which told lengths and let a bomb stop the network. A cell goes as it is: its frame
/// is seven bytes longer, and every cell of a class has the same size.
#[test]
fn bridgefy_nothing_is_compressed() {
    let mut town = Town::new(2, 6, &NodeSettings::default()).room().start();
    town.run(3_000);
    town.send(0, 0);
    town.send(0, 0xa5);
    town.run(2_000);
    let sizes: BTreeSet<usize> = sent(&town, 0, 4).iter().map(Vec::len).collect();
    assert_eq!(sizes, BTreeSet::from([519]));
}

/// `BitChat` relayed control messages without checking them, so that one forged leave tore sessions down
/// everywhere. A frame of another name is never sent on: every frame that a node sends is its own.
#[test]
fn bitchat_control_frames_are_never_relayed() {
    let mut town = Town::new(3, 7, &NodeSettings::default()).chain().start();
    town.run(20_000);
    town.send(0, 1);
    town.run(20_000);
    let own = name(&town, 1);
    for (_, frame) in &town.residents[1].sent {
        let at = if frame[0] == 1 { 5 } else { 1 };
        assert_eq!(frame[at..at + 6], own[..], "kind {}", frame[0]);
    }
    // A forged farewell from elsewhere changes nothing.
    let bytes = [&[7][..], &name(&town, 0)].concat();
    assert_eq!(town.offer(1, Input::Frame { link: 0, source: 99, bytes }), Err(Error::Stranger));
}

/// `BitChat` answered an empty filter with all it had, to whoever asked. A stranger who brought nothing is
/// answered once in ten seconds and slice, and draws no more than is live once a minute.
#[test]
fn mesh_16_an_empty_sketch_draws_little() {
    let settings = NodeSettings { own_rate: None, ..NodeSettings::default() };
    let mut town = Town::new(2, 8, &settings).room().start();
    town.run(3_000);
    let tick = town.tick(0);
    for n in 0..200_u8 {
        let mut payload = payload(0, tick, n);
        payload[20] = n;
        let input = Input::Originate { ticket: n.into(), life: CellLife::Minute, tick, payload };
        town.give(0, input);
    }
    // The stranger hears and never says anything but this.
    town.hears[0].clear();
    let stranger = [1_u8, 2, 3, 4, 5, 6];
    let beacon = |town: &Town| {
        let mut frame = sent(town, 1, 1).last().unwrap().clone();
        frame[5..11].copy_from_slice(&stranger);
        frame
    };
    let before = sent(&town, 0, 4).len();
    for _ in 0..40 {
        let bytes = beacon(&town);
        let _ = town.offer(0, Input::Frame { link: 0, source: 7, bytes });
        let to = name(&town, 0);
        // One symbol, which is zero: the sketch of an empty set.
        let sync = [&[5][..], &stranger, &to, &[0; 8], &[0, 1, 0, 0, 1], &[0; 22]].concat();
        let _ = town.offer(0, Input::Frame { link: 0, source: 7, bytes: sync });
        town.run(500);
    }
    let drawn = sent(&town, 0, 4).len() - before;
    assert!((64..=128).contains(&drawn), "two answers of 64 in 20 s, not {drawn}");
}

/// `BitChat` showed milliseconds and a hop count that told who began. A stamp is eighths of a second, and no
/// frame has a field that counts.
#[test]
fn mesh_32_stamps_are_eighths_of_a_second() {
    let mut town = Town::new(1, 9, &NodeSettings::default()).start();
    town.run(30_000);
    for (at, frame) in town.residents[0].sent.iter().filter(|(_, f)| f[0] == 1) {
        let stamp = frame[11..17].iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
        let shown = stamp * 125;
        let true_ms = crate::town::START_MS + at;
        assert!(shown.abs_diff(true_ms) <= 375, "{shown} {true_ms}");
        assert_eq!(frame.len(), 24);
    }
}

/// A neighbour that promises and does not give delays a cell by no more than its patience each time.
#[test]
fn mesh_43_an_empty_promise_costs_its_patience() {
    let mut town = Town::new(3, 10, &NodeSettings::default()).start();
    town.join(0, 2);
    town.run(3_000);
    let payload = town.send(0, 3);
    // Node 1 announces the cell to node 2 first, and has never had it.
    let cell = MeshCell::new(CellLife::Minute, town.tick(0), &payload).unwrap();
    let mut beacon = sent(&town, 1, 1).last().unwrap().clone();
    beacon[5..11].copy_from_slice(&[9; 6]);
    town.offer(2, Input::Frame { link: 0, source: 1, bytes: beacon }).unwrap();
    let have = [&[2][..], &[9; 6], &[1], &cell.id()[..8]].concat();
    town.offer(2, Input::Frame { link: 0, source: 1, bytes: have }).unwrap();
    let asked = town.now_ms;
    town.run(4_000);
    let arrived = town.residents[2].cells[&payload];
    assert!(arrived - asked <= 1_500 + 600, "{} ms", arrived - asked);
}

/// A cell whose life was rewritten on its way is another cell: it is billed to whoever brought it, and the
/// network that carries one life drops it.
#[test]
fn a_relabelled_cell_is_dropped() {
    let settings = NodeSettings { life: Some(CellLife::Minute), ..NodeSettings::default() };
    let mut town = Town::new(2, 11, &settings).room().start();
    town.run(3_000);
    town.send(0, 3);
    town.run(1_000);
    let mut frame = sent(&town, 0, 4)[0].clone();
    frame[8] = 2;
    let source = 0;
    assert_eq!(town.offer(1, Input::Frame { link: 0, source, bytes: frame }), Err(Error::Time));
}

/// One neighbour may fill a quarter of the store, and a full store drops what the greatest bringer brought.
#[test]
fn mesh_40_a_flood_takes_a_quarter_and_no_more() {
    use mezza_mesh::table::ids::{Ids, Origin, StoreClaim};
    let mut ids = Ids::new(64 * 512, 0);
    let cell = |n: u32| {
        let mut payload = payload(0, 7, 0);
        payload[8..12].copy_from_slice(&n.to_be_bytes());
        MeshCell::new(CellLife::Minute, 7, &payload).unwrap()
    };
    let claim = |from, cell: &MeshCell| StoreClaim {
        from,
        facts: cell.facts(),
        bytes: cell.bytes().len(),
        cur: 7,
    };
    let flooder = Origin::Neighbour(1);
    let other = Origin::Neighbour(2);
    let mut taken = 0;
    for n in 0..1_000 {
        let cell = cell(n);
        if ids.is_over(&claim(flooder, &cell)) {
            break;
        }
        let slot = ids.find_slot(&cell.id()).unwrap();
        ids.put_cell(slot, cell.id(), cell, flooder);
        taken += 1;
    }
    assert_eq!(taken, 16, "a quarter of 64");
    for n in 2_000..2_040 {
        let cell = cell(n);
        let from = Origin::Neighbour(u64::from(n) + 2);
        let slot = ids.find_slot(&cell.id()).unwrap();
        ids.put_cell(slot, cell.id(), cell, from);
    }
    assert!(!ids.is_over(&claim(other, &cell(9))));
    for _ in 0..8 {
        let cell = cell(4_000 + ids.bytes() as u32);
        let slot = ids.find_slot(&cell.id()).unwrap();
        ids.put_cell(slot, cell.id(), cell, Origin::Own);
    }
    let victim = ids.select_victim(&claim(other, &cell(9))).expect("the store is full");
    assert!(victim < 16, "the flooder's go first");
}

/// A device never sends more than its radio does.
#[test]
fn mesh_53_nobody_sends_faster_than_the_radio() {
    let settings = CrewSettings {
        cell_bytes: 8_192,
        every: SECOND / 8,
        ring: 16_384,
        ..CrewSettings::default()
    };
    let mut crowd = grid(4, 12, settings);
    crowd.run_until(START + 10 * SECOND);
    crowd.swarm_mut().crew.count_from(START + 10 * SECOND);
    crowd.run_until(START + 40 * SECOND);
    let (bytes, _) = crowd.swarm().crew.sent_bytes();
    let most = 16 * 30 * 1_400_000 / 8;
    assert!(bytes > most / 2, "the radios are busy: {bytes} of {most}");
    assert!(bytes <= most + 16 * 4 * 8_199, "{bytes} of {most}");
}

/// Own cells and others' go out in the same order, after the same waits: what is asked for at once leaves the
/// newest first, whoever made it.
#[test]
fn mesh_5_own_cells_are_no_different() {
    let mut town = Town::new(3, 13, &NodeSettings::default()).chain().start();
    town.run(4_000);
    let delay = |town: &mut Town, from: usize, content| {
        let began = town.now_ms;
        town.send(from, content);
        town.run(3_000);
        let have = town.residents[1].sent.iter().find(|(at, f)| f[0] == 2 && *at >= began);
        have.map(|(at, _)| at - began).unwrap()
    };
    // Node 1 announces its own within the same time as one that it has just taken from node 0.
    let own: u64 = (0..4).map(|n| delay(&mut town, 1, n)).sum();
    let others: u64 = (10..14).map(|n| delay(&mut town, 0, n)).sum();
    assert!(own <= 4 * 260 && others <= 4 * 700, "{own} {others}");
    let shapes = |town: &Town| sent(town, 1, 2).iter().map(Vec::len).collect::<BTreeSet<_>>();
    assert!(shapes(&town).len() <= 2, "no mark on one's own");
}

/// Meshtastic fell back from a person's key to the channel's without a word, and showed both alike. A closed
/// network has no fallback: every frame has its check, and a network of the same name without it, or with
/// another key, neither gives nor takes a cell.
#[test]
fn meshtastic_a_closed_network_falls_back_to_nothing() {
    let mut town = Town::new(4, 16, &NodeSettings::default()).room();
    for (n, key) in [(0, 1), (1, 1), (2, 2)] {
        town.close(n, key);
    }
    let mut town = town.start();
    town.run(5_000);
    let payloads: Vec<_> = (0..4).map(|n| town.send(n, n as u8)).collect();
    town.run(40_000);
    for (from, payload) in payloads.iter().enumerate() {
        for n in (0..4).filter(|n| *n != from) {
            let together = from < 2 && n < 2;
            assert_eq!(town.residents[n].cells.contains_key(payload), together, "{from} to {n}");
        }
    }
    let mut network = MeshNetwork::new("open", Some(mezza_core::Secret::copy_from(&[1; 32])));
    for (at, frame) in &town.residents[0].sent {
        let mesh = 1_000 * (crate::town::START_MS + at);
        network.follow_clock(mesh);
        assert!(network.check_mac(frame, mesh).is_some(), "a frame without its check");
    }
}

/// Ten colluders of a hundred, thirty good clocks: few honest clocks follow them, whereas the paper's vote is
/// theirs.
#[test]
fn colluding_clocks_take_the_vote_of_the_paper_and_not_ours() {
    use mezza_mesh::{ClockMode, MeshFrame};
    let captured = |mode: ClockMode| {
        let side = 10;
        let lie = 60 * SECOND;
        let settings =
            CrewSettings { mode, every: mezza_mesh::limits::NEVER, ..CrewSettings::default() };
        let mut crowd = crate::crowd::uneven(side, 14, settings);
        crowd.swarm_mut().lie = Some(Box::new(move |device, frame: &mut MeshFrame, now| {
            if let (0, MeshFrame::Beacon(beacon)) = (device % 10, frame) {
                beacon.stamp = (now + lie) / 125_000;
            }
        }));
        crowd.run_until(START + 300 * SECOND);
        let engines = crowd.swarm().crew.engines().zip(0..).filter(|(_, n)| n % 10 != 0);
        let near =
            engines.filter(|(e, _)| e.clock().offset().abs_diff(lie.cast_signed()) <= SECOND);
        near.count()
    };
    let ours = captured(ClockMode::Level);
    let paper = captured(ClockMode::Paper);
    assert!(ours <= 18, "{ours} of 90");
    assert!(paper >= 45, "{paper} of 90");
}

/// Meshtastic and others show who has GPS time. A grade never leaves the device: of two towns that differ in
/// their grades alone every frame is the same.
#[test]
fn mesh_21_no_frame_tells_a_grade() {
    let frames = |grade: Grade| {
        let mut town = Town::new(4, 15, &NodeSettings::default()).room();
        town.residents.iter_mut().for_each(|resident| resident.grade = grade);
        let mut town = town.start();
        town.run(5_000);
        for n in 0..4 {
            town.send(n, n as u8);
        }
        town.run(60_000);
        town.residents.into_iter().map(|resident| resident.sent).collect::<Vec<_>>()
    };
    let good = frames(Grade::Good);
    let poor = frames(Grade::Poor);
    assert!(good.iter().all(|sent| sent.len() > 15));
    assert!(good == poor, "a frame differs");
}

/// Sixteen interfaces, as a machine with containers has them: streams and radios have places of their own, and
/// one link too many of a kind is refused.
#[test]
fn mesh_70_each_kind_of_link_has_places_of_its_own() {
    let mut lone = Lone::new(Grade::Good);
    let mut number = CAST + 1;
    for (kind, places) in [(LinkKind::Cast, 15), (LinkKind::Stream, 8), (LinkKind::StreamAlone, 4)]
    {
        let up = |link| Input::LinkUp {
            link,
            kind,
            frame_bytes_max: 1_200,
            delay_us: 1_000,
            room: 1_000_000,
        };
        for n in 0..places {
            assert_eq!(lone.give(up(number + n)), Ok(()), "{kind:?} {n}");
        }
        assert_eq!(lone.give(up(number + places)), Err(Error::NoLink), "{kind:?}");
        number += places;
    }
}
