//! Byte form of numerics that gives back the very coefficient and scale; see [`crate::write_datum`].
//!
//! A kind; for finite values the scale in two bytes, then the coefficient in eight, or behind its length where those do not do. All
//! little-endian, and written and read in time linear in the coefficient's length.

use num_bigint::BigInt;

use super::{Numeric, Repr};
use crate::datum_bytes::{take, take_variable, write_with_len};

const SMALL: u8 = 0;
const BIG: u8 = 1;
const NAN: u8 = 2;
const POS_INF: u8 = 3;
const NEG_INF: u8 = 4;

impl Numeric {
    /// Appends the value, for [`Numeric::read_exact`].
    pub(crate) fn write_exact(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Small { coef, scale } => {
                out.push(SMALL);
                out.extend_from_slice(&scale.to_le_bytes());
                out.extend_from_slice(&coef.to_le_bytes());
            }
            Repr::Big(big) => {
                out.push(BIG);
                out.extend_from_slice(&big.scale.to_le_bytes());
                write_with_len(&big.coef.to_signed_bytes_le(), out);
            }
            Repr::NaN => out.push(NAN),
            Repr::PosInf => out.push(POS_INF),
            Repr::NegInf => out.push(NEG_INF),
        }
    }

    /// Takes what [`Numeric::write_exact`] wrote; `None` where it is no number.
    pub(crate) fn read_exact(bytes: &mut &[u8]) -> Option<Numeric> {
        let [kind] = take::<1>(bytes)?;
        Some(match kind {
            SMALL => {
                let scale = u16::from_le_bytes(take(bytes)?);
                Numeric::new(i64::from_le_bytes(take(bytes)?), scale)
            }
            BIG => {
                let scale = u16::from_le_bytes(take(bytes)?);
                Numeric::from_big(BigInt::from_signed_bytes_le(take_variable(bytes)?), scale)
            }
            NAN => Numeric::NAN,
            POS_INF => Numeric::INFINITY,
            NEG_INF => Numeric::NEG_INFINITY,
            _ => return None,
        })
    }
}
