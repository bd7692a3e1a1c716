use super::trace::{ContactTrace, PlaceTrace, TraceError};
use super::*;

/// Returns the mean number of neighbours in range.
fn density(movement: &mut dyn Movement, second: u64) -> f64 {
    let radius = movement.radius();
    let places = movement.places_at(second);
    let pairs = Space::new(places, radius).pairs_within(places).len();
    2.0 * f64::from(pairs as u32) / f64::from(places.len() as u32)
}

#[test]
fn a_grid_has_its_neighbours_away_from_the_edge() {
    for wanted in Density::ALL {
        let mut grid = Grid::new(900, wanted, 1);
        let radius = grid.radius();
        let places = grid.places_at(0);
        let middle = 15 * 30 + 15;
        let pairs = Space::new(places, radius).pairs_within(places);
        let heard = pairs.iter().filter(|(a, b)| *a == middle || *b == middle).count();
        assert_eq!(heard, wanted.neighbours());
    }
}

#[test]
fn groups_are_apart_at_first_together_later_and_apart_again() {
    let mut groups = Converging::new(200, 300.0, 900, 3);
    let [before, there, after] = [0, 600, 1_500].map(|second| density(&mut groups, second));
    assert!(before < 9.0 && there > 2.0 * before && after < 9.0, "{before} {there} {after}");
}

#[test]
fn walkers_keep_the_speed_and_the_density_of_their_steady_state() {
    let mut walkers = Waypoint::new(300, 200.0, 5);
    let first = walkers.places_at(0).to_vec();
    let second = walkers.places_at(1).to_vec();
    let speeds = first.iter().zip(&second).map(|(a, b)| a.distance_squared(*b).sqrt());
    let mean = speeds.sum::<f64>() / 300.0;
    // 0.5 to 1 m/s while they walk, and up to a minute of pause at each place.
    assert!((0.4..1.0).contains(&mean), "{mean} m/s");
    let densities = [1, 500].map(|second| density(&mut walkers, second));
    assert!(densities.iter().all(|d| (1.5..8.0).contains(d)), "{densities:?}");
}

#[test]
fn a_festival_gathers_and_never_crushes() {
    let mut festival = Festival::new(400, 7);
    let [gate, concert] = [0, 4_000].map(|second| density(&mut festival, second));
    assert!(concert > gate, "{gate} {concert}");
    let places = festival.places_at(4_001).to_vec();
    let near =
        |place: &Place| places.iter().filter(|other| place.distance_squared(**other) < 4.0).count();
    let most = places.iter().map(near).max().unwrap_or(0);
    // Four people per square metre would be fifty within two metres.
    assert!(most <= 50, "{most}");
}

#[test]
fn the_same_seed_walks_the_same_ways() {
    let end = |seed| Festival::new(50, seed).places_at(2_000).to_vec();
    assert!(end(1) == end(1) && end(1) != end(2));
}

#[test]
fn traces_are_read_and_a_bad_line_is_named() {
    let one = "# ONE\n10.0 CONN 1 2 up\n12 CONN 2 1 down\n";
    let changes = vec![(10, (1, 2), true), (12, (1, 2), false)];
    assert_eq!(ContactTrace::parse_one(one).unwrap().changes, changes);
    let list = "20 1 2\n40 1 2\n100 2 1\n";
    let changes =
        vec![(0, (1, 2), true), (40, (1, 2), false), (80, (1, 2), true), (100, (1, 2), false)];
    let trace = ContactTrace::parse_list(list, 20).unwrap();
    assert_eq!((trace.changes.clone(), trace.devices().len()), (changes, 2));
    for (text, line) in [("1 CONN 1 1 up", 1), ("\n1 CONN 1 2 sideways", 2), ("x CONN 1 2 up", 1)] {
        assert_eq!(ContactTrace::parse_one(text), Err(TraceError { line }));
    }
    assert_eq!(ContactTrace::parse_list("1 2", 20), Err(TraceError { line: 1 }));
    let places = PlaceTrace::parse_positions("0 7 0 0\n10 7 10 20\n").unwrap();
    assert_eq!(places.place_at(7, 5.0), Some(Place { x: 5.0, y: 10.0 }));
    assert_eq!(places.place_at(7, 50.0), Some(Place { x: 10.0, y: 20.0 }));
    assert_eq!(
        PlaceTrace::parse_bonnmotion("0 0 0 10 10 20\n").unwrap().place_at(0, 5.0),
        Some(Place { x: 5.0, y: 10.0 })
    );
    for bad in ["0 1", "0 0 0 1", "5 0 0 1 0 0", "0 inf 0"] {
        assert_eq!(PlaceTrace::parse_bonnmotion(bad), Err(TraceError { line: 1 }), "{bad}");
    }
}
