//! Feeds any bytes to the decoder as the stream of an authenticated client, and as a connection's opening.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgproto::conversation::Conversation;
use pgproto::{frame, frontend, startup};

fuzz_target!(|data: &[u8]| {
    if let Ok(Some(body)) = frame::next_startup(data) {
        if let Ok(startup::Opening::Startup(startup)) = startup::decode(body) {
            let _ = startup::split_options(startup.options);
        }
    }
    let mut stream = data;
    let mut conversation = Conversation::new();
    while let Ok(Some(frame)) = frame::next(stream) {
        let _ = conversation.route(frame.tag);
        match frontend::decode(frame) {
            Ok(frontend::Frontend::Bind(bind)) => {
                assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
            }
            Ok(_) => {}
            Err(_) => conversation.failed(Conversation::via(frame.tag)),
        }
        stream = &stream[frame.wire_len()..];
    }
});
