//! Moves of an identity to another device (BACKUP-30 to BACKUP-32).
//!
//! ```text
//! new:  POST /v1/move/in          recipient          old:  POST /v1/move/out         file
//! new:  POST /v1/move/in/digits   digits             old:  POST /v1/move/out/finish  key
//! new:  POST /v1/move/in/finish   a vault            old:  GET  /v1/move/out         key, again
//! ```

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mezza_core::{Time, Wiping};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::long_work::{absolute_path, run_blocking};
use super::{ApiResult, JsonBody, Web};
use crate::faces::passphrase;
use crate::faces::qr::{Medium, QrImage};
use crate::node::shell::NodeShell;
use mezza_host::api::json::LongWorkKind;
use mezza_host::api::{Exit, Fault, Refused, json};
use mezza_host::backup::{
    ReceivedMove, cancel_move, finish_move, move_digits, prepare_move, read_recipient,
    receive_move, recipient_text, write_move,
};
use mezza_host::process::rng::OsRng;
use mezza_host::store::Argon2Params;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(begin_in))
        .routes(routes!(read_digits))
        .routes(routes!(finish_in))
        .routes(routes!(begin_out, show_key))
        .routes(routes!(finish_out))
        .routes(routes!(cancel))
}

/// Draw the recipient of a move to this device.
#[utoipa::path(post, path = "/v1/move/in",
    responses((status = 200, body = json::MoveRecipientJson), (status = 409, body = json::Problem)))]
async fn begin_in(State(web): State<Web>) -> ApiResult<json::MoveRecipientJson> {
    let vault = web.home.vault();
    let recipient = run_blocking(move || prepare_move(&vault, &mut OsRng)).await?;
    let recipient = recipient_text(&recipient);
    let svg = QrImage::draw(&recipient.to_ascii_uppercase(), Medium::Screen)?.to_svg();
    Ok(Json(json::MoveRecipientJson { recipient, svg }))
}

/// Read the digits of the file of a move.
#[utoipa::path(post, path = "/v1/move/in/digits", request_body = json::MoveFileRequest,
    responses((status = 200, body = json::MoveDigitsJson), (status = 404, body = json::Problem)))]
async fn read_digits(
    State(_): State<Web>,
    JsonBody(body): JsonBody<json::MoveFileRequest>,
) -> ApiResult<json::MoveDigitsJson> {
    let file = absolute_path(&body.file)?;
    let digits = run_blocking(move || move_digits(&file)).await?;
    Ok(Json(json::MoveDigitsJson { digits }))
}

/// Make the vault of this home from the file of a move, and unlock it.
#[utoipa::path(post, path = "/v1/move/in/finish", request_body = json::MoveInRequest,
    responses((status = 201, body = json::StatusJson), (status = 403, body = json::Problem)))]
async fn finish_in(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::MoveInRequest>,
) -> Result<(StatusCode, Json<json::StatusJson>), Refused> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let key = Wiping::new(body.key.into_bytes());
    passphrase::check_new(&pass)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    let file = absolute_path(&body.file)?;
    let now = current_date(&web).await?;
    let work = web.work.begin(LongWorkKind::Move)?;
    let vault = web.home.vault();
    let pass = run_blocking(move || {
        let tombstone = std::str::from_utf8(&key).map_err(|_| Fault::bug("a text is no text"))?;
        let cost = Argon2Params::measured()?;
        let received = ReceivedMove { dir: &vault, file: &file, tombstone, cost, now };
        receive_move(&received, || Ok(pass.clone()), &mut OsRng)?;
        drop(work);
        Ok(pass)
    });
    let pass = pass.await?;
    let status = web.node.ask(move |shell| {
        shell.unlock_vault(&pass)?;
        Ok(shell.status())
    });
    Ok((StatusCode::CREATED, Json(status.await?)))
}

/// Lock the vault, and write it to a file that only the new device will open.
#[utoipa::path(post, path = "/v1/move/out", request_body = json::MoveOutRequest,
    responses((status = 204), (status = 403, body = json::Problem)))]
async fn begin_out(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::MoveOutRequest>,
) -> Result<StatusCode, Refused> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let recipient = read_recipient(body.recipient.trim()).ok_or_else(|| {
        let next = "copy all of what the new device shows, beginning with `age1`";
        Refused::malformed("this is no recipient", next)
    })?;
    let file = absolute_path(&body.file)?;
    let now = current_date(&web).await?;
    let work = web.work.begin(LongWorkKind::Move)?;
    web.node.ask(NodeShell::stop_to_move).await?;
    let vault = web.home.vault();
    run_blocking(move || {
        write_move(&vault, &pass, &recipient, &file, now, &mut OsRng)?;
        drop(work);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Destroy the identity on this device. The response is the key for the new device.
#[utoipa::path(post, path = "/v1/move/out/finish", request_body = json::MoveFinishRequest,
    responses((status = 200, body = json::MoveKeyJson), (status = 403, body = json::Problem)))]
async fn finish_out(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::MoveFinishRequest>,
) -> ApiResult<json::MoveKeyJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let now = current_date(&web).await?;
    web.node.ask(NodeShell::stop_to_move).await?;
    let vault = web.home.vault();
    let key = run_blocking(move || finish_move(&vault, || Ok(pass), &body.digits, now, &mut OsRng));
    Ok(Json(json::MoveKeyJson { key: key.await? }))
}

/// The key of a move, once the identity has left this device.
#[utoipa::path(get, path = "/v1/move/out",
    responses((status = 200, body = json::MoveKeyJson), (status = 404, body = json::Problem)))]
async fn show_key(State(web): State<Web>) -> ApiResult<json::MoveKeyJson> {
    let status = web.node.ask(|shell| Ok(shell.status())).await?;
    if !status.moved {
        let next = "begin a move first";
        return Err(Fault::new(Exit::NotFound, "no identity has moved away", next).into());
    }
    let vault = web.home.vault();
    let now = Time::from_ms(status.now_ms);
    // Without a vault there is nothing for a passphrase to open.
    let pass = || Err(Refused::moved().into());
    let key = run_blocking(move || finish_move(&vault, pass, "", now, &mut OsRng)).await?;
    Ok(Json(json::MoveKeyJson { key }))
}

/// Cancel a move that has destroyed nothing, and unlock the vault.
#[utoipa::path(post, path = "/v1/move/cancel", request_body = json::UnlockRequest,
    responses((status = 200, body = json::StatusJson), (status = 404, body = json::Problem)))]
async fn cancel(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::UnlockRequest>,
) -> ApiResult<json::StatusJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let now = current_date(&web).await?;
    web.node.ask(NodeShell::stop_to_move).await?;
    let vault = web.home.vault();
    let pass = run_blocking(move || {
        cancel_move(&vault, &pass, now)?;
        Ok(pass)
    });
    let pass = pass.await?;
    let status = web.node.ask(move |shell| {
        shell.unlock_vault(&pass)?;
        Ok(shell.status())
    });
    status.await.map(Json)
}

/// Returns the date of the node's clock.
async fn current_date(web: &Web) -> Result<Time, Refused> {
    let status = web.node.ask(|shell| Ok(shell.status())).await?;
    Ok(Time::from_ms(status.now_ms))
}
