//! `mezza ratchet sessions|keys|suites`: the session state of a running node.

use mezza_ratchet::SuiteList;
use serde_json::json;

use crate::faces::cli::people::find_contact;
use crate::faces::cli::{CliContext, show};
use mezza_host::api::json::{ContactJson, Contacts, RatchetJson, RatchetSession};
use mezza_host::api::{Exit, Fault};

/// `mezza ratchet sessions`
pub(super) fn show_sessions(context: &CliContext, name: Option<&str>) -> Result<Exit, Fault> {
    let client = context.client()?;
    let contacts = match name {
        Some(name) => vec![find_contact(&client, name)?],
        None => client.get::<Contacts>("/v1/contacts")?.contacts,
    };
    let mut sessions = client.get::<RatchetJson>("/v1/ratchet")?.sessions;
    sessions.retain(|session| contacts.iter().any(|contact| contact.id == session.contact));
    context.out.print_value(&json!({ "sessions": sessions }));
    for contact in &contacts {
        if let Some(session) = sessions.iter().find(|session| session.contact == contact.id) {
            context.out.print_line(format_session(session, &contact.name));
        }
    }
    if sessions.is_empty() {
        context.out.print_line("no session yet; the first note begins one");
    }
    Ok(Exit::Done)
}

fn format_session(session: &RatchetSession, name: &str) -> String {
    let mut parts = vec![
        format!("#{:<3} {}", session.contact, show::clean_text(name)),
        suite_name(&session.suite),
        if session.initiator { "initiator" } else { "responder" }.into(),
    ];
    if session.pending {
        parts.push("waits for the first answer".into());
    }
    parts.push(if session.our_turn { "our turn" } else { "their turn" }.into());
    parts.push(format!("sent {}, received {} in the chains", session.sent, session.received));
    parts.push(format!("skipped {}", session.skipped));
    parts.push(format!("archived {}", session.archived));
    parts.push(session.last_opened_ms.map_or_else(
        || "nothing opened yet".into(),
        |ms| format!("last opened {}", show::format_time(ms)),
    ));
    parts.join("  ")
}

/// `mezza ratchet reset`
pub(super) fn reset_session(context: &CliContext, name: &str, yes: bool) -> Result<Exit, Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, name)?;
    let name = show::clean_text(&contact.name);
    if !yes {
        let text = format!("the session with {name} would be archived, and both are told");
        return Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"));
    }
    client.act("POST", &format!("/v1/contacts/{}/reset", contact.id))?;
    let text = format!("the next note to {name} begins a new session, and both are told");
    context.out.print_either(&json!({ "reset": contact.id }), text);
    Ok(Exit::Done)
}

/// `mezza ratchet keys`
pub(super) fn show_keys(context: &CliContext, rotate: bool, refill: bool) -> Result<Exit, Fault> {
    let client = context.client()?;
    if rotate {
        client.act("POST", "/v1/ratchet/rotate")?;
    }
    if refill {
        client.act("POST", "/v1/ratchet/refill")?;
    }
    let prekeys = client.get::<RatchetJson>("/v1/ratchet")?.prekeys;
    context.out.print_value(&prekeys);
    for key in &prekeys.signed {
        let made = show::format_time(key.made_ms);
        let wiped = show::format_time(key.wiped_ms);
        context.out.print_line(format!(
            "signed prekey   {}  made {made}, wiped {wiped}",
            suite_name(&key.suite)
        ));
    }
    let until = prekeys.bundle_until_ms.map_or_else(|| "not made yet".into(), show::format_time);
    let stock = prekeys.one_time_stock.map_or_else(|| "unknown".into(), |n| n.to_string());
    context.out.print_line(format!("bundle          valid until {until}; a new one every 7 days"));
    context.out.print_line(format!(
        "one-time keys   {} held here, {stock} at the relay",
        prekeys.one_time_held
    ));
    context.out.print_line(format!(
        "sessions today  {}, {} of them without a one-time key",
        prekeys.sessions_today, prekeys.without_one_time
    ));
    Ok(Exit::Done)
}

/// `mezza ratchet suites`
pub(super) fn show_suites(context: &CliContext, name: Option<&str>) -> Result<Exit, Fault> {
    let ours = SuiteList::our_suites();
    let ours = ours.ids().iter().map(|id| format!("0x{:04x}", id.0)).collect::<Vec<_>>();
    let contact = name.map(|name| find_contact(&context.client()?, name)).transpose()?;
    let best = contact.as_ref().and_then(|c| ours.iter().find(|suite| c.suites.contains(suite)));
    context.out.print_value(&json!({
        "ours": ours, "card": contact.as_ref().map(|c| &c.suites), "session": best,
    }));
    context.out.print_line(format!("we offer  {}", suite_names(&ours)));
    if let Some(contact) = &contact {
        context.out.print_line(format!("the card  {}", suite_names(&contact.suites)));
        context.out.print_line(session_line(contact, best, &ours));
    }
    context
        .out
        .print_line("Signal's suites are for `mezza ratchet peer` alone: no contact uses them");
    Ok(if contact.is_some() && best.is_none() { Exit::No } else { Exit::Done })
}

fn session_line(contact: &ContactJson, best: Option<&String>, ours: &[String]) -> String {
    match best {
        Some(best) => format!("a session uses {}", suite_name(best)),
        None => format!(
            "{} offers only suite {}, we know {}; update Mezzavoce",
            show::clean_text(&contact.name),
            contact.suites.join(" "),
            ours.join(" ")
        ),
    }
}

fn suite_names(suites: &[String]) -> String {
    suites.iter().map(|suite| suite_name(suite)).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a suite with its number.
fn suite_name(number: &str) -> String {
    match number {
        "0x0101" => "b2c20 (0x0101)".into(),
        "0x0102" => "b2c20-pq (0x0102)".into(),
        other => other.into(),
    }
}
