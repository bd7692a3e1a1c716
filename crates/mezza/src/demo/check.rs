//! The first exchange: a note to echo over each carrier that is up, and its answer. Both are then
//! deleted from the thread, since the user did not write them.

use std::time::{Duration, Instant};

use mezza_messenger::{CarrierId, Command, ContactId, NoteId};
use rand_core::Rng as _;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep, timeout};

use super::echo;
use crate::node::NodeHandle;
use mezza_host::api::json::{ContactJson, EventJson, NoteStateJson};
use mezza_host::api::views::{contact_id, note_id};
use mezza_host::api::{Exit, Fault, Refused};
use mezza_host::process::rng::OsRng;

/// How long the carriers may take to come up. Like all limits here it is far above what an idle machine
/// takes: a check that fails because other programs run tells nothing about the carriers.
const UP: Duration = Duration::from_secs(60);
/// Interval between two checks if a device is reachable.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the exchanges over relay, link, mixnet and mesh may take. Calling echo in the mixnet
/// takes several rounds, and a cell of the mesh waits for the beacons of the other node.
pub(super) const PATIENCES: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(120),
];
/// The text of the note.
const TEXT: &str = "Hello echo, do you read me?";

/// The result of a successful check.
pub(super) struct CheckResult {
    /// The carrier of the note.
    pub carrier: String,
    /// From sending to the later of `delivered` and the answer, milliseconds.
    pub ms: u128,
}

/// Waits until unknown senders can write to a device: its relay has its mailbox and its bundle.
///
/// # Errors
/// If the relay does not come up.
pub(super) async fn until_reachable(node: &NodeHandle) -> Result<(), Fault> {
    let reached = async {
        while !node.ask(|shell| Ok(shell.is_reachable())).await.unwrap_or(false) {
            sleep(GLANCE).await;
        }
    };
    timeout(UP, reached).await.map_err(|_| {
        let text = "the relay of the demonstration does not answer";
        Fault::new(Exit::Unreachable, text, "look at `mezza doctor`, then start again")
    })
}

/// Sends a note by a carrier and waits until it is delivered and answered. Afterwards the thread
/// and the carriers of the conversation are as they were, unless the user changed the carriers
/// meanwhile.
///
/// # Errors
/// If the carrier does not come up, or the time is over.
pub(super) async fn exchange_notes(
    node: &NodeHandle,
    contact: &ContactJson,
    carrier: CarrierId,
    patience: Duration,
) -> Result<CheckResult, Fault> {
    let id = contact_id(&contact.id)?;
    let mut live = node.events().listen(None).live;
    if timeout(UP, until_up(node, carrier, &mut live)).await.is_err() {
        let text = format!("the {} did not come up", carrier.name());
        return Err(Fault::new(
            Exit::Unreachable,
            text,
            "look at `mezza doctor` and `mezza carriers`",
        ));
    }
    let began = Instant::now();
    let before = select_carrier(node, id, carrier).await?;
    let done = timeout(patience, send_and_wait(node, id, &mut live)).await;
    restore_carriers(node, id, carrier, before).await?;
    let done = done.map_err(|_| {
        let text = format!("no answer within {} s", patience.as_secs());
        Fault::new(Exit::No, text, "look at `mezza log echo` and `mezza doctor`")
    })??;
    let result = CheckResult { carrier: done.carrier, ms: began.elapsed().as_millis() };
    for note in done.notes {
        node.ask(move |shell| shell.run_command(Command::Forget { note })).await?;
    }
    Ok(result)
}

/// Restricts a conversation to one carrier. Returns the carriers it had before.
async fn select_carrier(
    node: &NodeHandle,
    id: ContactId,
    carrier: CarrierId,
) -> Result<Vec<CarrierId>, Refused> {
    node.ask(move |shell| {
        let before = shell.carriers_of(id)?;
        shell.go_by(id, &[carrier])?;
        Ok(before)
    })
    .await
}

/// Restores the carriers of a conversation if they are still those of the check.
async fn restore_carriers(
    node: &NodeHandle,
    id: ContactId,
    checked: CarrierId,
    before: Vec<CarrierId>,
) -> Result<(), Refused> {
    node.ask(
        move |shell| {
            if shell.carriers_of(id)? == [checked] { shell.go_by(id, &before) } else { Ok(()) }
        },
    )
    .await
}

/// The identifiers of the notes of a completed exchange, and the carrier that took them.
struct Exchanged {
    carrier: String,
    notes: [NoteId; 2],
}

async fn until_up(node: &NodeHandle, carrier: CarrierId, live: &mut Receiver<EventJson>) {
    while !node.ask(move |shell| Ok(shell.is_up(carrier))).await.unwrap_or(false) {
        if next_event(live).await.is_none() {
            return;
        }
    }
}

async fn send_and_wait(
    node: &NodeHandle,
    id: ContactId,
    live: &mut Receiver<EventJson>,
) -> Result<Exchanged, Refused> {
    let mut client = [0; 16];
    OsRng.fill_bytes(&mut client);
    let sent = node.ask(move |shell| shell.send_note(id, client, TEXT.into())).await?;
    let mut delivered = false;
    let mut answer = None;
    while !delivered || answer.is_none() {
        let Some(event) = next_event(live).await else { return Err(Refused::stopping()) };
        let Some(note) = event.note.filter(|note| note.contact == sent.contact) else { continue };
        if note.id == sent.id {
            delivered |= matches!(note.state, NoteStateJson::Delivered | NoteStateJson::Read);
        } else if note.incoming && note.text.as_deref().is_some_and(echo::is_answer_to(TEXT)) {
            answer = note.carrier.zip(Some(note_id(&note.id)?));
        }
    }
    let (carrier, answer) = answer.ok_or_else(Refused::stopping)?;
    Ok(Exchanged { carrier, notes: [note_id(&sent.id)?, answer] })
}

/// Returns the next event. A lagging receiver only misses some, because states are queried again.
async fn next_event(live: &mut Receiver<EventJson>) -> Option<EventJson> {
    loop {
        match live.recv().await {
            Ok(event) => return Some(event),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}
