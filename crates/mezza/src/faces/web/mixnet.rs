//! The mixnet that this node has joined.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, JsonBody, Web};
use crate::node::shell::NodeShell;
use mezza_host::api::json;
use mezza_host::api::network_uri::NetworkUri;
use mezza_servers::mixnet::client;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(mixnet, join, leave))
        .routes(routes!(leaving))
        .routes(routes!(resume))
}

/// The network, its round, its noise, and how much of the privacy budget is used.
#[utoipa::path(get, path = "/v1/mixnet",
    responses((status = 200, body = json::Mixnet), (status = 404, body = json::Problem)))]
async fn mixnet(State(web): State<Web>) -> ApiResult<json::Mixnet> {
    web.node.ask(|shell| shell.describe_mixnet()).await.map(Json)
}

/// Join a network by its link. Its configs are checked up to the link's hash first.
#[utoipa::path(post, path = "/v1/mixnet", request_body = json::JoinRequest,
    responses((status = 200, body = json::Mixnet), (status = 422, body = json::Problem)))]
async fn join(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::JoinRequest>,
) -> ApiResult<json::Mixnet> {
    let uri: NetworkUri = request.link.trim().parse()?;
    client::join_network(&uri).await?;
    web.node.ask(move |shell| shell.join_mixnet(uri)).await.map(Json)
}

/// Effects of leaving the network on notes and contacts.
#[utoipa::path(get, path = "/v1/mixnet/leaving",
    responses((status = 200, body = json::NetworkLeaving), (status = 404, body = json::Problem)))]
async fn leaving(State(web): State<Web>) -> ApiResult<json::NetworkLeaving> {
    web.node.ask(|shell| shell.preview_leaving()).await.map(Json)
}

/// Leave the network. The spent budget is kept, and counts again if the network is joined again.
#[utoipa::path(delete, path = "/v1/mixnet",
    responses((status = 200, body = json::NetworkLeaving), (status = 404, body = json::Problem)))]
async fn leave(State(web): State<Web>) -> ApiResult<json::NetworkLeaving> {
    web.node.ask(NodeShell::leave_mixnet).await.map(Json)
}

/// Continue with a restored vault, although its budget lacks the rounds since the copy was made.
#[utoipa::path(post, path = "/v1/mixnet/resume",
    responses((status = 200, body = json::Mixnet), (status = 404, body = json::Problem)))]
async fn resume(State(web): State<Web>) -> ApiResult<json::Mixnet> {
    web.node.ask(NodeShell::resume_restored).await.map(Json)
}
