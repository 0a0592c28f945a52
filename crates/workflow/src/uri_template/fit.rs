//! Whether a URI fits the pieces of a template, and which part of it each of them stands for.
//!
//! From the back: for each piece, at which places it can begin so that everything from there on
//! fits. Then from the front: each piece takes as much as leaves a way to the end. Either takes a
//! few steps for each piece and byte, however many ways there are.

use super::{Operator, Piece, Run, Variable, is_triplet};
use serde_json::{Map, Value};
use std::ops::Range;

/// What the pieces stand for, if they fit.
pub(super) fn values(pieces: &[Piece], uri: &str) -> Option<Map<String, Value>> {
    let begins_so = match pieces.first() {
        Some(Piece::Literal { raw, encoded }) => {
            let encoded = encoded.as_deref().unwrap_or(raw);
            uri.starts_with(&**raw) || uri.starts_with(encoded)
        }
        Some(Piece::Run(_)) | None => true,
    };
    if !begins_so {
        return None;
    }
    let uri = Text::new(uri);
    let rows = rows(pieces, &uri);
    if !rows[0][0] {
        return None;
    }
    let mut found = Found::default();
    let mut queries = Vec::new();
    let mut at = 0;
    for (piece, next) in pieces.iter().zip(&rows[1..]) {
        match piece {
            Piece::Literal { .. } => {
                at = piece.literal_ends(&uri, at).find(|end| next[*end])?;
            }
            Piece::Run(run) => {
                let Some((value, end)) = run.longest(&uri, at, next) else {
                    // Nothing stands for it, and it need not be there.
                    continue;
                };
                match run.operator {
                    Operator::Query | Operator::Continuation => queries.push(&uri.bytes[value]),
                    Operator::Simple
                    | Operator::Reserved
                    | Operator::Fragment
                    | Operator::Label
                    | Operator::Path
                    | Operator::Parameter => found.take(run, &uri.bytes[value])?,
                }
                at = end;
            }
        }
    }
    for piece in pieces {
        if let Piece::Run(run) = piece
            && matches!(run.operator, Operator::Query | Operator::Continuation)
        {
            found.look_up(&run.variables, &queries)?;
        }
    }
    Some(found.into_map())
}

/// A URI, and where it may be cut.
struct Text<'u> {
    bytes: &'u [u8],
    /// By place: it is not in the middle of a character, be it percent-encoded.
    cuts: Vec<bool>,
    /// By place: how many characters come before it.
    characters: Vec<usize>,
}

impl<'u> Text<'u> {
    fn new(uri: &'u str) -> Self {
        let bytes = uri.as_bytes();
        let mut cuts = vec![false; bytes.len() + 1];
        let mut at = 0;
        while at < bytes.len() {
            let (byte, length) = match decoded(&bytes[at..]) {
                Some(byte) => (byte, 3),
                None => (bytes[at], 1),
            };
            cuts[at] = !is_continuation(byte);
            at += length;
        }
        cuts[0] = true;
        cuts[bytes.len()] = true;
        let mut count = 0;
        let characters = cuts
            .iter()
            .map(|cut| {
                count += usize::from(*cut);
                count - 1
            })
            .collect();
        Self {
            bytes,
            cuts,
            characters,
        }
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Whether it goes on with a character of UTF-8 that has begun.
const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The byte that a percent-encoded one stands for.
fn decoded(bytes: &[u8]) -> Option<u8> {
    if !is_triplet(bytes) {
        return None;
    }
    let digits = std::str::from_utf8(&bytes[1..3]).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

/// By piece and place: whether everything from this piece on fits what is there from that place
/// on. One row more than there are pieces: after the last, only the end fits.
fn rows(pieces: &[Piece], uri: &Text<'_>) -> Vec<Vec<bool>> {
    let mut last = vec![false; uri.len() + 1];
    last[uri.len()] = true;
    let mut rows = vec![last];
    for piece in pieces.iter().rev() {
        let next = &rows[rows.len() - 1];
        let mut row = match piece {
            Piece::Literal { .. } => (0..=uri.len())
                .map(|at| piece.literal_ends(uri, at).any(|end| next[end]))
                .collect(),
            Piece::Run(run) => run.row(uri, next),
        };
        for (fits, cut) in row.iter_mut().zip(&uri.cuts) {
            *fits &= *cut;
        }
        rows.push(row);
    }
    rows.reverse();
    rows
}

impl Piece {
    /// Where a literal that begins here ends.
    fn literal_ends(&self, uri: &Text<'_>, at: usize) -> impl Iterator<Item = usize> {
        let (raw, encoded) = match self {
            Self::Literal { raw, encoded } => (Some(raw), encoded.as_ref()),
            Self::Run(_) => (None, None),
        };
        let rest = &uri.bytes[at..];
        raw.into_iter()
            .chain(encoded)
            .filter(move |text| rest.starts_with(text.as_bytes()))
            .map(move |text| at + text.len())
    }
}

/// How far the value of a run can go.
#[derive(Clone, Copy)]
struct Reach {
    /// Where it begins.
    from: usize,
    /// Where it ends at the latest.
    to: usize,
}

impl Run {
    /// How many bytes it stands for at least, besides its beginning.
    const fn least(&self) -> usize {
        match self.operator {
            Operator::Simple | Operator::Reserved => 1,
            Operator::Fragment
            | Operator::Label
            | Operator::Path
            | Operator::Parameter
            | Operator::Query
            | Operator::Continuation => 0,
        }
    }

    /// Whether it need not be there.
    const fn is_optional(&self) -> bool {
        !self.first.is_empty()
    }

    fn is_exploded(&self) -> bool {
        self.variables.iter().any(|variable| variable.explode)
    }

    /// Whether a byte can be part of its value.
    fn takes(&self, byte: u8) -> bool {
        let ends_path = matches!(byte, b'?' | b'#');
        match self.operator {
            Operator::Fragment => true,
            Operator::Query | Operator::Continuation => byte != b'#',
            Operator::Reserved => {
                !(byte == b'?' && self.before_query || byte == b'#' && self.before_fragment)
            }
            Operator::Path => !ends_path && (byte != b'/' || self.is_exploded()),
            Operator::Simple | Operator::Label => !ends_path && byte != b'/',
            Operator::Parameter => !ends_path && byte != b'/' && byte != b';',
        }
    }

    /// How many characters its value may have, where that can be told before it is taken apart.
    fn most(&self) -> Option<usize> {
        match (self.operator, &*self.variables) {
            (Operator::Query | Operator::Continuation, _) => None,
            (_, [one]) => one.prefix,
            (_, _) => None,
        }
    }

    /// By place: how far a value goes if the run begins there, if it can.
    fn reaches(&self, uri: &Text<'_>) -> Vec<Option<Reach>> {
        // A list of parameters goes on with the next of its name.
        let goes_on = self.operator == Operator::Parameter && self.is_exploded();
        let mut reaches: Vec<Option<Reach>> = vec![None; uri.len() + 1];
        // Where a value that has reached this place ends.
        let mut end = uri.len();
        let mut ends = vec![end; uri.len() + 1];
        for at in (0..=uri.len()).rev() {
            if uri.bytes.get(at).is_none_or(|byte| !self.takes(*byte)) {
                end = at;
            }
            ends[at] = end;
            let mut reach = match self.begins(uri, at) {
                Some(Begin::Bare(from)) => Reach { from, to: from },
                Some(Begin::Value(from)) => Reach {
                    from,
                    to: ends[from],
                },
                None => continue,
            };
            if goes_on && let Some(again) = reaches[reach.to] {
                reach.to = again.to;
            }
            reaches[at] = Some(reach);
        }
        reaches
    }

    /// Whether it can begin here, and where its value does.
    fn begins(&self, uri: &Text<'_>, at: usize) -> Option<Begin> {
        let rest = uri.bytes[at..].strip_prefix(self.first.as_bytes())?;
        let from = at + self.first.len();
        if self.operator != Operator::Parameter {
            return Some(Begin::Value(from));
        }
        match rest.first() {
            Some(b'=') => Some(Begin::Value(from + 1)),
            None | Some(b'/' | b'?' | b'#' | b';') => Some(Begin::Bare(from)),
            // It goes on: this is another name.
            Some(_) => None,
        }
    }

    /// Where it can begin so that what comes after it fits.
    fn row(&self, uri: &Text<'_>, next: &[bool]) -> Vec<bool> {
        // By place: the nearest one from there on where what comes after it fits.
        let mut nearest = vec![None; next.len()];
        let mut last = None;
        for at in (0..next.len()).rev() {
            if next[at] {
                last = Some(at);
            }
            nearest[at] = last;
        }
        let fits = |reach: &Reach| {
            let first = reach.from + self.least();
            let end = nearest.get(first).copied().flatten();
            end.is_some_and(|end| end <= reach.to && self.is_short(uri, reach.from..end))
        };
        self.reaches(uri)
            .iter()
            .zip(next)
            .map(|(reach, next)| reach.as_ref().is_some_and(fits) || (self.is_optional() && *next))
            .collect()
    }

    fn is_short(&self, uri: &Text<'_>, value: Range<usize>) -> bool {
        let characters = uri.characters[value.end].saturating_sub(uri.characters[value.start]);
        self.most().is_none_or(|most| characters <= most)
    }

    /// The longest value that it can have here, and where the run then ends.
    fn longest(&self, uri: &Text<'_>, at: usize, next: &[bool]) -> Option<(Range<usize>, usize)> {
        let reach = self.reaches(uri)[at]?;
        (reach.from + self.least()..=reach.to)
            .rev()
            .find(|end| next[*end] && self.is_short(uri, reach.from..*end))
            .map(|end| (reach.from..end, end))
    }
}

enum Begin {
    /// With a name that has no value.
    Bare(usize),
    /// With a value that begins there.
    Value(usize),
}

/// What has been found so far, in the order in which it was.
#[derive(Default)]
struct Found(Vec<One>);

struct One {
    name: String,
    value: Value,
    /// There may be more of it than was found.
    is_prefix: bool,
}

impl Found {
    /// Takes the values of a run apart. `None` if they contradict each other or make no text.
    fn take(&mut self, run: &Run, text: &[u8]) -> Option<()> {
        let separator = match run.operator {
            Operator::Label => b'.',
            Operator::Path => b'/',
            Operator::Parameter => return self.take_parameters(&run.variables[0], text),
            Operator::Simple
            | Operator::Reserved
            | Operator::Fragment
            | Operator::Query
            | Operator::Continuation => b',',
        };
        if let [one] = &*run.variables
            && !one.explode
        {
            return self.insert(one, text_of(text)?);
        }
        let parts: Vec<_> = text.split(|byte| *byte == separator).collect();
        let count = run.variables.len();
        let greedy = run.variables.iter().position(|variable| variable.explode);
        let greedy = greedy.unwrap_or(count - 1);
        let surplus = parts.len().saturating_sub(count);
        let mut parts = &parts[..];
        for (at, variable) in run.variables.iter().enumerate() {
            let here = if at == greedy { 1 + surplus } else { 1 };
            let (own, rest) = parts.split_at_checked(here).unwrap_or((parts, &[]));
            parts = rest;
            if own.is_empty() {
                break;
            }
            let value = if variable.explode {
                list_of(own.iter().copied())?
            } else {
                text_of(&own.join(&separator))?
            };
            self.insert(variable, value)?;
        }
        Some(())
    }

    /// `1`, or of a list `1;x=2;x=3`.
    fn take_parameters(&mut self, variable: &Variable, text: &[u8]) -> Option<()> {
        if !variable.explode {
            return self.insert(variable, text_of(text)?);
        }
        let parts = text
            .split(|byte| *byte == b';')
            .enumerate()
            .map(|(at, part)| match at {
                0 => part,
                _ => value_of(part).1,
            });
        self.insert(variable, list_of(parts)?)
    }

    /// Looks for variables in queries.
    fn look_up(&mut self, variables: &[Variable], queries: &[&[u8]]) -> Option<()> {
        let pairs = || {
            queries
                .iter()
                .flat_map(|query| query.split(|byte| *byte == b'&'))
        };
        for variable in variables {
            let mut values = pairs().map(value_of).filter_map(|(name, value)| {
                let same = name == variable.name.as_bytes()
                    || name.contains(&b'%')
                        && decode(name).is_some_and(|name| name == variable.name);
                same.then_some(value)
            });
            if variable.explode {
                let values: Vec<_> = values.collect();
                if !values.is_empty() {
                    self.insert(variable, list_of(values.into_iter())?)?;
                }
            } else if let Some(value) = values.next() {
                self.insert(variable, text_of(value)?)?;
            }
        }
        Some(())
    }

    fn insert(&mut self, variable: &Variable, value: Value) -> Option<()> {
        let is_prefix = variable.prefix.is_some();
        let short = |value: &str| {
            let most = variable.prefix.unwrap_or(usize::MAX);
            value.chars().count() <= most
        };
        if !value.as_str().is_none_or(short) {
            return None;
        }
        let Some(known) = self.0.iter_mut().find(|one| one.name == variable.name) else {
            self.0.push(One {
                name: variable.name.clone(),
                value,
                is_prefix,
            });
            return Some(());
        };
        let begins = |whole: &Value, part: &Value| match (whole.as_str(), part.as_str()) {
            (Some(whole), Some(part)) => whole.starts_with(part),
            (None, _) | (_, None) => whole == part,
        };
        if is_prefix && begins(&known.value, &value) {
            return Some(());
        }
        if known.is_prefix && begins(&value, &known.value) {
            (known.value, known.is_prefix) = (value, is_prefix);
            return Some(());
        }
        (known.value == value).then_some(())
    }

    fn into_map(self) -> Map<String, Value> {
        let pairs = self.0.into_iter().map(|one| (one.name, one.value));
        pairs.collect()
    }
}

/// A name and its value, which is empty if there is none.
fn value_of(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[]),
    }
}

fn text_of(text: &[u8]) -> Option<Value> {
    decode(text).map(Value::String)
}

fn list_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<Value> {
    parts.map(text_of).collect()
}

/// `None` if a percent sign stands alone, or if it makes no text.
fn decode(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            bytes.push(decoded(rest)?);
            rest = &rest[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}
