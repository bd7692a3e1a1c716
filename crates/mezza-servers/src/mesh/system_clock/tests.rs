use super::*;

const AT: Time = Time::from_ms(1_800_000_000_000);

fn stamp(at: Time) -> Statement {
    Statement { at, within_ms: 2_500 }
}

/// A system whose clocks the test advances.
struct System {
    clock: SystemClock,
    now: Moment,
}

impl System {
    fn new() -> Self {
        let now = Moment { wall: AT, boot: Time::from_ms(5_000) };
        Self { clock: SystemClock::unknown(now, SystemStart::draw()), now }
    }

    /// Advances the time by `passed_ms` and moves the clock by `moved_ms`.
    fn pass(&mut self, passed_ms: u64, moved_ms: i64) -> Time {
        let wall = self.now.wall.plus_ms(passed_ms).as_ms().saturating_add_signed(moved_ms);
        self.now = Moment { wall: Time::from_ms(wall), boot: self.now.boot.plus_ms(passed_ms) };
        self.now.wall
    }

    fn read(&mut self, source: Option<Time>) -> u32 {
        self.clock.on_reading(self.now, source.map(stamp));
        self.within()
    }

    fn within(&self) -> u32 {
        self.clock.within_ms(self.now.wall, 0)
    }
}

/// A day without a network costs nine seconds, and after 69 days the bound is back at its upper
/// limit of 600 s.
#[test]
fn mesh_71_the_bound_of_a_clock_grows_since_its_source_spoke() {
    let mut system = System::new();
    assert_eq!(system.within(), 600_000, "nobody vouches for it");
    system.read(Some(AT));
    let mut day = 0;
    for (days, within_ms) in [(0, 2_500), (1, 11_140), (7, 62_980), (30, 261_700), (70, 600_000)] {
        system.pass((days - day) * Time::DAY_MS, 0);
        assert_eq!(system.read(Some(AT)), within_ms, "{days} days");
        day = days;
    }
}

#[test]
fn mesh_71_a_clock_that_is_moved_there_and_back_is_not_right_again() {
    let mut system = System::new();
    system.read(Some(AT));
    system.pass(1_000, 90_000);
    assert_eq!(system.read(Some(AT)), 92_500);
    system.pass(1_000, -90_000);
    assert_eq!(system.read(Some(AT)), 92_500);
    system.pass(1_000, -40_000);
    assert_eq!(system.read(Some(AT)), 92_500, "the farthest counts");
    let later = system.pass(60_000, 0);
    assert_eq!(system.read(Some(later)), 2_500, "a source vouches again");
}

/// Between two readings a source made a statement and the clock was moved. The source's stamp alone
/// shows which came first.
#[test]
fn mesh_71_a_move_after_the_source_counts_though_both_are_seen_at_once() {
    for (moved_ms, within_ms) in [(90_000, 92_500), (-90_000, 92_500)] {
        let mut system = System::new();
        system.read(None);
        let source = AT.plus_ms(20_000);
        system.pass(30_000, moved_ms);
        assert_eq!(system.read(Some(source)), within_ms, "moved by {moved_ms} after the source");

        let mut system = System::new();
        system.read(None);
        let moved = system.pass(30_000, moved_ms);
        let source = Time::from_ms(moved.as_ms() - 5_000);
        assert_eq!(system.read(Some(source)), 2_500, "moved by {moved_ms} by the source");
    }
    // A move of ten seconds is shorter than the time between the readings, so the order cannot be
    // decided.
    let mut system = System::new();
    let now = system.pass(30_000, 10_000);
    assert_eq!(system.read(Some(Time::from_ms(now.as_ms() - 15_000))), 12_500);
}

/// A statement with a larger error than the known one has no effect.
#[test]
fn mesh_71_the_better_of_two_sources_counts() {
    let mut system = System::new();
    system.read(Some(AT));
    system.pass(Time::DAY_MS, 0);
    let worse = Statement { at: system.now.wall, within_ms: 18_500 };
    system.clock.on_reading(system.now, Some(worse));
    assert_eq!(system.within(), 11_140);
    system.pass(1_000, 40_000);
    let better = Statement { at: system.now.wall, within_ms: 18_500 };
    system.clock.on_reading(system.now, Some(better));
    assert_eq!(system.within(), 18_500, "the move made it the better one");
}

#[test]
fn mesh_71_a_clock_before_its_source_was_put_back() {
    let mut system = System::new();
    system.read(Some(AT.plus_ms(40_000)));
    assert_eq!(system.within(), 42_500);
}

#[test]
fn mesh_73_a_person_vouches_for_the_clock_as_it_was_then() {
    let mut system = System::new();
    system.clock.on_person(Grade::Fair, system.now);
    assert_eq!(system.within(), 150_000);
    system.pass(Time::DAY_MS, 0);
    assert_eq!(system.read(None), 158_640, "a day later");
    system.pass(1_000, 200_000);
    assert_eq!(system.read(None), 350_000, "a step counts");
    assert_eq!(system.read(Some(system.now.wall)), 2_500, "the better of two counts");
    assert_eq!(system.clock.within_ms(system.now.wall, 200_000), 202_500, "a bent clock");
    system.clock.on_person(Grade::Poor, system.now);
    let later = system.pass(60_000, 0);
    assert_eq!(system.read(Some(later)), 600_000, "poor refuses the network");
    system.clock.on_person(Grade::Fair, system.now);
    assert_eq!(system.within(), 2_500, "and another word asks it again");
}

/// A home whose processes and system are restarted.
struct Restarts {
    folder: tempfile::TempDir,
    now: Moment,
    start: SystemStart,
}

impl Restarts {
    fn new() -> Self {
        let now = Moment { wall: AT, boot: Time::from_ms(5_000) };
        Self { folder: tempfile::tempdir().unwrap(), now, start: SystemStart::draw() }
    }

    fn clock(&self, has_hardware_clock: bool) -> SystemClock {
        let home = Home::find(Some(&self.folder.path().join("home"))).unwrap();
        private::make_folder(home.root()).unwrap();
        private::make_folder(&home.run()).unwrap();
        SystemClock::of_home(&home, self.now, self.start, has_hardware_clock)
    }

    /// Runs a process that reads the clock and ends.
    fn read(&self, source: Option<Time>, has_hardware_clock: bool) -> u32 {
        let mut clock = self.clock(has_hardware_clock);
        clock.on_reading(self.now, source.map(stamp));
        clock.store_record();
        clock.within_ms(self.now.wall, 0)
    }

    fn pass(&mut self, passed_ms: u64, moved_ms: i64) {
        let wall = self.now.wall.plus_ms(passed_ms).as_ms().saturating_add_signed(moved_ms);
        self.now = Moment { wall: Time::from_ms(wall), boot: self.now.boot.plus_ms(passed_ms) };
    }

    fn restart_system(&mut self, passed_ms: u64) {
        (self.start, self.now) = (
            SystemStart::draw(),
            Moment { wall: self.now.wall.plus_ms(passed_ms), boot: Time::from_ms(9_000) },
        );
    }
}

#[test]
fn mesh_72_moves_of_the_clock_outlive_the_process() {
    let mut restarts = Restarts::new();
    assert_eq!(restarts.read(Some(AT), true), 2_500);
    restarts.pass(60_000, 90_000);
    assert_eq!(restarts.read(Some(AT), true), 92_500, "moved while no process ran");
    restarts.pass(60_000, -90_000);
    assert_eq!(restarts.read(Some(AT), true), 92_500);
    restarts.pass(Time::DAY_MS, 0);
    assert_eq!(restarts.read(Some(AT), true), 92_500);
    let mut clock = restarts.clock(true);
    clock.on_person(Grade::Fair, restarts.now);
    clock.store_record();
    let source = restarts.now.wall;
    assert_eq!(restarts.read(Some(source), true), 2_500);
}

#[test]
fn mesh_72_a_restart_of_the_system_needs_a_clock_that_ran() {
    let mut restarts = Restarts::new();
    assert_eq!(restarts.read(Some(AT), true), 2_500);
    restarts.restart_system(Time::DAY_MS);
    assert_eq!(restarts.read(None, true), 13_140, "a day and a restart later");
    restarts.pass(60_000, 0);
    assert_eq!(restarts.read(None, true), 13_146, "counted once");
    restarts.restart_system(60_000);
    assert_eq!(restarts.read(None, false), 600_000, "no clock ran meanwhile");

    let mut restarts = Restarts::new();
    restarts.read(Some(AT), true);
    restarts.now.wall = Time::from_ms(AT.as_ms() - 1_000);
    restarts.restart_system(0);
    assert_eq!(restarts.read(None, true), 600_000, "the battery of the clock is empty");
}

/// A record that is damaged, or that other users can read, is ignored, and the node runs.
#[test]
fn mesh_72_a_record_that_cannot_be_read_vouches_for_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let restarts = Restarts::new();
    restarts.read(Some(AT), true);
    let file = restarts.folder.path().join("home/run/mesh.clock");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(restarts.read(None, true), 2_500);
    std::fs::write(&file, b"{}").unwrap();
    assert_eq!(restarts.read(None, true), 600_000);
}

/// A node that reads its clock each minute writes its record once an hour, and at once if the clock was moved.
#[test]
fn mesh_72_a_record_is_written_when_it_changes() {
    let mut restarts = Restarts::new();
    let mut clock = restarts.clock(true);
    let file = restarts.folder.path().join("home/run/mesh.clock");
    let mut written = 0;
    for minute in 0..150 {
        clock.on_reading(restarts.now, Some(stamp(AT)));
        clock.store_record();
        written += u32::from(std::fs::remove_file(&file).is_ok());
        restarts.pass(60_000, if minute == 90 { 5_000 } else { 1 });
    }
    assert_eq!(written, 3, "at the start, an hour later, and when it was moved");
}
