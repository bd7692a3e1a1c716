//! The mesh that this node carries.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use mezza_mesh::Grade;
use mezza_sim::crowd::movement::Density;
use serde::Deserialize;
use tokio::sync::Semaphore;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, UrlQuery, Web};
use crate::carriers::MeshPlace;
use mezza_hibe::Life;
use mezza_host::api::{Exit, Fault, json};
use mezza_host::process::control;
use mezza_servers::mesh::control::MeshAsk;
use mezza_servers::mesh::crowd::{Moves, map};

/// How long the mesh node may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The next step if it does not answer.
const NEXT: &str = "look at the log of `mezza node run`";

/// Largest error of a clock that is simulated, ms: a day.
const CLOCK_ERROR_MS_MAX: i64 = 86_400_000;
/// The turn to draw a crowd.
static DRAWING: Semaphore = Semaphore::const_new(1);

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(mesh)).routes(routes!(crowd))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct CrowdQuery {
    /// Number of people, 10 to 200.
    users: usize,
    /// How they move.
    moves: json::CrowdMovesJson,
    /// Everything else follows from it.
    seed: u64,
}

/// A simulated crowd with the engine of the mesh, in which this device writes one message.
#[utoipa::path(get, path = "/v1/mesh/crowd", params(CrowdQuery),
    responses((status = 200, body = json::CrowdMapJson), (status = 422, body = json::Problem)))]
async fn crowd(
    State(web): State<Web>,
    UrlQuery(query): UrlQuery<CrowdQuery>,
) -> ApiResult<json::CrowdMapJson> {
    if !map::USERS.contains(&query.users) {
        let text = format!("a crowd of {} is not drawn", query.users);
        return Err(Fault::new(Exit::Malformed, text, "choose 10 to 200 people").into());
    }
    // One simulation takes a core for about a second.
    let _turn = DRAWING.try_acquire().map_err(|_| {
        Fault::new(Exit::Busy, "another crowd is being drawn", "try again in a second")
    })?;
    let (place, _) = web.node.ask(|shell| shell.mesh_facts()).await?;
    let node = match place {
        Some(place) => ask_node(place).await.ok(),
        None => None,
    };
    let (own_grade, own_error_ms) = describe_own_clock(node.as_ref());
    let own_clock = (grade_of(&own_grade), 1_000 * own_error_ms);
    let moves = match query.moves {
        json::CrowdMovesJson::Sit => Moves::Sit(Density::Eight),
        json::CrowdMovesJson::Walk => Moves::Walk,
        json::CrowdMovesJson::Scatter => Moves::Scatter,
        json::CrowdMovesJson::Celebrate => Moves::Celebrate,
    };
    let order = map::MapOrder { users: query.users, moves, seed: query.seed, own_clock };
    let drawn = tokio::task::spawn_blocking(move || map::draw_map(&order)).await;
    let drawn = drawn.map_err(|_| Fault::bug("drawing the crowd failed"))?;
    let moments = drawn.moments.into_iter().map(|moment| json::CrowdMomentJson {
        second: moment.second,
        places: moment.places,
        holders: moment.holders,
        around: moment.around,
        clocks_percent: moment.clocks_percent,
    });
    Ok(Json(json::CrowdMapJson {
        side: map::SIDE,
        range: drawn.range,
        own_grade,
        own_error_ms,
        arrived_s: drawn.arrived_s,
        moments: moments.collect(),
    }))
}

/// Returns grade and error (ms) of the clock of this device. Without a mesh it is taken for right.
fn describe_own_clock(node: Option<&json::MeshNodeJson>) -> (String, i64) {
    let bounded = |ms: i64| ms.clamp(-CLOCK_ERROR_MS_MAX, CLOCK_ERROR_MS_MAX);
    match node {
        // Neighbours that moved the clock forward found it behind.
        Some(node) => (node.grade.clone(), bounded(-node.moved_ms)),
        None => ("good".to_owned(), 0),
    }
}

fn grade_of(word: &str) -> Grade {
    match word {
        "good" => Grade::Good,
        "fair" => Grade::Fair,
        "poor" => Grade::Poor,
        _ => Grade::None,
    }
}

/// The mesh node of this home: neighbours, clock, and what it carries.
#[utoipa::path(get, path = "/v1/mesh",
    responses((status = 200, body = json::MeshJson), (status = 423, body = json::Problem)))]
async fn mesh(State(web): State<Web>) -> ApiResult<json::MeshJson> {
    let (place, has_keys) = web.node.ask(|shell| shell.mesh_facts()).await?;
    let mut mesh =
        json::MeshJson { on: place.is_some(), life: None, has_keys, trouble: None, node: None };
    let Some(place) = place else { return Ok(Json(mesh)) };
    mesh.life = Some(name_life(place.life).into());
    match ask_node(place).await {
        Ok(node) => mesh.node = Some(node),
        Err(fault) => mesh.trouble = Some(fault.to_string()),
    }
    Ok(Json(mesh))
}

fn name_life(life: Life) -> &'static str {
    match life {
        Life::Minute => "minute",
        Life::FiveMinutes => "five-minutes",
        Life::HalfHour => "half-hour",
        Life::HalfDay => "half-day",
    }
}

async fn ask_node(place: MeshPlace) -> Result<json::MeshNodeJson, Fault> {
    let asked = tokio::task::spawn_blocking(move || {
        let lines = control::ask_server(&place.socket, &MeshAsk::Status, NEXT)?;
        lines.limit_wait(ANSWER)?.next().transpose()
    });
    let silent = || Fault::new(Exit::Unreachable, "the mesh node does not answer", NEXT);
    let line = asked.await.map_err(|_| silent())??.ok_or_else(silent)?;
    serde_json::from_value(line).map_err(|_| Fault::bug("the state of the mesh cannot be read"))
}
