//! Feeds any bytes to the decoders: as a connection's opening, as an authentication and as the stream of a session.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../consume.rs"]
mod consume;

fuzz_target!(|data: &[u8]| {
    consume::opening(data);
    consume::session(data);
    let (first, last) = data.split_at(data.len() / 2);
    consume::authentication(first, last);
});
