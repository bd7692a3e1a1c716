//! Handlers for contacts, unknown senders and safety numbers.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use mezza_messenger::Command;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, JsonBody, Web};
use crate::faces::qr::{Medium, QrImage};
use mezza_host::api::views::contact_id;
use mezza_host::api::{Refused, json};

/// Digits of one group of a safety number.
const GROUP: usize = 5;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(read))
        .routes(routes!(show, change, delete))
        .routes(routes!(number))
        .routes(routes!(requests))
        .routes(routes!(see))
        .routes(routes!(accept))
        .routes(routes!(refuse))
}

/// All contacts; unknown senders are listed under requests.
#[utoipa::path(get, path = "/v1/contacts", responses((status = 200, body = json::Contacts)))]
async fn list(State(web): State<Web>) -> ApiResult<json::Contacts> {
    let contacts = web.node.ask(|shell| shell.list_contacts()).await?;
    Ok(Json(json::Contacts { contacts }))
}

/// Add a contact from a card.
#[utoipa::path(post, path = "/v1/contacts", request_body = json::AddRequest,
    responses((status = 201, body = json::ContactJson), (status = 422, body = json::Problem)))]
async fn add(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::AddRequest>,
) -> Result<(StatusCode, Json<json::ContactJson>), Refused> {
    let name = body.name.filter(|name| !name.trim().is_empty());
    let in_person = body.in_person.unwrap_or(false);
    let contact = web.node.ask(move |shell| shell.add_contact(&body.uri, name, in_person)).await?;
    Ok((StatusCode::CREATED, Json(contact)))
}

/// Read a card without adding it.
#[utoipa::path(post, path = "/v1/card", request_body = json::CardRequest,
    responses((status = 200, body = json::CardSummary), (status = 422, body = json::Problem)))]
async fn read(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::CardRequest>,
) -> ApiResult<json::CardSummary> {
    web.node.ask(move |shell| shell.read_card(&body.uri)).await.map(Json)
}

/// One contact.
#[utoipa::path(get, path = "/v1/contacts/{id}", params(("id" = String, Path, description = "Its number")),
    responses((status = 200, body = json::ContactJson), (status = 404, body = json::Problem)))]
async fn show(State(web): State<Web>, Path(id): Path<String>) -> ApiResult<json::ContactJson> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.contact(id)).await.map(Json)
}

/// Change a contact. Absent fields stay unchanged.
#[utoipa::path(patch, path = "/v1/contacts/{id}", params(("id" = String, Path, description = "Its number")),
    request_body = json::ContactPatch,
    responses((status = 200, body = json::ContactJson), (status = 404, body = json::Problem)))]
async fn change(
    State(web): State<Web>,
    Path(id): Path<String>,
    JsonBody(patch): JsonBody<json::ContactPatch>,
) -> ApiResult<json::ContactJson> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.patch_contact(id, patch)).await.map(Json)
}

/// Delete a contact with its thread.
#[utoipa::path(delete, path = "/v1/contacts/{id}", params(("id" = String, Path, description = "Its number")),
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn delete(State(web): State<Web>, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.delete_contact(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The safety number to compare.
#[utoipa::path(get, path = "/v1/contacts/{id}/number", params(("id" = String, Path, description = "Its number")),
    responses((status = 200, body = json::Number), (status = 404, body = json::Problem)))]
async fn number(State(web): State<Web>, Path(id): Path<String>) -> ApiResult<json::Number> {
    let id = contact_id(&id)?;
    let (digits, scannable) = web.node.ask(move |shell| shell.safety_number(id)).await?;
    let text = data_encoding::BASE32_NOPAD.encode(&scannable);
    Ok(Json(json::Number {
        groups: group_digits(&digits),
        scannable_svg: QrImage::draw(&text, Medium::Screen)?.to_svg(),
    }))
}

/// Splits digits into groups of five.
fn group_digits(digits: &str) -> Vec<String> {
    let digits: Vec<char> = digits.chars().filter(char::is_ascii_digit).collect();
    digits.chunks(GROUP).map(|group| group.iter().collect()).collect()
}

/// Unknown senders who wrote or sent an invitation.
#[utoipa::path(get, path = "/v1/requests", responses((status = 200, body = json::RequestsJson)))]
async fn requests(State(web): State<Web>) -> ApiResult<json::RequestsJson> {
    web.node.ask(|shell| shell.list_requests()).await.map(Json)
}

/// Request the identity of an inviter.
#[utoipa::path(post, path = "/v1/requests/{id}/see", params(("id" = String, Path, description = "Its number")),
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn see(State(web): State<Web>, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let id = contact_id(&id)?;
    web.node.ask(move |shell| shell.ask_who(id)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Accept the request of an unknown sender.
#[utoipa::path(post, path = "/v1/requests/{id}/accept", params(("id" = String, Path, description = "Its number")),
    responses((status = 200, body = json::ContactJson), (status = 404, body = json::Problem)))]
async fn accept(State(web): State<Web>, Path(id): Path<String>) -> ApiResult<json::ContactJson> {
    let id = contact_id(&id)?;
    let contact = web.node.ask(move |shell| {
        shell.run_command(Command::Accept { contact: id })?;
        shell.contact(id)
    });
    contact.await.map(Json)
}

/// Refuse the request of an unknown sender.
#[utoipa::path(post, path = "/v1/requests/{id}/refuse", params(("id" = String, Path, description = "Its number")),
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn refuse(State(web): State<Web>, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    web.run_command(Command::Refuse { contact: contact_id(&id)? }).await
}
