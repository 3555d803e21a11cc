//! `/api/live`: frames as server-sent events, for as long as the browser listens and its session lasts.
//!
//! The frame of a second is made once, whoever listens; a stream writes the tenants it shows of it. A stream that does not keep up misses
//! frames and nobody waits for it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use base::{SqlState, TenantId};
use futures::Stream;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};

use super::answer::{Answer, Refusal};
use super::extension::ConsoleEvent;
use super::frames::{FRAMES_MAX, Frame, KEPT_MAX, LINES_MAX, Ring, Shown};
use super::logins::{Key, Login, Role};
use super::query::Query;
use super::sampler::Sampler;
use super::shown_frame::{frame_json, tenant_json};
use super::{Console, lock};
use crate::administration::{Administered, AdministeredCounts};
use crate::shared::Shared;

/// Between two frames.
const FRAME_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Streams at a time, of all sessions.
const STREAMS_MAX: usize = 64;
/// Of them those that viewers do not get: nobody keeps the administrator from seeing.
const OF_ADMINISTRATORS: usize = 16;
/// Tenants that one stream watches beyond those that use the most.
const WATCHED_MAX: usize = 16;
const TOP_DEFAULT: usize = 12;
/// Frames that a stream may be behind before it misses the oldest.
const BEHIND_MAX: usize = 4;
/// Frames of the past that are told at once: all of them with all that can be asked for are megabytes, and one who does not read has as much waiting.
const PAST_PART: usize = 60;

/// What streams are made from.
pub(super) struct Live {
    pub(super) sampler: Mutex<Sampler>,
    ring: Mutex<Ring>,
    frames: broadcast::Sender<Arc<Frame>>,
    changed: broadcast::Sender<Administered>,
    counts: Mutex<AdministeredCounts>,
    /// By how many streams.
    watched: Mutex<FxHashMap<TenantId, usize>>,
    streams: Mutex<usize>,
}

impl Live {
    pub(super) fn new(shared: &Shared) -> Live {
        Live {
            sampler: Mutex::new(Sampler::new(shared)),
            ring: Mutex::default(),
            frames: broadcast::channel(BEHIND_MAX).0,
            changed: broadcast::channel(Administered::ALL.len() * BEHIND_MAX).0,
            counts: Mutex::new(shared.administered.counts()),
            watched: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    /// Makes a frame each second, and has what the thread took since the one before charged.
    pub(super) async fn keep(&self, console: &Console) {
        let mut next = tokio::time::interval(FRAME_EVERY);
        next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // All that this thread does is the server's own work.
        let mut charged = console.env.clock.thread_cpu();
        loop {
            next.tick().await;
            let Some(shared) = console.shared.upgrade() else { return };
            console.wall.look(console.env.clock.unix_micros(), console.env.now());
            self.look(&shared);
            let used = console.env.clock.thread_cpu();
            shared.charge_system(used - std::mem::replace(&mut charged, used));
        }
    }

    fn look(&self, shared: &Shared) {
        let watched: FxHashSet<TenantId> = lock(&self.watched).keys().copied().collect();
        let frame = Arc::new(lock(&self.sampler).look(shared, &watched));
        lock(&self.ring).push(frame.clone());
        // Nobody may be listening.
        let _ = self.frames.send(frame);
        let counts = shared.administered.counts();
        let before = std::mem::replace(&mut *lock(&self.counts), counts);
        for what in Administered::ALL.into_iter().filter(|what| counts.of(*what) != before.of(*what)) {
            let _ = self.changed.send(what);
        }
    }
}

/// Has a stream's place and its tenants in the frames, until it is dropped.
struct Listening {
    console: Arc<Console>,
    watched: Vec<TenantId>,
}

impl Listening {
    fn begin(console: &Arc<Console>, role: Role, watched: Vec<TenantId>) -> Answer<Listening> {
        let live = &console.live;
        let mut streams = lock(&live.streams);
        let max = match role {
            Role::Administrator => STREAMS_MAX,
            Role::Viewer => STREAMS_MAX - OF_ADMINISTRATORS,
        };
        if *streams >= max {
            let (status, state) = (StatusCode::SERVICE_UNAVAILABLE, SqlState::TOO_MANY_CONNECTIONS);
            return Err(Refusal::new(status, state, format!("{max} streams are open already")));
        }
        *streams += 1;
        drop(streams);
        let mut counts = lock(&live.watched);
        watched.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
        drop(counts);
        Ok(Listening { console: console.clone(), watched })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let live = &self.console.live;
        *lock(&live.streams) -= 1;
        let mut counts = lock(&live.watched);
        for id in &self.watched {
            let count = counts.get_mut(id).expect("counted when the stream began");
            *count -= 1;
            if *count == 0 {
                counts.remove(id);
            }
        }
    }
}

/// One stream.
struct Listener {
    listening: Listening,
    key: Key,
    /// As the wall's clock was when the stream began: of another one its instants are others, and whoever listens asks for the past anew.
    wall_offset_ms: i64,
    shown: Shown,
    /// Tenants whose throughput is told of a frame, at most.
    lines: usize,
    /// Those whose names were told with that, unless they may have others by now.
    named: FxHashSet<TenantId>,
    /// Told of in full.
    tenant: Option<TenantId>,
    frames: broadcast::Receiver<Arc<Frame>>,
    changed: broadcast::Receiver<Administered>,
    events: broadcast::Receiver<ConsoleEvent>,
    /// Frames of the past that are yet to be told.
    past: VecDeque<Arc<Frame>>,
    /// To be sent before anything else.
    ready: VecDeque<Event>,
    has_ended: bool,
}

pub(super) async fn live(
    State(console): State<Arc<Console>>,
    Extension(login): Extension<Login>,
    query: Query,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let shared = console.shared()?;
    let top = query.number("top", TOP_DEFAULT, KEPT_MAX)?;
    let lines = query.number("lines", 0, LINES_MAX)?;
    let seconds = query.number("history", 0, FRAMES_MAX)?;
    let find = |name: &str| shared.tenants.named(name).map(|entry| entry.id);
    // One that was dropped or renamed meanwhile is nobody's mistake: the stream goes on without it.
    let tenant = query.text("tenant").and_then(find);
    let mut shown: Vec<TenantId> = query.list("watch").iter().filter_map(|name| find(name)).collect();
    shown.sort_unstable();
    shown.dedup();
    if shown.len() > WATCHED_MAX {
        return Err(Refusal::bad_input(format!("{WATCHED_MAX} tenants are watched at most")));
    }
    let mut watched = shown.clone();
    watched.extend(tenant.filter(|id| !shown.contains(id)));
    let listening = Listening::begin(&console, login.account.role, watched)?;
    let live = &console.live;
    let mut listener = Listener {
        listening,
        key: login.key,
        wall_offset_ms: console.wall.offset_ms(),
        shown: Shown::new(top, shown),
        lines,
        named: FxHashSet::default(),
        tenant,
        // Subscribed before the history is taken, on the thread that makes the frames: none is missed and none is there twice.
        frames: live.frames.subscribe(),
        changed: live.changed.subscribe(),
        events: console.extension.events.listen(),
        past: lock(&live.ring).last(seconds).into(),
        ready: VecDeque::new(),
        has_ended: false,
    };
    if query.text("history").is_some() {
        listener.tell_past();
    }
    let stream = futures::stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

fn event(name: &str, json: &str) -> Event {
    Event::default().event(name).data(json)
}

impl Listener {
    fn json(&mut self, frame: &Frame) -> Value {
        let console = self.listening.console.clone();
        let Ok(shared) = console.shared() else { return Value::Null };
        let volumes = shared.volumes.list();
        let shown = self.shown.next(frame);
        let mut json = frame_json(frame, &shown, self.lines, volumes, console.wall_ms(frame.at));
        if let Some(id) = self.tenant {
            json["tenant"] = frame.tenant(id).map_or(Value::Null, |sample| tenant_json(sample, volumes));
        }
        json
    }

    /// Tells the names of the tenants that have lines in a frame, once of each.
    fn new_names(&mut self, frame: &Frame) -> Option<Event> {
        let shared = self.listening.console.shared().ok()?;
        let mut names = Vec::new();
        for (id, _) in frame.lines(self.lines) {
            if !self.named.contains(id)
                && let Some(entry) = shared.tenants.get(*id)
            {
                names.push(json!([id.0, entry.with_row(|row| row.name.clone())]));
                self.named.insert(*id);
            }
        }
        (!names.is_empty()).then(|| event("names", &json!({ "tenants": names }).to_string()))
    }

    /// Makes the next part of the past ready; with nothing in it there is the first all the same.
    fn tell_past(&mut self) {
        let some: Vec<Arc<Frame>> = self.past.drain(..PAST_PART.min(self.past.len())).collect();
        let names: Vec<Event> = some.iter().filter_map(|frame| self.new_names(frame)).collect();
        let frames: Vec<Value> = some.iter().map(|frame| self.json(frame)).collect();
        self.ready.extend(names);
        let more = !self.past.is_empty();
        self.ready.push_back(event("history", &json!({ "frames": frames, "more": more }).to_string()));
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.past.is_empty() {
                self.tell_past();
                continue;
            }
            if self.has_ended {
                return None;
            }
            let next = tokio::select! {
                frame = self.frames.recv() => match frame {
                    Ok(frame) => Next::Frame(frame),
                    Err(error) => Next::Missed(error),
                },
                what = self.changed.recv() => what.map_or_else(Next::Missed, Next::Changed),
                more = self.events.recv() => more.map_or_else(Next::Missed, Next::Event),
            };
            match next {
                Next::Frame(frame) => {
                    let console = &self.listening.console;
                    if !lock(&console.logins).is_open(self.key, console.env.now()) {
                        self.has_ended = true;
                        return Some(event("expired", "{}"));
                    }
                    if console.wall.offset_ms() != self.wall_offset_ms {
                        return None;
                    }
                    let names = self.new_names(&frame);
                    let frame = event("frame", &self.json(&frame).to_string());
                    self.ready.extend(names);
                    self.ready.push_back(frame);
                }
                Next::Changed(what) => {
                    if what == Administered::Tenants {
                        self.named.clear();
                    }
                    return Some(event("changed", &json!({ "what": what.as_str() }).to_string()));
                }
                Next::Event(more) => return Some(event(more.name, &more.json)),
                Next::Missed(RecvError::Lagged(_)) => {}
                Next::Missed(RecvError::Closed) => return None,
            }
        }
    }
}

enum Next {
    Frame(Arc<Frame>),
    Changed(Administered),
    Event(ConsoleEvent),
    Missed(RecvError),
}
