//! The tree that an expression is lowered to.

use std::fmt;

use regex::Regex;

use super::Root;

/// One operation, with all names, keys, functions and patterns resolved.
#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    Root(Root),
    /// The variable of the loop that so many others surround.
    Local(usize),
    /// `of.key.key`; a chain of keys is one node, so that it costs no depth.
    Select {
        of: Box<Self>,
        keys: Box<[Box<str>]>,
    },
    Has {
        of: Box<Self>,
        key: Box<str>,
    },
    Index(Box<[Self; 2]>),
    Not(Box<Self>),
    Negate(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    If(Box<[Self; 3]>),
    Binary(Binary, Box<[Self; 2]>),
    List(Box<[Self]>),
    Record(Box<[(Box<str>, Self)]>),
    Call(Function, Box<[Self]>),
    Matches {
        text: Box<Self>,
        pattern: Box<Regex>,
    },
    Loop(Box<Loop>),
}

#[derive(Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
}

/// Operators that need the values of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Binary {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }
}

/// A macro over the items of a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) kind: LoopKind,
    pub(super) range: Node,
    /// Only items that pass are collected.
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `filter`.
    Collect,
}

impl fmt::Display for LoopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "exists_one",
            Self::Collect => "map",
        })
    }
}

/// The functions that an expression can call. None of them reads a clock or draws lots, and each
/// takes time in proportion to its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    LowerAscii,
    UpperAscii,
    Trim,
    Bool,
    Int,
    Uint,
    Double,
    String,
}

/// How a function or macro is called.
pub(super) struct Signature {
    pub(super) name: &'static str,
    /// How many arguments it takes as a method, without the value it is called on.
    pub(super) method: &'static [usize],
    /// How many arguments it takes as a function.
    pub(super) function: &'static [usize],
    pub(super) usage: &'static str,
}

impl Function {
    pub(super) const ALL: [Self; 13] = [
        Self::Size,
        Self::Contains,
        Self::StartsWith,
        Self::EndsWith,
        Self::Matches,
        Self::LowerAscii,
        Self::UpperAscii,
        Self::Trim,
        Self::Bool,
        Self::Int,
        Self::Uint,
        Self::Double,
        Self::String,
    ];

    pub(super) fn name(self) -> &'static str {
        self.signature().name
    }

    pub(super) const fn signature(self) -> Signature {
        match self {
            Self::Size => Signature::either("size", "size(x)"),
            Self::Contains => Signature::method("contains", &[1], "text.contains(part)"),
            Self::StartsWith => Signature::method("startsWith", &[1], "text.startsWith(part)"),
            Self::EndsWith => Signature::method("endsWith", &[1], "text.endsWith(part)"),
            Self::Matches => Signature {
                name: "matches",
                method: &[1],
                function: &[2],
                usage: "text.matches(\"pattern\")",
            },
            Self::LowerAscii => Signature::method("lowerAscii", &[0], "text.lowerAscii()"),
            Self::UpperAscii => Signature::method("upperAscii", &[0], "text.upperAscii()"),
            Self::Trim => Signature::method("trim", &[0], "text.trim()"),
            Self::Bool => Signature::function("bool", "bool(x)"),
            Self::Int => Signature::function("int", "int(x)"),
            Self::Uint => Signature::function("uint", "uint(x)"),
            Self::Double => Signature::function("double", "double(x)"),
            Self::String => Signature::function("string", "string(x)"),
        }
    }
}

impl Signature {
    /// The macros. The parser expands them where they are called as they should be, so a call that
    /// is left over is a mistake.
    pub(super) const MACROS: [Self; 6] = [
        Self {
            name: "has",
            method: &[],
            function: &[1],
            usage: "has(args.key)",
        },
        Self::method("all", &[2], "list.all(item, condition)"),
        Self::method("exists", &[2], "list.exists(item, condition)"),
        Self::method("exists_one", &[2], "list.exists_one(item, condition)"),
        Self::method("map", &[2, 3], "list.map(item, value)"),
        Self::method("filter", &[2], "list.filter(item, condition)"),
    ];

    const fn either(name: &'static str, usage: &'static str) -> Self {
        Self {
            name,
            method: &[0],
            function: &[1],
            usage,
        }
    }

    const fn method(name: &'static str, method: &'static [usize], usage: &'static str) -> Self {
        Self {
            name,
            method,
            function: &[],
            usage,
        }
    }

    const fn function(name: &'static str, usage: &'static str) -> Self {
        Self {
            name,
            method: &[],
            function: &[1],
            usage,
        }
    }
}
