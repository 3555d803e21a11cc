//! Any bytes, and any mutation of real messages, are decoded or refused, never a panic and never read beyond.

use pgproto::{client, conversation::Conversation, frame, frontend, scram, startup};
use proptest::prelude::*;

/// Reads `stream` as a session would; tells how many messages it understood.
fn consume(mut stream: &[u8]) -> usize {
    let mut conversation = Conversation::new();
    let mut understood = 0;
    while let Ok(Some(frame)) = frame::next(stream) {
        assert!(frame.wire_len() <= stream.len());
        let _ = conversation.route(frame.tag);
        match frontend::decode(frame) {
            Ok(frontend::Frontend::Bind(bind)) => {
                assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
                (0..bind.parameters.len()).for_each(|i| _ = bind.parameter_formats.of(i));
                understood += 1;
            }
            Ok(frontend::Frontend::Parse(parse)) => {
                assert_eq!(parse.parameter_oids.iter().count(), parse.parameter_oids.len());
                understood += 1;
            }
            Ok(frontend::Frontend::Authentication(body)) => {
                let _ = frontend::sasl_initial_response(body);
            }
            Ok(_) => understood += 1,
            Err(_) => conversation.failed(Conversation::via(frame.tag)),
        }
        stream = &stream[frame.wire_len()..];
    }
    understood
}

fn real_messages() -> Vec<u8> {
    let mut out = Vec::new();
    client::query(&mut out, "select 1");
    client::parse(&mut out, "s", "select $1::int", &[23, 0]);
    client::bind(&mut out, "p", "s", &[1, 0], &[Some(b"\0\0\0\x01"), None], &[1]);
    client::describe(&mut out, b'P', "p");
    client::execute(&mut out, "p", 10);
    client::close(&mut out, b'S', "s");
    client::flush(&mut out);
    client::copy_data(&mut out, b"1\t2\n");
    client::copy_done(&mut out);
    client::copy_fail(&mut out, "enough");
    client::sasl_initial_response(&mut out, scram::MECHANISM, b"n,,n=,r=x");
    client::sync(&mut out);
    client::terminate(&mut out);
    out
}

#[test]
fn every_real_message_is_understood() {
    assert_eq!(consume(&real_messages()), 12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_messages_are_decoded_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut stream = real_messages();
        for (at, byte) in edits {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        consume(&stream);
        stream.truncate(cut.index(stream.len()));
        consume(&stream);
    }

    #[test]
    fn any_opening_is_decoded_or_refused(body: Vec<u8>) {
        let _ = frame::next_startup(&body);
        if let Ok(startup::Opening::Startup(startup)) = startup::decode(&body) {
            let _ = startup::split_options(startup.options);
        }
        let mut versioned = startup::PROTOCOL_VERSION.to_be_bytes().to_vec();
        versioned.extend(body);
        let _ = startup::decode(&versioned);
    }

    #[test]
    fn any_scram_message_is_answered_or_refused(first: Vec<u8>, last: Vec<u8>, text in "n,,n=[a-z]*,r=[ -~]*") {
        for first in [&first[..], text.as_bytes()] {
            let verifier = scram::Verifier::mock(&[1; 32], "u");
            let mut exchange = scram::ServerExchange::new(verifier, [0; scram::NONCE_LEN]);
            let _ = exchange.client_first(first);
            prop_assert!(exchange.client_final(&last).is_err());
        }
    }
}
