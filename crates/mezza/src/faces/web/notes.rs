//! Notes: read, write, give up, forget.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use mezza_messenger::Command;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, JsonBody, UrlQuery, Web};
use mezza_host::api::views::{self, contact_id, note_id};
use mezza_host::api::{Refused, json};

/// Number of notes in a response to a request without a limit.
const LIMIT: usize = 100;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(thread, send))
        .routes(routes!(preview))
        .routes(routes!(seen))
        .routes(routes!(outbox))
        .routes(routes!(give_up))
        .routes(routes!(lower_level))
        .routes(routes!(search))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ThreadQuery {
    /// Only notes older than this one.
    before: Option<String>,
    /// Maximum number of notes, 1 to 500; 100 by default.
    limit: Option<usize>,
}

/// A part of a thread, oldest first.
#[utoipa::path(get, path = "/v1/contacts/{id}/notes",
    params(("id" = String, Path, description = "The contact's number"), ThreadQuery),
    responses((status = 200, body = json::Notes), (status = 404, body = json::Problem)))]
async fn thread(
    State(web): State<Web>,
    Path(id): Path<String>,
    UrlQuery(query): UrlQuery<ThreadQuery>,
) -> ApiResult<json::Notes> {
    let id = contact_id(&id)?;
    let before = query.before.as_deref().map(note_id).transpose()?;
    let limit = query.limit.unwrap_or(LIMIT);
    web.node.ask(move |shell| shell.list_notes(id, before, limit)).await.map(Json)
}

/// Write a note. 201 means that it is on disk.
#[utoipa::path(post, path = "/v1/contacts/{id}/notes",
    params(("id" = String, Path, description = "The contact's number")), request_body = json::SendRequest,
    responses((status = 201, body = json::NoteJson), (status = 422, body = json::Problem)))]
async fn send(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<json::SendRequest>,
) -> Result<(StatusCode, Json<json::NoteJson>), Refused> {
    let id = contact_id(&id)?;
    let client = client_id(&body.client_id)?;
    let life = body.mesh_life.map(views::life_of);
    let note = web.node.ask(move |shell| shell.send_note_for(id, client, body.text, life)).await?;
    Ok((StatusCode::CREATED, Json(note)))
}

/// The number that a client drew for a note.
pub(super) fn client_id(text: &str) -> Result<[u8; 16], Refused> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        Refused::malformed(
            "client_id is not 32 hexadecimal digits",
            "draw 16 random bytes for each note",
        )
    })
}

/// The cost of sending a text.
#[utoipa::path(post, path = "/v1/contacts/{id}/preview",
    params(("id" = String, Path, description = "The contact's number")), request_body = json::PreviewRequest,
    responses((status = 200, body = json::Preview), (status = 404, body = json::Problem)))]
async fn preview(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<json::PreviewRequest>,
) -> ApiResult<json::Preview> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.preview_note(id, &body.text)).await.map(Json)
}

/// Report that the user has read the thread up to a note.
#[utoipa::path(post, path = "/v1/contacts/{id}/seen",
    params(("id" = String, Path, description = "The contact's number")), request_body = json::SeenRequest,
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn seen(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<json::SeenRequest>,
) -> Result<StatusCode, Refused> {
    let contact = contact_id(&id)?;
    let note = note_id(&body.note)?;
    web.run_command(Command::Seen { contact, note }).await
}

/// Our notes that are not delivered yet.
#[utoipa::path(get, path = "/v1/outbox", responses((status = 200, body = json::OutboxJson)))]
async fn outbox(State(web): State<Web>) -> ApiResult<json::OutboxJson> {
    let notes = web.node.ask(|shell| shell.list_outbox()).await?;
    Ok(Json(json::OutboxJson { notes }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GiveUpQuery {
    /// `cancel` (give it up before it is delivered), `forget` (delete it on this device),
    /// `forget_soon` (the same in 5 s, or before a lock) or `keep` (take `forget_soon` back).
    how: Option<How>,
}

/// The ways to remove a note.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum How {
    Cancel,
    Forget,
    ForgetSoon,
    Keep,
}

/// Give up a note, or delete it on this device.
#[utoipa::path(delete, path = "/v1/notes/{id}",
    params(("id" = String, Path, description = "The note's number"), GiveUpQuery),
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn give_up(
    State(web): State<Web>,
    Path(id): Path<String>,
    UrlQuery(query): UrlQuery<GiveUpQuery>,
) -> Result<StatusCode, Refused> {
    let note = note_id(&id)?;
    let command = match query.how.unwrap_or(How::Cancel) {
        How::Cancel => Command::Cancel { note },
        How::Forget => Command::Forget { note },
        How::ForgetSoon => {
            web.node.ask(move |shell| shell.forget_soon(note)).await?;
            return Ok(StatusCode::NO_CONTENT);
        }
        How::Keep => {
            let kept = web.node.ask(move |shell| Ok(shell.keep_note(note))).await?;
            return if kept { Ok(StatusCode::NO_CONTENT) } else { Err(Refused::no_note()) };
        }
    };
    web.run_command(command).await
}

/// Let a waiting note leave at the lowest level that its conversation allows now.
#[utoipa::path(post, path = "/v1/notes/{id}/lower",
    params(("id" = String, Path, description = "The note's number")),
    responses((status = 204), (status = 404, body = json::Problem), (status = 409, body = json::Problem)))]
async fn lower_level(
    State(web): State<Web>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refused> {
    web.run_command(Command::LowerLevel { note: note_id(&id)? }).await
}

/// Find notes that contain a text, newest first. Upper and lower case are the same.
#[utoipa::path(post, path = "/v1/search", request_body = json::SearchRequest,
    responses((status = 200, body = json::FoundNotes), (status = 400, body = json::Problem)))]
async fn search(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::SearchRequest>,
) -> ApiResult<json::FoundNotes> {
    let contact = body.contact.as_deref().map(contact_id).transpose()?;
    web.node.ask(move |shell| shell.search_notes(&body.text, contact)).await.map(Json)
}
