//! What whoever embeds a server adds to its console: routes behind the same login, and events on the live stream.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::endpoint::Endpoint;

/// Events that a live stream may be behind before it misses the oldest.
const EVENTS_BEHIND_MAX: usize = 16;

/// Added to the console of a server; the default adds nothing.
#[derive(Clone, Debug, Default)]
pub struct ConsoleExtension {
    /// Addresses beginning with `/api/`, none of which the server has itself. Whoever is logged in may ask by GET; any other method takes the
    /// administrator and the session's token, as for the server's own. Handlers run on the thread that serves the console and must not
    /// block it. Bodies have 64 KiB at most unless a route sets another `DefaultBodyLimit`.
    /// They stand in the API's description beside the server's.
    pub endpoints: Vec<Endpoint>,
    /// The JSON schemas that `endpoints` name, none of which the server has itself.
    pub schemas: Map<String, Value>,
    /// What is published here goes to every live stream.
    pub events: ConsoleEvents,
}

/// Where events are published; clones are of the same one.
#[derive(Clone)]
pub struct ConsoleEvents(broadcast::Sender<ConsoleEvent>);

/// A server-sent event.
#[derive(Clone, Debug)]
pub(super) struct ConsoleEvent {
    pub(super) name: &'static str,
    pub(super) json: String,
}

impl Default for ConsoleEvents {
    fn default() -> ConsoleEvents {
        ConsoleEvents(broadcast::channel(EVENTS_BEHIND_MAX).0)
    }
}

impl fmt::Debug for ConsoleEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConsoleEvents({} listening)", self.0.receiver_count())
    }
}

impl ConsoleEvents {
    /// Sends an event to the live streams that are open. From any thread; does not wait, and costs nothing while nobody listens.
    ///
    /// # Panics
    /// `body` cannot be written as JSON: a map whose keys are no strings.
    pub fn publish(&self, name: &'static str, body: &impl Serialize) {
        if self.0.receiver_count() > 0 {
            let json = serde_json::to_string(body).expect("an event is JSON");
            // The last one may have gone meanwhile.
            let _ = self.0.send(ConsoleEvent { name, json });
        }
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<ConsoleEvent> {
        self.0.subscribe()
    }
}
