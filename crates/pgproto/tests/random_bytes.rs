//! Any bytes, and any mutation of real messages, are decoded or refused, never a panic and never read beyond.

use pgproto::{client, scram, startup};
use proptest::prelude::*;

#[path = "../fuzz/consume.rs"]
mod consume;

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
    assert_eq!(consume::session(&real_messages()), 12);
}

fn openings() -> Vec<u8> {
    let mut out = Vec::new();
    client::startup(
        &mut out,
        &[
            ("user", "ann"),
            ("database", "app"),
            ("options", "-c a=b --c-d=e\\ f"),
            ("_pq_.x", "1"),
            ("replication", "0"),
        ],
    );
    out
}

/// Changes a stream as a fuzzer does: bytes, lengths, pieces left out, doubled and moved.
fn mutate(stream: &mut Vec<u8>, mut random: impl FnMut(usize) -> usize) {
    const TELLING: [u32; 10] = [0, 1, 3, 4, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff];
    for _ in 0..1 + random(4) {
        if stream.is_empty() {
            return;
        }
        let at = random(stream.len());
        let end = (at + 1 + random(16)).min(stream.len());
        match random(7) {
            0 => stream[at] = random(256) as u8,
            1 => stream[at] ^= 1 << random(8),
            2 => {
                let word = TELLING[random(TELLING.len())].to_be_bytes();
                let end = (at + 4).min(stream.len());
                stream[at..end].copy_from_slice(&word[..end - at]);
            }
            3 => drop(stream.drain(at..end)),
            4 => stream.extend_from_within(at..end),
            5 => {
                let piece = stream[at..end].to_vec();
                let to = random(stream.len());
                stream.splice(to..to, piece);
            }
            _ => stream.truncate(at),
        }
    }
}

/// `PGPROTO_FUZZ_ROUNDS` says for how long, `PGPROTO_FUZZ_SEED` where it begins: a failure prints the seed of its round.
#[test]
fn mutations_upon_mutations_are_decoded_or_refused() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = variable("PGPROTO_FUZZ_ROUNDS").unwrap_or(20_000);
    let first = variable("PGPROTO_FUZZ_SEED").unwrap_or(1);
    let kept = [real_messages(), openings()];
    for seed in first..first + rounds {
        // SplitMix64.
        let mut state = seed;
        let mut random = |below: usize| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % below as u64) as usize
        };
        let mut stream = kept[random(2)].clone();
        mutate(&mut stream, &mut random);
        let outcome = std::panic::catch_unwind(|| {
            consume::session(&stream);
            consume::opening(&stream);
            if seed % 64 == 0 {
                let (first, last) = stream.split_at(stream.len() / 2);
                consume::authentication(first, last);
            }
        });
        assert!(outcome.is_ok(), "seed {seed}: {stream:?}");
    }
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
        consume::session(&stream);
        stream.truncate(cut.index(stream.len()));
        consume::session(&stream);
    }

    #[test]
    fn any_opening_is_decoded_or_refused(body: Vec<u8>) {
        let mut versioned = startup::PROTOCOL_VERSION.to_be_bytes().to_vec();
        versioned.extend(body);
        let mut framed = (versioned.len() as u32 + 4).to_be_bytes().to_vec();
        framed.extend(versioned);
        consume::opening(&framed);
    }

    #[test]
    fn any_scram_message_is_answered_or_refused(first: Vec<u8>, last: Vec<u8>, text in "n,,n=[a-z]*,r=[ -~]*") {
        for first in [&first[..], text.as_bytes()] {
            consume::authentication(first, &last);
        }
    }
}
