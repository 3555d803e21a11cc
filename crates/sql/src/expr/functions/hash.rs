//! `hashtext` and `hashtextextended`: programs make numbers of names by them, for advisory locks above all, and to divide rows. So they are PostgreSQL's to the
//! bit: Jenkins's lookup3 over words of the little end first.

use types::Datum;

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("hashtext", &[TEXT], INT4, |a, _| {
        let [_, low] = hash(text(&a[0])?.as_bytes(), 0);
        Ok(Datum::Int4(low.cast_signed()))
    }),
    FunctionDef::new("hashtextextended", &[TEXT, INT8], INT8, |a, _| {
        Ok(Datum::Int8(wide(hash(text(&a[0])?.as_bytes(), int(&a[1])?.cast_unsigned()))))
    }),
];

fn wide([high, low]: [u32; 2]) -> i64 {
    ((u64::from(high) << 32) | u64::from(low)).cast_signed()
}

/// Bytes that are mixed in at a time.
const BLOCK_LEN: usize = 12;

/// The two last words of the state, of which the second is the hash of 32 bits. A seed of 0 is none.
fn hash(value: &[u8], seed: u64) -> [u32; 2] {
    // The length is taken modulo 2^32.
    let begin = 0x9e37_79b9_u32.wrapping_add(value.len() as u32).wrapping_add(3_923_095);
    let mut state = [begin; 3];
    if seed != 0 {
        state[0] = state[0].wrapping_add((seed >> 32) as u32);
        state[1] = state[1].wrapping_add(seed as u32);
        mix(&mut state);
    }
    let blocks = value.chunks_exact(BLOCK_LEN);
    let rest = blocks.remainder();
    for block in blocks {
        add(&mut state, block);
        mix(&mut state);
    }
    // The lowest byte of the last word is the length's.
    let mut last = [0; BLOCK_LEN];
    for (at, byte) in rest.iter().enumerate() {
        last[if at < 8 { at } else { at + 1 }] = *byte;
    }
    add(&mut state, &last);
    end(&mut state);
    [state[1], state[2]]
}

fn add(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks_exact(4)) {
        let bytes = bytes.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        *word = word.wrapping_add(bytes);
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(first);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(second);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(third);
        *b = b.wrapping_add(*a);
    }
}

fn end([a, b, c]: &mut [u32; 3]) {
    let fold = |word: u32, other: u32, by: u32| (word ^ other).wrapping_sub(other.rotate_left(by));
    *c = fold(*c, *b, 14);
    *a = fold(*a, *c, 11);
    *b = fold(*b, *a, 25);
    *c = fold(*c, *b, 16);
    *a = fold(*a, *c, 4);
    *b = fold(*b, *a, 14);
    *c = fold(*c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::{hash, wide};
    use crate::session::testing::Bench;

    #[test]
    fn hashes_are_postgresqls() {
        let cases = [
            ("", 0, -1_477_818_771),
            ("a", 0, 1_075_015_857),
            ("é", 0, -983_094_517),
            ("resource1", 0, 991_601_810),
            ("gamekit.auth.migrations", 0, -298_890_956),
        ];
        for (value, seed, expected) in cases {
            assert_eq!(hash(value.as_bytes(), seed)[1].cast_signed(), expected, "{value}");
        }
        let extended = [
            ("a", 0_u64, 3_591_986_179_850_072_241),
            ("a", 1, 3_325_245_193_489_759_299),
            ("gamekit.auth.migrations", u64::MAX, 6_360_592_788_790_005_792),
        ];
        for (value, seed, expected) in extended {
            assert_eq!(wide(hash(value.as_bytes(), seed)), expected, "{value}");
        }
        let mut bench = Bench::new();
        let mut session = bench.session();
        let sql = "SELECT hashtext('resource1'), hashtextextended('a', 1), pg_try_advisory_xact_lock(hashtext('a'))";
        assert_eq!(bench.run(&mut session, sql).lines(), ["991601810|3325245193489759299|t"]);
    }
}
