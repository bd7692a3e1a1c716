//! `mezza purge`: deletes a home after confirmation.

use serde_json::json;

use super::args::PurgeArgs;
use super::{CliContext, person, show};
use crate::faces::served;
use mezza_host::api::{Exit, Fault};
use mezza_host::backup::is_moved;
use mezza_host::process::home::Home;
use mezza_host::process::lock::Lock;
use mezza_host::store::Vault;
use mezza_servers::mesh;
use mezza_servers::relay::{self, StoreSpec};

/// `mezza purge`
///
/// # Errors
/// Exit code 66 if the home is empty, 75 if something runs here, 73 if a folder cannot be removed,
/// 1 if the user declines.
pub(crate) fn purge_home(context: &CliContext, asked: &PurgeArgs) -> Result<(), Fault> {
    let home = &context.home;
    person::not_in_a_demonstration(context)?;
    let parts = home.list_parts();
    if parts.is_empty() {
        let text = format!("there is nothing of Mezzavoce in {}", show::format_path(home.root()));
        return Err(Fault::new(Exit::NotFound, text, "choose another folder with `--home DIR`"));
    }
    let lock = take_locks(home)?;
    if !asked.yes {
        confirm_purge(context, &parts)?;
    }
    let store = store_elsewhere(context);
    home.purge()?;
    drop(lock);
    let witness = home.remove_witness(owns_the_witness(context)?)?;
    let removed = show::format_path(home.root());
    let value = json!({
        "removed": show::format_path(home.root()), "witness_stays": witness, "store_stays": store,
    });
    context.out.print_either(&value, format!("removed: {removed}"));
    if let Some(store) = store {
        context
            .out
            .print_line(format!("the mail of its relay stays, in {store}: remove it yourself"));
    }
    if witness > 0 {
        context.out.print_line(format!(
            "{witness} files in {} stay: which of them belong to other homes, only their vaults tell",
            show::format_path(&home.state())
        ));
    }
    Ok(())
}

/// Describes the relay's store if it is outside of the home: the setting that names it is deleted
/// with the home.
fn store_elsewhere(context: &CliContext) -> Option<String> {
    let folder = context.home.relay();
    if !folder.join("key").exists() {
        return None;
    }
    let settings = context.load_settings(&[]).ok()?.settings;
    match settings.relay_store.parse().ok()? {
        StoreSpec::Sqlite(path) => {
            path.filter(|path| !path.starts_with(&folder)).map(|path| show::format_path(&path))
        }
        // Without the database address, which may name a user.
        StoreSpec::Postgres(_) => Some("its PostgreSQL database".to_owned()),
    }
}

/// Takes the locks of all programs that may run in a home.
fn take_locks(home: &Home) -> Result<Option<Lock>, Fault> {
    if relay::running_address(&home.relay()).is_some() {
        let text = "the relay of this home runs";
        return Err(Fault::new(
            Exit::Busy,
            text,
            "stop it, or name another home with `--home DIR`",
        ));
    }
    if Lock::is_held(&mesh::control::lock_path(home)) {
        let text = "a node of the mesh runs in this home";
        return Err(Fault::new(
            Exit::Busy,
            text,
            "stop it, or name another home with `--home DIR`",
        ));
    }
    home.run().exists().then(|| served::lock_home(home)).transpose()
}

/// Shows what the home holds, and asks the user to confirm.
fn confirm_purge(context: &CliContext, parts: &[&'static str]) -> Result<(), Fault> {
    let folder = show::format_path(context.home.root());
    context.out.print_line(format!("{folder} holds {}", parts.join(", ")));
    context.out.print_line(if is_moved(&context.home.vault()) {
        "the identity has moved to another device: what is left here is the key for that device. Remove it \
         once the new device has taken the key"
    } else {
        "no copy of it is anywhere else: your contacts cannot reach this identity again, and its notes \
         are gone"
    });
    match show::ask_person(context.out, "Remove all of it for ever?") {
        Some(true) => Ok(()),
        Some(false) => {
            Err(Fault::new(Exit::No, "nothing was removed", "run it again when you are sure"))
        }
        None => {
            let text = format!("everything in {folder} would be gone for ever");
            Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"))
        }
    }
}

/// Returns true if no other vault can own the witness: the usual home is this one, or has no vault.
fn owns_the_witness(context: &CliContext) -> Result<bool, Fault> {
    let usual = Home::find(None)?;
    Ok(usual == context.home || !Vault::exists(&usual.vault()))
}
