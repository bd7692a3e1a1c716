//! The first exchange: a note to echo over each carrier that is up, and its answer. Both are then
//! deleted from the thread, since the user did not write them.

use std::time::{Duration, Instant};

use mezza_messenger::{CarrierId, Command, ContactId, NoteId};
use rand_core::Rng as _;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep, timeout};

use super::link::find_person;
use super::{Parties, echo};
use crate::node::NodeHandle;
use mezza_host::api::json::{EventJson, NoteJson, NoteStateJson};
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
/// Newest notes of the thread that are read. The user may write to echo during the check.
const NEWEST: usize = 64;
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

/// Sends a note to echo by a carrier and waits until it is delivered and answered. Afterwards the
/// thread and the carriers of the conversation are as they were, unless the user changed the
/// carriers meanwhile.
///
/// # Errors
/// If the carrier does not come up, or the time is over.
pub(super) async fn exchange_notes(
    parties: Parties<'_>,
    carrier: CarrierId,
    patience: Duration,
) -> Result<CheckResult, Fault> {
    let node = parties.person;
    let id = contact_id(&parties.contact.id)?;
    let mut live = node.events().listen(None).live;
    if timeout(UP, until_up(node, carrier)).await.is_err() {
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

/// Waits until both devices have the keys of their conversation for a carrier, or until the time is
/// over, so that the check then fails. These keys go over another carrier, which the check will not
/// allow (MSG-21).
pub(super) async fn until_acquainted(parties: Parties<'_>, carrier: CarrierId) {
    let Parties { person, echo, contact } = parties;
    let acquainted = async {
        let echo_at_person = contact_id(&contact.id)?;
        let person_at_echo = find_person(person, echo, echo_at_person).await?;
        for (node, other) in [(person, echo_at_person), (echo, person_at_echo)] {
            while !node.ask(move |shell| shell.would_leave(other, carrier)).await? {
                sleep(GLANCE).await;
            }
        }
        Ok::<_, Fault>(())
    };
    let _ = timeout(UP, acquainted).await;
}

async fn until_up(node: &NodeHandle, carrier: CarrierId) {
    while !node.ask(move |shell| Ok(shell.is_up(carrier))).await.unwrap_or(false) {
        sleep(GLANCE).await;
    }
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

/// Sends the note of the check and waits until it is delivered and answered. The thread is read
/// again after each event, so that a missed event costs nothing.
async fn send_and_wait(
    node: &NodeHandle,
    id: ContactId,
    live: &mut Receiver<EventJson>,
) -> Result<Exchanged, Refused> {
    let mut client = [0; 16];
    OsRng.fill_bytes(&mut client);
    let sent = node.ask(move |shell| shell.send_note(id, client, TEXT.into())).await?;
    loop {
        let thread = node.ask(move |shell| shell.list_notes(id, None, NEWEST)).await?;
        if let Some(exchanged) = find_exchange(&thread.notes, &sent.id)? {
            return Ok(exchanged);
        }
        if let Err(RecvError::Closed) = live.recv().await {
            return Err(Refused::stopping());
        }
    }
}

/// Returns the exchange if the sent note is delivered and answered; `notes` has the oldest one first.
fn find_exchange(notes: &[NoteJson], sent: &str) -> Result<Option<Exchanged>, Refused> {
    let mut notes = notes.iter().skip_while(|note| note.id != sent);
    let Some(own) = notes.next() else { return Ok(None) };
    let is_answer = |note: &&NoteJson| {
        note.incoming && note.text.as_deref().is_some_and(echo::is_answer_to(TEXT))
    };
    let (Some(answer), NoteStateJson::Delivered | NoteStateJson::Read) =
        (notes.find(is_answer), own.state)
    else {
        return Ok(None);
    };
    let Some(carrier) = answer.carrier.clone() else { return Ok(None) };
    Ok(Some(Exchanged { carrier, notes: [note_id(sent)?, note_id(&answer.id)?] }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::{DemoRelay, ECHO, PERSON, introduce_echo, join_network, wake};
    use super::*;
    use crate::carriers::Dialer;
    use crate::node::{self, NodeOptions, RunningNode};
    use mezza_host::clock::Clock;
    use mezza_host::process::home::Home;
    use mezza_servers::mixnet::demo::start_network;
    use mezza_servers::relay::RelayConfig;

    /// How long a node may take to stop.
    const STOP: Duration = Duration::from_secs(10);

    fn start(vault: &Path, relay: &DemoRelay) -> RunningNode {
        let at_home = BTreeMap::from([relay.at_home()]);
        node::start_node(NodeOptions {
            vault: vault.into(),
            witness: None,
            demo: true,
            idle_lock_s: 0,
            clock: Clock::system(),
            dialer: Dialer { at_home, tap: None, demo: true },
            mesh: None,
            link: None,
            observer: None,
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn node_25_a_card_that_is_older_than_the_mixnet_only_delays_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let config = RelayConfig::new(home.relay(), "127.0.0.1:0".parse().unwrap());
        let relay = DemoRelay::start(config, false).await.unwrap();
        let network = start_network(&home).await.unwrap();
        let person = start(&home.vault(), &relay);
        let echo = start(&folder.path().join("echo"), &relay);
        wake(&person.node, PERSON, &relay).await.unwrap();
        wake(&echo.node, ECHO, &relay).await.unwrap();
        let contact = introduce_echo(&person.node, &echo.node).await.unwrap();
        let answering = tokio::spawn(echo::answer_notes(echo.node.clone()));
        let parties = Parties { person: &person.node, echo: &echo.node, contact: &contact };
        let [by_relay, _, by_mixnet, _] = PATIENCES;
        exchange_notes(parties, CarrierId::RELAY, by_relay).await.unwrap();
        join_network(&person.node, &network.uri).await.unwrap();
        join_network(&echo.node, &network.uri).await.unwrap();
        until_acquainted(parties, CarrierId::MIXNET).await;
        let done = exchange_notes(parties, CarrierId::MIXNET, by_mixnet).await.unwrap();
        assert_eq!(done.carrier, CarrierId::MIXNET.name());
        answering.abort();
        person.stop(STOP).await;
        echo.stop(STOP).await;
        network.stop().await.unwrap();
    }
}
