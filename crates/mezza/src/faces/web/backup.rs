//! Backups, restores, and notes whose fate is unknown after a restore.

use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use mezza_core::{Time, Wiping};
use mezza_messenger::Command;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::long_work::{absolute_path, run_blocking};
use super::notes::client_id;
use super::{ApiResult, JsonBody, Web};
use crate::faces::passphrase;
use mezza_host::api::json::LongWorkKind;
use mezza_host::api::views::note_id;
use mezza_host::api::{Exit, Fault, Refused, json};
use mezza_host::backup::{
    AutoBackup, BackupKey, BackupManifest, BackupReader, Recipient, WorkProgress, restore_home,
};
use mezza_host::process::rng::OsRng;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(describe, make))
        .routes(routes!(make_automatic, stop_automatic))
        .routes(routes!(check))
        .routes(routes!(restore))
        .routes(routes!(progress))
        .routes(routes!(send_again))
}

/// The state of the backups.
#[utoipa::path(get, path = "/v1/backup", responses((status = 200, body = json::BackupsJson)))]
async fn describe(State(web): State<Web>) -> ApiResult<json::BackupsJson> {
    web.node.ask(|shell| shell.describe_backups()).await.map(Json)
}

/// Make the node write backups to a folder.
#[utoipa::path(put, path = "/v1/backup/auto", request_body = json::AutoBackupRequest,
    responses((status = 200, body = json::BackupsJson), (status = 409, body = json::Problem)))]
async fn make_automatic(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::AutoBackupRequest>,
) -> ApiResult<json::BackupsJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    passphrase::check_new(&pass)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    let folder = PathBuf::from(&body.folder);
    if !folder.is_absolute() {
        return Err(Refused::malformed("the path of a folder begins with `/`", "name all of it"));
    }
    web.node.ask(|shell| shell.describe_backups()).await?;
    let prepared = tokio::task::spawn_blocking(move || {
        AutoBackup::prepare(&folder, &pass, body.every_s, body.keep, &mut OsRng)
    });
    let auto = prepared.await.map_err(|_| Fault::bug("the folder was not prepared"))??;
    web.node.ask(move |shell| shell.set_auto_backup(Some(auto))).await.map(Json)
}

/// End automatic backups. Existing ones are kept.
#[utoipa::path(delete, path = "/v1/backup/auto",
    responses((status = 200, body = json::BackupsJson)))]
async fn stop_automatic(State(web): State<Web>) -> ApiResult<json::BackupsJson> {
    web.node.ask(|shell| shell.set_auto_backup(None)).await.map(Json)
}

/// Write a backup to a new file of this machine.
#[utoipa::path(post, path = "/v1/backup", request_body = json::BackupRequest,
    responses((status = 200, body = json::BackupJson), (status = 409, body = json::Problem)))]
async fn make(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::BackupRequest>,
) -> ApiResult<json::BackupJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    passphrase::check_new(&pass)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    let path = absolute_path(&body.file)?;
    // An unlocked vault is asked for first: a second of scrypt would be lost.
    web.node.ask(|shell| shell.own_identity()).await?;
    let work = web.work.begin(LongWorkKind::Make)?;
    let key =
        run_blocking(move || BackupKey::draw(&Recipient::Passphrase(&pass), &mut OsRng)).await?;
    let made = web.node.ask(move |shell| shell.write_backup(&path, &key, &work.progress)).await;
    made.map(Json)
}

/// Open a backup and check all of it. Nothing is written.
#[utoipa::path(post, path = "/v1/backup/check", request_body = json::BackupRequest,
    responses((status = 200, body = json::BackupJson), (status = 403, body = json::Problem)))]
async fn check(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::BackupRequest>,
) -> ApiResult<json::BackupJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let path = absolute_path(&body.file)?;
    let now = web.node.ask(|shell| Ok(shell.status())).await?.now_ms;
    let work = web.work.begin(LongWorkKind::Check)?;
    let checked = run_blocking(move || {
        let mut reader = open_backup(&path, &pass, &work.progress, 1)?;
        let read = reader.read_rows(Time::from_ms(now), &mut OsRng, &mut |_| Ok(()))?;
        Ok(describe_manifest(&body.file, &read.manifest))
    });
    checked.await.map(Json)
}

/// Opens a backup that will be read this number of times.
fn open_backup(
    path: &FilePath,
    pass: &[u8],
    progress: &WorkProgress,
    passes: u64,
) -> Result<BackupReader, Fault> {
    let mut reader = BackupReader::open_with_passphrase(path, pass)?;
    progress.set_total(passes * path.metadata().map_or(0, |found| found.len()));
    reader.report_to(progress.clone());
    Ok(reader)
}

/// Returns the description of a backup whose manifest was read.
pub(crate) fn describe_manifest(file: &str, manifest: &BackupManifest) -> json::BackupJson {
    json::BackupJson {
        file: file.into(),
        made_ms: manifest.made_ms,
        program: manifest.program.clone(),
        contacts: manifest.counts.contacts,
        notes: manifest.counts.notes,
    }
}

/// Make the vault of this home from a backup, and unlock it.
#[utoipa::path(post, path = "/v1/restore", request_body = json::RestoreRequest,
    responses((status = 201, body = json::StatusJson), (status = 403, body = json::Problem),
        (status = 409, body = json::Problem)))]
async fn restore(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::RestoreRequest>,
) -> Result<(StatusCode, Json<json::StatusJson>), Refused> {
    let backup_pass = Wiping::new(body.backup_passphrase.into_bytes());
    let pass = Wiping::new(body.passphrase.into_bytes());
    passphrase::check_new(&pass)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    let path = absolute_path(&body.file)?;
    let status = web.node.ask(|shell| Ok(shell.status())).await?;
    if status.state != json::NodeStateJson::Empty {
        return Err(Refused::exists());
    }
    let now = Time::from_ms(status.now_ms);
    let work = web.work.begin(LongWorkKind::Restore)?;
    let home = web.home.clone();
    let pass = run_blocking(move || {
        // The whole file is checked before anything is made (BACKUP-8).
        let mut reader = open_backup(&path, &backup_pass, &work.progress, 2)?;
        reader.read_rows(now, &mut OsRng, &mut |_| Ok(()))?;
        if let Some(fault) = restore_home(&home, &mut reader, &pass, now, &mut OsRng)? {
            tracing::warn!(code = fault.code.number(), "the settings were not restored");
        }
        Ok(pass)
    });
    let pass = pass.await?;
    let status = web.node.ask(move |shell| {
        shell.unlock_vault(&pass)?;
        Ok(shell.status())
    });
    Ok((StatusCode::CREATED, Json(status.await?)))
}

/// Progress of the work on a backup.
#[utoipa::path(get, path = "/v1/backup/progress",
    responses((status = 200, body = json::ProgressJson)))]
async fn progress(State(web): State<Web>) -> Json<json::ProgressJson> {
    Json(web.work.describe())
}

/// Send a note again whose fate is unknown after a restore.
#[utoipa::path(post, path = "/v1/notes/{id}/again",
    params(("id" = String, Path, description = "The note's number")),
    request_body = json::SendAgainRequest,
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn send_again(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<json::SendAgainRequest>,
) -> Result<StatusCode, Refused> {
    let note = note_id(&id)?;
    let client = client_id(&body.client_id)?;
    web.run_command(Command::SendAgain { note, client }).await
}
