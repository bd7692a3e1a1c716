//! Unfinished notes, and the lines between notes that show changes.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, JsonBody, Web};
use mezza_host::api::views::contact_id;
use mezza_host::api::{Refused, json};

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(draft, keep)).routes(routes!(changes))
}

/// The unfinished note to a contact.
#[utoipa::path(get, path = "/v1/contacts/{id}/draft", params(("id" = String, Path, description = "The contact's number")),
    responses((status = 200, body = json::Draft), (status = 404, body = json::Problem)))]
async fn draft(State(web): State<Web>, Path(id): Path<String>) -> ApiResult<json::Draft> {
    let id = contact_id(&id)?;
    let text = web.node.ask(move |shell| shell.draft(id)).await?;
    Ok(Json(json::Draft { text }))
}

/// Store an unfinished note. 204 means that it is sealed on disk.
#[utoipa::path(put, path = "/v1/contacts/{id}/draft", params(("id" = String, Path, description = "The contact's number")),
    request_body = json::Draft,
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn keep(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<json::Draft>,
) -> Result<StatusCode, Refused> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.set_draft(id, &body.text)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes in a conversation.
#[utoipa::path(get, path = "/v1/contacts/{id}/changes", params(("id" = String, Path, description = "The contact's number")),
    responses((status = 200, body = json::ChangesJson), (status = 404, body = json::Problem)))]
async fn changes(State(web): State<Web>, Path(id): Path<String>) -> ApiResult<json::ChangesJson> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.changes(id)).await.map(Json)
}
