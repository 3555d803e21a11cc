//! The types a column or expression can have, with PostgreSQL's object identifiers and names.

use crate::datetime::interval_fields::IntervalFields;
use base::Oid;

use crate::CatalogNames;

macro_rules! scalar_types {
    ($($(#[$doc:meta])* $name:ident $oid:literal $array:literal $internal:literal $display:literal $len:literal $category:literal $preferred:literal;)*) => {
        /// A type without its modifier.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum PgType {
            /// A literal or parameter whose type is not known yet.
            Unknown,
            $($(#[$doc])* $name,)*
            Void,
            /// A user's enum, by the oid of the type.
            Enum(Oid),
            /// An array of a scalar type.
            Array(ElementType),
        }

        /// The element of an array: any scalar type. Kept apart from [`PgType`] so that both stay `Copy`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ElementType {
            $($(#[$doc])* $name,)*
            /// A user's enum, by the oid of the element type.
            Enum(Oid),
        }

        impl From<ElementType> for PgType {
            fn from(element: ElementType) -> PgType {
                match element {
                    $(ElementType::$name => PgType::$name,)*
                    ElementType::Enum(oid) => PgType::Enum(oid),
                }
            }
        }

        impl ElementType {
            /// `ty` as an element; `None` for arrays, void and unknown.
            pub fn from_type(ty: PgType) -> Option<ElementType> {
                match ty {
                    $(PgType::$name => Some(ElementType::$name),)*
                    PgType::Enum(oid) => Some(ElementType::Enum(oid)),
                    PgType::Unknown | PgType::Void | PgType::Array(_) => None,
                }
            }
        }

        impl PgType {
            /// All built-in scalar types.
            pub const SCALARS: &[PgType] = &[$(PgType::$name),*];

            /// PostgreSQL's oid of the type. The array type of a user's enum has the oid after the enum's own.
            pub fn oid(self) -> u32 {
                match self {
                    PgType::Unknown => 705,
                    $(PgType::$name => $oid,)*
                    PgType::Void => 2278,
                    PgType::Enum(oid) => oid.0,
                    $(PgType::Array(ElementType::$name) => $array,)*
                    PgType::Array(ElementType::Enum(oid)) => oid.0 + 1,
                }
            }

            /// The built-in type with that oid; a user's enum is known only to the catalog.
            pub fn from_oid(oid: u32) -> Option<PgType> {
                match oid {
                    705 => Some(PgType::Unknown),
                    2278 => Some(PgType::Void),
                    $($oid => Some(PgType::$name),)*
                    $($array => Some(PgType::Array(ElementType::$name)),)*
                    _ => None,
                }
            }

            /// The name `pg_type.typname` has: `int4`, `_text`. A user's enum answers `enum`, its array `_enum`.
            pub fn internal_name(self) -> &'static str {
                match self {
                    PgType::Unknown => "unknown",
                    PgType::Void => "void",
                    $(PgType::$name => $internal,)*
                    PgType::Enum(_) => "enum",
                    $(PgType::Array(ElementType::$name) => concat!("_", $internal),)*
                    PgType::Array(ElementType::Enum(_)) => "_enum",
                }
            }

            /// The name `format_type` gives: `integer`, `character varying`, `text[]`. A user's enum answers `enum`;
            /// use [`format_type_in`] where the catalog is at hand.
            pub fn name(self) -> &'static str {
                match self {
                    PgType::Unknown => "unknown",
                    PgType::Void => "void",
                    $(PgType::$name => $display,)*
                    PgType::Enum(_) => "enum",
                    $(PgType::Array(ElementType::$name) => concat!($display, "[]"),)*
                    PgType::Array(ElementType::Enum(_)) => "enum[]",
                }
            }

            /// `pg_type.typlen`: bytes, or -1 for variable length.
            pub fn type_len(self) -> i16 {
                match self {
                    PgType::Unknown => -2,
                    PgType::Void | PgType::Enum(_) => 4,
                    $(PgType::$name => $len,)*
                    PgType::Array(_) => -1,
                }
            }

            /// `pg_type.typcategory`.
            pub fn category(self) -> char {
                match self {
                    PgType::Unknown => 'X',
                    PgType::Void => 'P',
                    PgType::Enum(_) => 'E',
                    $(PgType::$name => $category,)*
                    PgType::Array(_) => 'A',
                }
            }

            /// `pg_type.typispreferred`.
            pub fn is_preferred(self) -> bool {
                match self {
                    $(PgType::$name => $preferred,)*
                    _ => false,
                }
            }

            /// The type named as in SQL or `pg_type`, in lower case and without modifier: `int`, `integer`, `int4`,
            /// `character varying`, `timestamp with time zone`, `_int4`, `text[]`. Not a user's types.
            pub fn from_name(name: &str) -> Option<PgType> {
                // Of however many dimensions an array is of the same type. The name may be a text of any length, so that nothing calls itself here.
                let element = name.trim_end_matches("[]");
                if element.len() < name.len() {
                    return PgType::scalar_from_name(element).and_then(PgType::array_of);
                }
                match name.strip_prefix('_') {
                    Some(element) => PgType::scalar_from_name(element).and_then(PgType::array_of),
                    None => PgType::scalar_from_name(name),
                }
            }

            fn scalar_from_name(name: &str) -> Option<PgType> {
                $(if name == $internal || name == $display { return Some(PgType::$name); })*
                Some(match name {
                    "int" => PgType::Int4,
                    "float" => PgType::Float8,
                    "decimal" | "dec" => PgType::Numeric,
                    "character" => PgType::Bpchar,
                    "timestamp with time zone" => PgType::TimestampTz,
                    "unknown" => PgType::Unknown,
                    "void" => PgType::Void,
                    _ => return None,
                })
            }
        }
    };
}

scalar_types! {
    Bool 16 1000 "bool" "boolean" 1 'B' true;
    Int2 21 1005 "int2" "smallint" 2 'N' false;
    Int4 23 1007 "int4" "integer" 4 'N' false;
    Int8 20 1016 "int8" "bigint" 8 'N' false;
    Float4 700 1021 "float4" "real" 4 'N' false;
    Float8 701 1022 "float8" "double precision" 8 'N' true;
    Numeric 1700 1231 "numeric" "numeric" -1 'N' false;
    Text 25 1009 "text" "text" -1 'S' true;
    Varchar 1043 1015 "varchar" "character varying" -1 'S' false;
    /// `char(n)`.
    Bpchar 1042 1014 "bpchar" "character" -1 'S' false;
    Name 19 1003 "name" "name" 64 'S' false;
    /// `"char"`.
    Char 18 1002 "char" "\"char\"" 1 'Z' false;
    Bytea 17 1001 "bytea" "bytea" -1 'U' false;
    Date 1082 1182 "date" "date" 4 'D' false;
    Time 1083 1183 "time" "time without time zone" 8 'D' false;
    Timestamp 1114 1115 "timestamp" "timestamp without time zone" 8 'D' false;
    TimestampTz 1184 1185 "timestamptz" "timestamp with time zone" 8 'D' true;
    Interval 1186 1187 "interval" "interval" 16 'T' true;
    Uuid 2950 2951 "uuid" "uuid" 16 'U' false;
    Json 114 199 "json" "json" -1 'U' false;
    Jsonb 3802 3807 "jsonb" "jsonb" -1 'U' false;
    Oid 26 1028 "oid" "oid" 4 'N' true;
    Regclass 2205 2210 "regclass" "regclass" 4 'N' false;
    Regtype 2206 2211 "regtype" "regtype" 4 'N' false;
    Regproc 24 1008 "regproc" "regproc" 4 'N' false;
    Regnamespace 4089 4090 "regnamespace" "regnamespace" 4 'N' false;
    Regrole 4096 4097 "regrole" "regrole" 4 'N' false;
    /// The catalog's lists of column numbers: arrays of smallint whose subscripts begin at 0, with a text form of their own.
    Int2Vector 22 1006 "int2vector" "int2vector" -1 'A' false;
    /// The same of oids.
    OidVector 30 1013 "oidvector" "oidvector" -1 'A' false;
}

impl PgType {
    /// The array type with this element.
    pub fn array_of(self) -> Option<PgType> {
        ElementType::from_type(self).map(PgType::Array)
    }

    /// The element type of an array type.
    pub fn element(self) -> Option<PgType> {
        match self {
            PgType::Array(element) => Some(element.into()),
            _ => self.vector_element().map(PgType::from),
        }
    }

    /// What an int2vector or oidvector consists of.
    pub fn vector_element(self) -> Option<ElementType> {
        match self {
            PgType::Int2Vector => Some(ElementType::Int2),
            PgType::OidVector => Some(ElementType::Oid),
            _ => None,
        }
    }

    /// One of smallint, integer, bigint, numeric, real, double precision.
    pub fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, PgType::Numeric | PgType::Float4 | PgType::Float8)
    }

    /// One of smallint, integer, bigint.
    pub fn is_integer(self) -> bool {
        matches!(self, PgType::Int2 | PgType::Int4 | PgType::Int8)
    }

    /// text, varchar, char(n) or name: its values are [`crate::Datum::Text`].
    pub fn is_string(self) -> bool {
        matches!(self, PgType::Text | PgType::Varchar | PgType::Bpchar | PgType::Name)
    }

    /// oid or one of the reg types: its values are [`crate::Datum::Oid`].
    pub fn is_oid(self) -> bool {
        matches!(
            self,
            PgType::Oid
                | PgType::Regclass
                | PgType::Regtype
                | PgType::Regproc
                | PgType::Regnamespace
                | PgType::Regrole
        )
    }
}

/// PostgreSQL's `atttypmod`: `-1` for none; varchar and char: length + 4; numeric: `((p << 16) | s) + 4`; time types:
/// digits; interval: digits in the low half, its field range in the high half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeMod(pub i32);

impl TypeMod {
    pub const NONE: TypeMod = TypeMod(-1);

    /// `varchar(n)` and `char(n)`.
    pub fn length(n: u32) -> TypeMod {
        TypeMod(i32::try_from(n).expect("length fits") + 4)
    }

    /// `numeric(precision, scale)`; the scale may be negative as in PostgreSQL 15.
    pub fn numeric(precision: u16, scale: i16) -> TypeMod {
        TypeMod(((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4)
    }

    /// Digits after the second of a time type.
    pub fn precision(digits: u8) -> TypeMod {
        TypeMod(i32::from(digits))
    }

    /// `interval` with those fields and digits after the second.
    pub fn interval(fields: IntervalFields, digits: Option<u8>) -> TypeMod {
        let digits = digits.map_or(0xffff, i32::from);
        TypeMod(i32::from(fields.0) << 16 | digits)
    }

    /// The fields of an interval.
    pub fn as_interval_fields(self) -> IntervalFields {
        let fields = (self.0 >> 16) & 0x7fff;
        // Without any, a number of digits stands by itself.
        if self.is_none() || fields == 0 { IntervalFields::ALL } else { IntervalFields(fields as u16) }
    }

    pub fn is_none(self) -> bool {
        self.0 < 0
    }

    /// The `n` of `varchar(n)` or `char(n)`.
    pub fn as_length(self) -> Option<usize> {
        (self.0 >= 4).then(|| (self.0 - 4) as usize)
    }

    /// Precision and scale of a numeric.
    pub fn as_numeric(self) -> Option<(u16, i16)> {
        if self.0 < 4 {
            return None;
        }
        let m = self.0 - 4;
        let scale = ((m & 0x7ff) ^ 1024) - 1024;
        Some((((m >> 16) & 0xffff) as u16, scale as i16))
    }

    /// Digits after the second of a time type (0 to 6).
    pub fn as_precision(self) -> Option<u8> {
        let digits = self.0 & 0xffff;
        (self.0 >= 0 && digits <= 6).then_some(digits as u8)
    }
}

/// PostgreSQL's `format_type`: `character varying(20)`, `numeric(12,2)`, `timestamp(3) with time zone`.
pub fn format_type(ty: PgType, typmod: TypeMod) -> String {
    format_type_in(ty, typmod, None)
}

/// [`format_type`] with the names of a user's types looked up in `names`.
pub fn format_type_in(ty: PgType, typmod: TypeMod, names: Option<&dyn CatalogNames>) -> String {
    if let PgType::Array(element) = ty {
        return format_type_in(element.into(), typmod, names) + "[]";
    }
    if let PgType::Enum(oid) = ty {
        return names.and_then(|n| n.type_name(oid.0)).unwrap_or_else(|| oid.to_string());
    }
    if typmod.is_none() {
        return ty.name().to_owned();
    }
    match ty {
        PgType::Varchar | PgType::Bpchar => match typmod.as_length() {
            Some(n) => format!("{}({n})", ty.name()),
            None => ty.name().to_owned(),
        },
        PgType::Numeric => match typmod.as_numeric() {
            Some((p, s)) => format!("numeric({p},{s})"),
            None => ty.name().to_owned(),
        },
        PgType::Time | PgType::Timestamp | PgType::TimestampTz => {
            let (head, tail) = ty.name().split_once(' ').expect("time types have two parts");
            format!("{head}({}) {tail}", typmod.0)
        }
        PgType::Interval => {
            let fields = typmod.as_interval_fields().suffix();
            match typmod.as_precision() {
                Some(digits) => format!("interval{fields}({digits})"),
                None => format!("interval{fields}"),
            }
        }
        _ => ty.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_oid_and_names() {
        for &ty in PgType::SCALARS {
            assert_eq!(PgType::from_oid(ty.oid()), Some(ty));
            let array = ty.array_of().unwrap();
            assert_eq!(PgType::from_oid(array.oid()), Some(array));
            assert_eq!(array.element(), Some(ty));
            assert_eq!(PgType::from_name(ty.internal_name()), Some(ty));
            assert_eq!(PgType::from_name(array.internal_name()), Some(array));
            assert_eq!(ty.element().is_some(), ty.vector_element().is_some());
        }
        assert_eq!(PgType::from_name("int[][]"), Some(PgType::Array(ElementType::Int4)));
        // More than a stack has room for.
        for name in ["_".repeat(100_000_000), "[]".repeat(50_000_000)] {
            assert_eq!(PgType::from_name(&name), None);
        }
    }

    #[test]
    fn modifiers_are_formatted_as_postgresql_does() {
        assert_eq!(format_type(PgType::Varchar, TypeMod::length(20)), "character varying(20)");
        assert_eq!(format_type(PgType::Numeric, TypeMod::numeric(12, 2)), "numeric(12,2)");
        assert_eq!(format_type(PgType::Numeric, TypeMod::numeric(12, -2)), "numeric(12,-2)");
        assert_eq!(format_type(PgType::TimestampTz, TypeMod::precision(3)), "timestamp(3) with time zone");
        assert_eq!(format_type(PgType::Array(ElementType::Bpchar), TypeMod::length(3)), "character(3)[]");
        assert_eq!(TypeMod::numeric(12, -2).as_numeric(), Some((12, -2)));
    }
}
