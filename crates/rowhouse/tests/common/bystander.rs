//! A session that minds its own business while others misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Server, connect, run, text};

/// How long an answer may take a bystander. Others keep both cores busy, and no build is optimised.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A session that writes and reads until it is ended, and insists that every statement is answered, rightly and soon.
pub struct Bystander {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(u64, Duration)>,
    heart: Heart,
}

impl Bystander {
    /// Begins as the owner of `acme`, in a table of its own, and is in the midst of it on return.
    pub fn of(server: &Server) -> Bystander {
        let (begun, first_turn) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (url, told) = (server.url("acme", "acme"), Arc::clone(&stop));
        let thread = std::thread::spawn(move || run(mind_ones_business(url, told, begun)));
        let heart = Heart::begin();
        first_turn.recv().expect("the bystander has a first turn");
        Bystander { stop, thread, heart }
    }

    /// Ends it, once it has had another turn.
    ///
    /// # Panics
    /// When it noticed something.
    pub fn end(self) {
        self.end_within(ANSWER_MAX);
    }

    /// As [`Bystander::end`], where others may keep it waiting for so long.
    pub fn end_within(self, answer_max: Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (turns, longest) = self.thread.join().expect("the bystander noticed nothing");
        let stood_still = self.heart.end();
        println!(
            "the bystander had {turns} turns, the longest {longest:?}; the test itself stood still for {stood_still:?}"
        );
        assert!(longest <= answer_max + stood_still, "the bystander waited for {longest:?}");
    }
}

/// Notes when the test itself does nothing, on a machine that has it wait or stopped it: that is not the server's doing.
struct Heart {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Duration>,
}

impl Heart {
    fn begin() -> Heart {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let beat = move || {
            let mut longest = Duration::ZERO;
            while !told.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(Duration::from_millis(10));
                longest = longest.max(before.elapsed());
            }
            longest
        };
        Heart { stop, thread: std::thread::spawn(beat) }
    }

    /// The longest time between two beats.
    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it beats")
    }
}

/// Turns until told to stop, and the longest of them.
async fn mind_ones_business(
    url: String,
    stop: Arc<AtomicBool>,
    begun: std::sync::mpsc::Sender<()>,
) -> (u64, Duration) {
    let client = connect(&url).await.expect("the bystander connects");
    client.batch_execute("CREATE TABLE beside (id int PRIMARY KEY, n int)").await.expect("a table");
    client.batch_execute("INSERT INTO beside VALUES (1, 0)").await.expect("a row");
    let (mut turns, mut longest) = (0, Duration::ZERO);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let turn = Instant::now();
        client.execute("UPDATE beside SET n = n + 1 WHERE id = 1", &[]).await.expect("the bystander writes");
        turns += 1;
        assert_eq!(text(&client, "SELECT n FROM beside WHERE id = 1").await, turns.to_string());
        longest = longest.max(turn.elapsed());
        let _ = begun.send(());
        if is_last {
            return (turns, longest);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
