//! A node beside neighbours that lie, flood, promise and do not give.

use mezza_mesh::cell::MeshCell;
use mezza_mesh::frame::{Beacon, Name};
use mezza_mesh::node::{Error, Input, LinkKind, NodeSettings, OtherDate, Output};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::wire::sketch::{SketchKey, SketchSymbol};
use mezza_mesh::{CellLife, ClockState, Grade};

use crate::lone::{CAST, Lone, cell, short_of};
use crate::town::{START_MS, Town};

/// An empty comparison: its sender says that it holds nothing.
fn empty_sync(name: Name, to: Name) -> WireFrame<'static> {
    let key = SketchKey { nonce: 1, slice: 0, slices: 1 };
    WireFrame::Sync { name, to, key, from: 0, symbols: vec![SketchSymbol::default()] }
}

fn import(lone: &mut Lone, cells: impl IntoIterator<Item = MeshCell>) {
    for cell in cells {
        lone.give(Input::Import { cell: cell.bytes().to_vec() }).unwrap();
    }
}

/// One device on the LAN has one name there, and opens two streams. On those it speaks under the names of six
/// honest neighbours, ten minutes ahead.
#[test]
fn mesh_59_a_stream_carries_no_votes_and_no_foreign_names() {
    let mut lone = Lone::new(Grade::Poor);
    for link in [9, 10] {
        lone.link_up(link, LinkKind::Stream);
    }
    for _ in 0..120 {
        for n in 0..6 {
            lone.beacon(n, 100 + n, 0).unwrap();
        }
        lone.beacon(50, 500, 590_000).unwrap();
        for n in 0..6 {
            let link = if n < 4 { 9 } else { 10 };
            let foreign = lone.beacon_on(link, 50, 100 + n, 590_000);
            assert_eq!(foreign, Err(Error::Stranger), "its address has another name");
        }
        lone.beacon_on(9, 50, 500, 590_000).unwrap();
        lone.run(1_000);
    }
    let status = lone.status();
    assert!(status.moved_ms.abs() < 1_000, "moved by {} ms", status.moved_ms);
    assert_eq!(status.state, ClockState::Agreed);
}

/// The same name on two cast links: the link on which it was met first has its vote.
#[test]
fn mesh_59_a_name_taken_up_on_another_link_has_no_vote() {
    let mut lone = Lone::new(Grade::Poor);
    lone.link_up(3, LinkKind::Cast);
    for _ in 0..60 {
        for n in 0..6 {
            lone.beacon(n, 100 + n, 0).unwrap();
            lone.beacon_on(3, 70 + n, 100 + n, 590_000).unwrap();
        }
        lone.run(1_000);
    }
    assert!(lone.status().moved_ms.abs() < 1_000, "moved by {} ms", lone.status().moved_ms);
}

/// A device repeats the name of a neighbour on another link with another clock. `status` shows the name, and
/// no clock is put in doubt. A device on two links with one clock is not shown.
#[test]
fn mesh_76_a_name_with_two_clocks_is_told_and_doubts_nothing() {
    let mut lone = Lone::new(Grade::Good);
    lone.link_up(3, LinkKind::Cast);
    for _ in 0..30 {
        for n in 0..6 {
            lone.beacon(n, 100 + n, 0).unwrap();
        }
        lone.beacon_on(3, 0, 100, 0).unwrap();
        lone.beacon_on(3, 9, 103, 5_000).unwrap();
        lone.run(1_000);
    }
    assert_eq!(lone.status().two_clocks, [103]);
    assert_eq!(lone.status().state, ClockState::Agreed);
    // Eleven seconds after the last such beacon nothing is left of it.
    for _ in 0..11 {
        for n in 0..6 {
            lone.beacon(n, 100 + n, 0).unwrap();
        }
        lone.run(1_000);
    }
    assert_eq!(lone.status().two_clocks, []);
}

/// A device without the key repeats beacons that three members of a closed network sent two hours ago. They
/// put a clock in doubt, which `status` shows, and move none.
#[test]
fn mesh_26_a_recording_of_a_closed_network_moves_no_clock() {
    let mut lone = Lone::of(&NodeSettings::default(), Some(7), Grade::Good, 0);
    lone.run(2 * 3_600_000);
    lone.read_clock();
    for _ in 0..60 {
        for n in 0..3 {
            lone.beacon(n, 100 + n, -2 * 3_600_000).unwrap();
        }
        lone.run(1_000);
    }
    let status = lone.status();
    assert_eq!((status.state, status.moved_ms), (ClockState::Doubtful, 0));
    assert!(status.elsewhere_ms.is_some_and(|ms| (ms + 2 * 3_600_000).abs() < 1_000));
    let right = (START_MS + lone.now_ms) / 30_000;
    assert!(u64::from(status.cur).abs_diff(right) <= 1);
}

/// A beacon and a farewell in half a minute, and a BUSY each five seconds: that is no neighbour whose time is
/// waited for.
#[test]
fn mesh_58_a_name_that_says_no_time_stops_no_vote() {
    let mut lone = Lone::with(&NodeSettings::default(), Grade::Poor, -120_000);
    let mut right_after = None;
    for second in 0..60 {
        if second % 30 == 0 {
            lone.beacon(50, 500, 0).unwrap();
            lone.hear(50, &WireFrame::Bye { name: 500 }).unwrap();
        }
        if second % 5 == 0 {
            let to = lone.name();
            let _ = lone.hear(50, &WireFrame::Busy { name: 500, to, wait_ms: 1 });
        }
        for n in 0..6 {
            lone.beacon(n, 100 + n, 0).unwrap();
        }
        lone.run(1_000);
        if right_after.is_none() && (lone.status().moved_ms - 120_000).abs() < 1_000 {
            right_after = Some(second);
        }
    }
    assert!(right_after.is_some_and(|second| second < 15), "{right_after:?}");
    assert_eq!(lone.status().state, ClockState::Agreed);
}

/// A node that was trusted to its neighbours reads its own clock each minute.
#[test]
fn mesh_56_a_decision_outlives_the_next_reading() {
    let mut lone = Lone::with(&NodeSettings::default(), Grade::Fair, -3_600_000);
    let minute = |lone: &mut Lone| {
        for _ in 0..60 {
            for n in 0..5 {
                lone.beacon(n, 100 + n, 0).unwrap();
            }
            lone.run(1_000);
        }
    };
    minute(&mut lone);
    assert_eq!(lone.status().state, ClockState::Doubtful);
    lone.give(Input::TrustNeighbours).unwrap();
    for _ in 0..3 {
        minute(&mut lone);
        lone.read_clock();
        let right = (START_MS + lone.now_ms) / 30_000;
        assert!(u64::from(lone.status().cur).abs_diff(right) <= 1);
        assert!(lone.status().trusted_ms.is_some_and(|ms| (ms - 3_600_000).abs() < 1_000));
    }
}

/// Everybody left ten minutes ago, and somebody set the system's clock an hour ahead.
#[test]
fn mesh_57_an_agreement_ends_when_everybody_has_left() {
    let mut lone = Lone::new(Grade::Poor);
    for _ in 0..60 {
        for n in 0..5 {
            lone.beacon(n, 100 + n, 0).unwrap();
        }
        lone.run(1_000);
    }
    assert_eq!(lone.status().state, ClockState::Agreed);
    lone.run(60_000);
    assert_eq!(lone.status().state, ClockState::Alone);
}

/// Announcements of ids that do not exist, four hundred frames a second, take no honest one's place.
#[test]
fn mesh_62_ids_that_do_not_exist_hide_no_announcement() {
    let mut lone = Lone::new(Grade::Good);
    lone.beacon(1, 77, 0).unwrap();
    lone.beacon(2, 78, 0).unwrap();
    lone.run(1_000);
    let mut junk = 0_u64;
    for round in 0..20 {
        for _ in 0..40 {
            let shorts = (0..144).map(|n| junk * 1_000 + n + (1 << 40)).collect();
            junk += 1;
            lone.hear(1, &WireFrame::Have { name: 77, shorts }).unwrap();
        }
        let cell = cell(lone.status().cur, CellLife::Minute, round);
        let since = lone.now_ms;
        let shorts = vec![short_of(&cell)];
        lone.hear(2, &WireFrame::Have { name: 78, shorts }).unwrap();
        lone.run(200);
        let asked = lone.sent_since(since, 3).any(|sent| {
            matches!(WireFrame::decode(&sent.bytes).unwrap(),
                WireFrame::Want { to: 78, shorts, .. } if shorts.contains(&short_of(&cell)))
        });
        assert!(asked, "round {round}");
        lone.hear(2, &WireFrame::Data { name: 78, cell: cell.bytes() }).unwrap();
    }
}

/// Announcements beyond a neighbour's room are not lost: sets are compared soon.
#[test]
fn mesh_62_what_finds_no_room_is_compared_soon() {
    let mut lone = Lone::new(Grade::Good);
    lone.beacon(1, 77, 0).unwrap();
    lone.run(8_000);
    lone.beacon(1, 77, 0).unwrap();
    let since = lone.now_ms;
    let shorts = (1..=144).collect();
    lone.hear(1, &WireFrame::Have { name: 77, shorts }).unwrap();
    lone.run(1_000);
    assert_eq!(lone.sent_since(since, 5).count(), 1);
}

/// Cells that are pushed after a comparison: as many as it may have drawn, and no more.
#[test]
fn mesh_10_a_comparison_opens_a_window_for_its_answers_alone() {
    let mut lone = Lone::new(Grade::Good);
    lone.beacon(1, 77, 0).unwrap();
    lone.run(1_500);
    assert_eq!(lone.sent_since(0, 5).count(), 1, "the newcomer is compared with");
    let tick = lone.status().cur;
    let taken = (0..600).filter(|n| {
        let cell = cell(tick, CellLife::Minute, *n);
        lone.hear(1, &WireFrame::Data { name: 77, cell: cell.bytes() }).is_ok()
    });
    assert_eq!(taken.count(), 64);
}

/// Sixteen names compare eight milliseconds after each other: the one cell goes out once.
#[test]
fn mesh_12_comparisons_do_not_send_a_cell_again_and_again() {
    let mut lone = Lone::new(Grade::Good);
    let tick = lone.status().cur;
    import(&mut lone, [cell(tick, CellLife::Minute, 1)]);
    for name in 0..16 {
        lone.beacon(100 + name, 1_000 + name, 0).unwrap();
    }
    lone.run(1_000);
    let to = lone.name();
    let since = lone.now_ms;
    for name in 0..16 {
        lone.hear(100 + name, &empty_sync(1_000 + name, to)).unwrap();
        lone.run(8);
    }
    assert_eq!(lone.sent_since(since, 4).count(), 1);
}

/// 64 slices in a second: four begin, and a newcomer draws 64 cells and then eight a second.
#[test]
fn mesh_16_a_newcomer_draws_little() {
    let mut lone = Lone::new(Grade::Good);
    let tick = lone.status().cur;
    import(&mut lone, (0..2_000).map(|n| cell(tick, CellLife::Minute, n)));
    lone.beacon(1, 77, 0).unwrap();
    lone.run(1_500);
    let to = lone.name();
    let since = lone.now_ms;
    let mut begun = 0;
    for slice in 0..64 {
        let key = SketchKey { nonce: 1, slice, slices: 64 };
        let symbols = vec![SketchSymbol::default()];
        let sync = WireFrame::Sync { name: 77, to, key, from: 0, symbols };
        begun += u32::from(lone.hear(1, &sync).is_ok());
        lone.run(20);
    }
    assert_eq!(begun, 4);
    lone.run(3_000);
    let drawn = lone.sent_since(since, 4).count();
    assert!((64..=64 + 8 * 5).contains(&drawn), "{drawn}");
}

/// Two nodes hold the same 1,100 cells whose ids agree in six bits, and some of their own, when they meet.
#[test]
fn mesh_64_no_choice_of_ids_ends_comparisons() {
    let skewed = |tick: u32, n: u64| {
        let mut salts = (0..).map(|salt| cell(tick, CellLife::HalfHour, n << 20 | salt));
        salts.find(|cell| cell.id()[0] & 63 == 7).unwrap()
    };
    let settings = NodeSettings { life: Some(CellLife::HalfHour), ..NodeSettings::default() };
    let mut town = Town::new(2, 5, &settings).start();
    town.run(3_000);
    let tick = town.tick(0);
    for n in 0..1_100 {
        let cell = skewed(tick, n).bytes().to_vec();
        (0..2).for_each(|at| town.give(at, Input::Import { cell: cell.clone() }));
    }
    for n in 0..6_u64 {
        let cell = cell(tick, CellLife::HalfHour, 1 << 50 | n).bytes().to_vec();
        town.give(usize::from(n % 2 == 0), Input::Import { cell });
    }
    town.run(2_000);
    town.join(0, 1);
    town.run(20_000);
    let [a, b] = &town.shorts()[..] else { panic!("two nodes") };
    assert_eq!((a, a.len()), (b, 1_106));
}

/// A carrier goes away for six seconds and comes back with something new. Its link was down and is fresh; the
/// other side still knows it.
#[test]
fn mesh_65_a_meeting_goes_both_ways_at_once() {
    let mut town = Town::new(2, 6, &NodeSettings::default()).room().start();
    town.run(12_000);
    town.give(0, Input::LinkDown { link: CAST });
    let kind = LinkKind::Cast;
    let frame_bytes_max = 1_200;
    town.run(6_000);
    let payload = town.send(1, 7);
    town.run(1_000);
    let up = Input::LinkUp { link: CAST, kind, frame_bytes_max, delay_us: 1_000, room: 1_000 };
    town.give(0, up);
    let back = town.now_ms;
    town.run(6_000);
    let came = town.residents[0].cells.get(&payload);
    assert!(came.is_some_and(|at| at - back < 3_000), "{came:?}");
}

/// Eight liars announce what an honest neighbour announces, let us wait, and say BUSY.
#[test]
fn mesh_43_busy_hides_no_failure() {
    let mut lone = Lone::new(Grade::Good);
    let beacons = |lone: &mut Lone| (0..9).for_each(|n| lone.beacon(n, 100 + n, 0).unwrap());
    beacons(&mut lone);
    lone.run(2_000);
    let mut waits = Vec::new();
    for round in 0..12_u64 {
        let cell = cell(lone.status().cur, CellLife::Minute, 5_000 + round);
        let since = lone.now_ms;
        beacons(&mut lone);
        for n in 0..9 {
            let shorts = vec![short_of(&cell)];
            lone.hear(n, &WireFrame::Have { name: 100 + n, shorts }).unwrap();
        }
        waits.push(wait_for_honest(&mut lone, &cell) - since);
        lone.run(1_000);
    }
    assert!(waits[1..].iter().all(|ms| *ms < 500), "who gave before is asked first: {waits:?}");
}

/// Lets the liars (all names but 100) say BUSY late, until the honest one is asked and gives. When that was.
fn wait_for_honest(lone: &mut Lone, cell: &MeshCell) -> u64 {
    let mut busy_at: Vec<(u64, Name)> = Vec::new();
    let mut seen = lone.sent.len();
    loop {
        lone.run(10);
        let to_own = lone.name();
        for sent in &lone.sent[seen..] {
            let Ok(WireFrame::Want { to, shorts, .. }) = WireFrame::decode(&sent.bytes) else {
                continue;
            };
            if to == 100 && shorts.contains(&short_of(cell)) {
                let data = WireFrame::Data { name: 100, cell: cell.bytes() };
                lone.hear(0, &data).unwrap();
                return lone.now_ms;
            }
            busy_at.push((sent.at_ms + 1_450, to));
        }
        seen = lone.sent.len();
        for (_, name) in busy_at.extract_if(.., |(at, _)| *at <= lone.now_ms).collect::<Vec<_>>() {
            let busy = WireFrame::Busy { name, to: to_own, wait_ms: 1 };
            let _ = lone.hear(name - 100, &busy);
        }
        assert!(lone.now_ms < 200_000, "the honest one is never asked");
    }
}

/// A listener of the sender's own node is shown the message once, as every other one.
#[test]
fn mesh_63_listeners_are_given_own_cells_too() {
    let mut lone = Lone::new(Grade::Good);
    let tick = lone.status().cur;
    let payload = cell(tick, CellLife::Minute, 1).payload().to_vec();
    let own = Input::Originate { ticket: 1, life: CellLife::Minute, tick, payload };
    lone.give(own).unwrap();
    let shown = lone.said.iter().filter(|output| matches!(output, Output::Cell { .. }));
    assert_eq!(shown.count(), 1);
}

/// A clock that is off by two minutes among three right ones, and a large cell in the store: the first beacons
/// of each name show neither.
#[test]
fn mesh_30_a_new_name_shows_no_old_property() {
    let settings = NodeSettings { name_life_s: (60, 60), ..NodeSettings::default() };
    let mut lone = Lone::with(&settings, Grade::Good, -137_300);
    for second in 0..170_u64 {
        for n in 0..2 {
            lone.beacon(n, 1_000 + n, 0).unwrap();
        }
        if second % 30 == 5 {
            let tick = lone.status().cur;
            let mut large = crate::town::payload(3, tick, second as u8);
            large[10] = second as u8;
            import(&mut lone, [MeshCell::new(CellLife::Minute, tick, &large).unwrap()]);
        }
        lone.run(1_000);
    }
    let mut names = Vec::new();
    for sent in lone.sent_since(0, 1) {
        let WireFrame::Beacon { name, beacon, .. } = WireFrame::decode(&sent.bytes).unwrap() else {
            panic!("a beacon")
        };
        let off_ms = (beacon.stamp * 125).cast_signed() - (START_MS + sent.at_ms).cast_signed();
        if names.last() != Some(&name) {
            names.push(name);
            // The very first one has heard nobody yet.
            if names.len() > 1 {
                assert!(off_ms.abs() < 1_000 && !beacon.large && !beacon.agreed, "{off_ms} ms");
            }
        }
    }
    assert!(names.len() >= 3);
}

/// The clock of a device is two days slow. Its neighbours' frames carry other days' keys.
#[test]
fn mesh_69_devices_of_another_date_are_counted_and_are_no_neighbours() {
    const DAY_MS: u64 = 86_400_000;
    for key in [None, Some(7)] {
        let off_ms = -2 * DAY_MS.cast_signed();
        let mut lone = Lone::of(&NodeSettings::default(), key, Grade::Poor, off_ms);
        assert_eq!(lone.status().other_date, None);
        for n in 0..3 {
            lone.beacon(n, 100 + n, 0).unwrap();
            lone.run(1_000);
        }
        let beacon = Beacon { stamp: (START_MS + lone.now_ms) / 125, ..Beacon::default() };
        let foreign = WireFrame::Beacon { net: [1; 4], name: 200, beacon };
        assert_eq!(lone.hear(9, &foreign), Err(Error::OtherNetwork));
        let day = u32::try_from(START_MS / DAY_MS).unwrap();
        assert_eq!(lone.status().other_date, Some(OtherDate { day, devices: 3 }));
        assert_eq!((lone.status().around, lone.status().neighbours.len()), (0, 0));
        lone.run(61_000);
        assert_eq!(lone.status().other_date, None, "they are gone");
    }
}
