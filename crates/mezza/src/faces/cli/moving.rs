//! `mezza move`: an identity with its sessions goes to another device.

mod lan;

use std::io::BufRead as _;
use std::path::Path;

use mezza_core::Wiping;
use serde_json::json;

use super::args::{MoveCommand, MoveInArgs, MoveOutArgs};
use super::{CliContext, person, show};
use crate::faces::passphrase;
use crate::faces::qr::{Medium, QrImage};
use crate::faces::served;
use mezza_host::api::{Exit, Fault};
use mezza_host::backup::{
    ReceivedMove, cancel_move, finish_move, move_digits, prepare_move, read_recipient,
    receive_move, recipient_text, write_move,
};
use mezza_host::clock::Clock;
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::{Argon2Params, MOVED};

/// `mezza move`
pub(crate) fn move_identity(context: &CliContext, what: &MoveCommand) -> Result<(), Fault> {
    person::not_in_a_demonstration(context)?;
    context.home.make_folders()?;
    // No node of this home runs while its vault moves.
    let _lock = served::lock_home(&context.home)?;
    match what {
        MoveCommand::In(asked) => move_in(context, asked),
        MoveCommand::Out(asked) => move_out(context, asked),
        MoveCommand::Cancel => {
            let pass = passphrase::ask(None, "Passphrase: ")?;
            cancel_move(&context.home.vault(), &pass, Clock::system().date())?;
            context.out.print_either(
                &json!({ "cancelled": true }),
                "nothing was moved; this device goes on",
            );
            Ok(())
        }
    }
}

fn move_in(context: &CliContext, asked: &MoveInArgs) -> Result<(), Fault> {
    let vault = context.home.vault();
    if let Some(address) = &asked.listen {
        return move_in_over_lan(context, address);
    }
    let Some(file) = &asked.file else {
        let recipient = recipient_text(&prepare_move(&vault, &mut OsRng)?);
        context.out.print_value(&json!({ "recipient": recipient }));
        context.out.print_line(
            QrImage::draw(&recipient.to_ascii_uppercase(), Medium::Screen)?.to_terminal(),
        );
        context.out.print_line(&recipient);
        context.out.print_foreign("next, on the old device: `mezza move out RECIPIENT FILE`");
        context.out.print_line("then here: `mezza move in FILE`");
        return Ok(());
    };
    let Some(key) = &asked.key else {
        let digits = move_digits(file)?;
        context.out.print_either(&json!({ "digits": digits }), format!("digits   {digits}"));
        context.out.print_foreign("next, on the old device: `mezza move out --digits DIGITS`");
        context.out.print_line("then here: `mezza move in FILE --key KEY`");
        return Ok(());
    };
    finish_in(context, file, key)
}

/// Makes the vault on the new device.
fn finish_in(context: &CliContext, file: &Path, key: &str) -> Result<(), Fault> {
    let cost = Argon2Params::measured()?;
    let now = Clock::system().date();
    let vault = context.home.vault();
    let received = ReceivedMove { dir: &vault, file, tombstone: key, cost, now };
    let new_pass = || Ok(Wiping::new(passphrase::ask_new(None)?.to_vec()));
    receive_move(&received, new_pass, &mut OsRng)?;
    let value = json!({ "home": show::format_path(context.home.root()) });
    let home = context.home.root().display();
    context.out.print_either(&value, format!("the identity lives in {home} now"));
    context.out.print_line("next: `mezza node run`, and delete the file");
    context.out.print_foreign("then, on the old device: `mezza purge`");
    Ok(())
}

/// The file of a move over the local network, on either device.
const LAN_FILE: &str = "move.file";

fn move_in_over_lan(context: &CliContext, address: &str) -> Result<(), Fault> {
    let recipient = recipient_text(&prepare_move(&context.home.vault(), &mut OsRng)?);
    let listener = lan::listen(address)?;
    let address = listener.local_addr().map_or_else(|_| address.to_owned(), |at| at.to_string());
    context.out.print_value(&json!({ "recipient": recipient, "listens": address }));
    context.out.print_line(&recipient);
    context.out.print_line(format!(
        "next, on the old device: `mezza move out RECIPIENT --to HOST:PORT`; this one waits at {address}"
    ));
    let file = context.home.root().join(LAN_FILE);
    let mut received = lan::receive_file(&listener, &file)?;
    let digits = move_digits(&file)?;
    context.out.print_either(&json!({ "digits": digits }), format!("digits   {digits}"));
    context.out.print_line("type them on the old device; that destroys the identity there");
    let Some(key) = received.receive_key() else {
        let text = "the connection to the old device broke before its key came";
        let next = format!(
            "if it shows a key: `mezza move in {} --key KEY`; else begin again",
            file.display()
        );
        return Err(Fault::new(Exit::Unreachable, text, next));
    };
    finish_in(context, &file, &key)?;
    received.confirm();
    private::wipe(&file)
}

/// Sends the file and, once the digits are the same on both screens, the key.
fn move_out_over_lan(
    context: &CliContext,
    address: &str,
    ask: impl Fn() -> Result<zeroize::Zeroizing<Vec<u8>>, Fault>,
) -> Result<(), Fault> {
    let file = context.home.root().join(LAN_FILE);
    let sent = lan::send_file(address, &file)?;
    context.out.print_value(&json!({ "sent": true }));
    context.out.print_line(
        "the new device shows eight digits; type them here to destroy this identity here:",
    );
    let mut digits = String::new();
    let _ = std::io::stdin().lock().read_line(&mut digits);
    let pass = || Ok(Wiping::new(ask()?.to_vec()));
    let now = Clock::system().date();
    let key = finish_move(&context.home.vault(), pass, &digits, now, &mut OsRng)?;
    let is_made = sent.send_key(&key);
    // Nothing of the file is of use here any more.
    private::wipe(&file)?;
    if is_made {
        context.out.print_either(
            &json!({ "key": key, "moved": true }),
            "this device is empty now, and the new one has everything; `mezza purge` removes the rest",
        );
        return Ok(());
    }
    print_key(context, &key);
    Ok(())
}

fn move_out(context: &CliContext, asked: &MoveOutArgs) -> Result<(), Fault> {
    let vault = context.home.vault();
    let now = Clock::system().date();
    let ask = || passphrase::ask(asked.key.passphrase_file.as_deref(), "Passphrase: ");
    if let Some(digits) = &asked.digits {
        return destroy(context, digits, ask);
    }
    if vault.join(MOVED).exists() {
        // The key is shown again: it is all that is left here.
        return destroy(context, "", ask);
    }
    let over_lan = asked.to.as_ref().map(|_| context.home.root().join(LAN_FILE));
    let (Some(recipient), Some(file)) =
        (&asked.recipient, asked.file.as_ref().or(over_lan.as_ref()))
    else {
        return Err(Fault::new(
            Exit::Usage,
            "a recipient and a file are needed",
            "get the recipient from the new device: `move in` shows it there",
        ));
    };
    let recipient = read_recipient(recipient).ok_or_else(|| {
        let next = "copy all of what the new device shows, beginning with `age1`";
        Fault::new(Exit::Malformed, "this is no recipient", next)
    })?;
    write_move(&vault, &ask()?, &recipient, file, now, &mut OsRng)?;
    if let Some(address) = &asked.to {
        return move_out_over_lan(context, address, ask);
    }
    let value = json!({ "file": show::format_path(file) });
    context
        .out
        .print_either(&value, format!("{} holds the whole identity, sealed", file.display()));
    context
        .out
        .print_line("this device does not run any more until you finish, or `mezza move cancel`");
    context
        .out
        .print_foreign("next, on the new device: `mezza move in FILE`, which shows eight digits");
    context.out.print_line(
        "then here: `mezza move out --digits DIGITS`; that destroys this identity here",
    );
    Ok(())
}

/// Destroys the identity on this device, and shows the key for the other one.
fn destroy(
    context: &CliContext,
    digits: &str,
    ask: impl FnOnce() -> Result<zeroize::Zeroizing<Vec<u8>>, Fault>,
) -> Result<(), Fault> {
    let pass = || Ok(Wiping::new(ask()?.to_vec()));
    let now = Clock::system().date();
    let key = finish_move(&context.home.vault(), pass, digits, now, &mut OsRng)?;
    print_key(context, &key);
    Ok(())
}

fn print_key(context: &CliContext, key: &str) {
    context.out.print_value(&json!({ "key": key }));
    context.out.print_line("this device is empty now; the key for the new device:");
    context.out.print_line(key);
    context.out.print_foreign("next, on the new device: `mezza move in FILE --key KEY`");
    context.out.print_line("`mezza move out` shows the key again; `mezza purge` removes it");
}
