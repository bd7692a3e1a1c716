//! Commands about backups.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::json;
use zeroize::Zeroizing;

use super::args::{AutoBackupArgs, BackupCommand, BackupFileArgs, ExportArgs};
use super::client::ApiClient;
use super::people::find_contact;
use super::{CliContext, person, show};
use crate::faces::passphrase;
use crate::faces::served;
use crate::faces::web::backup::describe_manifest;
use mezza_host::api::json::{self as api, BackupJson, BackupsJson};
use mezza_host::api::{Exit, Fault, Refused, words};
use mezza_host::backup::{self, BackupManifest, BackupReader};
use mezza_host::clock::Clock;
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::Vault;

/// Number of notes in one response of the node while a conversation is exported.
const EXPORT_PAGE: usize = 500;

/// `mezza backup`
pub(crate) fn run_backup(context: &CliContext, what: &BackupCommand) -> Result<(), Fault> {
    match what {
        BackupCommand::Make(file) => make(context, file),
        BackupCommand::Check(file) => check(context, file),
        BackupCommand::Auto(auto) => make_automatic(context, auto),
    }
}

fn make_automatic(context: &CliContext, asked: &AutoBackupArgs) -> Result<(), Fault> {
    let client = context.client()?;
    if asked.folder == Path::new("off") {
        let state: BackupsJson = client.delete("/v1/backup/auto")?;
        context
            .out
            .print_either(&state, "the node makes no backups any more; those that are there stay");
        return Ok(());
    }
    let folder = absolute(&asked.folder)?;
    let pass = passphrase::ask_for_new_backup(asked.passphrase_file.as_deref())?;
    let text = read_utf8(&pass)?;
    let body = json!({
        "folder": show::format_path(&folder), "every_s": asked.every, "keep": asked.keep,
        "passphrase": text.as_str(),
    });
    let state: BackupsJson = client.put("/v1/backup/auto", &body)?;
    context.out.print_either(&state, format!("the node makes backups into {}", folder.display()));
    if let Some(warning) = &state.warning {
        context.out.print_line(warning);
    }
    context.out.print_line("key.age in that folder belongs to them: copy both together");
    Ok(())
}

/// Returns a passphrase as text, as JSON requires.
fn read_utf8(pass: &[u8]) -> Result<Zeroizing<String>, Fault> {
    let text = String::from_utf8(pass.to_vec());
    text.map(Zeroizing::new).map_err(|_| {
        Fault::new(Exit::Malformed, "the passphrase is not UTF-8", "type it on a terminal")
    })
}

fn make(context: &CliContext, asked: &BackupFileArgs) -> Result<(), Fault> {
    let client = context.client()?;
    let file = absolute(&asked.file)?;
    if file.symlink_metadata().is_ok() {
        let text = format!("{} is there already", file.display());
        return Err(Fault::new(Exit::CannotWrite, text, "choose another name"));
    }
    let pass = passphrase::ask_for_new_backup(asked.passphrase_file.as_deref())?;
    let text = read_utf8(&pass)?;
    let body = json!({ "file": show::format_path(&file), "passphrase": text.as_str() });
    let made: BackupJson = client.post("/v1/backup", &body)?;
    context.out.print_either(&made, described(&made));
    context.out.print_line("notes with a timer are not in it; keep the file on another disk");
    let path = show::format_path(&file);
    context.out.print_line(format!("next: `mezza backup check {path}`"));
    context.out.print_foreign(format!(
        "on another device it opens with `mezza restore {path}` or `age -d {path} | tar x`"
    ));
    Ok(())
}

fn check(context: &CliContext, asked: &BackupFileArgs) -> Result<(), Fault> {
    let manifest = open(asked)?.1;
    let checked = describe_manifest(&show::format_path(&asked.file), &manifest);
    context.out.print_either(&checked, described(&checked));
    context.out.print_line("the whole file was read; nothing was written");
    Ok(())
}

/// Opens a backup and reads it to its end once.
fn open(asked: &BackupFileArgs) -> Result<(BackupReader, BackupManifest), Fault> {
    // A wrong path is told before the user types a passphrase for it.
    File::open(&asked.file).map_err(|error| private::cannot_read(&asked.file, &error))?;
    let pass = passphrase::ask_for_backup(asked.passphrase_file.as_deref())?;
    let mut reader = BackupReader::open_with_passphrase(&asked.file, &pass)?;
    let now = Clock::system().date();
    let read = reader.read_rows(now, &mut OsRng, &mut |_| Ok(()))?;
    Ok((reader, read.manifest))
}

/// `mezza restore`
pub(crate) fn restore_home(context: &CliContext, asked: &BackupFileArgs) -> Result<(), Fault> {
    person::not_in_a_demonstration(context)?;
    if Vault::exists(&context.home.vault()) {
        return Err(Refused::exists().into());
    }
    // The whole file is checked before anything is made.
    let (mut reader, manifest) = open(asked)?;
    context.home.make_folders()?;
    let _lock = served::lock_home(&context.home)?;
    let pass = passphrase::ask_new(None)?;
    let now = Clock::system().date();
    if let Some(fault) = backup::restore_home(&context.home, &mut reader, &pass, now, &mut OsRng)? {
        context.out.print_aside(&format!("the settings were not restored: {}", fault.text));
    }
    let restored = describe_manifest(&show::format_path(&asked.file), &manifest);
    let home = context.home.root().display();
    context.out.print_either(&restored, format!("restored into {home}: {}", described(&restored)));
    context.out.print_line("next: `mezza node run`; every contact sees that a backup was restored");
    Ok(())
}

fn described(backup: &BackupJson) -> String {
    let contacts = words::format_count(backup.contacts, "contact", "contacts");
    let notes = words::format_count(backup.notes, "note", "notes");
    let made = show::format_time(backup.made_ms);
    format!("{contacts} and {notes}, made {made}, in {}", backup.file)
}

/// A path for the node, which has another working folder.
fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    std::path::absolute(path).map_err(|error| {
        let text = format!("{} is no path: {error}", path.display());
        Fault::new(Exit::Usage, text, "name the file with its folder")
    })
}

/// `mezza export`
pub(crate) fn export_thread(context: &CliContext, asked: &ExportArgs) -> Result<(), Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, &asked.name)?;
    let question = format!(
        "{} will hold this conversation in readable form. Anybody who reads the file reads it all. Write it?",
        asked.file.display()
    );
    if !asked.yes && show::ask_person(context.out, &question) != Some(true) {
        let text = "nothing was written";
        return Err(Fault::new(Exit::No, text, "answer `y`, or give `--yes`"));
    }
    let mut lines = Zeroizing::new(Vec::new());
    let notes = all_notes(&client, &contact.id)?;
    for note in &notes {
        lines.extend_from_slice(super::client::json_line(note).as_bytes());
        lines.push(b'\n');
    }
    if !private::create(&asked.file, &lines)? {
        let text = format!("{} is there already", asked.file.display());
        return Err(Fault::new(Exit::CannotWrite, text, "choose another name"));
    }
    let value = json!({ "file": show::format_path(&asked.file), "notes": notes.len() });
    let count = words::format_count(notes.len() as u64, "note", "notes");
    context.out.print_either(&value, format!("{count} in {}, not encrypted", asked.file.display()));
    Ok(())
}

/// Returns all notes of a conversation, oldest first.
fn all_notes(client: &ApiClient, contact: &str) -> Result<Vec<api::NoteJson>, Fault> {
    let mut pages = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let older = before.as_ref().map_or(String::new(), |id| format!("&before={id}"));
        let path = format!("/v1/contacts/{contact}/notes?limit={EXPORT_PAGE}{older}");
        let page: api::Notes = client.get(&path)?;
        before = page.notes.first().map(|note| note.id.clone());
        let more = page.more;
        pages.push(page.notes);
        if !more {
            return Ok(pages.into_iter().rev().flatten().collect());
        }
    }
}

/// `mezza outbox send`
pub(super) fn send_again(context: &CliContext, client: &ApiClient, id: u64) -> Result<(), Fault> {
    let mut client_id = [0; 16];
    rand_core::Rng::fill_bytes(&mut OsRng, &mut client_id);
    let client_id = data_encoding::HEXLOWER.encode(&client_id);
    let body = api::SendAgainRequest { client_id };
    client.post::<()>(&format!("/v1/notes/{id}/again"), &body)?;
    context.out.print_either(&json!({ "sent": id }), "it leaves as soon as a carrier takes it");
    Ok(())
}
