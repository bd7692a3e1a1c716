//! `mezza up --remove`: deletes a demonstration without confirmation, since it holds no user data.

use serde_json::json;

use super::lock_home;
use crate::faces::cli::{CliContext, show};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;

/// Removes the demonstration of the home given by `--home`; else the default demonstration home,
/// and one that older versions made in the usual home.
///
/// # Errors
/// Exit code 66 if there is none, 75 if one runs, 73 if a folder cannot be removed.
pub(super) fn remove_demonstration(context: &CliContext) -> Result<Exit, Fault> {
    let mut homes = vec![context.home.clone()];
    if !context.home_is_named {
        homes.push(Home::of_demonstration()?);
    }
    let found: Vec<&Home> = homes.iter().filter(|home| home.is_demonstration()).collect();
    if found.is_empty() {
        let text = format!("there is no demonstration in {}", list_homes(&homes));
        return Err(Fault::new(Exit::NotFound, text, "`mezza up --demo` makes one"));
    }
    for home in found {
        let lock = lock_home(home)?;
        let relay_stays = home.remove_demonstration()?;
        drop(lock);
        let folder = show::format_path(home.root());
        let value =
            json!({ "removed": show::format_path(home.root()), "relay_stays": relay_stays });
        context.out.print_either(&value, format!("the demonstration in {folder} is removed"));
        if relay_stays {
            let text =
                format!("the relay in {} was there before it and stays", home.relay().display());
            context.out.print_line(text);
        }
    }
    Ok(Exit::Done)
}

fn list_homes(homes: &[Home]) -> String {
    let folders: Vec<String> = homes.iter().map(|home| show::format_path(home.root())).collect();
    folders.join(" or ")
}
