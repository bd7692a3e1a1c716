//! Backups, and notes that a restore has left open.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use mezza_core::Wiping;
use mezza_messenger::Command;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::notes::client_id;
use super::{ApiResult, JsonBody, Web};
use crate::faces::passphrase;
use mezza_host::api::views::note_id;
use mezza_host::api::{Exit, Fault, Refused, json};
use mezza_host::backup::{AutoBackup, BackupKey, Recipient};
use mezza_host::process::rng::OsRng;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(describe, make))
        .routes(routes!(make_automatic, stop_automatic))
        .routes(routes!(send_again))
}

/// The state of the backups.
#[utoipa::path(get, path = "/v1/backup", responses((status = 200, body = json::BackupsJson)))]
async fn describe(State(web): State<Web>) -> ApiResult<json::BackupsJson> {
    web.node.ask(|shell| shell.describe_backups()).await.map(Json)
}

/// Have the node make backups into a folder.
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

/// End the backups that the node makes; those that are there stay.
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
    let path = PathBuf::from(&body.file);
    if !path.is_absolute() {
        return Err(Refused::malformed("the path of a backup begins with `/`", "name its folder"));
    }
    // An unlocked vault is asked for first: a second of scrypt would be lost.
    web.node.ask(|shell| shell.own_identity()).await?;
    let key = tokio::task::spawn_blocking(move || {
        BackupKey::draw(&Recipient::Passphrase(&pass), &mut OsRng)
    });
    let key = key.await.map_err(|_| Fault::bug("the key of the backup was not made"))??;
    web.node.ask(move |shell| shell.write_backup(&path, &key)).await.map(Json)
}

/// Send a note that a restore has left open.
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
