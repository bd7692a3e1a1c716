//! Echo: a full device that accepts every contact and answers each text, over the same carrier,
//! with the text and the carrier's name.
//!
//! The client id of an answer is derived from the number of the note it answers, so that each note
//! is answered once even after a crash.

use mezza_core::labelled_hash;
use mezza_messenger::{CarrierId, Command, ContactId};
use tokio::sync::broadcast::error::RecvError;

use crate::node::NodeHandle;
use crate::node::shell::NodeShell;
use crate::node::shell::ask::TEXT_BYTES_MAX;
use mezza_host::api::Refused;
use mezza_host::api::json::{EventJson, EventKind, NoteJson, StandingJson};
use mezza_host::api::views::{contact_id, note_id};

/// Notes of a thread that are searched for one without an answer.
const LOOK_BACK: usize = 64;

/// Answers until the node stops.
pub(super) async fn answer_notes(node: NodeHandle) {
    let mut live = node.events().listen(None).live;
    catch_up(&node).await;
    loop {
        match live.recv().await {
            Ok(event) => on_event(&node, &event).await,
            Err(RecvError::Lagged(_)) => catch_up(&node).await,
            Err(RecvError::Closed) => return,
        }
    }
}

/// Returns a test for texts that echo sends as the answer to `text`.
pub(super) fn is_answer_to(text: &str) -> impl Fn(&str) -> bool {
    move |answer| answer.strip_prefix(text).is_some_and(|tail| tail.starts_with("\n("))
}

async fn on_event(node: &NodeHandle, event: &EventJson) {
    let ours = matches!(event.kind, EventKind::Request)
        || event.note.as_ref().is_some_and(|note| note.incoming && event.kind == EventKind::Note);
    let Some(contact) = event.contact.as_deref().filter(|_| ours && event.cursor.is_some()) else {
        return;
    };
    if let Ok(contact) = contact_id(contact) {
        log_refusal(node.ask(move |shell| answer_contact(shell, contact)).await);
    }
}

async fn catch_up(node: &NodeHandle) {
    let all = node.ask(|shell| {
        let strangers = shell.list_requests()?;
        let ids = shell.list_contacts()?.into_iter().map(|contact| contact.id);
        let ids = ids.chain(strangers.requests.into_iter().map(|request| request.contact.id));
        let mut ids = ids.chain(strangers.guests.into_iter().map(|guest| guest.id));
        ids.try_for_each(|id| answer_contact(shell, contact_id(&id)?))
    });
    log_refusal(all.await);
}

fn log_refusal(done: Result<(), Refused>) {
    if let Err(refused) = done {
        tracing::debug!(word = refused.word, "echo could not answer");
    }
}

/// Asks an inviter for the card, accepts an unknown sender, and answers unanswered notes.
fn answer_contact(shell: &mut NodeShell, contact: ContactId) -> Result<(), Refused> {
    if let Some(guest) = shell.invitation(contact)? {
        return if guest.asked { Ok(()) } else { shell.ask_who(contact) };
    }
    let view = shell.contact(contact)?;
    let unread = view.unread > 0;
    if view.standing == StandingJson::Request {
        shell.run_command(Command::Accept { contact })?;
    }
    let notes = shell.list_notes(contact, None, LOOK_BACK)?.notes;
    let last = notes.last().map(|note| note_id(&note.id)).transpose()?;
    for note in notes {
        if let Some(text) = answer_of(&note) {
            let number = note_id(&note.id)?.0.to_be_bytes();
            if let Some(carrier) = carrier_of(&note) {
                shell.go_by(contact, &[carrier])?;
            }
            shell.send_note(contact, labelled_hash("mezza/echo", &[&number]), text)?;
        }
    }
    // Unread notes are limited by the contact's share, so echo marks them as read.
    match last.filter(|_| unread) {
        Some(note) => shell.run_command(Command::Seen { contact, note }),
        None => Ok(()),
    }
}

fn carrier_of(note: &NoteJson) -> Option<CarrierId> {
    let name = note.carrier.as_deref()?;
    CarrierId::ALL.into_iter().find(|carrier| carrier.name() == name)
}

fn answer_of(note: &NoteJson) -> Option<String> {
    let text = note.text.as_ref().filter(|_| note.incoming)?;
    let tail = format!("\n(by {})", note.carrier.as_deref().unwrap_or("an unknown way"));
    // A text that fills a whole note is answered without the carrier's name.
    Some(if text.len() + tail.len() > TEXT_BYTES_MAX {
        text.clone()
    } else {
        format!("{text}{tail}")
    })
}
