//! Numbers as text by a template, and back: to_char and to_number, step by step as in PostgreSQL's `formatting.c`, whose corners
//! are what programs have come to expect. The locale is "C": `G` is a comma, `D` a point, `L` a blank.

use base::{SqlError, SqlState};
use types::{Datum, Numeric};

use super::time_template::take_quoted;
use super::*;

pub(super) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("to_char", &[INT4, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[INT8, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[NUMERIC, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[FLOAT4, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_char", &[FLOAT8, TEXT], TEXT, to_char).stable(),
    FunctionDef::new("to_number", &[TEXT, TEXT], NUMERIC, to_number).stable(),
];

/// Most digits behind the point.
const SCALE_MAX: usize = 2_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Currency,
    Decimal,
    Exponent,
    Fill,
    Group,
    Minus,
    Plus,
    Brackets,
    Roman,
    RomanSmall,
    SignOnly,
    Spell,
    Sign,
    Ordinal,
    OrdinalSmall,
    Shift,
}

/// The patterns in the order they are looked for; each in upper or lower case throughout.
const KEYS: &[(&str, Key)] = &[
    (",", Key::Comma),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::Spell),
    ("D", Key::Decimal),
    ("EEEE", Key::Exponent),
    ("FM", Key::Fill),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Brackets),
    ("RN", Key::Roman),
    ("SG", Key::SignOnly),
    ("SP", Key::Spell),
    ("S", Key::Sign),
    ("TH", Key::Ordinal),
    ("V", Key::Shift),
];

enum Node {
    Key(Key),
    Char(char),
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Anchor {
    #[default]
    None,
    Before,
    After,
}

/// What a template says as a whole.
#[derive(Default)]
struct Description {
    pre: usize,
    post: usize,
    anchor: Anchor,
    /// Digits before the sign.
    sign_at: usize,
    has_sign: bool,
    zero: bool,
    zero_start: usize,
    zero_end: usize,
    decimal: bool,
    blank: bool,
    fill: bool,
    minus: bool,
    plus: bool,
    brackets: bool,
    roman: bool,
    exponent: bool,
    shifts: bool,
    shift: usize,
}

fn syntax(message: &str) -> EvalError {
    SqlError::new(SqlState::SYNTAX_ERROR, message).into()
}

impl Description {
    fn note(&mut self, key: Key) -> EvalResult<()> {
        if self.exponent && key != Key::Exponent {
            return Err(syntax("\"EEEE\" must be the last pattern used"));
        }
        match key {
            Key::Nine => {
                if self.brackets {
                    return Err(syntax("\"9\" must be ahead of \"PR\""));
                }
                match () {
                    () if self.shifts => self.shift += 1,
                    () if self.decimal => self.post += 1,
                    () => self.pre += 1,
                }
            }
            Key::Zero => {
                if self.brackets {
                    return Err(syntax("\"0\" must be ahead of \"PR\""));
                }
                if !self.zero && !self.decimal {
                    self.zero = true;
                    self.zero_start = self.pre + 1;
                }
                if self.decimal {
                    self.post += 1
                } else {
                    self.pre += 1
                }
                self.zero_end = self.pre + self.post;
            }
            Key::Blank => self.blank |= self.pre == 0 && self.post == 0 && !self.zero,
            Key::Decimal | Key::Point => {
                if self.decimal {
                    return Err(syntax("multiple decimal points"));
                }
                if self.shifts {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
            }
            Key::Fill => self.fill = true,
            Key::Sign => {
                if self.has_sign {
                    return Err(syntax("cannot use \"S\" twice"));
                }
                if self.plus || self.minus || self.brackets {
                    return Err(syntax("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                if !self.decimal {
                    (self.anchor, self.sign_at, self.has_sign) = (Anchor::Before, self.pre, true);
                } else if self.anchor == Anchor::None {
                    (self.anchor, self.has_sign) = (Anchor::After, true);
                }
            }
            Key::Minus | Key::Plus | Key::SignOnly => {
                if self.has_sign {
                    let name = match key {
                        Key::Minus => "MI",
                        Key::Plus => "PL",
                        _ => "SG",
                    };
                    return Err(syntax(&format!("cannot use \"S\" and \"{name}\" together")));
                }
                self.minus |= key != Key::Plus;
                self.plus |= key != Key::Minus;
            }
            Key::Brackets => {
                if self.has_sign || self.plus || self.minus {
                    return Err(syntax("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
            }
            Key::Roman | Key::RomanSmall => self.roman = true,
            Key::Shift => {
                if self.decimal {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.shifts = true;
            }
            Key::Exponent => {
                if self.exponent {
                    return Err(syntax("cannot use \"EEEE\" twice"));
                }
                let others = [self.blank, self.fill, self.has_sign, self.brackets];
                if others.contains(&true) || self.minus || self.plus || self.roman || self.shifts {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "\"EEEE\" is incompatible with other formats",
                    )
                    .with_detail("\"EEEE\" may only be used together with digit and decimal point patterns.")
                    .into());
                }
                self.exponent = true;
            }
            Key::Comma | Key::Group | Key::Currency | Key::Spell | Key::Ordinal | Key::OrdinalSmall => {}
        }
        Ok(())
    }
}

fn key_at(rest: &str) -> Option<(usize, Key)> {
    KEYS.iter().find_map(|(name, key)| {
        let head = rest.get(..name.len())?;
        let small = head.bytes().eq(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        let key = match key {
            Key::Roman if small => Key::RomanSmall,
            Key::Ordinal if small => Key::OrdinalSmall,
            key => *key,
        };
        (head == *name || small).then_some((name.len(), key))
    })
}

fn template(text: &str) -> EvalResult<(Vec<Node>, Description)> {
    let (mut nodes, mut description) = (Vec::new(), Description::default());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((len, key)) = key_at(rest) {
            description.note(key)?;
            nodes.push(Node::Key(key));
            rest = &rest[len..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c != '"' {
            // Outside of quotes a backslash matters before a quote only.
            let c = if c == '\\' && rest.starts_with('"') {
                rest = &rest[1..];
                '"'
            } else {
                c
            };
            nodes.push(Node::Char(c));
            continue;
        }
        nodes.extend(take_quoted(&mut rest).chars().map(Node::Char));
    }
    Ok((nodes, description))
}

/// A number's digits as a template shows them.
struct Digits {
    text: String,
    sign: char,
    /// Places before the number.
    spaces: usize,
}

fn hashes(pre: usize, post: usize) -> String {
    "#".repeat(pre) + "." + &"#".repeat(post)
}

/// Takes the sign off `text` and looks whether it fits the places before the point.
fn fitted(text: String, description: &Description) -> Digits {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ('-', rest.to_owned()),
        None => ('+', text),
    };
    let len = text.find('.').unwrap_or(text.len());
    let spaces = description.pre.saturating_sub(len);
    let text = if len > description.pre { hashes(description.pre, description.post) } else { text };
    Digits { text, sign, spaces }
}

/// Numerals of ones, tens and hundreds: of one, five and ten of them.
const ROMAN: [[&str; 3]; 3] = [["I", "V", "X"], ["X", "L", "C"], ["C", "D", "M"]];

fn roman(number: i64) -> String {
    if !(1..=3999).contains(&number) {
        return "#".repeat(15);
    }
    let mut out = "M".repeat((number / 1000) as usize);
    for (place, [one, five, ten]) in ROMAN.iter().enumerate().rev() {
        let digit = (number / 10i64.pow(place as u32) % 10) as usize;
        match digit {
            0..=3 => out.push_str(&one.repeat(digit)),
            4 => out.extend([*one, *five]),
            9 => out.extend([*one, *ten]),
            _ => {
                out.push_str(five);
                out.push_str(&one.repeat(digit - 5));
            }
        }
    }
    out
}

/// `value` with one digit before the point and `post` behind it.
fn scientific(value: &Numeric, post: usize) -> EvalResult<String> {
    let shown = value.abs().to_string();
    let (int, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
    let digits = format!("{int}{fraction}");
    let first = digits.bytes().position(|b| b != b'0');
    let exponent = first.map_or(0, |first| int.len() as i64 - 1 - first as i64);
    let unsigned = digits[first.unwrap_or(0)..].to_owned();
    let (head, tail) = unsigned.split_at(1.min(unsigned.len()));
    let mantissa = Numeric::parse(&format!("{head}.{tail}0"))?.round(post as i32);
    // PostgreSQL leaves the exponent as it is where the digit before the point is rounded up to ten.
    let shown = mantissa.to_string();
    let sign = if value.signum() < 0 { '-' } else { ' ' };
    Ok(format!("{sign}{shown}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()))
}

fn out_of_range(ty: &str) -> EvalError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range")).into()
}

/// C's `%.*f`.
fn fixed(value: f64, post: usize) -> String {
    match () {
        () if value.is_nan() => "NaN".to_owned(),
        () if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        () => format!("{value:.post$}"),
    }
}

fn exponent_of(value: f64, description: &Description) -> String {
    if !value.is_finite() {
        return format!(" {}.{}", "#".repeat(description.pre), "#".repeat(description.post + 4));
    }
    let shown = format!("{:.*e}", description.post, value.abs());
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if value.is_sign_negative() { '-' } else { ' ' };
    format!("{sign}{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn float_digits(value: f64, description: &mut Description, digits_max: usize) -> Digits {
    let mut value = value;
    if description.shifts {
        value *= 10f64.powi(i32::try_from(description.shift).unwrap_or(i32::MAX));
        description.pre += description.shift;
    }
    let len = fixed(value.abs(), 0).len();
    if len >= digits_max {
        description.post = 0;
    } else if len + description.post > digits_max {
        description.post = digits_max - len;
    }
    fitted(fixed(value, description.post), description)
}

fn digits_of(value: &Datum, description: &mut Description) -> EvalResult<Digits> {
    let plain = |text: String| Digits { text, sign: '+', spaces: 0 };
    if description.roman {
        let number = match value {
            Datum::Float8(v) => v.round_ties_even() as i64,
            Datum::Float4(v) => f64::from(*v).round_ties_even() as i64,
            Datum::Numeric(n) if !n.is_finite() => {
                let what = if n.is_nan() { "NaN" } else { "infinity" };
                let message = format!("cannot convert {what} to integer");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
            Datum::Numeric(n) => n
                .round(0)
                .to_i64()
                .filter(|n| i32::try_from(*n).is_ok())
                .ok_or_else(|| out_of_range("integer"))?,
            d => i64::from(i32::try_from(int(d)?).map_err(|_| out_of_range("integer"))?),
        };
        return Ok(plain(roman(number)));
    }
    if description.exponent {
        return Ok(plain(match value {
            Datum::Float8(v) => exponent_of(*v, description),
            Datum::Float4(v) => exponent_of(f64::from(*v), description),
            Datum::Numeric(n) if !n.is_finite() => exponent_of(f64::NAN, description),
            Datum::Numeric(n) => scientific(n, description.post)?,
            Datum::Int4(v) => exponent_of(f64::from(*v), description),
            d => scientific(&Numeric::from(int(d)?), description.post)?,
        }));
    }
    match value {
        Datum::Float8(v) => Ok(float_digits(*v, description, 15)),
        Datum::Float4(v) => Ok(float_digits(f64::from(*v), description, 6)),
        Datum::Numeric(n) => {
            let mut value = n.clone();
            if description.shifts {
                let by = i32::try_from(description.shift).unwrap_or(i32::MAX).min(SCALE_MAX as i32);
                value = value.mul(&Numeric::from(10i64).power(&Numeric::from(i64::from(by)))?)?;
                description.pre += description.shift;
            }
            let rounded = if value.is_finite() { value.round(description.post as i32) } else { value };
            Ok(fitted(rounded.to_string(), description))
        }
        d => {
            let mut value = int(d)?;
            if description.shifts {
                let (narrow, ty) = match d {
                    Datum::Int4(_) => (true, "integer"),
                    _ => (false, "bigint"),
                };
                value = u32::try_from(description.shift)
                    .ok()
                    .and_then(|shift| 10i64.checked_pow(shift))
                    .and_then(|power| value.checked_mul(power))
                    .filter(|value| !narrow || i32::try_from(*value).is_ok())
                    .ok_or_else(|| out_of_range(ty))?;
                description.pre += description.shift;
            }
            let mut text = value.to_string();
            if description.post > 0 {
                text.push('.');
                text.extend(std::iter::repeat_n('0', description.post));
            }
            Ok(fitted(text, description))
        }
    }
}

/// A number being written.
struct Writer<'a> {
    description: Description,
    number: &'a [u8],
    /// Place within `number`.
    at: usize,
    /// The last place of `number` that has to be shown.
    relevant: Option<usize>,
    sign: char,
    sign_written: bool,
    spaces: usize,
    /// Patterns of digits and points so far, and how many there are.
    current: usize,
    count: i64,
    /// Whether a digit has been written just now.
    inside: bool,
    out: String,
    /// Where the output ends, if a number ended before its pattern.
    cut: Option<usize>,
}

impl Writer<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.number.get(at).copied().unwrap_or(0)
    }

    fn relevant_is_point(&self) -> bool {
        self.relevant.is_some_and(|at| self.byte(at) == b'.')
    }

    /// A zero before the point that is not shown: `0.1` by `9.9`.
    fn is_blank_zero(&self) -> bool {
        !self.description.zero && self.at == 0 && self.byte(0) == b'0' && self.description.post != 0
    }

    fn digit(&mut self, key: Key) {
        if self.description.roman {
            return;
        }
        self.inside = false;
        let starts_zeros = self.description.zero && self.description.zero_start == self.current;
        if !self.sign_written
            && (self.current >= self.spaces || starts_zeros)
            && (!self.is_blank_zero() || self.relevant_is_point())
        {
            self.write_sign();
        }
        if self.current < self.spaces
            && (self.description.zero_start > self.current || !self.description.zero)
        {
            if !self.description.fill {
                self.out.push(' ');
            }
        } else if self.description.zero
            && self.current < self.spaces
            && self.description.zero_start <= self.current
        {
            self.out.push('0');
            self.inside = true;
        } else {
            self.number_part(key);
        }
        let mut end = self.count + i64::from(self.spaces > 0) + i64::from(self.description.decimal);
        if self.relevant == Some(self.at) {
            end = self.current as i64;
        }
        if self.current as i64 + 1 == end {
            if self.sign_written && self.description.brackets {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if self.description.has_sign && self.description.anchor == Anchor::After {
                self.out.push(self.sign);
            }
        }
        self.current += 1;
    }

    fn write_sign(&mut self) {
        match () {
            () if self.description.has_sign => {
                if self.description.anchor != Anchor::Before {
                    return;
                }
                self.out.push(self.sign);
            }
            () if self.description.brackets => self.out.push(if self.sign == '+' { ' ' } else { '<' }),
            () if self.sign == '+' => {
                if !self.description.fill {
                    self.out.push(' ');
                }
            }
            () => self.out.push('-'),
        }
        self.sign_written = true;
    }

    fn number_part(&mut self, key: Key) {
        match self.byte(self.at) {
            b'.' => {
                if !self.relevant_is_point() || self.description.fill {
                    self.out.push('.');
                }
            }
            _ if self.relevant.is_some_and(|last| self.at > last) && key != Key::Zero => {}
            _ if self.is_blank_zero() => {
                if !self.description.fill {
                    self.out.push(' ');
                } else if self.relevant_is_point() {
                    self.out.push('0');
                }
            }
            // C writes the end of the string, and what follows is not seen.
            0 => self.cut = self.cut.or(Some(self.out.len())),
            digit => {
                self.out.push(char::from(digit));
                self.inside = true;
            }
        }
        self.at += usize::from(self.at < self.number.len());
    }

    /// A separator of groups: shown behind a digit, else a blank.
    fn separator(&mut self) {
        if self.inside {
            self.out.push(',');
        } else if !self.description.fill {
            self.out.push(' ');
        }
    }

    fn ordinal(&mut self, capital: bool) {
        let unfit = self.byte(0) == b'#' || self.sign == '-';
        if self.description.roman || self.description.decimal || unfit {
            return;
        }
        let teen = self.number.len() > 1 && self.number[self.number.len() - 2] == b'1';
        let suffix = match self.number.last() {
            Some(b'1') if !teen => "st",
            Some(b'2') if !teen => "nd",
            Some(b'3') if !teen => "rd",
            _ => "th",
        };
        self.out.push_str(&if capital { suffix.to_uppercase() } else { suffix.to_owned() });
    }
}

fn to_char(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let pattern = text(&args[1])?;
    if pattern.is_empty() {
        return Ok(Datum::text(""));
    }
    ctx.room(pattern.len().saturating_mul(16))?;
    let (nodes, mut description) = template(pattern)?;
    description.post = description.post.min(SCALE_MAX);
    let digits = digits_of(&args[0], &mut description)?;
    if description.exponent {
        return Ok(Datum::text(digits.text));
    }
    description.zero_start = description.zero_start.saturating_sub(1);
    if description.roman {
        description = Description { fill: description.fill, roman: true, ..Description::default() };
    }
    let number = digits.text.as_bytes();
    let mut sign_written = true;
    if description.plus || description.minus {
        sign_written = !(description.plus && !description.minus);
    } else {
        if digits.sign != '-' && description.fill {
            description.brackets = false;
        }
        if !(digits.sign == '+' && description.fill && !description.has_sign) {
            sign_written = false;
        }
        if description.anchor == Anchor::Before && description.pre == description.sign_at {
            description.anchor = Anchor::After;
        }
    }
    let mut count = (description.post + description.pre) as i64 - 1;
    let mut relevant = None;
    if description.fill && description.decimal {
        relevant = digits.text.find('.').map(|point| {
            digits.text[point..].bytes().rposition(|b| b != b'0').map_or(point, |last| point + last)
        });
        // What a `0` stands for is shown.
        if let Some(last) = relevant
            && description.zero_end > digits.spaces
        {
            let zero = (number.len() - 1).min(description.zero_end - digits.spaces);
            relevant = Some(last.max(zero));
        }
    }
    if !sign_written && digits.spaces == 0 {
        count += 1;
    }
    let mut writer = Writer {
        description,
        number,
        at: 0,
        relevant,
        sign: digits.sign,
        sign_written,
        spaces: digits.spaces,
        current: 0,
        count,
        inside: false,
        out: String::new(),
        cut: None,
    };
    for node in &nodes {
        match node {
            Node::Char(c) => writer.out.push(*c),
            Node::Key(key) => match key {
                Key::Nine | Key::Zero | Key::Point | Key::Decimal => writer.digit(*key),
                Key::Comma | Key::Group => writer.separator(),
                Key::Currency => writer.out.push(' '),
                Key::Roman | Key::RomanSmall => {
                    let shown = if *key == Key::Roman {
                        digits.text.clone()
                    } else {
                        digits.text.to_ascii_lowercase()
                    };
                    let width = if writer.description.fill { 0 } else { 15 };
                    writer.out.push_str(&format!("{shown:>width$}"));
                }
                Key::Ordinal => writer.ordinal(true),
                Key::OrdinalSmall => writer.ordinal(false),
                Key::Minus if writer.sign == '-' => writer.out.push('-'),
                Key::Plus if writer.sign == '+' => writer.out.push('+'),
                Key::Minus | Key::Plus if writer.description.fill => {}
                Key::Minus | Key::Plus => writer.out.push(' '),
                Key::SignOnly => writer.out.push(writer.sign),
                Key::Blank
                | Key::Brackets
                | Key::Exponent
                | Key::Fill
                | Key::Spell
                | Key::Sign
                | Key::Shift => {}
            },
        }
    }
    writer.out.truncate(writer.cut.unwrap_or(writer.out.len()));
    Ok(Datum::text(writer.out))
}

/// A number being read.
struct Reader<'a> {
    description: Description,
    input: &'a str,
    at: usize,
    sign: Option<char>,
    number: String,
    read_pre: usize,
    read_post: usize,
    read_point: bool,
}

impl Reader<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.input.as_bytes().get(at).copied()
    }

    fn is_over(&self) -> bool {
        self.at >= self.input.len()
    }

    /// Passes up to `count` characters that are no part of a number.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            match self.input[self.at..].chars().next() {
                Some(c) if !(c.is_ascii_digit() || ",.+-".contains(c)) => self.at += c.len_utf8(),
                _ => return,
            }
        }
    }

    fn digit(&mut self, key: Key) {
        if self.is_over() {
            return;
        }
        if self.byte(self.at) == Some(b' ') {
            self.at += 1;
        }
        if self.is_over() {
            return;
        }
        let places = matches!(key, Key::Zero | Key::Nine);
        if self.sign.is_none() && places && self.read_pre + self.read_post == 0 {
            let anchored = self.description.has_sign && self.description.anchor == Anchor::Before;
            let bracket = self.description.brackets && !anchored;
            match self.byte(self.at) {
                Some(b'-') => self.sign = Some('-'),
                Some(b'<') if bracket => self.sign = Some('-'),
                Some(b'+') => self.sign = Some('+'),
                _ => {}
            }
            self.at += usize::from(self.sign.is_some());
        }
        if self.is_over() {
            return;
        }
        let mut read = false;
        let c = self.byte(self.at).expect("not over");
        if c.is_ascii_digit() {
            if self.read_point && self.read_post == self.description.post {
                return;
            }
            self.number.push(char::from(c));
            if self.read_point {
                self.read_post += 1
            } else {
                self.read_pre += 1
            }
            read = true;
        } else if self.description.decimal && !self.read_point && c == b'.' {
            self.number.push('.');
            self.read_point = true;
            read = true;
        }
        if self.sign.is_some() || self.read_pre + self.read_post == 0 {
            return;
        }
        if self.description.has_sign && read {
            match self.byte(self.at + 1) {
                Some(b'-') => self.sign = Some('-'),
                Some(b'+') => self.sign = Some('+'),
                _ => {}
            }
            self.at += usize::from(self.sign.is_some());
        } else if !read && !self.description.has_sign && (self.description.plus || self.description.minus) {
            match c {
                b'-' => self.sign = Some('-'),
                b'+' => self.sign = Some('+'),
                _ => {}
            }
        }
    }

    /// Passes the character that the pattern stood for.
    fn pass(&mut self) {
        self.at += self.input[self.at.min(self.input.len())..].chars().next().map_or(0, char::len_utf8);
    }

    fn take_sign(&mut self, allowed: &[u8]) {
        match self.byte(self.at).filter(|b| allowed.contains(b)) {
            Some(sign) => {
                self.sign = Some(char::from(sign));
                self.pass();
            }
            None => self.skip_others(1),
        }
    }
}

fn to_number(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let (value, pattern) = (text(&args[0])?, text(&args[1])?);
    if pattern.is_empty() {
        return Ok(Datum::Null);
    }
    ctx.room(pattern.len().saturating_mul(16))?;
    let (nodes, description) = template(pattern)?;
    for (used, name) in [(description.exponent, "EEEE"), (description.roman, "RN")] {
        if used {
            let message = format!("\"{name}\" not supported for input");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
    }
    let mut reader = Reader {
        description,
        input: value,
        at: 0,
        sign: None,
        number: String::new(),
        read_pre: 0,
        read_post: 0,
        read_point: false,
    };
    for node in &nodes {
        if reader.is_over() {
            break;
        }
        match node {
            Node::Char(_) => reader.pass(),
            Node::Key(key) => match key {
                Key::Nine | Key::Zero | Key::Point | Key::Decimal => {
                    reader.digit(*key);
                    reader.pass();
                }
                // Nothing is a digit "just now" while reading.
                Key::Comma | Key::Group => {
                    if !reader.description.fill && reader.byte(reader.at) == Some(b',') {
                        reader.pass();
                    }
                }
                Key::Currency => reader.skip_others(1),
                Key::Ordinal | Key::OrdinalSmall => {
                    if !reader.description.decimal {
                        reader.skip_others(2);
                    }
                }
                Key::Minus => reader.take_sign(b"-"),
                Key::Plus => reader.take_sign(b"+"),
                Key::SignOnly => reader.take_sign(b"+-"),
                _ => {}
            },
        }
    }
    let digits = reader.number.strip_suffix('.').unwrap_or(&reader.number);
    let shown = format!("{}{digits}", reader.sign.unwrap_or(' '));
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{shown}\""),
        )
    };
    let number = Numeric::parse(shown.trim_start()).map_err(|_| invalid())?;
    let description = &reader.description;
    let precision = description.pre + description.shift + reader.read_post;
    let precision = precision.clamp(1, 1000) as u16;
    let number = number.fit(precision, reader.read_post.min(1000) as i16)?;
    if !description.shifts {
        return Ok(Datum::Numeric(number));
    }
    let by = i32::try_from(description.shift).unwrap_or(i32::MAX).min(SCALE_MAX as i32);
    let scale = Numeric::from(10i64).power(&Numeric::from(-i64::from(by)))?;
    Ok(Datum::Numeric(number.mul(&scale)?))
}
