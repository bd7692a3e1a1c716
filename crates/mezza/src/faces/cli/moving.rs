//! `mezza move`: an identity with its sessions goes to another device.

mod lan;

use std::io::BufRead as _;
use std::path::Path;

use mezza_core::{PublicKey, Wiping};
use serde_json::json;

use super::args::{MoveCommand, MoveInArgs, MoveOutArgs};
use super::{CliContext, person, show};
use crate::faces::passphrase;
use crate::faces::qr::{Medium, QrImage};
use crate::faces::served;
use lan::{LanNotice, LanWait, WaitLimits};
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
        context
            .out
            .print_foreign(format!("next, on the old device: `mezza move out {recipient} FILE`"));
        context.out.print_line("then here: `mezza move in FILE`");
        return Ok(());
    };
    let Some(key) = &asked.key else {
        let digits = move_digits(file)?;
        context.out.print_either(&json!({ "digits": digits }), format!("digits   {digits}"));
        context.out.print_foreign(format!(
            "next, on the old device, if it shows the same: `mezza move out --digits {digits}`"
        ));
        context.out.print_line(format!(
            "then here, with the key that it prints: `mezza move in {} --key KEY`",
            show::format_path(file)
        ));
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
    context
        .out
        .print_line("next: `mezza node run`; then, beside it, `mezza unlock`; and delete the file");
    context.out.print_foreign("then, on the old device: `mezza purge`");
    Ok(())
}

/// The file of a move over the local network, on the old device.
const LAN_FILE: &str = "move.file";
/// How often digits may be typed on the old device: files of others may have come to the new one.
const TRIES_MAX: usize = 8;

fn move_in_over_lan(context: &CliContext, address: &str) -> Result<(), Fault> {
    let vault = context.home.vault();
    let recipient = recipient_text(&prepare_move(&vault, &mut OsRng)?);
    let listener = lan::listen(address)?;
    let address = listener.local_addr().map_or_else(|_| address.to_owned(), |at| at.to_string());
    context.out.print_value(&json!({ "recipient": recipient, "listens": address }));
    context.out.print_line(&recipient);
    context.out.print_line(format!(
        "next, on the old device: `mezza move out RECIPIENT --to HOST:PORT`; this one waits at {address}"
    ));
    // `mezza purge` removes this folder, and with it the files of a move that was not finished.
    let folder = vault.clone();
    let wait = LanWait {
        listener,
        vault,
        folder: folder.clone(),
        limits: WaitLimits::DEFAULT,
        room: lan::measure_room,
    };
    let mut show = |notice| match notice {
        LanNotice::Stored { digits } => {
            context.out.print_either(&json!({ "digits": digits }), format!("digits   {digits}"));
            context.out.print_line(
                "type them on the old device; once it has accepted them, type them here, too:",
            );
        }
        LanNotice::Text(text) => context.out.print_aside(&text),
    };
    let chosen = wait.wait_for_choice(read_typed_line, &mut show)?;
    if let Err(fault) = finish_in(context, &chosen.file, &chosen.key) {
        // The old device has nothing left but the key.
        context.out.print_aside(&format!(
            "the file stays; with the key that the old device shows: `mezza move in {} --key KEY`",
            chosen.file.display()
        ));
        return Err(fault);
    }
    chosen.confirm();
    lan::delete_files(&folder)
}

/// Returns a line of the standard input, or `None` after the last one.
fn read_typed_line() -> Option<String> {
    let mut line = String::new();
    // A longer line holds no digits.
    let read = std::io::Read::take(std::io::stdin().lock(), 1 << 10).read_line(&mut line);
    read.is_ok_and(|count| count > 0).then_some(line)
}

/// Sends the file and, once the digits are the same on both screens, the key.
fn move_out_over_lan(
    context: &CliContext,
    address: &str,
    recipient: &PublicKey,
    ask: impl Fn() -> Result<zeroize::Zeroizing<Vec<u8>>, Fault>,
) -> Result<(), Fault> {
    let file = context.home.vault().join(LAN_FILE);
    let sent = lan::send_file(address, &file, recipient)?;
    context.out.print_value(&json!({ "sent": true }));
    context.out.print_line(
        "the new device shows eight digits; type them here to destroy this identity here:",
    );
    await_digits(context, &sent.digits())?;
    let pass = || Ok(Wiping::new(ask()?.to_vec()));
    let now = Clock::system().date();
    let key = finish_move(&context.home.vault(), pass, &move_digits(&file)?, now, &mut OsRng)?;
    context.out.print_line(
        "the digits are right, and this identity is destroyed here; type them on the new device, too",
    );
    if sent.send_key(&key) {
        private::wipe(&file)?;
        context.out.print_either(
            &json!({ "key": key, "moved": true }),
            "this device is empty now, and the new one has everything; `mezza purge` removes the rest",
        );
        return Ok(());
    }
    // The file stays: it opens with this key only, and the new device may have lost its own copy.
    print_key(context, &key);
    context.out.print_line(format!("the file of the move is here: {}", file.display()));
    Ok(())
}

/// Reads lines until one of them has the digits of this connection.
fn await_digits(context: &CliContext, digits: &str) -> Result<(), Fault> {
    for _ in 0..TRIES_MAX {
        let Some(line) = read_typed_line() else { break };
        if line.trim() == digits {
            return Ok(());
        }
        context.out.print_line(
            "these are not the digits of this connection; if the new device shows others, too, type those:",
        );
    }
    let text = "the new device shows other digits: it has another file, or none of this device";
    let next = "nothing was destroyed; begin again, or give up with `mezza move cancel`";
    Err(Fault::new(Exit::No, text, next))
}

fn move_out(context: &CliContext, asked: &MoveOutArgs) -> Result<(), Fault> {
    let vault = context.home.vault();
    let now = Clock::system().date();
    let ask = || passphrase::ask(asked.key.passphrase_file.as_deref(), "Passphrase: ");
    if let Some(digits) = &asked.digits {
        return destroy(context, digits, ask);
    }
    if vault.join(MOVED).exists() {
        // The key is shown again, because nothing else of the identity is left on this device.
        return destroy(context, "", ask);
    }
    let over_lan = asked.to.as_ref().map(|_| vault.join(LAN_FILE));
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
        return move_out_over_lan(context, address, &recipient, ask);
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
