//! `mezza hibe keygen|advance|status|wipe`: the folder of a tree.

use std::path::Path;

use data_encoding::HEXLOWER;
use mezza_hibe::floor::{JUMP_AT_ONCE_MS, JUMP_MS_MAX};
use mezza_hibe::{CardBlock, Cost, Epoch, KeyTree, Life, Shape, Tick, TreeError, TreeProfile};
use serde_json::{Value, json};

use super::lives::{describe_lives, describe_own_risk, life_name};
use super::{
    ahead_text, earliest_tick, format_day, format_minute, is_vouched_for, open_tree, tick_or_now,
};
use crate::faces::cli::args::{AdvanceArgs, KeygenArgs, TreeArgs};
use crate::faces::cli::show::Out;
use crate::faces::cli::{CliContext, show};
use crate::faces::passphrase;
use mezza_host::api::words::group_digits;
use mezza_host::api::{Exit, Fault, words};
use mezza_host::clock;
use mezza_host::process::rng::OsRng;
use mezza_host::process::slots::Overwriting;
use mezza_host::store::Argon2Params;
use mezza_host::store::tree_folder::{NewTree, TreeFolder, tree_fault};

/// Future epochs whose keys `advance` prepares.
const AHEAD_EPOCHS: u32 = 2;

/// `mezza hibe keygen`
pub(super) fn make_tree(context: &CliContext, asked: &KeygenArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let dir = &asked.tree.dir;
    if TreeFolder::exists(dir) {
        return Err(TreeFolder::occupied(dir));
    }
    let parent = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
    if TreeFolder::overwriting(parent) == Overwriting::Elsewhere {
        // Print this before anything is made, while choosing another folder is free.
        out.print_aside(describe_erasure(parent).1);
    }
    let pass = passphrase::ask_new(asked.tree.key.passphrase_file.as_deref())?;
    let earliest = earliest_tick(asked.tree.at.at, context)?;
    let shape = if asked.profile.is_some() { Shape::Wide } else { Shape::Lives };
    let profile = asked.profile.map_or(TreeProfile::Minute, Into::into);
    let new = NewTree { shape, profile, earliest, cost: Argon2Params::measured()? };
    let folder = TreeFolder::create(dir, &context.home.state(), &pass, new, &mut OsRng)?;
    let card = folder.tree().card();
    let hash = HEXLOWER.encode(&card.hash().0);
    let last = Tick(card.end_tick().0 - 1);
    let (level, meaning) = describe_erasure(dir);
    out.print_value(&json!({
        "dir": show::format_path(dir), "card": hash, "first": format_day(card.origin()), "last": format_day(last),
        "erasure": level, "floor": folder.tree().floor().0, "lives": describe_lives(card),
    }));
    out.print_line(format!("card     {hash}"));
    out.print_line(format!("life     {} to {}", format_day(card.origin()), format_day(last)));
    for life in card.lives() {
        out.print_line(format!("lives    {}: {}", life_name(life), describe_own_risk(life)));
    }
    out.print_line(format!("erasure  {level}: {meaning}"));
    if asked.tree.at.at.is_none() && !is_vouched_for(context) {
        out.print_aside(&format!(
            "it is {} by a clock that nobody vouches for; if that is wrong, run `mezza hibe wipe --dir {}`, set \
             the clock and make another card",
            format_minute(Tick::from_time(clock::now())),
            dir.display()
        ));
    }
    let path = dir.join("card");
    out.print_line(format!("next: show others `mezza hibe card {} --qr`", path.display()));
    Ok(Exit::Done)
}

/// Returns how reliably the medium erases keys, as a level and a sentence.
fn describe_erasure(dir: &Path) -> (&'static str, &'static str) {
    let overwriting = TreeFolder::overwriting(dir);
    (overwriting.level(), overwriting.meaning())
}

/// `mezza hibe advance`
pub(super) fn advance_tree(context: &CliContext, asked: &AdvanceArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let to = tick_or_now(asked.to, context);
    let mut folder = open_tree(context, &asked.dir, asked.key.passphrase_file.as_deref())?;
    let tree = folder.tree();
    let targets = target_floors(tree, to)?;
    let FloorTarget { floor, erased, .. } = targets[0];
    let cost = targets.iter().map(|target| tree.erasure_cost(target.floor)).fold(
        Cost::default(),
        |all, one| Cost {
            derivations: all.derivations + one.derivations,
            multiplications: all.multiplications + one.multiplications,
        },
    );
    if !asked.yes && !asked.dry_run {
        let jump_ms = u64::from(erased) * tree.card().profile().epoch_ms();
        check_jump(context, asked, jump_ms, erased, to)?;
    }
    if !asked.dry_run {
        let tree = folder.tree_mut();
        for FloorTarget { life, floor, current, .. } in &targets {
            tree.erase_life_below(*life, *floor, &mut OsRng).map_err(tree_fault)?;
            let ahead = current.plus(AHEAD_EPOCHS);
            tree.prepare_life(*life, ahead, u32::MAX, &mut OsRng).map_err(tree_fault)?;
        }
        folder.store(&mut OsRng)?;
    }
    out.print_value(&json!({
        "floor": floor.0, "erased": erased, "derivations": cost.derivations,
        "multiplications": cost.multiplications, "dry_run": asked.dry_run,
    }));
    let would = if asked.dry_run { "would be " } else { "" };
    let card = folder.tree().card();
    out.print_line(format!(
        "{erased} epochs {would}erased, {} keys {would}derived",
        cost.derivations
    ));
    out.print_line(format!(
        "floor    epoch {}, {}",
        floor.0,
        format_minute(card.first_tick(floor))
    ));
    Ok(Exit::Done)
}

/// The effect of `advance` on one life: the new floor, and the number of epochs that are erased.
struct FloorTarget {
    life: Life,
    current: Epoch,
    floor: Epoch,
    erased: u32,
}

/// Returns the effect of `advance` to a tick on each life, the shortest life first.
fn target_floors(tree: &KeyTree, to: Tick) -> Result<Vec<FloorTarget>, Fault> {
    // A tick before the card begins is reported.
    current_epoch(tree, to)?;
    let mut targets = Vec::new();
    for branch in tree.card().calendar().branches() {
        let life = branch.life;
        let old = tree.find_floor(life).map_err(tree_fault)?;
        let current = tree.card().find_floor_epoch(life, to).unwrap_or(branch.first);
        let floor = current.minus(1).max(old).min(branch.end);
        targets.push(FloorTarget { life, current, floor, erased: floor.0 - old.0 });
    }
    Ok(targets)
}

/// Refuses a jump of time that only the user may order. `listen` accepts an hour at once, and a day
/// after ten minutes. A command that runs once accepts a day if a source confirms the clock, or if
/// the time was named.
///
/// # Errors
/// 64 with the number of epochs.
fn check_jump(
    context: &CliContext,
    asked: &AdvanceArgs,
    jump_ms: u64,
    erased: u32,
    to: Tick,
) -> Result<(), Fault> {
    let erase = format!("this would erase {} epochs", group_digits(erased as usize));
    let next = "repeat with --yes if the clock is right";
    if jump_ms >= JUMP_MS_MAX {
        return Err(Fault::new(Exit::Usage, erase, next));
    }
    if jump_ms > JUMP_AT_ONCE_MS && asked.to.is_none() && !is_vouched_for(context) {
        let text =
            format!("{erase}: it is {} by a clock that nobody vouches for", format_minute(to));
        return Err(Fault::new(Exit::Usage, text, next));
    }
    Ok(())
}

/// Returns the epoch of a tick, or the one after the last epoch if the card has ended.
fn current_epoch(tree: &KeyTree, tick: Tick) -> Result<Epoch, Fault> {
    match tree.card().epoch_of(tick) {
        Ok(epoch) => Ok(epoch),
        Err(TreeError::Over) => Ok(tree.last_epoch().plus(2)),
        Err(error) => Err(tree_fault(error)),
    }
}

/// `mezza hibe status`
pub(super) fn show_status(context: &CliContext, asked: &TreeArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let now = asked.at.tick(context);
    let folder = asked.open(context)?;
    let tree = folder.tree();
    let card = tree.card();
    let current = current_epoch(tree, now)?;
    let late = current.minus(1).0.saturating_sub(tree.floor().0);
    let (entries, bytes) = tree.stack_size();
    let next = tree.next_expansion_cost(current.plus(AHEAD_EPOCHS));
    let days_left = u64::from(card.end_tick().0.saturating_sub(now.0)) * 30 / 86_400;
    let (level, meaning) = describe_erasure(&asked.dir);
    out.print_value(&json!({
        "floor": tree.floor().0, "epoch": current.0, "late_epochs": late, "entries": entries,
        "ahead_epochs": tree.floor().0.saturating_sub(current.0),
        "bytes": bytes, "next_expansion": next.map(|(epoch, _)| epoch.0),
        "next_expansion_multiplications": next.map(|(_, cost)| cost.multiplications),
        "days_left": days_left, "erasure": level, "card": HEXLOWER.encode(&card.hash().0),
        "lives": status_of_lives(tree, now),
    }));
    out.print_line(format!("card     {}", HEXLOWER.encode(&card.hash().0)));
    out.print_line(format!("now      epoch {}, {}", current.0, format_minute(now)));
    out.print_line(format!("floor    epoch {}, {}", tree.floor().0, floor_text(tree, late)));
    for life in card.lives() {
        let floor = tree.find_floor(life).map_err(tree_fault)?;
        let since = format_minute(card.first_tick(floor));
        let risk = describe_own_risk(life);
        out.print_line(format!("lives    {}: keys from {since} on; {risk}", life_name(life)));
    }
    let ahead = ahead_text(tree, now);
    if let Some(ahead) = &ahead {
        out.print_line(format!("ahead    {ahead}"));
    }
    out.print_line(format!("held     {entries} keys, {bytes} bytes"));
    out.print_line(next.map_or("next     nothing to derive".to_owned(), |(epoch, cost)| {
        let derivations = cost.derivations;
        let products = cost.multiplications;
        format!("next     {derivations} keys below epoch {}, {products} products in G2", epoch.0)
    }));
    let left = words::format_count(days_left, "day", "days");
    out.print_line(format!("left     {left}, until {}", format_day(card.end_tick())));
    out.print_line(format!("erasure  {level}: {meaning}"));
    Ok(Exit::Done)
}

/// Returns floor and current epoch of each life as JSON.
fn status_of_lives(tree: &KeyTree, now: Tick) -> Value {
    let lives = tree.card().lives().map(|life| {
        let floor = tree.find_floor(life).unwrap_or(Epoch(0));
        let current = tree.card().find_floor_epoch(life, now);
        json!({
            "life": life_name(life), "floor": floor.0, "epoch": current.map(|epoch| epoch.0),
            "late_epochs": current.map(|epoch| epoch.minus(1).0.saturating_sub(floor.0)),
        })
    });
    lives.collect()
}

/// Describes the floor: its time, and how long keys outlived their epoch.
fn floor_text(tree: &KeyTree, late: u32) -> String {
    if tree.is_over() {
        return "everything is erased; make a new card with `mezza hibe keygen`".into();
    }
    let card: &CardBlock = tree.card();
    let since = format_minute(card.first_tick(tree.floor()));
    match late {
        0 => since,
        late => format!(
            "{since}: {} late; run `mezza hibe advance`",
            words::format_count(late.into(), "epoch", "epochs")
        ),
    }
}

/// `mezza hibe wipe`
pub(super) fn wipe_tree(out: Out, dir: &Path, yes: bool) -> Result<Exit, Fault> {
    if !yes {
        let text = format!("all keys in {} would be gone for ever", dir.display());
        return Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"));
    }
    TreeFolder::wipe(dir)?;
    let text = format!("{} is wiped; envelopes for its card open for nobody", dir.display());
    out.print_either(&json!({ "wiped": show::format_path(dir) }), text);
    Ok(Exit::Done)
}
