//! Commands about the user's own identity.

use std::fs;
use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use mezza_messenger::card::Card as CheckedCard;
use serde_json::json;
use zeroize::Zeroizing;

use super::args::{CardArgs, CardCommand, ConfigCommand, InitArgs, PassphraseArgs};
use super::client::ApiClient;
use super::{CliContext, show, status};
use crate::faces::passphrase;
use crate::faces::qr::{self, Medium, QrImage};
use crate::node::shell;
use mezza_host::api::json::{
    CardText, Health, HealthLine, MeJson, MeshKeysRequest, NodeStateJson, RenewRequest, StatusJson,
    TicketUrl,
};
use mezza_host::api::uri::{read_card, relay_of};
use mezza_host::api::{Exit, Fault, Refused, words};
use mezza_host::process::home::private;
use mezza_host::process::slots::Overwriting;
use mezza_host::store;

/// The first bytes of the binary cards of the mesh. No text and no picture begins so.
pub(crate) const BLOCK_FIRST_BYTES: [u8; 2] = [0x11, 0x12];
/// The ways to a relay, for a card that names none.
const WITHOUT_RELAY: [&str; 4] = [
    "this card names no relay: notes reach you over the mesh alone. To choose one, while the node runs:",
    "  the relay of a contact who invites you: `mezza card renew --relay CARD`",
    "  one that an operator offers: `mezza card renew --relay URI`",
    "  your own, on a machine that others reach: `mezza relay init --listen 0.0.0.0:7101 --public HOST:7101`",
];
/// How long `unlock` waits for a node that was started a moment ago.
const NODE_STARTS: Duration = Duration::from_secs(3);
/// Maximum size of a file with a card or its picture, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// `mezza init`
pub(crate) fn init_identity(context: &CliContext, init: &InitArgs) -> Result<(), Fault> {
    not_in_a_demonstration(context)?;
    if store::Vault::exists(&context.home.vault()) {
        return Err(Refused::exists().into());
    }
    let relay = init.relay.as_deref().map(|source| relay_of(&read_source(source)?)).transpose()?;
    let name = init.name.clone().map_or_else(ask_name, Ok)?;
    let file = init.key.passphrase_file.as_deref();
    context.home.make_folders()?;
    let overwriting = Overwriting::from_path(&context.home.vault());
    if overwriting == Overwriting::Elsewhere {
        // Print this before anything is made, while choosing another folder is free.
        context.out.print_aside(overwriting.meaning());
    }
    let pass = passphrase::ask_new(file)?;
    let no_relay = relay.is_none();
    shell::make::init_vault(&context.home.vault(), &name, &pass, relay.as_slice())?;
    let value = json!({ "name": name, "home": show::format_path(context.home.root()) });
    context.out.print_either(&value, format!("{name} lives in {}", context.home.root().display()));
    if no_relay {
        for line in WITHOUT_RELAY {
            context.out.print_line(line);
        }
    }
    context.out.print_line(
        "next: `mezza node run`; then, beside it, `mezza unlock` and `mezza card --qr`",
    );
    Ok(())
}

/// Refuses a command of the user in the home of a demonstration (NODE-6).
pub(super) fn not_in_a_demonstration(context: &CliContext) -> Result<(), Fault> {
    if !context.home.is_demonstration() {
        return Ok(());
    }
    let text = format!("{} holds the demonstration of `mezza up`", context.home.root().display());
    let next = format!(
        "remove it with `{}`, or choose another folder with `--home DIR`",
        context.home.removal_command()
    );
    Err(Fault::new(Exit::CannotWrite, text, next))
}

fn ask_name() -> Result<String, Fault> {
    let missing = || Fault::new(Exit::Usage, "a name is needed", "give one with `--name`");
    if !std::io::stdin().is_terminal() {
        return Err(missing());
    }
    show::print_raw("Name on your card (others read it):");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|_| missing())?;
    let name = line.trim();
    if name.is_empty() { Err(missing()) } else { Ok(name.into()) }
}

/// `mezza lock`
pub(crate) fn lock_vault(context: &CliContext) -> Result<(), Fault> {
    let status: StatusJson = context.client()?.post("/v1/lock", &())?;
    context.out.print_either(&status, "locked");
    Ok(())
}

/// Returns a client of the node, which may have been started just now.
fn wait_for_node(context: &CliContext) -> Result<ApiClient, Fault> {
    let end = Instant::now() + NODE_STARTS;
    loop {
        let reached = context.client().and_then(|client| {
            client.get::<StatusJson>("/v1/status")?;
            Ok(client)
        });
        match reached {
            Err(fault) if fault.code == Exit::Unreachable && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(50));
            }
            reached => return reached,
        }
    }
}

/// `mezza unlock`
pub(crate) fn unlock_vault(context: &CliContext, key: &PassphraseArgs) -> Result<(), Fault> {
    let client = wait_for_node(context)?;
    let status: StatusJson = client.get("/v1/status")?;
    // A passphrase that nobody checks must not look right.
    if matches!(status.state, NodeStateJson::Open) {
        context.out.print_either(&status, "it is unlocked already");
        return Ok(());
    }
    let pass = passphrase::ask(key.passphrase_file.as_deref(), "Passphrase")?;
    let text = Zeroizing::new(String::from_utf8(pass.to_vec()).map_err(|_| {
        Fault::new(Exit::Malformed, "the passphrase is not UTF-8", "type it on a terminal")
    })?);
    let status: StatusJson = client.post("/v1/unlock", &json!({ "passphrase": text.as_str() }))?;
    context.out.print_either(&status, "unlocked");
    Ok(())
}

/// `mezza url`
pub(crate) fn print_url(context: &CliContext) -> Result<(), Fault> {
    let url: TicketUrl = context.client()?.post("/v1/ticket", &())?;
    context.out.print_either(&url, &url.url);
    Ok(())
}

/// `mezza card` and `mezza card show`
pub(crate) fn run_card(context: &CliContext, card: &CardArgs) -> Result<(), Fault> {
    match &card.what {
        Some(CardCommand::Show { source }) => return card_show(context, source),
        Some(CardCommand::Renew { name, relays }) => {
            return card_renew(context, name.as_deref(), relays);
        }
        None => {}
    }
    if card.mesh {
        let request = MeshKeysRequest { confirmed: card.confirm_clock };
        let _: MeJson = context.client()?.post("/v1/me/mesh", &request)?;
    }
    let value = card.form.to_possible_value();
    let form = value.as_ref().map_or("full", PossibleValue::get_name);
    let text: CardText = context.client()?.get(&format!("/v1/me/card?form={form}"))?;
    if let Some(path) = &card.out {
        write_picture(path, &text.uri)?;
        let value = json!({ "file": show::format_path(path), "uri": text.uri });
        context.out.print_either(&value, format!("{} holds your card", path.display()));
        return Ok(());
    }
    context.out.print_value(&text);
    if card.qr {
        context.out.print_line(QrImage::draw(&text.uri, Medium::Screen)?.to_terminal());
    }
    context.out.print_line(&text.uri);
    Ok(())
}

fn card_renew(context: &CliContext, name: Option<&str>, relays: &[String]) -> Result<(), Fault> {
    let read = |source: &String| {
        let relay = relay_of(&read_source(source)?)?;
        mezza_messenger::uri::encode_relay(&relay.key, relay.port, &relay.host, false)
            .map_err(|_| Fault::bug("the relay of a card has no address"))
    };
    let relays = relays.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let relays = (!relays.is_empty()).then_some(relays);
    let request = RenewRequest { name: name.map(ToOwned::to_owned), relays };
    let me: MeJson = context.client()?.patch("/v1/me", &request)?;
    let text = format!("{} has a new card, serial {}", show::clean_text(&me.name), me.card_serial);
    context.out.print_either(&me, text);
    context.out.print_line("next: `mezza card --qr`; your contacts get it with the next note");
    Ok(())
}

/// Writes the QR code of an address as .png or .svg.
pub(super) fn write_picture(path: &Path, uri: &str) -> Result<(), Fault> {
    let code = QrImage::draw(uri, Medium::Paper)?;
    let bytes = match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => code.to_png()?,
        Some("svg") => code.to_svg().into_bytes(),
        _ => {
            let text = "pictures are written as .png or .svg";
            return Err(Fault::new(Exit::Usage, text, "end the name of the file with one of them"));
        }
    };
    fs::write(path, bytes).map_err(|error| {
        let text = format!("{} cannot be written: {error}", path.display());
        Fault::new(Exit::CannotWrite, text, "choose another folder")
    })
}

fn card_show(context: &CliContext, source: &str) -> Result<(), Fault> {
    let card = read_card(&read_source(source)?)?;
    let relays: Vec<String> = card
        .relays()
        .iter()
        .map(|relay| format!("{}:{} key {}", relay.host, relay.port, words::key_digits(&relay.key)))
        .collect();
    let suites: Vec<String> =
        card.suites().ids().iter().map(|s| format!("0x{:04x}", s.0)).collect();
    let value = json!({
        "name": card.name(), "id": id_of(&card), "serial": card.serial(),
        "issued": card.issued_days(), "suites": suites, "relays": relays,
        "absent_parts": card.absent_parts(), "bytes": card.encode().len(),
    });
    context.out.print_value(&value);
    let issued = show::format_utc(u64::from(card.issued_days()) * 86_400_000);
    context.out.print_line(format!("name     {} (its own claim)", show::clean_text(card.name())));
    context.out.print_line(format!("key      {}", id_of(&card)));
    context.out.print_line(format!("issued   {}, serial {}", &issued[..10], card.serial()));
    context.out.print_line(format!("suites   {}", suites.join(" ")));
    for relay in relays {
        context.out.print_line(format!("relay    {relay}"));
    }
    context
        .out
        .print_line("signed   by this key; whose key it is, only comparing numbers can tell");
    Ok(())
}

fn id_of(card: &CheckedCard) -> String {
    data_encoding::HEXLOWER.encode(&card.ik().as_bytes()[..16])
}

/// Returns the address in an argument: the argument itself, a text file, or a picture of a QR code.
///
/// # Errors
/// A file that is missing, or without an address.
pub(crate) fn read_source(source: &str) -> Result<String, Fault> {
    if source.trim().is_empty() {
        let next = "give an address (`mezzavoce:c1/..`), a text file or a picture";
        return Err(Fault::new(Exit::Usage, "the address is empty", next));
    }
    if source.trim_start().get(..10).is_some_and(|head| head.eq_ignore_ascii_case("mezzavoce:")) {
        return Ok(source.into());
    }
    let path = Path::new(source);
    let missing = |error: std::io::Error| {
        let text = format!("{source} is no address, and no file can be read there: {error}");
        Fault::new(
            Exit::NotFound,
            text,
            "give an address (`mezzavoce:c1/..`), a text file or a picture",
        )
    };
    let file = fs::File::open(path).map_err(missing)?;
    let size = file.metadata().map_err(missing)?.len();
    if size > FILE_BYTES_MAX {
        let text = format!("{source} is too large for a card");
        return Err(Fault::new(Exit::Malformed, text, "crop the picture"));
    }
    let bytes = fs::read(path).map_err(missing)?;
    if qr::is_picture(&bytes) {
        return qr::read_picture(&bytes);
    }
    if bytes.first().is_some_and(|first| BLOCK_FIRST_BYTES.contains(first)) {
        let text = format!("{source} is a card of the mesh, not of a contact");
        let next = "write to its owner with `mezza mesh send --card FILE`";
        return Err(Fault::new(Exit::Malformed, text, next));
    }
    text_of(bytes).ok_or_else(|| {
        let text = format!("{source} is neither text nor a picture");
        Fault::new(Exit::Malformed, text, "give a text file, a PNG or a JPEG")
    })
}

/// Decodes the text of a file in UTF-8, or in UTF-16 with byte order mark, as some editors write
/// it.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    let units = |of: fn([u8; 2]) -> u16| {
        let pairs = bytes[2..].chunks_exact(2);
        let is_whole = pairs.remainder().is_empty();
        let units: Vec<u16> = pairs.map(|pair| of([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok().filter(|_| is_whole)
    };
    match bytes {
        _ if bytes.starts_with(b"\xff\xfe") => units(u16::from_le_bytes),
        _ if bytes.starts_with(b"\xfe\xff") => units(u16::from_be_bytes),
        _ => String::from_utf8(bytes).ok(),
    }
}

/// Runs `mezza doctor`: the health lines of the node, or local checks without a node.
pub(crate) fn run_doctor(context: &CliContext) -> Exit {
    let mut health =
        Health { lines: vec![home_line(context), state_line(context), erasure_line(context)] };
    health.lines.push(settings_line(context));
    let server = status::describe_server(context);
    // A home that holds a relay and no identity needs no node.
    let serves_only = server.is_some() && !store::Vault::exists(&context.home.vault());
    health.lines.extend(server);
    match context.client().and_then(|client| client.as_watcher().get::<Health>("/v1/health")) {
        Ok(more) => {
            health.lines.push(health_line("node", Ok("running".into())));
            health.lines.extend(more.lines);
        }
        Err(fault) if serves_only && fault.code == Exit::Unreachable => {}
        Err(fault) => health.lines.push(health_line("node", Err(fault))),
    }
    context.out.print_value(&health);
    for line in &health.lines {
        let mark = if line.ok { "ok" } else { "BAD" };
        let next = line.next.as_ref().map_or(String::new(), |next| format!("; {next}"));
        context.out.print_line(format!("{mark:<4} {:<10} {}{next}", line.name, line.text));
    }
    if health.lines.iter().all(|line| line.ok) { Exit::Done } else { Exit::No }
}

fn home_line(context: &CliContext) -> HealthLine {
    let home = show::format_path(context.home.root());
    health_line("home", context.home.check_folders().map(|()| home))
}

/// Returns the line about the state folder, which a copy of the home lacks. Without it a restored
/// vault is not detected.
fn state_line(context: &CliContext) -> HealthLine {
    let folder = context.home.state();
    let path = show::format_path(&folder);
    if context.home.is_demonstration() {
        return HealthLine::good(
            "state",
            "none: a demonstration keeps nothing outside of its home",
        );
    }
    match private::check_writable(&folder) {
        Ok(true) => HealthLine::good("state", &path),
        Ok(false) => HealthLine::good("state", &format!("{path}, made when it is needed")),
        Err(fault) => {
            let next = "without it a vault that is put back is not noticed; put that right, or name \
                        another folder with XDG_STATE_HOME";
            HealthLine::bad("state", &fault.text, next)
        }
    }
}

/// Returns the line about how reliably the vault's disk erases keys.
fn erasure_line(context: &CliContext) -> HealthLine {
    let vault = context.home.vault();
    let found = vault.ancestors().find(|path| path.exists()).unwrap_or(&vault);
    let overwriting = Overwriting::from_path(found);
    let text = format!("{}: {}", overwriting.level(), overwriting.meaning());
    HealthLine::good("erasure", &text)
}

fn settings_line(context: &CliContext) -> HealthLine {
    health_line("settings", context.load_settings(&[]).map(|_| "sound".into()))
}

fn health_line(name: &str, found: Result<String, Fault>) -> HealthLine {
    match found {
        Ok(text) => HealthLine::good(name, &text),
        Err(fault) => HealthLine::bad(name, &fault.text, &fault.next),
    }
}

/// `mezza config`
pub(crate) fn run_config(context: &CliContext, what: &ConfigCommand) -> Result<(), Fault> {
    let config = context.load_settings(&[])?;
    match what {
        ConfigCommand::Check => {
            context.out.print_either(&json!({ "ok": true }), "the settings are sound");
        }
        ConfigCommand::Print { origin } => {
            let text = config.format_settings(*origin);
            context.out.print_either(&json!({ "settings": text }), text.trim_end());
        }
    }
    Ok(())
}
