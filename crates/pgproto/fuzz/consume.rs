//! What the fuzz target and the tests do with any bytes: read them as each of a connection's states would.

use std::sync::LazyLock;

use pgproto::conversation::Conversation;
use pgproto::{frame, frontend, scram, startup};

/// Reads `stream` as a session would; tells how many messages it understood.
pub(crate) fn session(mut stream: &[u8]) -> usize {
    let mut conversation = Conversation::new();
    let mut understood = 0;
    while let Ok(Some(frame)) = frame::next(stream) {
        assert!(frame.wire_len() <= stream.len());
        assert_eq!(frame::announced_len(stream), Some(frame.wire_len()));
        let _ = conversation.route(frame.tag);
        match frontend::decode(frame) {
            Ok(frontend::Frontend::Bind(bind)) => {
                assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
                (0..bind.parameters.len()).for_each(|i| _ = bind.parameter_formats.of(i));
                assert_eq!(bind.result_formats.iter().count(), bind.result_formats.len());
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

/// Reads `stream` as the first bytes of a connection.
pub(crate) fn opening(stream: &[u8]) {
    if let Ok(Some(body)) = frame::next_startup(stream)
        && let Ok(startup::Opening::Startup(startup)) = startup::decode(body)
    {
        let _ = startup::split_options(startup.options);
    }
}

/// Answers both messages of an authentication; no bytes prove an unknown password.
pub(crate) fn authentication(first: &[u8], last: &[u8]) {
    // Made once: its thousands of hashes are not what is fuzzed.
    static VERIFIER: LazyLock<scram::Verifier> = LazyLock::new(|| scram::Verifier::mock(&[1; 32], "u"));
    let mut exchange = scram::ServerExchange::new(VERIFIER.clone(), [0; scram::NONCE_LEN]);
    let _ = exchange.client_first(first);
    assert!(exchange.client_final(last).is_err());
}
