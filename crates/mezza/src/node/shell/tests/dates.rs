//! Notes with a timer over starts with any date: none is erased early, and none outlives its timer
//! by more than the time of a wrong or doubted clock (MSG-103, MSG-104).

use mezza_core::Time;
use mezza_messenger::policy::Policy;
use mezza_sim::{SimRng, for_each_seed};

use super::clock::Hands;
use super::*;
use mezza_host::api::json::NoteStateJson;

const DAY: u64 = Time::DAY_MS;
/// A start without known off time adds up to a minute; a story has 14 starts at most.
const WRITTEN_MS: u64 = 20 * Time::MINUTE_MS;

/// A machine with a vault, whose clocks the test moves.
struct Machine {
    folder: tempfile::TempDir,
    hands: Hands,
    /// By how much the wall clock differs from the true time.
    error_ms: i64,
    node: Option<RunningNode>,
}

impl Machine {
    /// Makes a machine whose wall clock is wrong by `error_ms` while the identity is made.
    async fn make(error_ms: i64) -> (Self, ContactId) {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = Self { folder, hands: Hands::new(), error_ms, node: None };
        machine.set_error(error_ms);
        let ben = node::start_node(options(machine.folder.path().join("ben"), None));
        let ask = |shell: &mut NodeShell| {
            shell.create_identity("Ben", PASS, &[])?;
            shell.card_text(CardFormJson::Full)
        };
        let card = ben.node.ask(ask).await.unwrap();
        ben.stop(Duration::from_secs(5)).await;
        // A demonstration's vault opens quickly, but its node would accept any clock, so it only
        // makes the identity.
        let own = NodeOptions { demo: true, ..machine.options() };
        let ann = node::start_node(own);
        let begin = move |shell: &mut NodeShell| {
            shell.create_identity("Ann", PASS, &[])?;
            shell.add_contact(&card.uri, None, false)
        };
        let contact = ann.node.ask(begin).await.unwrap();
        ann.stop(Duration::from_secs(5)).await;
        machine.start().await;
        (machine, contact_id(&contact.id).unwrap())
    }

    fn options(&self) -> NodeOptions {
        let own = options(self.folder.path().join("ann"), None);
        NodeOptions { clock: self.hands.clock(), demo: false, ..own }
    }

    fn handle(&self) -> NodeHandle {
        self.node.as_ref().unwrap().node.clone()
    }

    /// Starts the system and its node.
    async fn start(&mut self) {
        let running = node::start_node(self.options());
        running.node.ask(|shell| shell.unlock_vault(PASS)).await.unwrap();
        self.node = Some(running);
        self.look().await;
    }

    /// Makes requests until due work is done. A correction may cause more.
    async fn look(&self) {
        for _ in 0..3 {
            self.handle().ask(|_| Ok(())).await.unwrap();
        }
    }

    /// Turns the machine off for `off_ms`, and starts it with this clock error.
    async fn restart(&mut self, off_ms: u64, error_ms: i64) {
        self.node.take().unwrap().stop(Duration::from_secs(5)).await;
        self.hands.pass(off_ms);
        self.set_error(error_ms);
        self.start().await;
    }

    fn set_error(&mut self, error_ms: i64) {
        let by_ms = error_ms - std::mem::replace(&mut self.error_ms, error_ms);
        let by = by_ms.unsigned_abs();
        let back = by_ms < 0;
        self.hands
            .turn(|at| at.wall = if back { at.wall.minus_ms(by) } else { at.wall.plus_ms(by) });
    }

    async fn pass(&self, ms: u64) {
        self.hands.pass(ms);
        self.look().await;
    }

    /// Corrects the clock, and confirms it.
    async fn correct(&mut self) {
        self.set_error(0);
        let agree = |shell: &mut NodeShell| {
            shell.trust_clock();
            Ok(())
        };
        self.handle().ask(agree).await.unwrap();
        self.look().await;
    }

    async fn write(&self, contact: ContactId, n: u8, timer_s: u32) {
        let write = move |shell: &mut NodeShell| {
            let known =
                shell.unlocked_device()?.contact(contact).ok_or_else(Refused::no_contact)?;
            let policy = Policy { timer_s, ..known.policy };
            shell.run_command(Command::Policy { contact, policy })?;
            shell.send_note(contact, [n; 16], format!("note {n}"))
        };
        self.handle().ask(write).await.unwrap();
    }

    /// Returns the notes that wait to be sent.
    async fn waiting(&self, contact: ContactId) -> Vec<String> {
        let waiting = move |shell: &mut NodeShell| {
            let notes = shell.list_notes(contact, None, 100)?.notes.into_iter();
            let waits = |note: &json::NoteJson| note.state == NoteStateJson::Queued;
            Ok(notes.filter(waits).filter_map(|note| note.text).collect())
        };
        self.handle().ask(waiting).await.unwrap()
    }

    /// Returns the difference between the node's date and the true time.
    async fn apart_ms(&self) -> u64 {
        let date = self.handle().ask(|shell| Ok(shell.date())).await.unwrap();
        let wall = self.hands.clock().wall().as_ms().cast_signed();
        (date.as_ms().cast_signed() - (wall - self.error_ms)).unsigned_abs()
    }
}

#[tokio::test]
async fn msg_104_what_was_written_in_a_doubt_leaves_when_the_date_is_believed() {
    let (mut ann, contact) = Machine::make(0).await;
    ann.correct().await;
    ann.restart(4 * DAY, 0).await;
    assert!(ann.apart_ms().await > 3 * DAY, "it goes by its last date");
    ann.write(contact, 1, 24 * 3_600).await;
    ann.pass(Time::HOUR_MS).await;
    // A second restart, so that only the vault knows which times were stamped in doubt.
    ann.restart(Time::HOUR_MS, 0).await;
    ann.write(contact, 2, 24 * 3_600).await;
    ann.correct().await;
    assert!(ann.apart_ms().await < Time::SECOND_MS);
    assert_eq!(ann.waiting(contact).await, ["note 1", "note 2"]);
    ann.pass(DAY).await;
    assert!(ann.waiting(contact).await.is_empty(), "their day is over");
}

#[tokio::test]
async fn msg_103_a_clock_that_was_ahead_once_erases_nothing_later() {
    let (mut ann, contact) = Machine::make(40 * DAY.cast_signed()).await;
    ann.restart(0, 0).await;
    ann.correct().await;
    ann.write(contact, 1, 28 * 24 * 3_600).await;
    let prekeys = |shell: &mut NodeShell| Ok(shell.unlocked_device()?.prekeys(shell.date()).signed);
    let before = ann.handle().ask(prekeys).await.unwrap();
    for _ in 0..2 {
        ann.restart(Time::HOUR_MS, 0).await;
        assert!(ann.apart_ms().await < Time::SECOND_MS, "the date goes back with the correction");
        assert_eq!(ann.waiting(contact).await, ["note 1"]);
        assert_eq!(ann.handle().ask(prekeys).await.unwrap(), before);
    }
    let told = ann.handle().ask(|shell| Ok(shell.vault_line().text)).await.unwrap();
    assert!(told.contains("ahead"), "the rolling day stays there: {told}");
}

/// An accepted note.
struct Accepted {
    text: String,
    timer_ms: u64,
    /// The age of the note, and the part of it with a wrong or doubted clock.
    age_ms: u64,
    wrong_ms: u64,
}

fn pick<T: Copy>(dice: &mut SimRng, choices: &[T]) -> T {
    *dice.pick(choices).expect("there are some")
}

/// Runs one random story: starts with any clock error, time without a network, occasional
/// corrections.
async fn story(dice: &mut SimRng) {
    let errors = [0, 0, 3, -3, 40, -40, 400].map(|days: i64| days * DAY.cast_signed());
    let pauses = [Time::MINUTE_MS, Time::HOUR_MS, 8 * Time::HOUR_MS, DAY, 3 * DAY, 9 * DAY];
    let timers: [u32; 5] = [3_600, 8 * 3_600, 24 * 3_600, 7 * 24 * 3_600, 28 * 24 * 3_600];
    let first = pick(dice, &errors);
    let (mut ann, contact) = Machine::make(first).await;
    let mut notes: Vec<Accepted> = Vec::new();
    for n in 0..14 {
        let pause = pick(dice, &pauses);
        let mut wrong_ms = 0;
        match dice.between(0, 3) {
            0 => {
                let error = pick(dice, &errors);
                ann.restart(pause, error).await;
                wrong_ms = pause;
            }
            1 => {
                let timer_s = pick(dice, &timers);
                ann.write(contact, n, timer_s).await;
                let timer_ms = u64::from(timer_s) * Time::SECOND_MS;
                notes.push(Accepted {
                    text: format!("note {n}"),
                    timer_ms,
                    age_ms: 0,
                    wrong_ms: 0,
                });
                continue;
            }
            2 => {
                ann.correct().await;
                continue;
            }
            _ => {
                ann.pass(pause).await;
                let doubted = |shell: &mut NodeShell| Ok(shell.clock_line().is_some());
                if ann.handle().ask(doubted).await.unwrap()
                    || ann.apart_ms().await > Time::SECOND_MS
                {
                    wrong_ms = pause;
                }
            }
        }
        for note in &mut notes {
            note.age_ms += pause;
            note.wrong_ms += wrong_ms;
        }
        let waiting = ann.waiting(contact).await;
        for note in &notes {
            let is_here = waiting.contains(&note.text);
            let is_early = !is_here && note.age_ms + WRITTEN_MS < note.timer_ms;
            assert!(
                !is_early,
                "{} is void after {} of {} ms",
                note.text, note.age_ms, note.timer_ms
            );
            let end_ms = note.timer_ms + note.wrong_ms + WRITTEN_MS;
            assert!(!is_here || note.age_ms <= end_ms, "{} is there after its end", note.text);
        }
    }
}

#[test]
fn msg_104_slow_no_start_and_no_correction_ends_a_note_early_or_lets_it_stay() {
    for_each_seed(12, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(story(&mut SimRng::new(seed, 0)));
    });
}
