//! Commands about contacts.

use serde_json::json;

use super::args::{
    AddArgs, ContactsArgs, ContactsCommand, GuardDest, LifeChoice, RequestsCommand, SetArgs,
    SwitchName,
};
use super::client::ApiClient;
use super::hibe::lives;
use super::person::read_source;
use super::{CliContext, show, whom};
use mezza_host::api::uri::read_card;
use mezza_host::api::{Exit, Fault, json};
use mezza_messenger::card::Card;

/// Groups of a safety number per line.
const GROUPS_A_LINE: usize = 4;

/// `mezza add`
pub(crate) fn add_contact(context: &CliContext, add: &AddArgs) -> Result<(), Fault> {
    let uri = read_source(&add.source)?;
    // A malformed card is reported even if no node runs.
    let card = read_card(&uri)?;
    let body = json::AddRequest { uri, name: add.petname.clone(), in_person: Some(add.in_person) };
    let client = context.client()?;
    let before = client.get::<json::Contacts>("/v1/contacts")?.contacts;
    let contact: json::ContactJson = client.post("/v1/contacts", &body)?;
    let known = before.iter().find(|known| known.id == contact.id);
    context.out.print_either(&contact, describe_added(&contact, known));
    if contact.namesake {
        context.out.print_line(format!(
            "another contact has this name and another key: a different person, or somebody who \
             pretends; compare numbers with `mezza verify {}`",
            show::handle(&contact)
        ));
    }
    let handle = show::handle_as(&contact, add.petname.as_deref());
    context.out.print_line(describe_next(&card, &handle));
    Ok(())
}

/// Describes the next step after a card was added. Over a card without an address no note leaves.
fn describe_next(card: &Card, handle: &str) -> String {
    if card.has_address() {
        return format!("next: `mezza send {handle} \"hello\"`");
    }
    "this card has no address: no note of yours leaves with it. Ask for their new card once they have a relay, a \
     mixnet or the mesh, and add it"
        .to_owned()
}

/// Describes the result of adding a card of a known or a new contact.
fn describe_added(contact: &json::ContactJson, known: Option<&json::ContactJson>) -> String {
    let name = show::clean_text(&contact.name);
    let id = &contact.id;
    match known {
        None => format!("added {name} as #{id}"),
        Some(old) if old.name == contact.name => {
            format!("{name} (#{id}) was known already, and has the newest of both cards")
        }
        Some(old) => {
            format!(
                "#{id} was known already as {}, and is called {name} now",
                show::clean_text(&old.name)
            )
        }
    }
}

/// `mezza contacts`
pub(crate) fn list_contacts(context: &CliContext, asked: &ContactsArgs) -> Result<(), Fault> {
    let client = context.client()?;
    if let Some(ContactsCommand::Remove { name, yes }) = &asked.what {
        return remove_contact(context, &client, name, *yes);
    }
    if let Some(name) = &asked.name {
        let contact = find_contact(&client, name)?;
        context.out.print_value(&contact);
        print_contact(context, &contact);
        return Ok(());
    }
    let all: json::Contacts = client.get("/v1/contacts")?;
    context.out.print_value(&all);
    for contact in &all.contacts {
        context.out.print_line(show::format_contact(contact));
    }
    if all.contacts.is_empty() {
        context
            .out
            .print_line("no contacts yet; `mezza add CARD` adds one, `mezza card` shows yours");
    }
    Ok(())
}

/// `mezza contacts remove`
fn remove_contact(
    context: &CliContext,
    client: &ApiClient,
    name: &str,
    yes: bool,
) -> Result<(), Fault> {
    let contact = find_contact(client, name)?;
    let name = show::clean_text(&contact.name);
    if !yes {
        let question = format!("Remove {name} (#{}) and all notes with them for ever?", contact.id);
        match show::ask_person(context.out, &question) {
            Some(true) => {}
            Some(false) => {
                let next = "`mezza set` with `--block` only keeps them out";
                return Err(Fault::new(Exit::No, "nothing was removed", next));
            }
            None => {
                let text = format!("{name} and all notes with them would be gone for ever");
                return Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"));
            }
        }
    }
    client.act("DELETE", &format!("/v1/contacts/{}", contact.id))?;
    let text = format!("{name} is removed, with the thread; they are not told");
    context.out.print_either(&json!({ "removed_contact": contact.id.as_str() }), text);
    Ok(())
}

fn print_contact(context: &CliContext, contact: &json::ContactJson) {
    let out = context.out;
    let policy = &contact.policy;
    out.print_line(show::format_contact(contact));
    if let Some(trouble) = &contact.trouble {
        out.print_line(format!("TROUBLE       {}", show::clean_text(trouble)));
    }
    out.print_line(format!("calls itself  {}", show::clean_text(&contact.claimed_name)));
    let fallback = match policy.fallback {
        json::FallbackJson::None => "",
        json::FallbackJson::Listed => ", the next one where it does not come through",
    };
    let carriers = policy.carriers.join(",");
    out.print_line(format!("carriers      {carriers}{fallback}, level at least {}", policy.pin));
    let timer = show::format_duration(policy.timer_s);
    let receipts = if policy.delivered { "on" } else { "off" };
    out.print_line(format!("timer         {timer}; receipts {receipts}"));
    if let Some(life) = policy.mesh_life {
        let life = lives::life_of(life);
        let risk = lives::describe_risk(life);
        out.print_line(format!("mesh life     {}; {risk}", lives::life_name(life)));
    }
    if let Some(relay) = &contact.relay {
        out.print_line(format!("relay         {}:{} key {}", relay.host, relay.port, relay.key));
    }
    out.print_line(format!("suites        {}", contact.suites.join(" ")));
    for words in contact.restored.iter().flat_map(|restored| &restored.words) {
        out.print_line(format!("restored      {words}"));
    }
    if contact.missing > 0 {
        out.print_line(show::format_missing(contact.missing));
    }
}

/// `mezza requests`
pub(crate) fn run_requests(
    context: &CliContext,
    what: Option<&RequestsCommand>,
) -> Result<(), Fault> {
    let client = context.client()?;
    match what {
        None => list_requests(context, &client),
        Some(RequestsCommand::See { n }) => {
            check_request(&client, *n, Wish::See)?;
            client.act("POST", &format!("/v1/requests/{n}/see"))?;
            let text = "asked; who it is comes with the next rounds of the mixnet: \
                        `mezza requests` shows it";
            context.out.print_either(&json!({ "asked": n }), text);
            Ok(())
        }
        Some(RequestsCommand::Accept { n }) => {
            check_request(&client, *n, Wish::Decide)?;
            let contact: json::ContactJson =
                client.post(&format!("/v1/requests/{n}/accept"), &())?;
            let name = show::clean_text(&contact.name);
            let log = format!("`mezza log {}`", show::handle(&contact));
            context.out.print_either(&contact, format!("{name} is a contact now; {log}"));
            Ok(())
        }
        Some(RequestsCommand::Refuse { n }) => {
            check_request(&client, *n, Wish::Decide)?;
            client.act("POST", &format!("/v1/requests/{n}/refuse"))?;
            context.out.print_either(&json!({ "refused": n }), "refused; they are not told");
            Ok(())
        }
    }
}

/// The intention of a command on a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Ask for the identity of an inviter.
    See,
    /// Accept or refuse.
    Decide,
}

/// Refuses a number that is not a request, or a request for the identity of somebody whose card is
/// here already.
fn check_request(client: &ApiClient, n: u32, wish: Wish) -> Result<(), Fault> {
    let id = n.to_string();
    let all: json::RequestsJson = client.get("/v1/requests")?;
    if all.guests.iter().any(|guest| guest.id == id) {
        return Ok(());
    }
    let has_written = all.requests.iter().any(|request| request.contact.id == id);
    match (has_written, wish) {
        (true, Wish::Decide) => return Ok(()),
        (true, Wish::See) => {
            let text = "this request came with a card, so there is nobody to ask";
            let next = format!("read it with `mezza requests`, then `mezza requests accept {n}`");
            return Err(Fault::new(Exit::No, text, next));
        }
        (false, _) => {}
    }
    let contacts = client.get::<json::Contacts>("/v1/contacts")?.contacts;
    if let Some(contact) = contacts.iter().find(|contact| contact.id == id) {
        let text = format!("{} is a contact already", show::clean_text(&contact.name));
        return Err(Fault::new(
            Exit::No,
            text,
            format!("read the thread with `mezza log '#{id}'`"),
        ));
    }
    let text = format!("there is no request {n}");
    Err(Fault::new(Exit::NotFound, text, "`mezza requests` lists them"))
}

fn list_requests(context: &CliContext, client: &ApiClient) -> Result<(), Fault> {
    let all: json::RequestsJson = client.get("/v1/requests")?;
    context.out.print_value(&all);
    for request in &all.requests {
        let name = show::clean_text(&request.contact.claimed_name);
        context.out.print_line(format!("{:<4} {name} (its own claim)", request.contact.id));
        for note in &request.notes {
            context.out.print_foreign(format!(
                "     {}",
                show::format_note(note, &request.contact.claimed_name)
            ));
        }
    }
    for guest in &all.guests {
        let asked = if guest.asked { "; asked who it is" } else { "" };
        let invites = "invites over the mixnet";
        context
            .out
            .print_line(format!("{:<4} someone new (no name yet) {invites}{asked}", guest.id));
    }
    if all.requests.is_empty() && all.guests.is_empty() {
        context.out.print_line("nobody asks");
    }
    if !all.requests.is_empty() {
        context.out.print_line(
            "`mezza requests accept N` lets one in, `mezza requests refuse N` turns one away",
        );
    }
    if !all.guests.is_empty() {
        context.out.print_line("`mezza requests see N` asks one without a name who it is; until then they learn nothing");
    }
    Ok(())
}

/// `mezza verify`
pub(crate) fn verify_contact(
    context: &CliContext,
    typed: &str,
    matches: bool,
) -> Result<(), Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, typed)?;
    let name = show::clean_text(&contact.name);
    if matches {
        let patch = json::ContactPatch { verified: Some(true), ..Default::default() };
        let contact: json::ContactJson =
            client.patch(&format!("/v1/contacts/{}", contact.id), &patch)?;
        context
            .out
            .print_either(&contact, format!("recorded: the numbers of you and {name} are equal"));
        return Ok(());
    }
    let number: json::Number = client.get(&format!("/v1/contacts/{}/number", contact.id))?;
    context.out.print_value(&json!({ "contact": contact.id, "groups": number.groups }));
    context.out.print_line(format!(
        "You and {name} must see the same number; compare it when you meet or by voice:"
    ));
    for line in number.groups.chunks(GROUPS_A_LINE) {
        context.out.print_line(format!("    {}", line.join("  ")));
    }
    context.out.print_line(format!(
        "equal: `mezza verify {} --matches`. Not equal: stop writing, somebody stands between you",
        show::handle_as(&contact, Some(typed))
    ));
    Ok(())
}

/// Leads the link to a contact through the guard, or ends that.
fn set_guard_dest(
    context: &CliContext,
    client: &ApiClient,
    contact: &json::ContactJson,
    dest: GuardDest,
) -> Result<(), Fault> {
    let dest = match dest {
        GuardDest::Through(dest) => Some(dest),
        GuardDest::None => None,
    };
    let request = json::LinkGuardRequest { contact: contact.id.clone(), dest };
    client.act_with("POST", "/v1/links/guard", &request)?;
    context.out.print_line(match dest {
        Some(dest) => {
            format!(
                "their device is reached through destination {dest} of the guard, and not around it"
            )
        }
        None => "their device is reached without a guard".to_owned(),
    });
    Ok(())
}

/// `mezza set`
pub(crate) fn change_contact(context: &CliContext, set: &SetArgs) -> Result<(), Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, &set.name)?;
    if let Some(address) = &set.link {
        let address = super::link::with_port(address, super::link::PORT);
        let request = json::LinkAddressRequest { contact: contact.id.clone(), address };
        client.act_with("POST", "/v1/links/address", &request)?;
        context.out.print_line(format!("their device is looked for at {}", request.address));
    }
    if let Some(dest) = set.guard_dest {
        set_guard_dest(context, &client, &contact, dest)?;
    }
    let patch = json::ContactPatch {
        name: set.petname.clone(),
        verified: None,
        policy: Some(changed_policy(&contact.policy, set)).filter(|new| *new != contact.policy),
        blocked: if set.block { Some(true) } else { set.unblock.then_some(false) },
    };
    if patch.policy.is_none() && patch.name.is_none() && patch.blocked.is_none() {
        context.out.print_value(&contact);
        if set.link.is_none() && set.guard_dest.is_none() {
            context.out.print_line("nothing to change:");
        }
        print_contact(context, &contact);
        return Ok(());
    }
    let contact: json::ContactJson =
        client.patch(&format!("/v1/contacts/{}", contact.id), &patch)?;
    context.out.print_value(&contact);
    print_contact(context, &contact);
    if set.carriers.is_some() || set.fallback.is_some() {
        let all: json::Carriers = client.get("/v1/carriers")?;
        let here: Vec<&str> = all.carriers.iter().map(|one| one.carrier.as_str()).collect();
        let listed = &contact.policy.carriers;
        let fallback = contact.policy.fallback;
        for line in absent_carriers(&here, listed, fallback) {
            context.out.print_line(line);
        }
        if let ([first, _, ..], json::FallbackJson::None) = (&listed[..], fallback) {
            context.out.print_line(format!(
                "              notes go by {first} alone; `mezza set {} --fallback listed` lets the \
                 next one step in",
                show::handle_as(&contact, Some(&set.name))
            ));
        }
    }
    let policy = &contact.policy;
    if set.mesh_life.is_some() && !policy.carriers.iter().any(|carrier| carrier == "mesh") {
        context.out.print_line(format!(
            "              your notes to them do not go over the mesh yet; `mezza set {} --carriers mesh`",
            show::handle_as(&contact, Some(&set.name))
        ));
    }
    let held = contact.standing == json::StandingJson::Held;
    if held && policy.pin > 1 && policy.carriers.first().is_some_and(|first| first == "mixnet") {
        context.out.print_line(format!(
            "a first note in cells needs their keys; where none are held it waits, and `mezza set \
             {} --level-min 1` lets their relay be asked",
            show::handle_as(&contact, Some(&set.name))
        ));
    }
    Ok(())
}

/// Returns a line for each carrier that notes of a conversation may take and that is not `here`.
/// The line is a warning if notes wait for this carrier: without a fallback only the first carrier
/// of the list is used, else each may be.
fn absent_carriers(here: &[&str], listed: &[String], fallback: json::FallbackJson) -> Vec<String> {
    let used = if fallback == json::FallbackJson::Listed { listed.len() } else { 1 };
    let used = &listed[..used.min(listed.len())];
    let is_here = |name: &&String| here.contains(&name.as_str());
    let others: Vec<&str> = used.iter().filter(is_here).map(String::as_str).collect();
    let absent = used.iter().filter(|name| !is_here(name));
    absent
        .map(|name| {
            let next = match name.as_str() {
                "mixnet" => "join one with `mezza mixnet join LINK`",
                "relay" => "name one with `mezza card renew --relay URI`",
                "mesh" => "write `mesh = true` into config.toml, and start the node again",
                "link" => "pair with their device with `mezza link pair-contact NAME`",
                _ => "no conversation can use it in this version",
            };
            if others.is_empty() {
                format!("WARNING       there is no {name} here: notes wait for it; {next}")
            } else {
                let others = others.join(", ");
                format!("              there is no {name} here yet: notes go by {others}; {next}")
            }
        })
        .collect()
}

fn changed_policy(old: &json::PolicyJson, set: &SetArgs) -> json::PolicyJson {
    json::PolicyJson {
        carriers: set.carriers.clone().unwrap_or_else(|| old.carriers.clone()),
        pin: set.level_min.unwrap_or(old.pin),
        fallback: set.fallback.unwrap_or(old.fallback),
        timer_s: set.timer.unwrap_or(old.timer_s),
        delivered: set
            .receipts
            .map_or(old.delivered, |receipts| matches!(receipts, SwitchName::On)),
        read: old.read,
        mesh_life: set.mesh_life.map_or(old.mesh_life, LifeChoice::life),
    }
}

/// Returns the contact that the user named; see [`super::whom`].
///
/// # Errors
/// No match or several; see [`super::whom`].
pub(crate) fn find_contact(client: &ApiClient, name: &str) -> Result<json::ContactJson, Fault> {
    let all = client.get::<json::Contacts>("/v1/contacts")?.contacts;
    whom::choose_contact(&all, name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use json::FallbackJson;

    #[test]
    fn cli_13_an_absent_carrier_is_a_warning_only_where_notes_wait_for_it() {
        let [relay, both] = [&["relay"][..], &["relay", "mixnet"]];
        let lines = |here: &[&str], listed: &[&str], fallback| {
            let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
            let lines = absent_carriers(here, &listed, fallback);
            lines.iter().map(|line| line.starts_with("WARNING")).collect::<Vec<_>>()
        };
        let nothing: [bool; 0] = [];
        // The first carrier works, so no note waits for the second.
        assert_eq!(lines(relay, &["relay", "mixnet"], FallbackJson::None), nothing);
        assert_eq!(lines(relay, &["mixnet", "relay"], FallbackJson::None), [true]);
        assert_eq!(lines(relay, &["relay", "mixnet"], FallbackJson::Listed), [false]);
        assert_eq!(lines(relay, &["mixnet", "relay"], FallbackJson::Listed), [false]);
        assert_eq!(lines(&[], &["relay", "mixnet"], FallbackJson::Listed), [true, true]);
        assert_eq!(lines(both, &["mixnet", "relay"], FallbackJson::Listed), nothing);
        let told = absent_carriers(relay, &["mixnet".into(), "relay".into()], FallbackJson::Listed);
        assert!(told[0].contains("notes go by relay; join one"), "{told:?}");
    }
}
