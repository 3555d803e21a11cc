//! Threads that do blocking file operations for the epoll backend.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use super::threads::SystemThreads;
use crate::blocking::perform;
use crate::reactor::op::Op;
use crate::threads::Threads;

/// Blocking operations at a time in the process; devices behind a sandbox gain little from more.
const THREADS: usize = 4;

/// Where a finished operation is reported.
pub(super) trait Report: Send + Sync {
    fn report(&self, op: Arc<Op>, result: io::Result<usize>);
}

struct Job {
    op: Arc<Op>,
    to: Arc<dyn Report>,
}

/// Hands an operation on a file to the pool; its report comes from another thread.
pub(super) fn run(op: Arc<Op>, to: Arc<dyn Report>) {
    static JOBS: OnceLock<Sender<Job>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..THREADS {
            let receiver = receiver.clone();
            SystemThreads
                .spawn("files", None, Box::new(move || serve(&receiver)))
                .expect("a thread for files");
        }
        sender
    });
    jobs.send(Job { op, to }).expect("file threads live as long as the process");
}

fn serve(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let next = jobs.lock().expect("no panic while receiving").recv();
        let Ok(Job { op, to }) = next else { return };
        let mut request = std::mem::take(&mut op.lock().request);
        let result = perform(&mut request);
        op.lock().request = request;
        to.report(op, result);
    }
}
