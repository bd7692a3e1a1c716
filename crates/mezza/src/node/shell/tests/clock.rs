//! A wall clock that jumps, with a node whose notes and keys it would erase.

use std::sync::{Mutex, PoisonError};

use mezza_messenger::card::RelayKey;

use super::*;
use mezza_host::api::json::NoteStateJson;
use mezza_host::clock::Moment;

/// Longer than the life of any timer, note in the outbox and prekey.
const JUMP_MS: u64 = 60 * Time::DAY_MS;

/// Clocks that the test moves. They begin at the true time, like the relay's.
#[derive(Clone)]
pub(super) struct Hands(Arc<Mutex<Moment>>);

impl Hands {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Moment::now())))
    }

    pub(super) fn clock(&self) -> Clock {
        let at = self.0.clone();
        Clock::from_fn(move || *at.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn turn(&self, change: impl FnOnce(&mut Moment)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn jump(&self) {
        self.turn(|at| at.wall = at.wall.plus_ms(JUMP_MS));
    }

    fn jump_back(&self) {
        self.turn(|at| at.wall = at.wall.minus_ms(JUMP_MS));
    }

    pub(super) fn pass(&self, ms: u64) {
        self.turn(|at| *at = Moment { wall: at.wall.plus_ms(ms), boot: at.boot.plus_ms(ms) });
    }
}

/// State that a jump of the clock must not change: notes with their states, and keys.
#[derive(Debug, PartialEq)]
struct Kept {
    notes: Vec<(String, NoteStateJson)>,
    signed: Vec<(Time, Time)>,
}

fn kept(shell: &NodeShell, contact: ContactId) -> Result<Kept, Refused> {
    let notes = shell.list_notes(contact, None, 10)?.notes.into_iter();
    let notes = notes.map(|note| (note.text.unwrap_or_default(), note.state)).collect();
    let prekeys = shell.unlocked_device()?.prekeys(shell.date());
    Ok(Kept { notes, signed: prekeys.signed.iter().map(|(_, made, end)| (*made, *end)).collect() })
}

/// Returns the state after all due work, and true if the health lines report the clock.
async fn settled(node: &NodeHandle, contact: ContactId) -> (Kept, bool) {
    // Due work is done after each request.
    node.ask(|_| Ok(())).await.unwrap();
    let told = node.ask(move |shell| Ok((kept(shell, contact)?, shell.clock_line().is_some())));
    told.await.unwrap()
}

/// Starts a node with these clocks, an unread note on a timer, and a note of its own whose reader
/// is gone.
async fn troubled(folder: &Path, hands: &Hands) -> (watch::Sender<bool>, RunningNode, ContactId) {
    let (stop, relay) = serve_relay(folder).await;
    let ben = start(folder, "ben", &relay).await;
    let own =
        NodeOptions { clock: hands.clock(), demo: false, ..options(folder.join("ann"), None) };
    let ann = start_with(own, "ann", &relay).await;
    let of_ann = ann.node.ask(|shell| shell.card_text(CardFormJson::Full)).await.unwrap();
    let of_ben = ben.node.ask(|shell| shell.card_text(CardFormJson::Full)).await.unwrap();
    let contact =
        ann.node.ask(move |shell| shell.add_contact(&of_ben.uri, None, true)).await.unwrap();
    let contact = contact_id(&contact.id).unwrap();
    let write = move |shell: &mut NodeShell| {
        let id = contact_id(&shell.add_contact(&of_ann.uri, None, true)?.id)?;
        let policy = shell.unlocked_device()?.contact(id).ok_or_else(Refused::no_contact)?.policy;
        let policy = mezza_messenger::policy::Policy { timer_s: 3_600, ..policy };
        shell.run_command(Command::Policy { contact: id, policy })?;
        shell.send_note(id, [1; 16], "for an hour".into())
    };
    ben.node.ask(write).await.unwrap();
    let came = move |shell: &NodeShell| {
        shell.list_notes(contact, None, 10).is_ok_and(|thread| !thread.notes.is_empty())
    };
    until(&ann.node, came).await;
    ben.stop(Duration::from_secs(5)).await;
    ann.node.ask(move |shell| shell.send_note(contact, [2; 16], "for Ben".into())).await.unwrap();
    let handed = move |shell: &NodeShell| {
        let thread = shell.list_notes(contact, None, 10);
        thread.is_ok_and(|thread| thread.notes.iter().any(|n| n.state == NoteStateJson::Handed))
    };
    until(&ann.node, handed).await;
    (stop, ann, contact)
}

#[tokio::test]
async fn msg_99_a_clock_that_jumps_by_months_erases_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let (_stop, ann, contact) = troubled(folder.path(), &hands).await;
    let (before, told) = settled(&ann.node, contact).await;
    assert_eq!((before.notes.len(), told), (2, false));
    hands.jump();
    let (jumped, told) = settled(&ann.node, contact).await;
    assert_eq!((&jumped, told), (&before, true));
    // Nor does a lock, or a process that knows the day only from the vault, erase anything.
    let again = |shell: &mut NodeShell| {
        shell.lock_vault();
        shell.unlock_vault(PASS)
    };
    ann.node.ask(again).await.unwrap();
    assert_eq!(settled(&ann.node, contact).await, (jumped, true));
    ann.stop(Duration::from_secs(5)).await;
    let own = options(folder.path().join("ann"), None);
    let ann = node::start_node(NodeOptions { clock: hands.clock(), demo: false, ..own });
    ann.node.ask(|shell| shell.unlock_vault(PASS)).await.unwrap();
    let (started, told) = settled(&ann.node, contact).await;
    assert_eq!((&started, told), (&before, true));
    hands.jump_back();
    assert_eq!(settled(&ann.node, contact).await, (started, false));
}

#[tokio::test]
async fn msg_99_a_clock_that_stands_for_a_day_or_is_agreed_to_is_believed() {
    for agreed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let hands = Hands::new();
        let (_stop, ann, contact) = troubled(folder.path(), &hands).await;
        hands.jump();
        let (before, told) = settled(&ann.node, contact).await;
        assert_eq!((before.notes.len(), told), (2, true));
        if agreed {
            ann.node
                .ask(|shell| {
                    shell.trust_clock();
                    Ok(())
                })
                .await
                .unwrap();
        } else {
            hands.pass(Time::DAY_MS);
        }
        let (after, told) = settled(&ann.node, contact).await;
        // Confirming takes no time; the day for which the clock was doubted does.
        let left = if agreed { 2 } else { 0 };
        assert_eq!((after.notes.len(), told), (left, false));
        assert_ne!(after.signed, before.signed, "prekeys end by the date");
        hands.pass(Time::HOUR_MS);
        let (after, _) = settled(&ann.node, contact).await;
        assert!(after.notes.is_empty(), "their hour has passed");
    }
}

#[tokio::test]
async fn msg_99_two_clocks_that_agree_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let relay = RelayEntry {
        key: RelayKey([7; 32]),
        address: MailboxAddress([0; 16]),
        port: 1,
        host: "127.0.0.1".into(),
    };
    let own = NodeOptions { clock: hands.clock(), ..options(folder.path().join("vault"), None) };
    let node = node::start_node(own).node;
    node.ask(move |shell| shell.create_identity("Ann", PASS, &[relay])).await.unwrap();
    hands.jump();
    let wall = hands.0.lock().unwrap_or_else(PoisonError::into_inner).wall;
    let doubts = move |key: u8, time: Time| {
        let node = node.clone();
        async move {
            let hear = move |shell: &mut NodeShell| {
                shell.hear_time(RelayKey([key; 32]), time);
                Ok(shell.clock_line().is_some())
            };
            node.ask(hear).await.unwrap()
        }
    };
    assert!(doubts(7, wall.minus_ms(JUMP_MS)).await, "it says what boot time says");
    assert!(doubts(8, wall).await, "another's relay");
    assert!(!doubts(7, wall.plus_ms(Time::HOUR_MS)).await);
}

#[tokio::test]
async fn msg_99_what_waits_for_a_commit_waits_by_boot_time() {
    let folder = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let own = NodeOptions { clock: hands.clock(), ..options(folder.path().join("vault"), None) };
    let node = node::start_node(own).node;
    let begin = |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        shell.later.end = Some(shell.options.clock.boot().plus_ms(LATER_MS));
        Ok(())
    };
    node.ask(begin).await.unwrap();
    hands.turn(|at| {
        *at = Moment { wall: at.wall.minus_ms(6 * Time::HOUR_MS), boot: at.boot.plus_ms(LATER_MS) }
    });
    node.ask(|_| Ok(())).await.unwrap();
    assert_eq!(node.ask(|shell| Ok(shell.later.end)).await.unwrap(), None);
}
