//! What the extensions `uuid-ossp` and `pgcrypto` bring, as far as it is there.

use base::{SqlError, SqlState};
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use types::Datum;

use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("uuid_generate_v1", &[], UUID, time_uuid).volatile(),
    FunctionDef::new("uuid_generate_v1mc", &[], UUID, time_uuid).volatile(),
    FunctionDef::new("uuid_generate_v3", &[UUID, TEXT], UUID, |a, c| named_uuid(&Hash::Md5, 3, a, c)),
    FunctionDef::new("uuid_generate_v4", &[], UUID, random_uuid).volatile(),
    FunctionDef::new("uuid_generate_v5", &[UUID, TEXT], UUID, |a, c| {
        named_uuid(&Hash::Sha(&SHA1_FOR_LEGACY_USE_ONLY), 5, a, c)
    }),
    FunctionDef::new("uuid_nil", &[], UUID, |_, _| Ok(Datum::Uuid([0; 16]))),
    FunctionDef::new("uuid_ns_dns", &[], UUID, |_, _| Ok(namespace(0x10))),
    FunctionDef::new("uuid_ns_url", &[], UUID, |_, _| Ok(namespace(0x11))),
    FunctionDef::new("uuid_ns_oid", &[], UUID, |_, _| Ok(namespace(0x12))),
    FunctionDef::new("uuid_ns_x500", &[], UUID, |_, _| Ok(namespace(0x14))),
    FunctionDef::new("digest", &[TEXT, TEXT], BYTEA, digest),
    FunctionDef::new("digest", &[BYTEA, TEXT], BYTEA, digest),
    FunctionDef::new("hmac", &[TEXT, TEXT, TEXT], BYTEA, hmac),
    FunctionDef::new("hmac", &[BYTEA, BYTEA, TEXT], BYTEA, hmac),
    FunctionDef::new("gen_random_bytes", &[INT4], BYTEA, random_bytes).volatile(),
];

/// Functions of `pgcrypto` that are not there.
const MISSING: &[&str] = &[
    "armor",
    "crypt",
    "dearmor",
    "decrypt",
    "decrypt_iv",
    "encrypt",
    "encrypt_iv",
    "gen_salt",
    "pgp_armor_headers",
    "pgp_key_id",
    "pgp_pub_decrypt",
    "pgp_pub_decrypt_bytea",
    "pgp_pub_encrypt",
    "pgp_pub_encrypt_bytea",
    "pgp_sym_decrypt",
    "pgp_sym_decrypt_bytea",
    "pgp_sym_encrypt",
    "pgp_sym_encrypt_bytea",
];

/// The extension that brings the functions of that name, which may be called by its schema then.
pub(crate) fn extension_of(name: &str) -> Option<&'static str> {
    if !FUNCTIONS.iter().any(|function| function.name == name) {
        return None;
    }
    Some(if name.starts_with("uuid_") { "uuid-ossp" } else { "pgcrypto" })
}

/// What to say of a function that is missing although its extension is there.
pub(crate) fn hint_for_missing(name: &str) -> Option<&'static str> {
    MISSING.contains(&name).then_some(
        "The extension pgcrypto has digest, gen_random_bytes, gen_random_uuid and hmac here, and nothing else.",
    )
}

/// A version 4 identifier.
pub(super) fn random_uuid(_args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let mut bytes = [0; 16];
    fill(&mut bytes, ctx);
    Ok(uuid(bytes, 4))
}

fn fill(bytes: &mut [u8], ctx: &EvalCtx<'_>) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&ctx.stmt.session.random().to_be_bytes()[..chunk.len()]);
    }
}

/// These bytes with their version and variant in place.
fn uuid(mut bytes: [u8; 16], version: u8) -> Datum {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Datum::Uuid(bytes)
}

/// The identifier of a moment. For the address of a network card it has random bits, as PostgreSQL's `uuid_generate_v1mc`: nobody learns from one
/// where it was made.
fn time_uuid(_args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    /// Steps of 100 ns from 1582-10-15 to 2000-01-01.
    const STEPS_TO_2000: i64 = 122_192_928_000_000_000 + 9_466_848_000_000_000;
    let mut bytes = [0; 16];
    fill(&mut bytes[8..], ctx);
    // The bit of addresses that are no card's.
    bytes[10] |= 1;
    let steps = ctx.stmt.session.clock().saturating_mul(10).saturating_add(STEPS_TO_2000).to_be_bytes();
    bytes[..4].copy_from_slice(&steps[4..]);
    bytes[4..6].copy_from_slice(&steps[2..4]);
    bytes[6..8].copy_from_slice(&steps[..2]);
    Ok(uuid(bytes, 1))
}

/// One of RFC 4122's name spaces, which differ in a byte.
fn namespace(byte: u8) -> Datum {
    let mut bytes = 0x6ba7_b800_9dad_11d1_80b4_00c0_4fd4_30c8_u128.to_be_bytes();
    bytes[3] = byte;
    Datum::Uuid(bytes)
}

/// The identifier of a name in a name space.
fn named_uuid(hash: &Hash, version: u8, args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let Datum::Uuid(space) = &args[0] else { return Err(wrong("a uuid", &args[0])) };
    let digest = hash.of(&[space.as_slice(), text(&args[1])?.as_bytes()], ctx)?;
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Ok(uuid(bytes, version))
}

/// What digests are made by.
enum Hash {
    Md5,
    Sha(&'static Algorithm),
}

impl Hash {
    /// # Errors
    /// 22023 for a name that no algorithm has.
    fn named(name: &str) -> EvalResult<Hash> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "md5" => Hash::Md5,
            "sha1" => Hash::Sha(&SHA1_FOR_LEGACY_USE_ONLY),
            "sha256" => Hash::Sha(&SHA256),
            "sha384" => Hash::Sha(&SHA384),
            "sha512" => Hash::Sha(&SHA512),
            "sha224" => return Err(SqlError::unsupported("the hash algorithm sha224").into()),
            _ => {
                let message = format!("Cannot use \"{name}\": No such hash algorithm");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
            }
        })
    }

    /// The digest of these parts, one behind the other.
    fn of(&self, parts: &[&[u8]], ctx: &EvalCtx<'_>) -> EvalResult<Vec<u8>> {
        match self {
            Hash::Md5 => {
                let mut held = ctx.held();
                held.take(2 * parts.iter().map(|part| part.len()).sum::<usize>())?;
                Ok(super::md5::digest(&parts.concat()).to_vec())
            }
            Hash::Sha(algorithm) => {
                let mut context = Context::new(algorithm);
                parts.iter().for_each(|part| context.update(part));
                Ok(context.finish().as_ref().to_vec())
            }
        }
    }

    fn block_len(&self) -> usize {
        match self {
            Hash::Md5 => 64,
            Hash::Sha(algorithm) => algorithm.block_len(),
        }
    }
}

/// The bytes of a text or bytea.
fn bytes_of(value: &Datum) -> EvalResult<&[u8]> {
    value.as_str().map_or_else(|| bytes(value), |text| Ok(text.as_bytes()))
}

fn digest(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let hash = Hash::named(text(&args[1])?)?;
    Ok(Datum::Bytea(hash.of(&[bytes_of(&args[0])?], ctx)?.into()))
}

/// RFC 2104.
fn hmac(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (data, key) = (bytes_of(&args[0])?, bytes_of(&args[1])?);
    let hash = Hash::named(text(&args[2])?)?;
    let mut block = vec![0; hash.block_len()];
    if key.len() > block.len() {
        let short = hash.of(&[key], ctx)?;
        block[..short.len()].copy_from_slice(&short);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = hash.of(&[padded(0x36).as_slice(), data], ctx)?;
    Ok(Datum::Bytea(hash.of(&[padded(0x5c).as_slice(), &inner], ctx)?.into()))
}

fn random_bytes(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let len = int(&args[0])?;
    if !(1..=1024).contains(&len) {
        return Err(SqlError::new(SqlState(*b"39000"), "Length not in range").into());
    }
    let mut out = vec![0; len as usize];
    fill(&mut out, ctx);
    Ok(Datum::Bytea(out.into()))
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn digests_and_names_are_those_of_the_standards() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        for (call, expected) in [
            ("uuid_generate_v3(uuid_ns_dns(), 'python.org')", "6fa459ea-ee8a-3ca4-894e-db77e160355e"),
            (
                "public.uuid_generate_v5(public.uuid_ns_dns(), 'python.org')",
                "886313e1-3b8a-5372-9b90-0c9aee199e5d",
            ),
            ("uuid_nil()", "00000000-0000-0000-0000-000000000000"),
            ("uuid_ns_url()", "6ba7b811-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid_ns_oid()", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid_ns_x500()", "6ba7b814-9dad-11d1-80b4-00c04fd430c8"),
            ("encode(digest('abc', 'SHA1'), 'hex')", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("encode(digest('abc'::bytea, 'md5'), 'hex')", "900150983cd24fb0d6963f7d28e17f72"),
            ("digest('abc', 'sha384') = sha384('abc')", "t"),
            (
                "encode(hmac('what do ya want for nothing?', 'Jefe', 'sha256'), 'hex')",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                "encode(hmac('Test Using Larger Than Block-Size Key - Hash Key First'::bytea, decode(repeat('aa', 80), 'hex'), 'md5'), 'hex')",
                "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
            ),
            ("digest(null, 'md5') is null", "t"),
            ("length(gen_random_bytes(1024))", "1024"),
            ("gen_random_bytes(20) = gen_random_bytes(20)", "f"),
            ("substr(uuid_generate_v4()::text, 15, 1) || substr(uuid_generate_v1()::text, 15, 1)", "41"),
            ("uuid_generate_v1mc() = uuid_generate_v1mc()", "f"),
        ] {
            assert_eq!(bench.run(&mut session, &format!("select {call}")).lines(), [expected], "{call}");
        }
        for (call, error) in [
            ("digest('abc', 'crc32')", "22023 Cannot use \"crc32\": No such hash algorithm"),
            ("digest('abc', 'sha224')", "0A000 the hash algorithm sha224 is not supported"),
            ("gen_random_bytes(0)", "39000 Length not in range"),
        ] {
            let found = bench.fail(&mut session, &format!("select {call}"));
            assert_eq!(format!("{} {}", found.state(), found.message()), error, "{call}");
        }
        for (call, error) in [
            ("crypt('a', 'b')", "42883 function crypt(unknown, unknown) does not exist"),
            ("nowhere.uuid_nil()::text", "42883 function nowhere.uuid_nil does not exist"),
        ] {
            let found = bench.fail(&mut session, &format!("create table t (a text default {call})"));
            assert_eq!(format!("{} {}", found.state(), found.message()), error, "{call}");
        }
        let missing = bench.fail(&mut session, "create table t (a text default gen_salt('bf'))");
        assert!(missing.hint().is_some_and(|hint| hint.contains("pgcrypto")));
    }
}
