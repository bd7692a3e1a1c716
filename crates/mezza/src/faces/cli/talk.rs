//! Commands about notes and carriers.

use std::io::Read;
use std::ops::ControlFlow;
use std::time::Duration;

use rand_core::Rng as _;
use serde_json::json;

use super::args::{LogArgs, OutboxCommand, SendArgs, WaitName};
use super::changes::Changes;
use super::client::ApiClient;
use super::follow::Follower;
use super::hibe::lives;
use super::people::find_contact;
use super::{CliContext, backup, show};
use crate::node::shell::ask::TEXT_BYTES_MAX;
use mezza_host::api::json::{self, EventKind, NoteStateJson};
use mezza_host::api::{Exit, Fault, Refused, words};
use mezza_host::process::rng::OsRng;

/// Maximum bytes of standard input: more than a note holds, so that the excess can be reported.
const INPUT_BYTES_MAX: u64 = 1 << 20;
/// The carrier whose notes have a life.
const MESH: &str = "mesh";

/// `mezza send`
pub(crate) fn run_send(context: &CliContext, send: &SendArgs) -> Result<Exit, Fault> {
    let text = match send.text.as_deref() {
        None | Some("-") => read_input()?,
        Some(text) => text.into(),
    };
    if text.is_empty() {
        return Err(Refused::from(mezza_messenger::DeviceError::Person(
            mezza_messenger::PersonError::EmptyText,
        ))
        .into());
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(words::too_long(text.len(), TEXT_BYTES_MAX).into());
    }
    let client = context.client()?;
    let contact = find_contact(&client, &send.name)?;
    if let Some(carrier) = &send.carrier {
        check_carrier(&client, &contact, &send.name, carrier, &text)?;
    }
    if let Some(life) = send.mesh_life {
        check_mesh_life(context, &contact, &send.name, life)?;
    }
    let follower = send.wait.map(|_| Follower::open_on(&client)).transpose()?;
    if matches!(send.wait, Some(WaitName::Delivered))
        && let Some(hint) = hint_about_request(&contact)
    {
        context.out.print_aside(&hint);
    }
    let mut client_id = [0; 16];
    OsRng.fill_bytes(&mut client_id);
    let client_id = data_encoding::HEXLOWER.encode(&client_id);
    let body = json::SendRequest { text, client_id, mesh_life: send.mesh_life };
    let note: json::NoteJson = client.post(&format!("/v1/contacts/{}/notes", contact.id), &body)?;
    let note = match (send.wait, follower) {
        (Some(_), Some(follower)) => wait_for(context, &client, follower, note, send)?,
        _ => note,
    };
    let sent = SentNote { contact: &contact, typed: &send.name, note: &note };
    Ok(report_sent(context, sent, send.wait))
}

/// Describes what a note waits for that nobody has answered yet; `None` in a conversation.
fn hint_about_request(contact: &json::ContactJson) -> Option<String> {
    let name = show::clean_text(&contact.name);
    match contact.standing {
        json::StandingJson::Held => Some(format!(
            "this is the first note to {name}: unless they have added your card, they accept it first, on their page \
             or by `requests accept`"
        )),
        json::StandingJson::Asked => Some(format!(
            "{name} has not answered yet: a request is accepted on their page, or by `requests accept`"
        )),
        _ => None,
    }
}

fn read_input() -> Result<String, Fault> {
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut bytes);
    input.map_err(|error| {
        let text = format!("standard input cannot be read: {error}");
        Fault::new(Exit::Malformed, text, "give the text as an argument")
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let next = "convert it first, for example with `iconv -t UTF-8`";
        Fault::new(Exit::Malformed, "standard input is not UTF-8", next)
    })?;
    Ok(text.strip_suffix('\n').map_or(text.clone(), Into::into))
}

/// Checks "by this carrier only", and refuses before anything is written.
fn check_carrier(
    client: &ApiClient,
    contact: &json::ContactJson,
    typed: &str,
    carrier: &str,
    text: &str,
) -> Result<(), Fault> {
    let path = format!("/v1/contacts/{}/preview", contact.id);
    let body = json::PreviewRequest { text: text.into() };
    let preview: json::Preview = client.post(&path, &body)?;
    let offer = preview.offers.iter().find(|offer| offer.carrier == carrier);
    let name = show::clean_text(&contact.name);
    match offer {
        Some(offer) if offer.fits && contact.policy.carriers.first() == Some(&offer.carrier) => {
            Ok(())
        }
        Some(_) => {
            let text = format!("{} may not carry this note to {name}", show::clean_text(carrier));
            let handle = show::handle_as(contact, Some(typed));
            let next = format!("see `mezza contacts {handle}` and `mezza set {handle}`");
            Err(Fault::new(Exit::No, text, next))
        }
        None => {
            let text = format!("there is no carrier {}", show::clean_text(carrier));
            Err(Fault::new(Exit::Usage, text, "`mezza carriers` lists them"))
        }
    }
}

/// Checks that a life of its own means something for a note, and prints the risk of that life. Refuses
/// before anything is written.
fn check_mesh_life(
    context: &CliContext,
    contact: &json::ContactJson,
    typed: &str,
    life: json::MeshLifeJson,
) -> Result<(), Fault> {
    if contact.policy.carriers.iter().any(|carrier| carrier == MESH) {
        context.out.print_aside(&lives::describe_risk(lives::life_of(life)));
        return Ok(());
    }
    let name = show::clean_text(&contact.name);
    let text = format!("notes to {name} do not go over the mesh, so a life in it means nothing");
    let handle = show::handle_as(contact, Some(typed));
    let next = format!("leave `--mesh-life` out, or `mezza set {handle} --carriers mesh`");
    Err(Fault::new(Exit::No, text, next))
}

/// Follows a note until it reaches the state that the user waits for, and says meanwhile what it waits
/// for. Returns its newest state in any case.
fn wait_for(
    context: &CliContext,
    client: &ApiClient,
    follower: Follower,
    note: json::NoteJson,
    send: &SendArgs,
) -> Result<json::NoteJson, Fault> {
    let Some(wait) = send.wait.filter(|wait| !is_far_enough(&note, *wait)) else { return Ok(note) };
    let patience = Duration::from_secs(send.timeout);
    let mut said = String::new();
    let mut say = |note: &json::NoteJson| {
        // On its way to the carrier is no reason: the next state comes soon.
        let has_reason = note.why.as_deref().is_some_and(|why| why != "sending");
        if has_reason && said != note.words {
            said.clone_from(&note.words);
            let kept = "it is kept, also if you stop waiting (Ctrl-C)";
            context.out.print_aside(&format!("note {}: {}; {kept}", note.id, note.words));
        }
    };
    say(&note);
    let found = follower.follow_until(Some(patience), |event| match &event.note {
        Some(seen) if seen.id == note.id && is_far_enough(seen, wait) => {
            ControlFlow::Break(seen.clone())
        }
        Some(seen) if seen.id == note.id => {
            say(seen);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    if let Some(note) = found {
        return Ok(note);
    }
    let notes: json::Notes =
        client.get(&format!("/v1/contacts/{}/notes?limit=100", note.contact))?;
    Ok(notes.notes.into_iter().find(|newer| newer.id == note.id).unwrap_or(note))
}

fn is_far_enough(note: &json::NoteJson, wait: WaitName) -> bool {
    let handed = matches!(note.state, NoteStateJson::Handed | NoteStateJson::Carried);
    let delivered = matches!(note.state, NoteStateJson::Delivered | NoteStateJson::Read);
    delivered || (matches!(wait, WaitName::Handed) && handed)
}

/// A note that the node accepted, with the contact as the user typed it.
#[derive(Clone, Copy)]
struct SentNote<'a> {
    contact: &'a json::ContactJson,
    typed: &'a str,
    note: &'a json::NoteJson,
}

fn report_sent(context: &CliContext, sent: SentNote<'_>, wait: Option<WaitName>) -> Exit {
    let SentNote { contact, typed, note } = sent;
    let name = show::clean_text(&contact.name);
    context.out.print_value(note);
    context.out.print_line(format!("note {} to {name}: {}", note.id, note.words));
    if note.why.as_deref() == Some("below_pin") {
        context.out.print_line(below_pin(contact, typed, note));
    }
    match wait {
        Some(wait) if !is_far_enough(note, wait) => {
            context.out.print_line("it stays in the outbox and goes on trying: `mezza outbox`");
            Exit::No
        }
        _ => Exit::Done,
    }
}

fn below_pin(contact: &json::ContactJson, typed: &str, note: &json::NoteJson) -> String {
    format!(
        "{} requires level {}, and no carrier that is up reaches it; the note waits. To send it \
         by relay after all: `mezza outbox cancel {}`, `mezza set {} --level-min 1`, then send \
         again",
        show::clean_text(&contact.name),
        note.pin,
        note.id,
        show::handle_as(contact, Some(typed))
    )
}

/// `mezza log`
pub(crate) fn show_log(context: &CliContext, log: &LogArgs) -> Result<(), Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, &log.name)?;
    let follower = log.follow.then(|| Follower::open_on(&client)).transpose()?;
    let before = log.before.map_or(String::new(), |id| format!("&before={id}"));
    let path = format!("/v1/contacts/{}/notes?limit={}{before}", contact.id, log.n);
    let notes: json::Notes = client.get(&path)?;
    let changes: json::ChangesJson = client.get(&format!("/v1/contacts/{}/changes", contact.id))?;
    // Changes before the oldest shown note belong to older ones, if there are any.
    let oldest = notes.notes.first().filter(|_| notes.more).map_or(0, |note| note.at_ms);
    let mut changes = Changes::after(&changes.changes, oldest, &contact.name);
    for note in &notes.notes {
        for line in changes.lines_until(note.at_ms) {
            context.out.print_foreign(line);
        }
        print_note(context, note, &contact.name);
    }
    if log.before.is_none() {
        for line in changes.lines_until(u64::MAX) {
            context.out.print_foreign(line);
        }
    }
    let handle = show::handle_as(&contact, Some(&log.name));
    if let Some(oldest) = notes.notes.first().filter(|_| notes.more) {
        context.out.print_line(format!("(older: `mezza log {handle} --before {}`)", oldest.id));
    }
    // A restore concerns all of the conversation, so that an older part does not repeat it.
    let restored = contact.restored.iter().filter(|_| log.before.is_none());
    for words in restored.flat_map(|restored| &restored.words) {
        context.out.print_line(format!("({words})"));
    }
    if contact.missing > 0 {
        context.out.print_line(format!("({})", show::format_missing(contact.missing)));
    }
    if !log.peek && log.before.is_none() {
        mark_shown_read(context, &client, &contact, &notes.notes, &handle)?;
    }
    let Some(follower) = follower else { return Ok(()) };
    // Following continues after the user has left, so it must not count as activity.
    follow_log(context, &client.as_watcher(), follower, &contact, log.peek)
}

/// Prints a note as a line of a log.
fn print_note(context: &CliContext, note: &json::NoteJson, name: &str) {
    context.out.print_value(note);
    context.out.print_foreign(show::format_note(note, name));
}

/// Marks the shown notes as read. If there are more unread notes than were shown, nothing is
/// marked, since the older ones were not seen. The same holds if standard output did not take all
/// of them (CLI-12).
fn mark_shown_read(
    context: &CliContext,
    client: &ApiClient,
    contact: &json::ContactJson,
    shown: &[json::NoteJson],
    handle: &str,
) -> Result<(), Fault> {
    let incoming = shown.iter().filter(|note| note.incoming);
    match incoming.clone().next_back() {
        Some(newest) if contact.unread > 0 && incoming.count() >= contact.unread => {
            if show::is_printed() {
                mark_seen(client, newest)
            } else {
                Ok(())
            }
        }
        Some(_) if contact.unread > 0 => {
            context.out.print_line(format!(
                "({} unread, and not all of them are here: `mezza log {handle} -n 500`)",
                words::format_count(contact.unread as u64, "note is", "notes are")
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn mark_seen(client: &ApiClient, newest: &json::NoteJson) -> Result<(), Fault> {
    let body = json::SeenRequest { note: newest.id.clone() };
    client.post(&format!("/v1/contacts/{}/seen", newest.contact), &body)
}

fn follow_log(
    context: &CliContext,
    client: &ApiClient,
    follower: Follower,
    contact: &json::ContactJson,
    peek: bool,
) -> Result<(), Fault> {
    let ended = follower.follow_until(None, |event| {
        let ours = event.contact.as_deref() == Some(contact.id.as_str());
        let told = matches!(event.kind, EventKind::Note | EventKind::State);
        if let (true, true, Some(_), Some(note)) = (ours, told, event.cursor, &event.note) {
            print_note(context, note, &contact.name);
            if note.incoming
                && !peek
                && show::is_printed()
                && let Err(fault) = mark_seen(client, note)
            {
                return ControlFlow::Break(Err(fault));
            }
        }
        let over = matches!(event.kind, EventKind::Locked | EventKind::Reload);
        if over { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    })?;
    ended.unwrap_or(Ok(()))
}

/// `mezza outbox`
pub(crate) fn run_outbox(context: &CliContext, what: Option<&OutboxCommand>) -> Result<(), Fault> {
    let client = context.client()?;
    if let Some(OutboxCommand::Cancel { id }) = what {
        let waiting: json::OutboxJson = client.get("/v1/outbox")?;
        let note = waiting.notes.iter().find(|note| note.id == id.to_string());
        // A carrier that took the note left a fact.
        let has_left = note.is_none_or(|note| !note.facts.is_empty());
        client.act("DELETE", &format!("/v1/notes/{id}?how=cancel"))?;
        let text = if has_left {
            "cancelled; it was sent before and may still arrive"
        } else {
            "cancelled; it never left this device"
        };
        context.out.print_either(&json!({ "cancelled": id }), text);
        return Ok(());
    }
    if let Some(OutboxCommand::Lower { id }) = what {
        client.act("POST", &format!("/v1/notes/{id}/lower"))?;
        let text = "it leaves at the lowest level of its conversation";
        context.out.print_either(&json!({ "lowered": id }), text);
        return Ok(());
    }
    if let Some(OutboxCommand::Send { id }) = what {
        return backup::send_again(context, &client, *id);
    }
    let outbox: json::OutboxJson = client.get("/v1/outbox")?;
    let contacts = client.get::<json::Contacts>("/v1/contacts")?.contacts;
    context.out.print_value(&outbox);
    for note in &outbox.notes {
        let contact = contacts.iter().find(|contact| contact.id == note.contact);
        let name = contact.map_or("?", |contact| contact.name.as_str());
        context.out.print_foreign(format!(
            "{:<5} to {}: {}",
            note.id,
            show::clean_text(name),
            show::format_note(note, name)
        ));
    }
    for contact in
        contacts.iter().filter(|of| outbox.notes.iter().any(|note| note.contact == of.id))
    {
        if let Some(trouble) = &contact.trouble {
            let name = show::clean_text(&contact.name);
            context.out.print_line(format!("TROUBLE  {name}: {}", show::clean_text(trouble)));
        }
    }
    if outbox.notes.is_empty() {
        context.out.print_line("nothing waits");
    }
    Ok(())
}

/// `mezza carriers`
pub(crate) fn show_carriers(context: &CliContext) -> Result<(), Fault> {
    let all: json::Carriers = context.client()?.as_watcher().get("/v1/carriers")?;
    context.out.print_value(&all);
    for carrier in &all.carriers {
        let state = if carrier.up { "up" } else { "down" };
        let demo = if carrier.demo { ", DEMO" } else { "" };
        let noise = words::mixnet::noise_by_name(carrier.noise_grade.as_deref());
        context.out.print_line(format!(
            "{}  {state}, level {}{demo}{noise}",
            carrier.carrier, carrier.level
        ));
        if let Some(relay) = &carrier.relay {
            context
                .out
                .print_line(format!("  at       {}:{} key {}", relay.host, relay.port, relay.key));
        }
        let delay = carrier.delay_ms;
        let worst = carrier.delay_p99_ms;
        context.out.print_line(format!("  delay    {delay} ms, rarely {worst} ms"));
        let pieces = carrier.pieces_max;
        let bytes = words::group_digits(carrier.piece_bytes);
        let keeps = match carrier.store_h {
            0 => "keeps nothing: both have to be there".into(),
            hours => format!("keeps them {hours} h"),
        };
        context.out.print_line(format!("  takes    {pieces} x {bytes} bytes, {keeps}"));
        for hides in &carrier.hides {
            let verb = if hides.hidden { "hides from" } else { "SHOWS to  " };
            context.out.print_line(format!("  {verb} {}: {}", hides.from, hides.what));
        }
    }
    if all.carriers.is_empty() {
        context.out.print_line("no carrier: your card names no relay and no contact has one");
    }
    Ok(())
}
